//! Proof of the cluster's key on gRPC calls: a token derived from the key goes with every call.
//!
//! The token keeps strangers and other clusters' parts out. It does not hide from somebody who
//! can read the network; that takes TLS.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// The metadata entry that holds the token.
pub const HEADER: &str = "accord-token";

const PURPOSE: &[u8] = b"accord control plane 1";

/// Adds the token to calls on the client's side, or checks it on the server's.
#[derive(Clone)]
pub struct Token {
    value: MetadataValue<Ascii>,
}

impl Token {
    /// The token of a key.
    pub fn new(key: &[u8]) -> Self {
        let digest = mac(key).finalize().into_bytes();
        let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut value = MetadataValue::try_from(text).unwrap_or_else(|_| MetadataValue::from_static(""));
        value.set_sensitive(true);
        Self { value }
    }

    /// An interceptor for servers: refuses calls without the right token.
    pub fn checker(key: &[u8]) -> Checker {
        Checker { mac: mac(key) }
    }
}

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(HEADER, self.value.clone());
        Ok(request)
    }
}

/// The server's side of [`Token`].
#[derive(Clone)]
pub struct Checker {
    mac: Hmac<Sha256>,
}

impl Interceptor for Checker {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let token =
            request.metadata().get(HEADER).and_then(|value| value.to_str().ok()).and_then(unhex).unwrap_or_default();
        match self.mac.clone().verify_slice(&token) {
            Ok(()) => Ok(request),
            Err(_) => Err(Status::unauthenticated(
                "the key is not this cluster's; use the coordinator's key file (ACCORD_KEY_FILE)",
            )),
        }
    }
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(PURPOSE);
    mac
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_key_passes_and_others_do_not() {
        let call = || Token::new(b"one").call(Request::new(())).unwrap();
        assert!(Token::checker(b"one").call(call()).is_ok());
        let refused = Token::checker(b"two").call(call()).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
        assert!(Token::checker(b"one").call(Request::new(())).is_err());
    }
}
