//! A token of Kubernetes in a file, as a pod has it in a projected volume. The coordinator asks the API server whose it is.
//!
//! A token is good until it expires, and for its audience only: the coordinator can use a program's token for nothing else, and a token that a pod has
//! for the API server is refused.

use crate::munge::CREDENTIAL_MAX;
use accord_types::{Error, ErrorCode, Result};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The file, unless a pod has it elsewhere.
pub const USUAL_FILE: &str = "/var/run/secrets/accord/token";
/// The audience that a token is for.
pub const AUDIENCE: &str = "accord";
/// The beginning of a credential that is a token. One of MUNGE begins otherwise.
const PREFIX: &[u8] = b"TOKEN:";
/// Bytes of the longest token.
const TOKEN_MAX: usize = CREDENTIAL_MAX - PREFIX.len();
/// Parts of a token, with dots between them.
const PARTS: usize = 3;

/// The file of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenFile(PathBuf);

impl TokenFile {
    /// The token in this file.
    pub fn at(file: &Path) -> Self {
        Self(file.to_owned())
    }

    /// Returns the token that the file holds now, as a credential: the kubelet puts a new one there before the old one expires.
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

/// Returns the token of a credential; `None` if the credential is one of MUNGE.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if it is to be a token and is none.
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
