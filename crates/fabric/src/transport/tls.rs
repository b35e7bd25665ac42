//! TLS over a lane that carries the ciphertext.
//!
//! Each direction has its own state (`record`), so that a reader and a writer never contend. A lock is held only while a
//! direction's state is taken out or put back, never while bytes are in flight.

mod disturbed;
mod record;
mod shake;

use super::lane::{Lane, LaneDescriptors, LaneProperties, SharedLane, Transport};
use super::remote_memory::{MemoryKind, RemoteMemory};
use crate::handshake::Deadline;
use accord_types::short_lock::{ShortGuard, ShortLock};
use disturbed::disturbed;
use record::{Opened, Opener, PLAIN_MAX, RECORD_MAX, Sealer, record_len};
use rustls::crypto::cipher::OutboundChunks;
use rustls::{ClientConfig, Error, ServerConfig};
use shake::{HandshakeResult, Kernel};
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most bytes that are encrypted before they are sent.
const BATCH_MAX: usize = 4 * PLAIN_MAX;
/// Most slices of a write in one batch.
const PARTS_MAX: usize = 16;
/// Most bytes of ciphertext that are buffered.
const BUFFER_LEN: usize = 4 * RECORD_MAX;
/// Most records that one key encrypts: 128 GiB.
const RECORDS_MAX: u64 = 1 << 23;

/// One end of a TLS lane.
struct Tls {
    below: SharedLane,
    reading: ShortLock<Option<Box<Reading>>>,
    writing: ShortLock<Option<Box<Writing>>>,
    kernel: ShortLock<Kernel>,
    /// Set once a record fails authentication.
    failed: AtomicBool,
}

struct Reading {
    opener: Opener,
    buffer: Vec<u8>,
    /// Ciphertext received but not yet decrypted.
    sealed: Range<usize>,
    /// Plaintext decrypted but not yet read.
    plain: Range<usize>,
    ended: Ended,
}

#[derive(Clone, Debug)]
enum Ended {
    Not,
    /// The peer has sent `close_notify`.
    Orderly,
    /// A record failed authentication, or was malformed.
    Failed(Error),
}

struct Writing {
    sealer: Sealer,
    /// Records encrypted but not yet sent.
    records: Vec<Vec<u8>>,
    /// Bytes of the first record that were sent.
    sent: usize,
    /// Plaintext bytes in the records.
    plain: usize,
    finished: bool,
}

/// Runs the handshake as the client, over a lane that was just connected. `config` decides which server certificates
/// are accepted.
///
/// # Errors
/// Returns the handshake's error, which [`accord_trust::explain::broken`] explains to a user.
pub fn connect_tls(below: SharedLane, config: Arc<ClientConfig>, timeout: Duration) -> io::Result<SharedLane> {
    let shaken = shake::connect(&*below, config, Deadline::after(timeout))?;
    Tls::begin(below, shaken, RECORDS_MAX)
}

/// Runs the handshake as the server.
///
/// # Errors
/// Returns the errors of [`connect_tls`].
pub fn accept_tls(below: SharedLane, config: Arc<ServerConfig>, timeout: Duration) -> io::Result<SharedLane> {
    let shaken = shake::accept(&*below, config, Deadline::after(timeout))?;
    Tls::begin(below, shaken, RECORDS_MAX)
}

impl Tls {
    fn begin(below: SharedLane, shaken: HandshakeResult, records_max: u64) -> io::Result<SharedLane> {
        let HandshakeResult { suite, secrets, kernel } = shaken;
        let sealer = Sealer::new(suite, secrets.tx, records_max).map_err(invalid)?;
        let opener = Opener::new(suite, secrets.rx).map_err(invalid)?;
        let reading = Reading { opener, buffer: vec![0; BUFFER_LEN], sealed: 0..0, plain: 0..0, ended: Ended::Not };
        let writing = Writing { sealer, records: Vec::new(), sent: 0, plain: 0, finished: false };
        let lane = Self {
            below,
            reading: ShortLock::new(Some(Box::new(reading))),
            writing: ShortLock::new(Some(Box::new(writing))),
            kernel: ShortLock::new(kernel),
            failed: AtomicBool::new(false),
        };
        Ok(Arc::new(lane))
    }

    fn read_by(&self, bytes: &mut [u8], receive: impl Fn(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        with(&self.reading, |reading| {
            if bytes.is_empty() {
                return Ok(0);
            }
            while reading.plain.is_empty() {
                if reading.open(&self.kernel)? {
                    continue;
                }
                match &reading.ended {
                    Ended::Not => reading.fill(&receive)?,
                    Ended::Orderly => return Ok(0),
                    // The reader then closes the lane, which sends an alert.
                    Ended::Failed(error) => {
                        self.failed.store(true, Ordering::Relaxed);
                        return Err(disturbed(error.clone()));
                    }
                }
            }
            let len = bytes.len().min(reading.plain.len());
            bytes[..len].copy_from_slice(&reading.buffer[reading.plain.start..][..len]);
            reading.plain.start += len;
            Ok(len)
        })
    }

    fn write_by(&self, parts: &[IoSlice<'_>], send: impl Fn(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<usize> {
        with(&self.writing, |writing| {
            if writing.finished {
                return Err(ErrorKind::BrokenPipe.into());
            }
            if writing.records.is_empty() {
                writing.seal(parts, &self.kernel)?;
            } else if parts.iter().map(|part| part.len()).sum::<usize>() < writing.plain {
                return Err(io::Error::new(ErrorKind::InvalidInput, "less is written than was begun"));
            }
            writing.send(send)?;
            Ok(std::mem::take(&mut writing.plain))
        })
    }

    /// Sends `close_notify`, or an alert if a record failed authentication, unless that would block.
    fn send_close(&self) {
        let say = if self.failed.load(Ordering::Relaxed) { Sealer::complain } else { Sealer::close };
        if let Some(writing) = lock(&self.writing).as_mut()
            && writing.records.is_empty()
            && !std::mem::replace(&mut writing.finished, true)
            && let Ok(record) = say(&mut writing.sealer)
        {
            let _ = self.below.try_write(&[IoSlice::new(&record)]);
        }
    }
}

/// Takes a direction's state out, runs `act` on it, and puts it back.
fn with<S, T>(state: &ShortLock<Option<Box<S>>>, act: impl FnOnce(&mut S) -> io::Result<T>) -> io::Result<T> {
    let Some(mut taken) = lock(state).take() else {
        return Err(io::Error::other("two threads use one direction of a lane"));
    };
    let outcome = act(&mut taken);
    *lock(state) = Some(taken);
    outcome
}

impl Reading {
    /// Decrypts the next record, if it is complete.
    fn open(&mut self, kernel: &ShortLock<Kernel>) -> io::Result<bool> {
        if !matches!(self.ended, Ended::Not) {
            return Ok(false);
        }
        match self.try_open(kernel) {
            Ok(opened) => Ok(opened),
            Err(error) => {
                self.ended = Ended::Failed(error);
                Ok(false)
            }
        }
    }

    fn try_open(&mut self, kernel: &ShortLock<Kernel>) -> Result<bool, Error> {
        let there = &mut self.buffer[self.sealed.clone()];
        let Some(len) = record_len(there)?.filter(|len| *len <= there.len()) else { return Ok(false) };
        let opened = self.opener.open(&mut there[..len])?;
        let begin = self.sealed.start;
        self.sealed.start += len;
        match opened {
            Opened::Data(place) => self.plain = begin + place.start..begin + place.end,
            Opened::Closed => self.ended = Ended::Orderly,
            Opened::Update => self.opener.update(lock(kernel).next_to_receive()?)?,
        }
        Ok(true)
    }

    /// Receives more ciphertext.
    fn fill(&mut self, receive: impl Fn(&mut [u8]) -> io::Result<usize>) -> io::Result<()> {
        if self.sealed.is_empty() {
            self.sealed = 0..0;
        } else if self.buffer.len() - self.sealed.start < RECORD_MAX {
            self.buffer.copy_within(self.sealed.clone(), 0);
            self.sealed = 0..self.sealed.len();
        }
        match receive(&mut self.buffer[self.sealed.end..])? {
            // A peer that closes sends `close_notify` first. Probably it was killed, but an attacker may have truncated the stream.
            0 => Err(io::Error::new(ErrorKind::UnexpectedEof, "the connection was cut")),
            n => {
                self.sealed.end += n;
                Ok(())
            }
        }
    }

    /// Whether the buffers alone let [`Lane::read`] return without blocking.
    fn is_readable(&self) -> bool {
        let whole = |bytes: &[u8]| !matches!(record_len(bytes), Ok(len) if len.is_none_or(|len| len > bytes.len()));
        !self.plain.is_empty() || !matches!(self.ended, Ended::Not) || whole(&self.buffer[self.sealed.clone()])
    }
}

impl Writing {
    /// Encrypts at most one batch.
    fn seal(&mut self, parts: &[IoSlice<'_>], kernel: &ShortLock<Kernel>) -> io::Result<()> {
        let mut pieces: [&[u8]; PARTS_MAX] = [&[]; PARTS_MAX];
        let (mut len, mut count) = (0, 0);
        for part in parts.iter().filter(|part| !part.is_empty()).take(PARTS_MAX) {
            let piece = &part[..part.len().min(BATCH_MAX - len)];
            pieces[count] = piece;
            (len, count) = (len + piece.len(), count + 1);
            if len == BATCH_MAX {
                break;
            }
        }
        let mut rest = OutboundChunks::new(&pieces[..count]);
        while !rest.is_empty() {
            if self.sealer.is_worn() {
                let keys = lock(kernel).next_to_send().map_err(invalid)?;
                self.records.push(self.sealer.update(keys).map_err(invalid)?);
            }
            let (piece, after) = rest.split_at(PLAIN_MAX.min(rest.len()));
            self.records.push(self.sealer.seal(piece).map_err(invalid)?);
            rest = after;
        }
        self.plain = len;
        Ok(())
    }

    /// Sends the encrypted records.
    fn send(&mut self, send: impl Fn(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<()> {
        while !self.records.is_empty() {
            let count = self.records.len().min(PARTS_MAX);
            let mut slices = [IoSlice::new(&[]); PARTS_MAX];
            for (slice, record) in slices.iter_mut().zip(&self.records) {
                *slice = IoSlice::new(record);
            }
            slices[0] = IoSlice::new(&self.records[0][self.sent..]);
            let mut gone = match send(&slices[..count]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => n + self.sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let whole = self.records.iter().take_while(|record| {
                let fits = record.len() <= gone;
                if fits {
                    gone -= record.len();
                }
                fits
            });
            let whole = whole.count();
            self.records.drain(..whole);
            self.sent = gone;
        }
        Ok(())
    }
}

impl Lane for Tls {
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_by(bytes, |bytes| self.below.read(bytes))
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_by(bytes, |bytes| self.below.try_read(bytes))
    }

    fn is_readable(&self) -> bool {
        match lock(&self.reading).as_ref() {
            Some(reading) if reading.is_readable() => true,
            _ => self.below.is_readable(),
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_by(parts, |records| self.below.write(records))
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_by(parts, |records| self.below.try_write(records))
    }

    fn moves_in_place(&self) -> bool {
        false
    }

    fn remote_memory(&self, _kind: MemoryKind) -> Option<&dyn RemoteMemory> {
        None
    }

    fn finish(&self) -> io::Result<()> {
        with(&self.writing, |writing| {
            if !std::mem::replace(&mut writing.finished, true) {
                let record = writing.sealer.close().map_err(invalid)?;
                writing.records.push(record);
                writing.send(|records| self.below.write(records))?;
            }
            Ok(())
        })?;
        self.below.finish()
    }

    fn shutdown(&self) {
        self.send_close();
        self.below.shutdown();
    }

    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        self.below.limit(time)
    }

    fn spin_long(&self) {
        self.below.spin_long();
    }

    fn introduced(&self, unread_max: Option<Duration>) -> io::Result<()> {
        self.below.introduced(unread_max)
    }

    fn properties(&self) -> LaneProperties {
        LaneProperties::new(Transport::Tls, self.below.properties().leaves_machine)
    }

    fn descriptors(&self) -> LaneDescriptors<'_> {
        // TLS state can't be passed to another process.
        LaneDescriptors::default()
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.send_close();
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({:?})", self.below)
    }
}

fn lock<T>(mutex: &ShortLock<T>) -> ShortGuard<'_, T> {
    mutex.lock()
}

fn invalid(error: Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
