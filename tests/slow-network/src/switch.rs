//! A switch that hands every frame on a fixed time after it came: what it does with frames, without I/O and clock.

use crate::frame::{Address, Frame, is_group};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Most frames that are on their way at once: ten times those of 1 ms between three hosts at 1 Gbit/s.
pub const FRAMES_MAX: usize = 8 << 10;
/// Most bytes of them.
pub const BYTES_MAX: usize = 16 << 20;
/// Most addresses that it remembers.
pub const ADDRESSES_MAX: usize = 1 << 10;

/// Ports are numbered from 0. Time is since any moment, and never goes back.
pub struct Switch {
    delay: Duration,
    /// At which port an address was seen last.
    learned: HashMap<Address, usize>,
    /// In the order in which they came, and so in which they leave.
    held: VecDeque<Held>,
    bytes: usize,
    /// For each port, what [`Counts::hops`] is about.
    hops: Vec<u64>,
    counts: Counts,
}

struct Held {
    due: Duration,
    leaving: Leaving,
    /// With this one, how many hops come one after the other; none if it carries nothing.
    hops: Option<u64>,
}

/// A frame that leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaving {
    /// The ports that it goes to.
    pub to: Vec<usize>,
    /// As it came.
    pub frame: Frame,
}

/// What has come of all frames. Those that are in none of these are on their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Frames that came.
    pub taken: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that have left.
    pub left: u64,
    /// Frames that came when there was no room.
    pub no_room: u64,
    /// Frames to where they came from.
    pub back: u64,
    /// Ways from host to host that were gone one after the other, as each may have been an answer to what the one before brought: the longest such
    /// chain of frames with payload. A round trip is two. What is sent without waiting for answers adds none.
    pub hops: u64,
}

impl Switch {
    /// One with so many ports.
    pub fn new(ports: usize, delay: Duration) -> Self {
        let (learned, held) = (HashMap::new(), VecDeque::new());
        Self { delay, learned, held, bytes: 0, hops: vec![0; ports], counts: Counts::default() }
    }

    /// A frame has come by a port.
    pub fn take(&mut self, now: Duration, from: usize, frame: Frame) {
        let len = frame.bytes().len();
        self.counts.taken += 1;
        self.counts.bytes += len as u64;
        self.learn(frame.source(), from);
        let to = self.targets(from, frame.target());
        if to.is_empty() {
            self.counts.back += 1;
        } else if self.held.len() >= FRAMES_MAX || self.bytes + len > BYTES_MAX {
            self.counts.no_room += 1;
        } else {
            let hops = frame.has_payload().then(|| self.hops[from] + 1);
            self.counts.hops = self.counts.hops.max(hops.unwrap_or_default());
            self.bytes += len;
            self.held.push_back(Held { due: now + self.delay, leaving: Leaving { to, frame }, hops });
        }
    }

    /// The next one that leaves now.
    pub fn leave(&mut self, now: Duration) -> Option<Leaving> {
        self.due().filter(|&due| due <= now)?;
        let held = self.held.pop_front()?;
        self.bytes -= held.leaving.frame.bytes().len();
        self.counts.left += 1;
        for &to in held.leaving.to.iter().filter(|_| held.hops.is_some()) {
            self.hops[to] = self.hops[to].max(held.hops.unwrap_or_default());
        }
        Some(held.leaving)
    }

    /// When the next one leaves.
    pub fn due(&self) -> Option<Duration> {
        self.held.front().map(|held| held.due)
    }

    /// What has come of all.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn learn(&mut self, address: Address, port: usize) {
        let room = self.learned.len() < ADDRESSES_MAX || self.learned.contains_key(&address);
        if room {
            self.learned.insert(address, port);
        }
    }

    /// None if it is for the port that it came by.
    fn targets(&self, from: usize, address: Address) -> Vec<usize> {
        let known = self.learned.get(&address).filter(|_| !is_group(address));
        match known {
            Some(&port) => Some(port).filter(|&port| port != from).into_iter().collect(),
            None => (0..self.hops.len()).filter(|&port| port != from).collect(),
        }
    }
}
