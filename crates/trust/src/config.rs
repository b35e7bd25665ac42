//! TLS configurations: TLS 1.3 only, certificates on both sides, no resumption.

use crate::access::Act;
use crate::identity::{Identity, IdentityProof};
use crate::provider::provider;
use crate::verify::{AnyMember, Clients, Holder};
use accord_types::{Error, ErrorCode, Result};
use rustls::client::Resumption;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;

impl Identity {
    /// Returns the TLS configuration for connections to the cluster's coordinator that speak `protocol`.
    ///
    /// # Errors
    /// Returns an error if TLS rejects the certificate or the key.
    pub fn to_coordinator(&self, protocol: &[u8]) -> Result<Arc<ClientConfig>> {
        self.to_coordinator_by(&[protocol.to_vec()])
    }

    /// Returns the configuration as [`Identity::to_coordinator`], for a client that speaks one of these protocols.
    ///
    /// # Errors
    /// Returns the errors of [`Identity::to_coordinator`].
    pub fn to_coordinator_by(&self, protocols: &[Vec<u8>]) -> Result<Arc<ClientConfig>> {
        to_coordinator(self, protocols).map(Arc::new)
    }

    /// Returns the TLS configuration for accepting the cluster's processes that speak one of `protocols`.
    ///
    /// # Errors
    /// Returns an error if TLS rejects the certificate or the key.
    pub fn server(&self, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>> {
        self.server_for(Clients::Certified, protocols)
    }

    /// Returns the TLS configuration for accepting the given kind of clients.
    ///
    /// # Errors
    /// Returns the errors of [`Identity::server`].
    pub fn server_for(&self, clients: Clients, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>> {
        server(self, protocols, clients).map(Arc::new)
    }
}

fn to_coordinator(identity: &Identity, protocols: &[Vec<u8>]) -> Result<ClientConfig> {
    let verifier = Holder::new(identity, Act::Coordinate);
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &identity.own {
        IdentityProof::Certificate(own) => {
            config.with_client_auth_cert(own.chain.clone(), own.key.clone_key()).map_err(unusable)?
        }
        IdentityProof::Attested(_) => config.with_no_client_auth(),
        IdentityProof::System => return Err(nothing_to_show()),
    };
    config.alpn_protocols = protocols.to_vec();
    config.resumption = Resumption::disabled();
    // A lane takes over the traffic keys of each direction.
    config.enable_secret_extraction = true;
    // Certificates name roles, not hosts.
    config.enable_sni = false;
    Ok(config)
}

fn server(identity: &Identity, protocols: &[&[u8]], clients: Clients) -> Result<ServerConfig> {
    let verifier = AnyMember::new(identity, clients)?;
    let own = identity.certificate()?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(own.chain.clone(), own.key.clone_key())
        .map_err(unusable)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.enable_secret_extraction = true;
    // A resumed session would skip the verification of the certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn nothing_to_show() -> Error {
    Error::new(ErrorCode::InvalidArgument, "only a coordinator on this machine can be reached without certificates")
        .remedy("name its socket (unix:/path), or a folder with certificates in ACCORD_TLS")
}

fn unusable(error: rustls::Error) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("the certificate or its key can't be used: {error}"))
        .remedy("issue them anew, together (accord pki issue)")
}
