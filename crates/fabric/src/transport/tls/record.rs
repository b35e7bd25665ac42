//! Records of TLS 1.3, one direction at a time. A direction has the keys and the counter of its sender, and shares nothing
//! with the other one. Algorithms, nonces and padding are rustls's.

use rustls::crypto::cipher::{
    InboundOpaqueMessage, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, InvalidMessage, ProtocolVersion, Tls13CipherSuite,
};
use std::ops::Range;

/// Bytes of a record's header: type, version, length.
pub(super) const HEADER_LEN: usize = 5;
/// Most bytes of plaintext in a record.
pub(super) const PLAIN_MAX: usize = 1 << 14;
/// Most bytes of a record after its header.
const SEALED_MAX: usize = PLAIN_MAX + 256;
/// Longest record.
pub(super) const RECORD_MAX: usize = HEADER_LEN + SEALED_MAX;
/// The only handshake message sent after a handshake: later records use new keys, and the peer may keep its own.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
/// The alert `close_notify`.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// The alert `bad_record_mac`.
const BAD_RECORD_MAC: [u8; 2] = [2, 20];

/// Encrypts one direction's records.
pub(super) struct Sealer {
    suite: &'static Tls13CipherSuite,
    encrypter: Box<dyn MessageEncrypter>,
    next: u64,
    /// Most records that one key may encrypt.
    limit: u64,
}

impl Sealer {
    pub(super) fn new(
        suite: &'static Tls13CipherSuite,
        keys: (u64, ConnectionTrafficSecrets),
        limit: u64,
    ) -> Result<Self, Error> {
        let (key, iv) = parts(keys.1)?;
        // Half of the safe limit, because early key changes cost little.
        let limit = limit.min(suite.common.confidentiality_limit / 2);
        Ok(Self { suite, encrypter: suite.aead_alg.encrypter(key, iv), next: keys.0, limit })
    }

    /// Whether [`Sealer::update`] must precede the next record.
    pub(super) fn is_worn(&self) -> bool {
        self.next >= self.limit
    }

    /// Returns a record with these contents.
    pub(super) fn seal(&mut self, contents: OutboundChunks<'_>) -> Result<Vec<u8>, Error> {
        self.seal_as(ContentType::ApplicationData, contents)
    }

    /// Returns the record of `close_notify`.
    pub(super) fn close(&mut self) -> Result<Vec<u8>, Error> {
        self.seal_as(ContentType::Alert, OutboundChunks::Single(&CLOSE_NOTIFY))
    }

    /// Returns the record of `bad_record_mac`, which also ends the stream.
    pub(super) fn complain(&mut self) -> Result<Vec<u8>, Error> {
        self.seal_as(ContentType::Alert, OutboundChunks::Single(&BAD_RECORD_MAC))
    }

    /// Returns the record that announces new keys. All later records use them.
    pub(super) fn update(&mut self, keys: (u64, ConnectionTrafficSecrets)) -> Result<Vec<u8>, Error> {
        let record = self.seal_as(ContentType::Handshake, OutboundChunks::Single(&KEY_UPDATE))?;
        let (key, iv) = parts(keys.1)?;
        self.encrypter = self.suite.aead_alg.encrypter(key, iv);
        self.next = keys.0;
        Ok(record)
    }

    fn seal_as(&mut self, typ: ContentType, payload: OutboundChunks<'_>) -> Result<Vec<u8>, Error> {
        let message = OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_2, payload };
        let sealed = self.encrypter.encrypt(message, self.next)?;
        self.next += 1;
        Ok(sealed.encode())
    }
}

/// Decrypts one direction's records.
pub(super) struct Opener {
    suite: &'static Tls13CipherSuite,
    decrypter: Box<dyn MessageDecrypter>,
    next: u64,
}

/// The contents of a decrypted record.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Opened {
    /// Plaintext, at this range of the record.
    Data(Range<usize>),
    /// The peer has sent `close_notify`.
    Closed,
    /// Later records use new keys, see [`Opener::update`].
    Update,
}

impl Opener {
    pub(super) fn new(suite: &'static Tls13CipherSuite, keys: (u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        let (key, iv) = parts(keys.1)?;
        Ok(Self { suite, decrypter: suite.aead_alg.decrypter(key, iv), next: keys.0 })
    }

    /// Decrypts the next record, which includes its header, in place.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<Opened, Error> {
        let (header, sealed) = record.split_at_mut(HEADER_LEN);
        let typ = ContentType::from(header[0]);
        if typ != ContentType::ApplicationData {
            // A peer that has completed the handshake sends no record in clear.
            return Err(Error::InappropriateMessage {
                expect_types: vec![ContentType::ApplicationData],
                got_type: typ,
            });
        }
        let message = InboundOpaqueMessage::new(typ, ProtocolVersion::TLSv1_2, sealed);
        let plain = self.decrypter.decrypt(message, self.next)?;
        self.next += 1;
        match (plain.typ, plain.payload) {
            // The plaintext starts at the ciphertext's position.
            (ContentType::ApplicationData, contents) => Ok(Opened::Data(HEADER_LEN..HEADER_LEN + contents.len())),
            (ContentType::Alert, [_, 0]) => Ok(Opened::Closed),
            (ContentType::Alert, [_, alert]) => Err(Error::AlertReceived(AlertDescription::from(*alert))),
            (ContentType::Handshake, message) if *message == KEY_UPDATE => Ok(Opened::Update),
            (typ, _) => {
                let expect_types = vec![ContentType::ApplicationData, ContentType::Alert];
                Err(Error::InappropriateMessage { expect_types, got_type: typ })
            }
        }
    }

    pub(super) fn update(&mut self, keys: (u64, ConnectionTrafficSecrets)) -> Result<(), Error> {
        *self = Self::new(self.suite, keys)?;
        Ok(())
    }
}

/// Returns the length, with its header, of the record at the start of `bytes`, or `None` while the header is incomplete.
/// The announced length reserves no memory. Type and version have one valid value each; they are not authenticated, and
/// checked only here.
pub(super) fn record_len(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
    match header {
        [23, 3, 3, ..] => announced_len(header).map(Some),
        _ => Err(Error::InvalidMessage(InvalidMessage::InvalidContentType)),
    }
}

/// Returns the length of a handshake record by its header.
pub(super) fn handshake_record_len(header: &[u8; HEADER_LEN]) -> Result<usize, Error> {
    match header {
        // Only a first hello may carry the old version.
        [20..=23, 3, 3, ..] | [22, 3, 1, ..] => announced_len(header),
        _ => Err(Error::InvalidMessage(InvalidMessage::InvalidContentType)),
    }
}

fn announced_len(header: &[u8; HEADER_LEN]) -> Result<usize, Error> {
    let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    match len {
        0..=SEALED_MAX => Ok(HEADER_LEN + len),
        _ => Err(Error::PeerSentOversizedRecord),
    }
}

fn parts(
    keys: ConnectionTrafficSecrets,
) -> Result<(rustls::crypto::cipher::AeadKey, rustls::crypto::cipher::Iv), Error> {
    match keys {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => Ok((key, iv)),
        _ => Err(Error::General("an algorithm of unknown keys".to_owned())),
    }
}
