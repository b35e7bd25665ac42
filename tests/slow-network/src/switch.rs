//! A switch that forwards every frame after a fixed delay: the decisions, without I/O and clock.

use crate::frame::{Address, Frame, is_group};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Most frames in flight: ten times those of 1 ms between three hosts at 1 Gbit/s.
pub const FRAMES_MAX: usize = 8 << 10;
/// Most bytes in flight.
pub const BYTES_MAX: usize = 16 << 20;
/// Most learned addresses.
pub const ADDRESSES_MAX: usize = 1 << 10;

/// Ports are numbered from 0. Times are relative to any moment, and never go back.
pub struct Switch {
    delay: Duration,
    /// The port at which each address was seen last.
    learned: HashMap<Address, usize>,
    /// Frames in the order of their arrival, which is also that of their departure.
    held: VecDeque<Held>,
    bytes: usize,
    /// For each port, the number of hops in [`Counts::hops`].
    hops: Vec<u64>,
    counts: Counts,
}

struct Held {
    due: Duration,
    leaving: OutgoingFrame,
    /// Number of consecutive hops including this frame, or `None` if it has no payload.
    hops: Option<u64>,
}

/// A frame to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingFrame {
    /// The destination ports.
    pub to: Vec<usize>,
    /// The unchanged frame.
    pub frame: Frame,
}

/// Counts of all frames. Frames in none of these are in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Received frames.
    pub taken: u64,
    /// Bytes of received frames.
    pub bytes: u64,
    /// Sent frames.
    pub left: u64,
    /// Frames dropped because the queue was full.
    pub no_space: u64,
    /// Frames whose destination is the port of their arrival.
    pub back: u64,
    /// The longest chain of frames with payload in which each may answer the one before. A round trip is two.
    /// Data sent without waiting for answers adds none.
    pub hops: u64,
}

impl Switch {
    /// Creates a switch with so many ports.
    pub fn new(ports: usize, delay: Duration) -> Self {
        let (learned, held) = (HashMap::new(), VecDeque::new());
        Self { delay, learned, held, bytes: 0, hops: vec![0; ports], counts: Counts::default() }
    }

    /// Handles a frame that arrives at a port.
    pub fn take(&mut self, now: Duration, from: usize, frame: Frame) {
        let len = frame.bytes().len();
        self.counts.taken += 1;
        self.counts.bytes += len as u64;
        self.learn(frame.source(), from);
        let to = self.targets(from, frame.target());
        if to.is_empty() {
            self.counts.back += 1;
        } else if self.held.len() >= FRAMES_MAX || self.bytes + len > BYTES_MAX {
            self.counts.no_space += 1;
        } else {
            let hops = frame.has_payload().then(|| self.hops[from] + 1);
            self.counts.hops = self.counts.hops.max(hops.unwrap_or_default());
            self.bytes += len;
            self.held.push_back(Held { due: now + self.delay, leaving: OutgoingFrame { to, frame }, hops });
        }
    }

    /// Removes and returns the next frame that is due.
    pub fn leave(&mut self, now: Duration) -> Option<OutgoingFrame> {
        self.due().filter(|&due| due <= now)?;
        let held = self.held.pop_front()?;
        self.bytes -= held.leaving.frame.bytes().len();
        self.counts.left += 1;
        for &to in held.leaving.to.iter().filter(|_| held.hops.is_some()) {
            self.hops[to] = self.hops[to].max(held.hops.unwrap_or_default());
        }
        Some(held.leaving)
    }

    /// Returns when the next frame is due.
    pub fn due(&self) -> Option<Duration> {
        self.held.front().map(|held| held.due)
    }

    /// Returns the counts.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn learn(&mut self, address: Address, port: usize) {
        let space = self.learned.len() < ADDRESSES_MAX || self.learned.contains_key(&address);
        if space {
            self.learned.insert(address, port);
        }
    }

    /// Returns the destinations, or `None` if the destination is the port of arrival.
    fn targets(&self, from: usize, address: Address) -> Vec<usize> {
        let known = self.learned.get(&address).filter(|_| !is_group(address));
        match known {
            Some(&port) => Some(port).filter(|&port| port != from).into_iter().collect(),
            None => (0..self.hops.len()).filter(|&port| port != from).collect(),
        }
    }
}
