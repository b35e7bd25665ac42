//! A Kubernetes service account token in a file of a projected volume. The coordinator has the API server verify it.
//!
//! A token is valid until it expires, and for its audience only. So the coordinator can't use a program's token for
//! another service, and refuses a token for the API server.

use crate::munge::CREDENTIAL_MAX;
use accord_types::{Error, ErrorCode, Result};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The usual file.
pub const USUAL_FILE: &str = "/var/run/secrets/accord/token";
/// The audience of the tokens.
pub const AUDIENCE: &str = "accord";
/// The prefix of a credential that holds a token. MUNGE's credentials have another one.
const PREFIX: &[u8] = b"TOKEN:";
/// Longest token, in bytes.
const TOKEN_MAX: usize = CREDENTIAL_MAX - PREFIX.len();
/// Number of a token's parts, which dots separate.
const PARTS: usize = 3;

/// The file of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenFile(PathBuf);

impl TokenFile {
    /// Creates a source that reads the token in `file`.
    pub fn at(file: &Path) -> Self {
        Self(file.to_owned())
    }

    /// Returns the file's current token as a credential. The kubelet replaces it before it expires.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if the file can't be read or holds no token.
    pub fn credential(&self) -> Result<Vec<u8>> {
        let failed = |why: &dyn std::fmt::Display| {
            let cause = format!("no token of Kubernetes in {}: {why}", self.0.display());
            let remedy = "mount a projected volume with a serviceAccountToken of audience accord, and name its file in ACCORD_TOKEN_FILE";
            Error::new(ErrorCode::InvalidArgument, cause).remedy(remedy)
        };
        let mut text = String::new();
        let most = u64::try_from(TOKEN_MAX).unwrap_or(u64::MAX).saturating_add(2);
        let opened = File::open(&self.0).and_then(|file| file.take(most).read_to_string(&mut text));
        opened.map_err(|error| failed(&error))?;
        let token = text.trim_ascii();
        if !is_token(token) {
            return Err(failed(&format_args!("its {} bytes are none", text.len())));
        }
        Ok([PREFIX, token.as_bytes()].concat())
    }
}

/// Returns the token in a credential; `None` if the credential is one of MUNGE.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if the credential has the prefix of a token but holds none.
pub fn of_credential(credential: &[u8]) -> Result<Option<&str>> {
    let Some(token) = credential.strip_prefix(PREFIX) else { return Ok(None) };
    let token = std::str::from_utf8(token).ok().filter(|token| is_token(token));
    let none = || Error::new(ErrorCode::InvalidArgument, "the program shows a token that is none of Kubernetes");
    token.map(Some).ok_or_else(none)
}

/// Whether a text has the form of a signed token.
fn is_token(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let parts = || text.split('.');
    text.len() <= TOKEN_MAX
        && parts().count() == PARTS
        && parts().all(|part| !part.is_empty() && part.chars().all(fine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_token_comes_back_from_its_credential() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "eyJh.eyJz_-.c2ln\n").unwrap();
        let credential = TokenFile::at(&file).credential().unwrap();
        assert_eq!(of_credential(&credential).unwrap(), Some("eyJh.eyJz_-.c2ln"));
        assert_eq!(of_credential(b"MUNGE:AwQ:").unwrap(), None);
        for none in ["TOKEN:", "TOKEN:a.b", "TOKEN:a..c", "TOKEN:a.b.c.d", "TOKEN:a.b.c\r\nX: y", "TOKEN:a.b.\u{e9}"] {
            assert!(of_credential(none.as_bytes()).is_err(), "{none:?}");
        }
    }

    #[test]
    fn a_file_without_a_token_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let long = format!("a.b.{}", "c".repeat(TOKEN_MAX));
        for text in [None, Some(""), Some("a.b"), Some("a.b.c d"), Some(long.as_str())] {
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            let error = TokenFile::at(&file).credential().unwrap_err();
            assert!(error.cause().contains(&*file.to_string_lossy()), "{error}");
            assert!(error.remedy_text().is_some_and(|remedy| remedy.contains("ACCORD_TOKEN_FILE")), "{error}");
        }
    }
}
