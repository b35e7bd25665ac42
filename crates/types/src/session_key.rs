//! The key by which the processes of a session authenticate each other.

use crate::entropy::may_be_random;
use std::fmt;

/// A session's secret: made by the coordinator, sent to the session's program and to the agents of its lease. A holder
/// has the program's rights in this session, and no others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey(pub [u8; Self::LEN]);

impl SessionKey {
    /// The key's length in bytes.
    pub const LEN: usize = 32;

    /// Returns the key with these bytes, or `None` if their number is wrong or they can't be random: an invented key
    /// can be guessed.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        <[u8; Self::LEN]>::try_from(bytes).ok().filter(|bytes| may_be_random(bytes)).map(Self)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_bytes_are_not_printed() {
        assert_eq!(format!("{:?}", SessionKey([7; 32])), "SessionKey");
    }

    #[test]
    fn keys_of_wrong_length_or_without_randomness_are_refused() {
        let drawn: [u8; 33] = std::array::from_fn(|at| (at * at * 7) as u8);
        assert_eq!(SessionKey::from_bytes(&drawn[1..]).map(|key| key.0.to_vec()), Some(drawn[1..].to_vec()));
        assert!(SessionKey::from_bytes(&drawn).is_none() && SessionKey::from_bytes(&drawn[..31]).is_none());
        assert!(SessionKey::from_bytes(&[0; SessionKey::LEN]).is_none());
    }
}
