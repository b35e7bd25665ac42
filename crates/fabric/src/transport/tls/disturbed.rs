//! What is said when something came that can't be believed, in the words of somebody who looks for the cause.

use rustls::{AlertDescription, Error};
use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};

/// An error of a lane in use. What TLS says is its source.
#[derive(Debug)]
struct Disturbed(Error);

pub(super) fn disturbed(error: Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, Disturbed(error))
}

impl fmt::Display for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Error::AlertReceived(AlertDescription::BadRecordMac) => {
                f.write_str("what was sent was changed on its way, or somebody in between sent something")
            }
            Error::AlertReceived(alert) => write!(f, "the other side has ended it ({alert:?})"),
            error => write!(f, "what came was changed on its way, or somebody in between sent it ({error})"),
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
    fn the_words_are_for_people_and_the_cause_is_found() {
        let error = disturbed(Error::DecryptError);
        assert!(error.to_string().contains("changed on its way"), "{error}");
        let refused = disturbed(Error::AlertReceived(AlertDescription::CertificateRequired));
        let explained = explain::in_chain(&refused, "the coordinator").unwrap().to_string();
        assert!(explained.contains("asks for a certificate"), "{explained}");
    }
}
