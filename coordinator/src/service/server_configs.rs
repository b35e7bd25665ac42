//! The TLS configuration of a listener, which changes with the coordinator's certificates.

use accord_trust::{Clients, Identity, Trust};
use accord_types::Result;
use accord_types::short_lock::ShortLock;
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;

/// Makes configurations. Each takes a millisecond, and serves until the certificates change.
pub(super) struct ServerConfigs {
    trust: Arc<Trust>,
    clients: Clients,
    protocols: Vec<Vec<u8>>,
    made: ShortLock<Option<(Arc<Identity>, Arc<ServerConfig>)>>,
}

impl ServerConfigs {
    pub(super) fn new(trust: Arc<Trust>, clients: Clients, protocols: Vec<Vec<u8>>) -> Self {
        Self { trust, clients, protocols, made: ShortLock::default() }
    }

    /// Returns the configuration with the present certificates.
    ///
    /// # Errors
    /// Returns an error if the certificate can't be used.
    pub(super) fn current(&self) -> Result<Arc<ServerConfig>> {
        let identity = self.trust.current(|error| tracing::warn!("the certificates stay as they were: {error}"));
        let mut made = self.made.lock();
        if let Some((of, config)) = &*made
            && Arc::ptr_eq(of, &identity)
        {
            return Ok(config.clone());
        }
        let protocols: Vec<&[u8]> = self.protocols.iter().map(Vec::as_slice).collect();
        let config = identity.server_for(self.clients, &protocols)?;
        *made = Some((identity, config.clone()));
        Ok(config)
    }
}
