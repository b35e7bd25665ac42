//! Obtains a credential for a process that has no certificate.

use crate::attest::{NONCE_LEN, payload};
use crate::munge::{self, Munge};
use crate::token::{self, TokenFile};
use accord_types::Result;
use std::path::Path;

/// The source of credentials by which a process without a certificate proves its user to a remote coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attester {
    /// A credential of MUNGE's daemon.
    Munge(Munge),
    /// A token of Kubernetes.
    Token(TokenFile),
}

impl Attester {
    /// Returns the attester that settings name: a token file or the socket of MUNGE's daemon. Without a setting it is
    /// the usual token file if that exists, else MUNGE.
    pub fn of_settings(munge: Option<&str>, token: Option<&str>) -> Self {
        let usual = || Path::new(token::USUAL_FILE).exists().then_some(token::USUAL_FILE);
        match token.or_else(|| munge.map_or_else(usual, |_| None)) {
            Some(file) => Self::Token(TokenFile::at(Path::new(file))),
            None => Self::Munge(Munge::at(Path::new(munge.unwrap_or(munge::USUAL_SOCKET)))),
        }
    }

    /// Returns a credential for a connection to a coordinator that has sent `nonce`.
    ///
    /// # Errors
    /// Returns the errors of [`Munge::encode`] and [`TokenFile::credential`].
    pub fn credential(&self, nonce: &[u8; NONCE_LEN]) -> Result<Vec<u8>> {
        match self {
            Self::Munge(munge) => munge.encode(&payload(nonce)),
            Self::Token(file) => file.credential(),
        }
    }
}
