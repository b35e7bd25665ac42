//! The socket between owner and worker: rare requests that need an answer.

use super::process;
use accord_types::{Error, ErrorCode, Result};
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A request of the owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Serve this stream from now on.
    Stream { index: u32 },
    /// Resolve `offset` in an object to an address, loading the object if necessary.
    Resolve { path: String, build_id: String, executable: bool, offset: u64 },
    /// The pages that hold `[address, address + len)` become pages of the memory file at `file_offset`.
    Share { address: u64, len: u64, file_offset: u64 },
}

/// The worker's answer to every request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The result; for `Resolve` the address and the object's load address.
    Done(u64, u64),
    /// The reason of a failure.
    Failed(String),
}

/// The interval at which the owner checks whether the worker lives, while that works on an answer.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The length of the longest path or message.
const TEXT_BYTES_MAX: usize = 64 << 10;

pub(crate) fn send_request(socket: &mut UnixStream, request: &Request) -> io::Result<()> {
    let mut out = Vec::with_capacity(256);
    match request {
        Request::Stream { index } => {
            out.push(1);
            put(&mut out, u64::from(*index));
        }
        Request::Resolve { path, build_id, executable, offset } => {
            out.push(2);
            put(&mut out, *offset);
            put(&mut out, u64::from(*executable));
            put_text(&mut out, path);
            put_text(&mut out, build_id);
        }
        Request::Share { address, len, file_offset } => {
            out.push(3);
            put(&mut out, *address);
            put(&mut out, *len);
            put(&mut out, *file_offset);
        }
    }
    socket.write_all(&out)
}

pub(crate) fn receive_request(socket: &mut UnixStream) -> io::Result<Request> {
    Ok(match get_kind(socket)? {
        1 => Request::Stream { index: get(socket)? as u32 },
        2 => {
            let offset = get(socket)?;
            let executable = get(socket)? != 0;
            let path = get_text(socket)?;
            Request::Resolve { path, build_id: get_text(socket)?, executable, offset }
        }
        3 => Request::Share { address: get(socket)?, len: get(socket)?, file_offset: get(socket)? },
        other => return Err(bad(format!("request kind {other}"))),
    })
}

pub(crate) fn send_answer(socket: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    let mut out = Vec::with_capacity(64);
    match answer {
        Answer::Done(a, b) => {
            out.push(1);
            put(&mut out, *a);
            put(&mut out, *b);
        }
        Answer::Failed(why) => {
            out.push(2);
            put_text(&mut out, why);
        }
    }
    socket.write_all(&out)
}

/// A read of an answer, which may be incomplete or garbage, because the worker's regions are the program's code.
struct PolledRead<'a> {
    socket: &'a mut UnixStream,
    check_alive: &'a dyn Fn() -> Result<()>,
    /// The error that ended the wait.
    given_up: Option<Error>,
}

impl io::Read for PolledRead<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while !process::readable(self.socket, Some(CHECK_INTERVAL)) {
            if let Err(error) = (self.check_alive)() {
                self.given_up = Some(error);
                return Err(io::Error::other("the wait was given up"));
            }
        }
        io::Read::read(self.socket, bytes)
    }
}

/// Sends a request and waits for its answer. Calls `check_alive` at intervals meanwhile.
///
/// # Errors
/// Returns `acc_error_device_init` with the worker's reason, `acc_error_device_unavailable` if the worker is gone or its
/// answer is malformed, and any error of `check_alive`.
pub(crate) fn ask(
    socket: &mut UnixStream,
    request: &Request,
    check_alive: &dyn Fn() -> Result<()>,
) -> Result<(u64, u64)> {
    let gone = |e: io::Error| Error::new(ErrorCode::DeviceUnavailable, format!("the device's worker is gone: {e}"));
    send_request(socket, request).map_err(gone)?;
    let mut coming = PolledRead { socket, check_alive, given_up: None };
    match receive_answer(&mut coming) {
        Ok(Answer::Done(a, b)) => Ok((a, b)),
        Ok(Answer::Failed(why)) => {
            let remedy = accord_types::scarce::remedy_of_words(&why);
            Err(Error::new(ErrorCode::DeviceInit, why).remedy_if(remedy))
        }
        Err(error) => Err(coming.given_up.unwrap_or_else(|| gone(error))),
    }
}

fn receive_answer(socket: &mut impl io::Read) -> io::Result<Answer> {
    Ok(match get_kind(socket)? {
        1 => Answer::Done(get(socket)?, get(socket)?),
        2 => Answer::Failed(get_text(socket)?),
        other => return Err(bad(format!("answer kind {other}"))),
    })
}

/// Returns the length of the answer at the start of `bytes`, if there is one. For fuzzing the decoder.
pub fn answer_len(mut bytes: &[u8]) -> Option<usize> {
    let all = bytes.len();
    receive_answer(&mut bytes).ok()?;
    Some(all - bytes.len())
}

fn put(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_ne_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn get_kind(socket: &mut impl io::Read) -> io::Result<u8> {
    let mut kind = [0];
    socket.read_exact(&mut kind)?;
    Ok(kind[0])
}

fn get(socket: &mut impl io::Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    socket.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn get_text(socket: &mut impl io::Read) -> io::Result<String> {
    let len = get(socket)? as usize;
    if len > TEXT_BYTES_MAX {
        return Err(bad(format!("text of {len} bytes")));
    }
    let mut bytes = vec![0; len];
    socket.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(|e| bad(e.to_string()))
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_survive_the_socket() {
        let (mut a, mut b) = UnixStream::pair().expect("socket pair");
        for request in [
            Request::Stream { index: 9 },
            Request::Resolve { path: "/x/y z".into(), build_id: "ab".into(), executable: true, offset: 77 },
            Request::Share { address: 1 << 46, len: 3, file_offset: 4096 },
        ] {
            send_request(&mut a, &request).expect("send");
            assert_eq!(receive_request(&mut b).expect("receive"), request);
        }
        send_answer(&mut b, &Answer::Failed("no such object".into())).expect("send");
        assert_eq!(receive_answer(&mut a).expect("receive"), Answer::Failed("no such object".into()));
        drop(b);
        assert!(ask(&mut a, &Request::Stream { index: 0 }, &|| Ok(())).is_err());
    }

    #[test]
    fn half_an_answer_is_not_waited_for_longer_than_none() {
        for half in [&[][..], &[1, 0, 0], &[2, 8, 0, 0, 0, 0, 0, 0, 0, b'n']] {
            let (mut near, mut far) = UnixStream::pair().expect("socket pair");
            far.write_all(half).expect("send");
            let given_up = || Err(Error::new(ErrorCode::Execution, "no sign of life"));
            let error = ask(&mut near, &Request::Stream { index: 0 }, &given_up).expect_err("no answer");
            assert_eq!(error.cause(), "no sign of life");
        }
    }

    #[test]
    fn malformed_worker_answers_are_refused() {
        for wrong in [&[7][..], &[2, 255, 255, 255, 255, 255, 255, 255, 255], &[2, 1, 0, 0, 0, 0, 0, 0, 0, 0xff]] {
            let (mut near, mut far) = UnixStream::pair().expect("socket pair");
            far.write_all(wrong).expect("send");
            assert!(ask(&mut near, &Request::Stream { index: 0 }, &|| Ok(())).is_err(), "{wrong:?}");
        }
    }
}
