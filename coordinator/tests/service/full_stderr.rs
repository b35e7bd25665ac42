//! If standard error blocks, as with a stopped terminal or log collector, the coordinator does not wait. It reports
//! dropped messages once there is room again.

use crate::crowd::unauthenticated;
use crate::watched::{ANSWERED_WITHIN, Coordinator};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Number of refused connections, each with a line. Most lines must be dropped: all but those in the buffer and in a
/// pipe of 4 KiB.
const STRANGERS: u64 = 1_200;
/// Least number of buffered lines.
const WAITED: usize = 1_000;
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_full_standard_error_blocks_no_request_and_drops_are_reported() {
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    fcntl_setpipe_size(&to, 4096).unwrap();
    let coordinator = Coordinator::start_logging(Stdio::from(to), "info");
    // Right after its start a coordinator waits for agents to reconnect.
    coordinator.ask();
    for number in 0..STRANGERS {
        // The peer sends no handshake, and is refused with a log line.
        let unauthenticated = unauthenticated(coordinator.address, number % 50, b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = File::from(unauthenticated).read_to_end(&mut answer);
    }
    let (waited, begin) = (coordinator.waited(), Instant::now());
    coordinator.ask();
    let took = begin.elapsed().saturating_sub(coordinator.waited().since(&waited));
    assert!(took < ANSWERED_WITHIN, "an honest program waited {took:?}");
    // The pipe is read again: each line is whole, and the buffered lines follow.
    let (mut from, mut printed, begin) = (File::from(from), String::new(), Instant::now());
    let mut bytes = [0; 4096];
    let reported = |printed: &str| printed.contains(" messages were dropped: standard error took none\n");
    while !reported(&printed) || printed.matches("was refused").count() < WAITED {
        let read = from.read(&mut bytes).unwrap();
        printed.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        assert!(read > 0 && begin.elapsed() < SOON, "{printed}");
    }
    let whole = printed.rsplit_once('\n').map_or("", |(whole, _)| whole);
    assert!(whole.lines().all(|line| line.contains(" accord-coordinator ")), "{printed}");
}
