//! Verifies a peer's certificate: signed by a trusted authority, valid now, of this cluster, in a role that fits. Host
//! names do not count: a process with the coordinator's key is the coordinator on any host.

use crate::access::{self, Act};
use crate::identity::{Identity, name_of};
use crate::name::PeerName;
use crate::provider::provider;
use accord_types::{Error, ErrorCode, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Verifies that a server has a role that may perform an act.
#[derive(Debug)]
pub(crate) struct Holder {
    cluster: Option<String>,
    act: Act,
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Holder {
    pub(crate) fn new(own: &Identity, act: Act) -> Self {
        let algorithms = provider().signature_verification_algorithms;
        Self { cluster: own.cluster.clone(), act, roots: own.roots.clone(), algorithms }
    }
}

impl ServerCertVerifier for Holder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, self.algorithms.all)?;
        let name = member(end_entity, self.cluster.as_deref()).map_err(refused)?;
        access::check(&name, self.act).map_err(refused)?;
        Ok(ServerCertVerified::assertion())
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
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The clients that a server accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clients {
    /// Only clients with a certificate.
    Certified,
    /// Also clients without one, which must be identified in another way.
    All,
    /// Browsers: they are asked for no certificate.
    Unasked,
}

/// Verifies that a client is of the cluster, in any role. Its rights are checked for each request, so that a refusal
/// has a message.
#[derive(Debug)]
pub(crate) struct AnyMember {
    cluster: String,
    clients: Clients,
    signed: Arc<dyn ClientCertVerifier>,
}

impl AnyMember {
    pub(crate) fn new(own: &Identity, clients: Clients) -> Result<Self> {
        let signed = WebPkiClientVerifier::builder_with_provider(own.roots.clone(), provider()).build();
        let signed = signed.map_err(|error| Error::new(ErrorCode::InvalidArgument, format!("ca.crt: {error}")))?;
        Ok(Self { cluster: own.name()?.cluster.clone(), clients, signed })
    }
}

impl ClientCertVerifier for AnyMember {
    fn offer_client_auth(&self) -> bool {
        self.clients != Clients::Unasked
    }

    fn client_auth_mandatory(&self) -> bool {
        self.clients == Clients::Certified
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A client has one certificate, so hints would not help it choose.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.signed.verify_client_cert(end_entity, intermediates, now)?;
        member(end_entity, Some(&self.cluster)).map_err(refused)?;
        Ok(verified)
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
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// Returns the name in a certificate, if that is of this cluster.
fn member(certificate: &CertificateDer<'_>, cluster: Option<&str>) -> Result<PeerName> {
    let name = name_of(certificate)?;
    if let Some(cluster) = cluster.filter(|cluster| name.cluster != **cluster) {
        let cause = format!("it belongs to the cluster {}, not {cluster}", name.cluster);
        return Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy("use certificates of one cluster"));
    }
    Ok(name)
}

pub(crate) fn too_old() -> rustls::Error {
    rustls::Error::General("TLS 1.3 is needed".to_owned())
}

/// Wraps an error so that [`crate::explain`] finds its text again.
pub(crate) fn refused(error: Error) -> rustls::Error {
    rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}
