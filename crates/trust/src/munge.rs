//! A client of MUNGE's daemon. The daemon issues a credential that names the user of the requesting process, and a
//! daemon with the same key verifies it. The client speaks the daemon's protocol itself, because libacc loads no
//! library into a user's program.

use accord_types::{Error, ErrorCode, Result};
use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, send};
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The daemon's usual socket.
pub const USUAL_SOCKET: &str = "/run/munge/munge.socket.2";
/// Longest credential, in bytes.
pub const CREDENTIAL_MAX: usize = 4 << 10;
/// Timeout of each read and write.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest answer, in bytes: a credential or its content, and a message.
const ANSWER_MAX: usize = 16 << 10;

/// The magic number and the version of every message.
const MAGIC: u32 = 0x0060_6d4b;
const VERSION: u8 = 4;
const HEADER_LEN: usize = 11;
/// Types of messages.
const ENCODE: u8 = 2;
const ENCODED: u8 = 3;
const DECODE: u8 = 4;
const DECODED: u8 = 5;
/// Requests the daemon's default cipher, authentication code, compression and lifetime, and no realm.
const USUAL: [u8; 8] = [1, 1, 1, 0, 0, 0, 0, 0];
/// Lets any user and any group read the credential.
const ANYBODY: [u8; 8] = [0xff; 8];

/// A client of one daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Munge {
    socket: PathBuf,
}

/// The verified content of a credential.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedCredential {
    /// The user of the process that requested the credential.
    pub uid: u32,
    /// The payload that the process gave.
    pub payload: Vec<u8>,
}

impl Munge {
    /// Creates a client of the daemon at this socket.
    pub fn at(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Returns a credential for this process's user with this payload.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the daemon can't be reached or refuses.
    pub fn encode(&self, payload: &[u8]) -> Result<Vec<u8>> {
        let len = u32::try_from(payload.len()).map_err(|_| unavailable("there is too much to say"))?;
        let body = [&USUAL[..], &ANYBODY, &len.to_be_bytes(), payload].concat();
        encoded(&self.ask(ENCODE, ENCODED, &body)?)
    }

    /// Verifies a credential and returns its user and payload. The daemon accepts a credential once, within its
    /// lifetime, and only from machines with the same key.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the daemon rejects the credential or can't be reached.
    pub fn decode(&self, credential: &[u8]) -> Result<VerifiedCredential> {
        if credential.len() > CREDENTIAL_MAX {
            return Err(unavailable("the credential is too long"));
        }
        let len = u32::try_from(credential.len()).map_err(|_| unavailable("the credential is too long"))?;
        decoded(&self.ask(DECODE, DECODED, &[&len.to_be_bytes(), credential].concat())?)
    }

    fn ask(&self, kind: u8, answer: u8, body: &[u8]) -> Result<Vec<u8>> {
        let failed = |error: std::io::Error| {
            let timed_out = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            let why = if timed_out { "it does not answer".to_owned() } else { error.to_string() };
            unavailable(format!("munged at {} can't be asked: {why}", self.socket.display()))
                .remedy("start munged there (systemctl start munge), or name its socket in ACCORD_MUNGE")
        };
        let mut stream = UnixStream::connect(&self.socket).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        let len = u32::try_from(body.len()).map_err(|_| unavailable("there is too much to say"))?;
        let mut message = Vec::with_capacity(HEADER_LEN + body.len());
        message.extend(MAGIC.to_be_bytes());
        // The last byte marks a first attempt, not a retry.
        message.extend([VERSION, kind, 0]);
        message.extend(len.to_be_bytes());
        message.extend(body);
        say(&stream, &message).map_err(failed)?;
        let mut header = [0; HEADER_LEN];
        stream.read_exact(&mut header).map_err(failed)?;
        let mut body = vec![0; body_len(&header, answer)?];
        stream.read_exact(&mut body).map_err(failed)?;
        Ok(body)
    }
}

/// Writes without SIGPIPE, which would kill a user's program if the daemon has ended.
fn say(stream: &UnixStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let sent = retry_on_intr(|| send(stream, bytes, SendFlags::NOSIGNAL))?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Returns the body's length of an answer of this type.
///
/// # Errors
/// Returns an error if the header is not that of such an answer.
pub fn body_len(header: &[u8; HEADER_LEN], kind: u8) -> Result<usize> {
    let mut rest = &header[..];
    let (magic, version, found) = (number(&mut rest)?, byte(&mut rest)?, byte(&mut rest)?);
    if magic != MAGIC || version != VERSION || found != kind {
        return Err(unavailable("munged speaks another version of its protocol"));
    }
    byte(&mut rest)?;
    let len = usize::try_from(number(&mut rest)?).unwrap_or(usize::MAX);
    if len > ANSWER_MAX { Err(unavailable("munged says too much")) } else { Ok(len) }
}

/// Returns the credential in an answer.
///
/// # Errors
/// Returns the daemon's refusal with its text, or an error if the answer is malformed.
pub fn encoded(mut body: &[u8]) -> Result<Vec<u8>> {
    let body = &mut body;
    verdict(body)?;
    let mut credential = data(body)?.to_vec();
    // The credential ends with a NUL byte.
    credential.retain(|byte| *byte != 0);
    Ok(credential)
}

/// Returns the content of a credential from an answer.
///
/// # Errors
/// Returns the errors of [`encoded`].
pub fn decoded(mut body: &[u8]) -> Result<VerifiedCredential> {
    let body = &mut body;
    verdict(body)?;
    // Cipher, authentication code, compression.
    take(body, 3)?;
    // Realm, which is never set.
    short(body)?;
    // Lifetime; address of the encoding machine; time of encoding, and of decoding.
    number(body)?;
    short(body)?;
    number(body)?;
    number(body)?;
    let uid = number(body)?;
    // The group; the user and the group that may read the credential.
    take(body, 12)?;
    Ok(VerifiedCredential { uid, payload: data(body)?.to_vec() })
}

/// Returns the daemon's refusal, which an answer begins with: an error number and a text.
fn verdict(body: &mut &[u8]) -> Result<()> {
    let (code, text) = (byte(body)?, short(body)?);
    if code == 0 {
        return Ok(());
    }
    let words: String = String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect();
    Err(unavailable(format!("munged says: {words} ({code})")).remedy(
        "look at munged on both machines: one key, clocks that agree, and credentials that were not used before",
    ))
}

fn take<'a>(from: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (taken, rest) =
        from.split_at_checked(len).ok_or_else(|| unavailable("munged answers with less than an answer"))?;
    *from = rest;
    Ok(taken)
}

fn byte(from: &mut &[u8]) -> Result<u8> {
    Ok(take(from, 1)?[0])
}

fn number(from: &mut &[u8]) -> Result<u32> {
    Ok(take(from, 4)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Reads bytes that follow their length in one byte.
fn short<'a>(from: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = byte(from)?.into();
    take(from, len)
}

/// Reads bytes that follow their length in four bytes.
fn data<'a>(from: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = usize::try_from(number(from)?).unwrap_or(usize::MAX);
    take(from, len)
}

fn unavailable(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a munged 0.5.15 to root's credential with payload `hello`, and to the same credential again.
    const FIRST: &[u8] =
        b"\x00\x00\x04\x05\x00\x00\x00\x00\x01\x2c\x04\x7f\x00\x00\x01\x6b\x03\xde\x6f\x6b\x03\xde\x6f\
        \x00\x00\x03\xe9\x00\x00\x03\xea\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x05hello";
    const AGAIN: &[u8] =
        b"\x11\x14Replayed credential\x00\x04\x05\x00\x00\x00\x00\x01\x2c\x04\x7f\x00\x00\x01\x6b\x03\xde\x6f\x6b\
        \x03\xde\x6f\x00\x00\x03\xe9\x00\x00\x03\xea\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x05hello";

    #[test]
    fn credentials_are_verified_by_the_munge_daemon() {
        assert_eq!(decoded(FIRST).unwrap(), VerifiedCredential { uid: 1001, payload: b"hello".to_vec() });
        let error = decoded(AGAIN).unwrap_err();
        assert!(error.cause().contains("Replayed credential (17)"), "{error}");
        assert_eq!(encoded(b"\0\0\0\0\0\x06MUNGE\0").unwrap(), b"MUNGE");
        assert!(encoded(b"\x08\x03bad\0\0\0\0").unwrap_err().cause().contains("bad"));
    }

    #[test]
    fn half_an_answer_is_none() {
        for len in 0..FIRST.len() {
            assert!(decoded(&FIRST[..len]).is_err(), "{len}");
        }
        let header = |kind, len: u32| {
            let [a, b, c, d] = len.to_be_bytes();
            [0, 0x60, 0x6d, 0x4b, VERSION, kind, 0, a, b, c, d]
        };
        assert_eq!(body_len(&header(DECODED, 48), DECODED).unwrap(), 48);
        assert!(body_len(&header(ENCODED, 48), DECODED).is_err());
        assert!(body_len(&header(DECODED, u32::MAX), DECODED).is_err());
        assert!(body_len(&[0; HEADER_LEN], DECODED).is_err());
    }

    #[test]
    fn without_a_daemon_the_socket_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Munge::at(&folder.path().join("none")).encode(b"x").unwrap_err().to_string();
        assert!(error.contains("none can't be asked") && error.contains("ACCORD_MUNGE"), "{error}");
    }
}
