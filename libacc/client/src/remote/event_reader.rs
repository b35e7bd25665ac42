//! Reads a command lane's events: looks for a while before it sleeps.

use accord_device::SpinPolicy;
use accord_fabric::frame::FrameReader;
use accord_fabric::transport::Lane;
use std::io::ErrorKind;
use std::time::Instant;

/// The reading side of a command lane.
pub(super) struct EventReader {
    pub(super) frames: FrameReader,
    spin: SpinPolicy,
}

impl EventReader {
    pub(super) fn new() -> Self {
        Self { frames: FrameReader::default(), spin: SpinPolicy::default() }
    }

    /// Reads once, whatever comes; looks for a while before it sleeps. False at the stream's end.
    pub(super) fn fill(&mut self, lane: &dyn Lane) -> std::io::Result<bool> {
        let start = Instant::now();
        let limit = self.spin.limit();
        while start.elapsed() < limit {
            match self.frames.fill(|bytes| lane.try_read(bytes)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                came => {
                    self.spin.waited(start.elapsed());
                    return came;
                }
            }
        }
        let came = self.frames.fill(|bytes| lane.read(bytes));
        self.spin.waited(start.elapsed());
        came
    }
}
