//! TLS 1.3 for the lanes of a session: each side proves that it has the session's key. There are no certificates. The
//! session's key yields a secret for each lane, and the secret both ends' raw public keys (RFC 7250).

use crate::provider::provider;
use crate::verify::{refused, too_old};
use accord_types::{Error, ErrorCode, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use std::sync::Arc;

/// Bytes of the seed of one end's key.
pub const SEED_LEN: usize = 32;
/// The encoding before the seed in a private key of Ed25519 (RFC 8410).
const PKCS8_BEGIN: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Seeds for the keys of a lane's two ends. Each end knows both.
pub struct LaneSeeds {
    /// Seed of the connecting end.
    pub client: [u8; SEED_LEN],
    /// Seed of the accepting end.
    pub server: [u8; SEED_LEN],
}

impl LaneSeeds {
    /// Returns the TLS configuration to connect with, to a peer that speaks `protocol`.
    ///
    /// # Errors
    /// Returns an error if a key can't be created.
    pub fn to_connect(&self, protocol: &[u8]) -> Result<Arc<ClientConfig>> {
        let (own, peer) = (certified(&self.client)?, public(&self.server)?);
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(HasKey(peer)))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(own)));
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption = Resumption::disabled();
        // A lane takes over the traffic keys of each direction.
        config.enable_secret_extraction = true;
        // Keys identify the peer, not host names.
        config.enable_sni = false;
        Ok(Arc::new(config))
    }

    /// Returns the TLS configuration to accept a peer that speaks `protocol`.
    ///
    /// # Errors
    /// Returns an error if a key can't be created.
    pub fn to_accept(&self, protocol: &[u8]) -> Result<Arc<ServerConfig>> {
        let (own, peer) = (certified(&self.server)?, public(&self.client)?);
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .with_client_cert_verifier(Arc::new(HasKey(peer)))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)));
        config.alpn_protocols = vec![protocol.to_vec()];
        config.enable_secret_extraction = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

fn signing(seed: &[u8; SEED_LEN]) -> Result<Arc<dyn SigningKey>> {
    let der = [&PKCS8_BEGIN[..], seed].concat();
    ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(der)).map_err(unusable)
}

fn public_of(key: &dyn SigningKey) -> Result<SubjectPublicKeyInfoDer<'static>> {
    let found = key.public_key().map(SubjectPublicKeyInfoDer::into_owned);
    found.ok_or_else(|| Error::new(ErrorCode::ImplementationDefined, "a key of Ed25519 has no public half"))
}

fn public(seed: &[u8; SEED_LEN]) -> Result<SubjectPublicKeyInfoDer<'static>> {
    public_of(&*signing(seed)?)
}

fn certified(seed: &[u8; SEED_LEN]) -> Result<Arc<CertifiedKey>> {
    let key = signing(seed)?;
    // rustls expects a raw public key in place of the certificate.
    let public = CertificateDer::from(public_of(&*key)?.as_ref().to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

fn unusable(error: rustls::Error) -> Error {
    Error::new(ErrorCode::ImplementationDefined, format!("a lane's keys can't be made: {error}"))
}

/// Verifies that the peer has the private key to this public key.
#[derive(Debug)]
struct HasKey(SubjectPublicKeyInfoDer<'static>);

impl HasKey {
    fn algorithms() -> WebPkiSupportedAlgorithms {
        provider().signature_verification_algorithms
    }

    fn is(&self, displayed: &[u8]) -> Result<(), rustls::Error> {
        if displayed == self.0.as_ref() {
            return Ok(());
        }
        let error = Error::new(ErrorCode::DeviceUnavailable, "it does not have the session's key for this lane")
            .remedy("the connection may be intercepted; look at what connects the two machines");
        Err(refused(error))
    }

    fn signed(
        &self,
        message: &[u8],
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature_with_raw_key(message, &self.0, signature, &Self::algorithms())
    }
}

impl ServerCertVerifier for HasKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.is(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        _certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed(message, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for HasKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.is(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        _certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed(message, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
