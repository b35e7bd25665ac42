//! The secret that a cluster's processes share.

use accord_types::{Error, ErrorCode, Result, SessionKey};
use hmac::{Hmac, KeyInit, Mac};
use rustix::process::geteuid;
use sha2::Sha256;
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// What others than a file's owner may do with it.
const OTHERS: u32 = 0o077;
/// Different bytes that a key has at least. Of 32 random ones fewer are the same than anybody will see; keys of hexadecimal digits have up
/// to 16.
const DIFFERENT_MIN: usize = 10;
const MAKE_A_KEY: &str = "make one with: (umask 077; head -c 32 /dev/urandom > KEYFILE)";

/// Bytes of a proof.
pub(crate) const MAC_LEN: usize = 32;

/// A secret that two processes share: a cluster's, or a session's. A cluster's is never sent; each side proves that it has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// Shortest key in bytes.
    pub const BYTES_MIN: usize = 32;
    /// Longest key in bytes.
    pub const BYTES_MAX: usize = 4096;

    /// A fresh key from the system's random numbers.
    ///
    /// # Errors
    /// `acc_error_system` if there are none.
    pub fn random() -> Result<Self> {
        let mut bytes = vec![0; Self::BYTES_MIN];
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// A key with these bytes.
    ///
    /// # Errors
    /// `acc_error_invalid_argument` if there are too few or too many.
    pub fn new(bytes: Vec<u8>) -> Result<Self> {
        if (Self::BYTES_MIN..=Self::BYTES_MAX).contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(Error::new(
                ErrorCode::InvalidArgument,
                format!(
                    "a key of {} bytes is not between {} and {} bytes long",
                    bytes.len(),
                    Self::BYTES_MIN,
                    Self::BYTES_MAX
                ),
            )
            .remedy(MAKE_A_KEY))
        }
    }

    /// Reads a key file: its bytes as they are.
    ///
    /// # Errors
    /// `acc_error_system` if it can't be read, `acc_error_invalid_argument` if others than its owner can read or write it, its length is
    /// wrong, or it can be guessed.
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable = |error: std::io::Error| {
            Error::new(ErrorCode::System, format!("cannot read the key file {}: {error}", path.display()))
                .remedy("give the cluster's key file by ACCORD_KEY_FILE; it must be readable by you")
        };
        let mut file = File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        let useless =
            |why: &str| Error::new(ErrorCode::InvalidArgument, format!("the key file {} {why}", path.display()));
        let others = about.permissions().mode() & OTHERS;
        if others != 0 {
            return Err(useless(&format!("can be used by others than its owner (mode {:o})", about.mode() & 0o7777))
                .remedy(format!("chmod 600 {}, and make a new key if others may have read it", path.display())));
        }
        if about.uid() != geteuid().as_raw() && !geteuid().is_root() {
            return Err(useless(&format!("belongs to user {}, who can change it", about.uid()))
                .remedy("use a copy that belongs to you"));
        }
        let mut bytes = Vec::new();
        // One byte more than there may be is enough to refuse it.
        Read::by_ref(&mut file).take(Self::BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() >= Self::BYTES_MIN && can_be_guessed(&bytes) {
            return Err(useless("has few different bytes, and can be guessed").remedy(MAKE_A_KEY));
        }
        Self::new(bytes).map_err(|error| {
            Error::new(error.code(), format!("the key file {}: {}", path.display(), error.cause()))
                .remedy(error.remedy_text().unwrap_or_default())
        })
    }

    /// Makes a key file that only this user can read.
    ///
    /// # Errors
    /// If there is a file, or none can be made.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(&self.0)
    }

    /// The key's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Proof that the maker has the key, bound to `parts`.
    pub(crate) fn prove(&self, parts: &[&[u8]]) -> [u8; MAC_LEN] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether `proof` was made with this key over `parts`; takes the same time for every wrong proof.
    pub(crate) fn proves(&self, parts: &[&[u8]], proof: &[u8; MAC_LEN]) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // HMAC takes keys of any length, so that the error can't happen.
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        for part in parts {
            mac.update(part);
        }
        mac
    }
}

impl From<SessionKey> for Key {
    fn from(key: SessionKey) -> Self {
        Self(key.0.to_vec())
    }
}

/// A key for a new session, from the system's random numbers.
///
/// # Errors
/// `acc_error_system` if there are none.
pub fn new_session_key() -> Result<SessionKey> {
    let mut key = SessionKey([0; SessionKey::LEN]);
    fill_random(&mut key.0)?;
    Ok(key)
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
}

/// Whether few bytes make a key: a phrase that is repeated, zeros.
fn can_be_guessed(bytes: &[u8]) -> bool {
    let mut seen = [false; 256];
    bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|seen| **seen).count() < DIFFERENT_MIN
}

/// Fills `bytes` with the system's random numbers.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| Error::new(ErrorCode::System, format!("no random numbers: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_key_and_parts_only() -> Result<()> {
        let (key, other) = (Key::random()?, Key::random()?);
        let proof = key.prove(&[b"ab", b"c"]);
        assert!(key.proves(&[b"ab", b"c"], &proof));
        assert!(!key.proves(&[b"ab", b"d"], &proof));
        assert!(!other.proves(&[b"ab", b"c"], &proof));
        Ok(())
    }

    #[test]
    fn key_files_of_others_and_keys_that_can_be_guessed_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = Key::random().unwrap();
        key.write(&path).unwrap();
        assert_eq!(Key::read(&path).unwrap(), key);
        assert!(key.write(&path).is_err(), "a key is not written over");
        for mode in [0o640, 0o604, 0o660, 0o602, 0o611] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Key::read(&path).unwrap_err();
            assert!(
                error.cause().contains("by others") && error.remedy_text().unwrap().contains("chmod 600"),
                "{error}"
            );
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for guessed in [vec![0; 32], b"password".repeat(8), b"0101010101".repeat(10)] {
            std::fs::write(&path, guessed).unwrap();
            assert!(Key::read(&path).unwrap_err().cause().contains("can be guessed"));
        }
        std::fs::write(&path, "0f1e2d3c4b5a69788796a5b4c3d2e1f0").unwrap();
        assert!(Key::read(&path).is_ok());
        std::fs::write(&path, vec![7; Key::BYTES_MAX + 1]).unwrap();
        assert!(Key::read(&path).is_err());
    }

    #[test]
    fn short_keys_are_refused_and_keys_are_not_printed() {
        assert!(Key::new(vec![1; 31]).is_err());
        assert_eq!(format!("{:?}", Key::new(vec![7; 32])), "Ok(Key(32 bytes))");
    }
}
