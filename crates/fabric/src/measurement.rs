//! Measures the time that bytes take on a lane; the other end answers.
//!
//! ```text
//! request   kind (u8): 1 returns all bytes, 2 returns eight bytes; 7 bytes 0; length (u64); then so many bytes
//! ```
//!
//! The measuring end closes the lane when it is done. Both ends bound bytes, requests and time.

use crate::transport::Lane;
use accord_types::{Error, ErrorCode, MEDIUM, PathTimes, Result, SMALL};
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

/// Longest time of a measurement, at both ends.
const TIME_MAX: Duration = Duration::from_secs(3);
/// Longest time for each figure, after its first run.
const SHARE: Duration = Duration::from_millis(60);
/// Round trips of [`SMALL`] bytes.
const SMALL_RUNS: usize = 200;
/// Round trips before the measured ones.
const WARM_UP_RUNS: usize = 20;
/// Runs of [`MEDIUM`] bytes.
const MEDIUM_RUNS: usize = 32;
/// Bytes of a stream that is expected to take no longer than [`STREAM_TIME`].
const STREAM: u64 = 4 << 20;
const STREAM_TIME: Duration = Duration::from_millis(250);
/// Runs of a stream.
const STREAM_RUNS: usize = 3;
/// Most bytes of one measurement in both directions, with its requests.
pub const BYTES_MAX: u64 = 16 << 20;
const _: () = assert!(
    BYTES_MAX
        > (WARM_UP_RUNS + SMALL_RUNS) as u64 * 2 * SMALL
            + MEDIUM_RUNS as u64 * (MEDIUM + SMALL)
            + STREAM_RUNS as u64 * (STREAM + SMALL)
);
/// Most requests of one measurement.
const REQUESTS_MAX: usize = 400;

const ALL_BACK: u8 = 1;
const WORD_BACK: u8 = 2;
const HEAD: usize = 16;
const WORD: usize = 8;
/// Most bytes read or written at a time.
const PIECE: usize = 64 << 10;

/// Measures a lane whose other end runs [`answer`]. Returns the times of bytes in one direction.
///
/// # Errors
/// Returns an error if the lane fails, or the other end does not answer.
pub fn measure(lane: &dyn Lane) -> Result<PathTimes> {
    let end = Instant::now() + TIME_MAX;
    let measured = Measure { lane, end, bytes: vec![0x5a; PIECE] }.all();
    lane.shutdown();
    measured.map_err(|error| Error::new(ErrorCode::DeviceUnavailable, format!("the measurement broke off: {error}")))
}

/// Answers a measurement until it ends.
///
/// # Errors
/// Returns an error if a request exceeds the bounds, or the lane fails.
pub fn answer(lane: &dyn Lane) -> Result<()> {
    let end = Instant::now() + TIME_MAX;
    let answered = answer_until(lane, end);
    lane.shutdown();
    answered.map_err(|error| Error::new(ErrorCode::DeviceUnavailable, format!("a measurement broke off: {error}")))
}

fn answer_until(lane: &dyn Lane, end: Instant) -> io::Result<()> {
    let refused = || io::Error::new(io::ErrorKind::InvalidData, "a request that no measurement makes");
    let (mut left, mut piece) = (BYTES_MAX, vec![0; PIECE]);
    for _ in 0..REQUESTS_MAX {
        let mut head = [0; HEAD];
        match read(lane, &mut head, end) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let (kind, zeros) = (head[0], &head[1..8]);
        let mut length = [0; 8];
        length.copy_from_slice(&head[8..]);
        let length = u64::from_le_bytes(length);
        let back = if kind == ALL_BACK { length } else { WORD as u64 };
        let cost = length.checked_add(back).ok_or_else(refused)?;
        left = left.checked_sub(cost).ok_or_else(refused)?;
        let comes_back = match kind {
            ALL_BACK if length <= PIECE as u64 => true,
            WORD_BACK => false,
            _ => return Err(refused()),
        };
        if zeros != [0; 7] {
            return Err(refused());
        }
        let mut rest = usize::try_from(length).map_err(|_| refused())?;
        while rest > 0 {
            let part = rest.min(PIECE);
            read(lane, &mut piece[..part], end)?;
            rest -= part;
        }
        let back = if comes_back { usize::try_from(length).unwrap_or(0) } else { WORD };
        write(lane, &[&piece[..back]], end)?;
    }
    Err(refused())
}

struct Measure<'a> {
    lane: &'a dyn Lane,
    end: Instant,
    bytes: Vec<u8>,
}

impl Measure<'_> {
    fn all(&mut self) -> io::Result<PathTimes> {
        self.median(WARM_UP_RUNS, |this| this.ask(ALL_BACK, SMALL))?;
        let round_trip = self.median(SMALL_RUNS, |this| this.ask(ALL_BACK, SMALL))?;
        let one_way = round_trip / 2;
        // The short reply takes the time of a small message.
        let medium = self.median(MEDIUM_RUNS, |this| this.ask(WORD_BACK, MEDIUM))?.saturating_sub(one_way);
        let per_medium = medium.saturating_sub(one_way).max(Duration::from_nanos(1));
        let fit = STREAM_TIME.as_nanos() / per_medium.as_nanos();
        let stream = STREAM.min(MEDIUM.saturating_mul(u64::try_from(fit).unwrap_or(u64::MAX))).max(2 * MEDIUM);
        let long = self.median(STREAM_RUNS, |this| this.ask(WORD_BACK, stream))?.saturating_sub(one_way);
        let behind = long.saturating_sub(medium).as_nanos().max(1);
        let rate = u128::from(stream - MEDIUM) * 1_000_000_000 / behind;
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(PathTimes::new(ns(one_way), ns(medium), u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    /// Returns the median of some runs: at least one, and no more than fit into [`SHARE`].
    fn median(&mut self, runs: usize, mut run: impl FnMut(&mut Self) -> io::Result<()>) -> io::Result<Duration> {
        let (begin, mut times) = (Instant::now(), Vec::with_capacity(runs));
        while times.is_empty() || times.len() < runs && begin.elapsed() < SHARE {
            let before = Instant::now();
            run(self)?;
            times.push(before.elapsed());
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }

    fn ask(&mut self, kind: u8, length: u64) -> io::Result<()> {
        let mut head = [0; HEAD];
        head[0] = kind;
        head[8..].copy_from_slice(&length.to_le_bytes());
        let mut rest = usize::try_from(length).unwrap_or(usize::MAX);
        let first = rest.min(PIECE);
        write(self.lane, &[&head, &self.bytes[..first]], self.end)?;
        rest -= first;
        while rest > 0 {
            let part = rest.min(PIECE);
            write(self.lane, &[&self.bytes[..part]], self.end)?;
            rest -= part;
        }
        let back = if kind == ALL_BACK { first } else { WORD };
        read(self.lane, &mut self.bytes[..back], self.end)
    }
}

/// Sets the lane's limit to the time left.
fn limit(lane: &dyn Lane, end: Instant) -> io::Result<()> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
    }
    lane.limit(Some(left))
}

fn read(lane: &dyn Lane, mut bytes: &mut [u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        limit(lane, end)?;
        match lane.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn write(lane: &dyn Lane, parts: &[&[u8]], end: Instant) -> io::Result<()> {
    let mut parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut parts = &mut parts[..];
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        limit(lane, end)?;
        match lane.write(parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut parts, written),
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::inproc_pair;

    #[test]
    fn a_lane_is_measured_and_left() {
        let (client, server) = inproc_pair();
        let answering = std::thread::spawn(move || answer(&*server));
        let times = measure(&*client).unwrap();
        assert!(
            times.small_ns > 0 && times.small_ns <= times.medium_ns && times.stream_bytes_per_s > 1 << 20,
            "{times:?}"
        );
        answering.join().unwrap().unwrap();
    }

    #[test]
    fn an_end_that_does_not_answer_fails_the_measurement() {
        let (client, server) = inproc_pair();
        server.shutdown();
        assert!(measure(&*client).is_err());
    }

    #[test]
    fn invalid_or_excessive_requests_end_the_measurement() {
        let head = |kind: u8, zero: u8, length: u64| {
            let mut head = [0; HEAD];
            (head[0], head[3]) = (kind, zero);
            head[8..].copy_from_slice(&length.to_le_bytes());
            head
        };
        for wrong in [
            head(0, 0, 8),
            head(3, 0, 8),
            head(1, 1, 8),
            head(1, 0, MEDIUM + 1),
            head(2, 0, BYTES_MAX),
            head(2, 0, u64::MAX),
        ] {
            let (client, server) = inproc_pair();
            let answering = std::thread::spawn(move || answer(&*server));
            write(&*client, &[&wrong], Instant::now() + TIME_MAX).unwrap();
            assert!(answering.join().unwrap().is_err(), "{wrong:?}");
        }
        // The most that one measurement may request.
        let (client, server) = inproc_pair();
        let answering = std::thread::spawn(move || answer(&*server));
        let mut measure = Measure { lane: &*client, end: Instant::now() + TIME_MAX, bytes: vec![0; PIECE] };
        let asked = (0..REQUESTS_MAX + 1).take_while(|_| measure.ask(ALL_BACK, SMALL).is_ok()).count();
        assert_eq!(asked, REQUESTS_MAX);
        assert!(answering.join().unwrap().is_err());
    }
}
