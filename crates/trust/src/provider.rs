//! The cryptographic algorithms.

use rustls::crypto::{CryptoProvider, ring};
use std::sync::{Arc, OnceLock};

/// Returns the algorithms. AES with 128 bits comes first: it is the fastest on machines that have devices.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || {
        let suites = vec![
            ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
            ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
            ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ];
        Arc::new(CryptoProvider { cipher_suites: suites, ..ring::default_provider() })
    };
    PROVIDER.get_or_init(make).clone()
}
