//! The server's half of a handshake until the client's key is proven, in steps: each consumes the client's bytes and
//! returns the reply. The driver that carries them may block or do other work meanwhile.

use super::answer::{CHALLENGE_LEN, WELCOME, answer};
use super::hello::{
    HELLO_BEGINNING_LEN, HELLO_LEN, Hello, MAGIC, NONCE_LEN, VERSIONS, malformed, unavailable, version_differs,
};
use super::io::take;
use super::secret::LaneSecret;
use crate::key::{self, Key, MAC_LEN};
use accord_types::Result;

/// The label of the client's proof.
pub(super) const CLIENT: &[u8] = b"accord client";
pub(super) const SERVER: &[u8] = b"accord server";

/// A hello that may be incomplete.
#[derive(Clone, Debug)]
pub(crate) struct PartialHello {
    bytes: [u8; HELLO_LEN],
    come: usize,
}

impl Default for PartialHello {
    fn default() -> Self {
        Self { bytes: [0; HELLO_LEN], come: 0 }
    }
}

impl PartialHello {
    /// Returns the buffer for the next bytes. It ends after magic and version first, because another version's hello may be
    /// shorter than this one's.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let end = if self.has_begun() { HELLO_LEN } else { HELLO_BEGINNING_LEN };
        &mut self.bytes[self.come..end]
    }

    /// Records that so many bytes were read into [`Self::space`]. Returns the hello once it is complete.
    ///
    /// # Errors
    /// Returns an error if the bytes are no hello, or one of another version.
    pub(crate) fn take(&mut self, come: usize) -> Result<Option<Hello>> {
        self.come += come.min(self.space().len());
        if !self.has_begun() {
            return Ok(None);
        }
        if self.bytes[..8] != MAGIC {
            return Err(malformed("it does not begin with Accord's magic bytes"));
        }
        let version = u32::from_le_bytes(take(&self.bytes, 8));
        if !VERSIONS.serves(version) {
            return Err(version_differs(version));
        }
        if self.come < HELLO_LEN { Ok(None) } else { Hello::decode(&self.bytes).map(Some) }
    }

    /// Whether magic and version are complete.
    pub(crate) fn has_begun(&self) -> bool {
        self.come >= HELLO_BEGINNING_LEN
    }

    /// Demands that the client prove `key`. Returns the challenge, and the bytes to send to the client.
    ///
    /// # Errors
    /// Returns an error if the system provides no random bytes.
    pub(crate) fn challenge(&self, hello: Hello, key: Key) -> Result<(Challenge, Vec<u8>)> {
        let mut nonce = [0; NONCE_LEN];
        key::fill_random(&mut nonce)?;
        let own = key.prove(&[SERVER, &self.bytes, &nonce]);
        let words = [&answer(WELCOME, CHALLENGE_LEN)[..], &nonce, &own].concat();
        Ok((Challenge { hello, bytes: self.bytes, key, nonce, proof: [0; MAC_LEN], come: 0 }, words))
    }
}

/// A client's proof that may be incomplete.
#[derive(Debug)]
pub(crate) struct Challenge {
    hello: Hello,
    bytes: [u8; HELLO_LEN],
    key: Key,
    nonce: [u8; NONCE_LEN],
    proof: [u8; MAC_LEN],
    come: usize,
}

impl Challenge {
    /// Returns the buffer for the next bytes.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.proof[self.come..]
    }

    /// Records that so many bytes were read into [`Self::space`]. Returns the client once the proof is complete.
    ///
    /// # Errors
    /// Returns an error if the proof is wrong.
    pub(crate) fn take(&mut self, come: usize) -> Result<Option<Proven>> {
        self.come += come.min(self.space().len());
        if self.come < MAC_LEN {
            return Ok(None);
        }
        if !self.key.proves(&[CLIENT, &self.bytes, &self.nonce], &self.proof) {
            return Err(unavailable("the keys differ".to_owned()));
        }
        let secret = self
            .hello
            .secure
            .then(|| LaneSecret::new(&self.key, &self.bytes, &self.nonce, VERSIONS.common(self.hello.version)));
        Ok(Some(Proven { hello: self.hello, secret }))
    }
}

/// A client that has proven its key and waits for the welcome.
#[derive(Debug)]
pub struct Proven {
    /// The client's hello.
    pub hello: Hello,
    pub(super) secret: Option<LaneSecret>,
}
