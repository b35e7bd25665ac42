//! What the processes of one session prove to each other.

use std::fmt;

/// A session's secret: made by the coordinator, told to the session's program and to the agents of its lease. Whoever has it may do
/// in the session what the program may; it opens nothing else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionKey(pub [u8; Self::LEN]);

impl SessionKey {
    /// Its bytes.
    pub const LEN: usize = 32;

    /// The key with these bytes; none if they are too few or too many.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        <[u8; Self::LEN]>::try_from(bytes).ok().map(Self)
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
        assert!(SessionKey::from_bytes(&[0; 31]).is_none());
    }
}
