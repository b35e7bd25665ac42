//! Reads a command lane's events for a thread of the program that waits: looks for a while before it sleeps.

use accord_fabric::frame::FrameReader;
use accord_fabric::transport::Lane;
use accord_types::spin_policy::{Looked, SpinPolicy, look_for};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// The reading side of a command lane.
pub(super) struct EventReader {
    pub(super) frames: FrameReader,
    spin: SpinPolicy,
}

impl EventReader {
    pub(super) fn new() -> Self {
        Self { frames: FrameReader::default(), spin: SpinPolicy::patient() }
    }

    /// Reads once, whatever comes; looks for a while before it sleeps. False at the stream's end.
    pub(super) fn fill(&mut self, lane: &dyn Lane) -> std::io::Result<bool> {
        let looks = lane.properties().polls_per_yield;
        let mut try_read = || {
            // Where a look is no system call it comes first: to try to read takes longer.
            if looks > 1 && !lane.is_readable() {
                return None;
            }
            match self.frames.fill(|bytes| lane.try_read(bytes)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                came => Some(came),
            }
        };
        if looks > 1
            && let Some(came) = self.spin.quickly(&mut try_read)
        {
            return came;
        }
        let start = Instant::now();
        let limit = self.spin.limit();
        let looked =
            if limit > Duration::ZERO { look_for(start, limit, looks, &mut try_read) } else { Err(Looked::Late) };
        let came = match looked {
            Ok(came) => came,
            Err(why) => {
                if why == Looked::Crowded {
                    self.spin.crowded();
                }
                self.frames.fill(|bytes| lane.read(bytes))
            }
        };
        self.spin.waited(start.elapsed());
        came
    }
}
