//! A TLS client without a certificate.

use accord_trust::provider;
use std::sync::Arc;
use tokio_rustls::rustls;

/// Returns the configuration of a TLS client without a certificate, which accepts every server.
pub(crate) fn uncertified(protocol: &[u8]) -> rustls::ClientConfig {
    #[derive(Debug)]
    struct AcceptAnyServerCertificate;
    impl rustls::client::danger::ServerCertVerifier for AcceptAnyServerCertificate {
        fn verify_server_cert(
            &self,
            _end_entity: &rustls::pki_types::CertificateDer<'_>,
            _intermediates: &[rustls::pki_types::CertificateDer<'_>],
            _server_name: &rustls::pki_types::ServerName<'_>,
            _ocsp_response: &[u8],
            _now: rustls::pki_types::UnixTime,
        ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
            Ok(rustls::client::danger::ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &rustls::pki_types::CertificateDer<'_>,
            _signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            unreachable!("TLS 1.3 is spoken")
        }

        fn verify_tls13_signature(
            &self,
            _message: &[u8],
            _certificate: &rustls::pki_types::CertificateDer<'_>,
            _signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            provider().signature_verification_algorithms.supported_schemes()
        }
    }
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyServerCertificate))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}
