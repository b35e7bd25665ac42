//! Explains a record that failed authentication to a user who looks for the cause.

use rustls::{AlertDescription, Error};
use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};

/// An error of a lane in use, whose source is rustls's error.
#[derive(Debug)]
struct Disturbed(Error);

pub(super) fn disturbed(error: Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, Disturbed(error))
}

impl fmt::Display for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Error::AlertReceived(AlertDescription::BadRecordMac) => {
                f.write_str("a record that was sent was changed on its way, or a third party sent one")
            }
            Error::AlertReceived(alert) => write!(f, "the other side has ended it ({alert:?})"),
            error => write!(f, "a record was changed on its way, or a third party sent it ({error})"),
        }
    }
}

impl StdError for Disturbed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_trust::explain;

    #[test]
    fn the_message_explains_and_keeps_the_cause() {
        let error = disturbed(Error::DecryptError);
        assert!(error.to_string().contains("changed on its way"), "{error}");
        let refused = disturbed(Error::AlertReceived(AlertDescription::CertificateRequired));
        let explained = explain::in_chain(&refused, "the coordinator").unwrap().to_string();
        assert!(explained.contains("asks for a certificate"), "{explained}");
    }
}
