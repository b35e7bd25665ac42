//! Explains failed handshakes: cause and remedy.

use accord_types::protocol_version::UPGRADE;
use accord_types::{Error, ErrorCode};
use rustls::{AlertDescription, CertificateError};
use std::error::Error as StdError;

/// Finds a TLS error in the chain of causes of `error` and explains it; `None` if there is none. `peer` names the other
/// end in the message.
pub fn in_chain(error: &(dyn StdError + 'static), peer: &str) -> Option<Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(handshake(tls, peer));
        }
        // The error inside an I/O error is not among its sources.
        if let Some(held) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref)
            && let Some(explained) = in_chain(held, peer)
        {
            return Some(explained);
        }
        next = error.source();
    }
    None
}

/// Explains an I/O error of a TLS connection.
pub fn broken(error: &std::io::Error, peer: &str) -> Error {
    in_chain(error, peer).unwrap_or_else(|| {
        Error::new(ErrorCode::DeviceUnavailable, format!("{peer} broke the handshake off: {error}"))
            .remedy("look at its messages, and check the address")
    })
}

/// Explains a TLS error.
pub fn handshake(error: &rustls::Error, peer: &str) -> Error {
    use rustls::Error as Tls;
    let (cause, remedy) = match error {
        Tls::InvalidCertificate(why) => return certificate(why, peer),
        Tls::NoCertificatesPresented => (format!("{peer} showed no certificate"), ISSUE),
        Tls::AlertReceived(alert) => return refusal(*alert, peer),
        Tls::NoApplicationProtocol => (format!("{peer} speaks another version of Accord's protocol"), UPGRADE),
        Tls::InvalidMessage(_) => {
            (format!("{peer} does not speak TLS"), "check the port, and that both are of the same version")
        }
        Tls::PeerIncompatible(why) => (format!("{peer} can't agree on TLS 1.3: {why:?}"), UPGRADE),
        error => (
            format!("the handshake with {peer} failed: {error}"),
            "check that nothing between the two changes what is sent",
        ),
    };
    Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy)
}

const ISSUE: &str = "issue one for it (accord pki issue)";
const RENEW: &str = "renew it (accord pki renew), and check the clocks of both machines";
const SAME_CA: &str = "use certificates of one authority on both sides (ca.crt in the folder of ACCORD_TLS)";

/// Explains why this side rejected the peer's certificate.
fn certificate(why: &CertificateError, peer: &str) -> Error {
    let (cause, remedy) = match why {
        CertificateError::Other(other) => match other.0.downcast_ref::<Error>() {
            Some(own) => {
                let error = Error::new(ErrorCode::DeviceUnavailable, format!("{peer}: {}", own.cause()));
                return error.remedy(own.remedy_text().unwrap_or(ISSUE).to_owned());
            }
            None => (format!("the certificate of {peer} is refused: {why}"), ISSUE),
        },
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            (format!("the certificate of {peer} has expired"), RENEW)
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            (format!("the certificate of {peer} is not valid yet"), RENEW)
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            (format!("the certificate of {peer} is of another authority"), SAME_CA)
        }
        why => (format!("the certificate of {peer} is refused: {why}"), ISSUE),
    };
    Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy)
}

/// Explains why the peer rejected this side's certificate.
fn refusal(alert: AlertDescription, peer: &str) -> Error {
    let (cause, remedy) = match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            (format!("{peer} does not know the authority of this certificate"), SAME_CA)
        }
        AlertDescription::CertificateExpired => {
            (format!("{peer} says that this certificate is not valid at this time"), RENEW)
        }
        AlertDescription::CertificateRequired => (
            format!("{peer} asks for a certificate"),
            "name one in ACCORD_TLS; a coordinator with --munge or --token-review does without",
        ),
        AlertDescription::CertificateUnknown | AlertDescription::AccessDenied => {
            (format!("{peer} does not take the certificate of this cluster or role"), ISSUE)
        }
        AlertDescription::NoApplicationProtocol => {
            (format!("{peer} speaks another version of Accord's protocol"), UPGRADE)
        }
        AlertDescription::ProtocolVersion => (format!("{peer} does not speak TLS 1.3"), UPGRADE),
        alert => (format!("{peer} refused the handshake: {alert:?}"), "look at its messages"),
    };
    Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn tls_is_found_within_what_wraps_it() {
        let inner =
            io::Error::new(io::ErrorKind::InvalidData, rustls::Error::AlertReceived(AlertDescription::UnknownCA));
        let outer = io::Error::other(inner);
        let error = in_chain(&outer, "the coordinator").unwrap().to_string();
        assert!(error.contains("the coordinator does not know the authority") && error.contains("ca.crt"), "{error}");
        assert!(in_chain(&io::Error::other("plain"), "x").is_none());
        assert!(broken(&io::Error::other("plain"), "x").cause().contains("broke the handshake off: plain"));
    }

    #[test]
    fn every_refusal_has_a_remedy() {
        for raw in 0..=u8::MAX {
            let alert = AlertDescription::from(raw);
            assert!(refusal(alert, "x").remedy_text().is_some());
        }
        for why in [CertificateError::Expired, CertificateError::UnknownIssuer, CertificateError::BadEncoding] {
            assert!(certificate(&why, "x").remedy_text().is_some());
        }
    }
}
