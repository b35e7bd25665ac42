//! Reads a command lane's events for a waiting thread of the program: spins before blocking.

use accord_fabric::frame::FrameReader;
use accord_fabric::transport::Lane;
use accord_types::spin_policy::SpinPolicy;
use std::io::ErrorKind;
use std::time::Instant;

/// The reader's state of a command lane.
pub(super) struct EventReader {
    pub(super) frames: FrameReader,
    spin: SpinPolicy,
}

impl EventReader {
    pub(super) fn new() -> Self {
        Self { frames: FrameReader::default(), spin: SpinPolicy::long_spin() }
    }

    /// Reads once, after spinning for a while. Returns `false` at the stream's end.
    pub(super) fn fill(&mut self, lane: &dyn Lane) -> std::io::Result<bool> {
        let looks = lane.properties().polls_per_yield;
        let mut try_read = || {
            // Where the check needs no system call it comes first, because a try to read takes longer.
            if looks > 1 && !lane.is_readable() {
                return None;
            }
            match self.frames.fill(|bytes| lane.try_read(bytes)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                received => Some(received),
            }
        };
        if looks > 1
            && let Some(received) = self.spin.quickly(&mut try_read)
        {
            return received;
        }
        let start = Instant::now();
        let received = match self.spin.spin(start, looks, &mut try_read) {
            Some(received) => received,
            None => self.frames.fill(|bytes| lane.read(bytes)),
        };
        self.spin.waited(start.elapsed());
        received
    }
}
