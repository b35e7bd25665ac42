//! The secret that a session's processes share.

use accord_types::{Error, ErrorCode, Result, SessionKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Bytes of a proof.
pub(crate) const MAC_LEN: usize = 32;

/// A secret that a session's processes share, and prove to each other.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// Shortest key in bytes.
    pub const BYTES_MIN: usize = 32;
    /// Longest key in bytes.
    pub const BYTES_MAX: usize = 4096;

    /// Generates a key from the system's random bytes.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the operating system provides no random bytes.
    pub fn random() -> Result<Self> {
        let mut bytes = vec![0; Self::BYTES_MIN];
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Creates a key from these bytes.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if there are too few or too many bytes.
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
            ))
        }
    }

    /// Returns the key's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns a proof of possessing the key, bound to `parts`.
    pub(crate) fn prove(&self, parts: &[&[u8]]) -> [u8; MAC_LEN] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether `proof` was made with this key over `parts`. The comparison takes the same time for every wrong proof.
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

/// Generates the key of a new session from the system's random bytes.
///
/// # Errors
/// Returns `acc_error_system` if the operating system provides no random bytes, or bytes that are not random.
pub fn new_session_key() -> Result<SessionKey> {
    let mut key = [0; SessionKey::LEN];
    fill_random(&mut key)?;
    SessionKey::from_bytes(&key)
        .ok_or_else(|| Error::new(ErrorCode::System, "the system's random numbers are not drawn by chance"))
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
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
    fn short_keys_are_refused_and_keys_are_not_printed() {
        assert!(Key::new(vec![1; 31]).is_err());
        assert_eq!(format!("{:?}", Key::new(vec![7; 32])), "Ok(Key(32 bytes))");
    }
}
