//! Records of TLS 1.3, one direction at a time: keys and counters of one side, nothing shared with the other direction. The algorithms,
//! nonces and the padding are rustls's.

use rustls::crypto::cipher::{
    InboundOpaqueMessage, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, InvalidMessage, ProtocolVersion, Tls13CipherSuite,
};
use std::ops::Range;

/// Bytes before a record's contents: type, version, length.
pub(super) const HEADER_LEN: usize = 5;
/// Most bytes of contents that a record carries.
pub(super) const PLAIN_MAX: usize = 1 << 14;
/// Most bytes of a record after its header.
const SEALED_MAX: usize = PLAIN_MAX + 256;
/// Longest record.
pub(super) const RECORD_MAX: usize = HEADER_LEN + SEALED_MAX;
/// The one message that is sent after a handshake: what follows has new keys, and none is asked of the other side.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
/// No more will come.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// What came could not be believed.
const BAD_RECORD_MAC: [u8; 2] = [2, 20];

/// Encrypts.
pub(super) struct Sealer {
    suite: &'static Tls13CipherSuite,
    encrypter: Box<dyn MessageEncrypter>,
    next: u64,
    /// Records that one key may encrypt.
    limit: u64,
}

impl Sealer {
    pub(super) fn new(
        suite: &'static Tls13CipherSuite,
        keys: (u64, ConnectionTrafficSecrets),
        limit: u64,
    ) -> Result<Self, Error> {
        let (key, iv) = parts(keys.1)?;
        // Half of what is safe: there is no hurry.
        let limit = limit.min(suite.common.confidentiality_limit / 2);
        Ok(Self { suite, encrypter: suite.aead_alg.encrypter(key, iv), next: keys.0, limit })
    }

    /// Whether [`Sealer::update`] has to come first.
    pub(super) fn is_worn(&self) -> bool {
        self.next >= self.limit
    }

    /// A record with these contents.
    pub(super) fn seal(&mut self, contents: OutboundChunks<'_>) -> Result<Vec<u8>, Error> {
        self.seal_as(ContentType::ApplicationData, contents)
    }

    /// The record that says that nothing follows.
    pub(super) fn close(&mut self) -> Result<Vec<u8>, Error> {
        self.seal_as(ContentType::Alert, OutboundChunks::Single(&CLOSE_NOTIFY))
    }

    /// The record that says that what came could not be believed, and that nothing follows.
    pub(super) fn complain(&mut self) -> Result<Vec<u8>, Error> {
        self.seal_as(ContentType::Alert, OutboundChunks::Single(&BAD_RECORD_MAC))
    }

    /// The record that says that what follows has these keys.
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

/// Decrypts.
pub(super) struct Opener {
    suite: &'static Tls13CipherSuite,
    decrypter: Box<dyn MessageDecrypter>,
    next: u64,
}

/// What a record was.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Opened {
    /// Contents, at this place of the record.
    Data(Range<usize>),
    /// No more will come.
    Closed,
    /// What follows has new keys: [`Opener::update`].
    Update,
}

impl Opener {
    pub(super) fn new(suite: &'static Tls13CipherSuite, keys: (u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        let (key, iv) = parts(keys.1)?;
        Ok(Self { suite, decrypter: suite.aead_alg.decrypter(key, iv), next: keys.0 })
    }

    /// Takes the next record, whole with its header, and decrypts it where it lies.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<Opened, Error> {
        let (header, sealed) = record.split_at_mut(HEADER_LEN);
        let typ = ContentType::from(header[0]);
        if typ != ContentType::ApplicationData {
            // Unencrypted: nobody who is part of this says such a thing.
            return Err(Error::InappropriateMessage {
                expect_types: vec![ContentType::ApplicationData],
                got_type: typ,
            });
        }
        let message = InboundOpaqueMessage::new(typ, ProtocolVersion::TLSv1_2, sealed);
        let plain = self.decrypter.decrypt(message, self.next)?;
        self.next += 1;
        match (plain.typ, plain.payload) {
            // Contents stay where the record's were.
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

/// The length of the record of a session that begins so, with its header; none while that is not there. Nothing is reserved for
/// what is only announced. Type and version have one value each: they are not sealed, so nobody else would look at them.
pub(super) fn record_len(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
    match header {
        [23, 3, 3, ..] => announced_len(header).map(Some),
        _ => Err(Error::InvalidMessage(InvalidMessage::InvalidContentType)),
    }
}

/// The same of a handshake's record, whose header is there.
pub(super) fn handshake_record_len(header: &[u8; HEADER_LEN]) -> Result<usize, Error> {
    match header {
        // Only a first hello may have the old version.
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
