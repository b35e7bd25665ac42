//! Whether a peer's certificate is believed: signed by an authority, valid now, of this cluster, in a role that fits. Names of hosts do not
//! count: who holds the coordinator's key is the coordinator, wherever it runs.

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

/// A server in a role that may do something.
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
    /// Those with a certificate.
    Certified,
    /// Those without one, too: who they are has to be found out in another way.
    All,
    /// Browsers: they are asked for no certificate.
    Unasked,
}

/// A client of the cluster, in whatever role: what it may do is asked when it asks for something, and answered in words.
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
        // Everybody has one certificate.
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

/// The holder's name, if it is one of this cluster.
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

/// Keeps the words: [`crate::explain`] finds them again.
pub(crate) fn refused(error: Error) -> rustls::Error {
    rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}
