//! Counters of a link, for tests and for diagnosis.

use crate::stalls::Stalls;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of one link, by direction and lane. Payload and headers both count.
#[derive(Default)]
pub struct LinkStats {
    /// Bytes sent on the command lane.
    pub command_sent: AtomicU64,
    /// Bytes received on the command lane.
    pub command_received: AtomicU64,
    /// Bytes sent on bulk or peer lanes.
    pub bulk_sent: AtomicU64,
    /// Bytes received on bulk or peer lanes.
    pub bulk_received: AtomicU64,
    /// Nanoseconds that threads spent writing to bulk or peer lanes.
    pub bulk_sent_ns: AtomicU64,
    /// Nanoseconds that threads spent reading from bulk or peer lanes, each from a chunk's header on.
    pub bulk_received_ns: AtomicU64,
    /// Times that a thread blocked for an answer.
    pub round_trips: AtomicU64,
    /// Times that a thread blocked for credit.
    pub credit_stalls: AtomicU64,
    /// Threads blocked on the peer.
    pub stalls: Stalls,
}

/// The values of [`LinkStats`] at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Value of [`LinkStats::command_sent`].
    pub command_sent: u64,
    /// Value of [`LinkStats::command_received`].
    pub command_received: u64,
    /// Value of [`LinkStats::bulk_sent`].
    pub bulk_sent: u64,
    /// Value of [`LinkStats::bulk_received`].
    pub bulk_received: u64,
    /// Value of [`LinkStats::bulk_sent_ns`].
    pub bulk_sent_ns: u64,
    /// Value of [`LinkStats::bulk_received_ns`].
    pub bulk_received_ns: u64,
    /// Value of [`LinkStats::round_trips`].
    pub round_trips: u64,
    /// Value of [`LinkStats::credit_stalls`].
    pub credit_stalls: u64,
}

impl LinkStats {
    /// Adds to one of the counters.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds the time since `begin`, in nanoseconds.
    pub(crate) fn add_since(counter: &AtomicU64, begin: Instant) {
        Self::add(counter, u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the current values.
    pub fn read(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            command_sent: read(&self.command_sent),
            command_received: read(&self.command_received),
            bulk_sent: read(&self.bulk_sent),
            bulk_received: read(&self.bulk_received),
            bulk_sent_ns: read(&self.bulk_sent_ns),
            bulk_received_ns: read(&self.bulk_received_ns),
            round_trips: read(&self.round_trips),
            credit_stalls: read(&self.credit_stalls),
        }
    }
}

impl Counters {
    /// Appends the values to a payload.
    pub fn encode(&self, payload: &mut Vec<u8>) {
        let values = [
            self.command_sent,
            self.command_received,
            self.bulk_sent,
            self.bulk_received,
            self.bulk_sent_ns,
            self.bulk_received_ns,
            self.round_trips,
            self.credit_stalls,
        ];
        payload.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    /// Decodes the output of [`Counters::encode`]. Returns the bytes that follow it; missing values are 0.
    pub fn decode(payload: &[u8]) -> (Self, &[u8]) {
        let mut rest = payload;
        let mut next = || {
            let (value, tail) = rest.split_first_chunk::<8>()?;
            rest = tail;
            Some(u64::from_le_bytes(*value))
        };
        let counters = Self {
            command_sent: next().unwrap_or_default(),
            command_received: next().unwrap_or_default(),
            bulk_sent: next().unwrap_or_default(),
            bulk_received: next().unwrap_or_default(),
            bulk_sent_ns: next().unwrap_or_default(),
            bulk_received_ns: next().unwrap_or_default(),
            round_trips: next().unwrap_or_default(),
            credit_stalls: next().unwrap_or_default(),
        };
        (counters, rest)
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "commands {} B out, {} B in; bulk {} B out, {} B in; {} round trips, {} credit stalls",
            self.command_sent,
            self.command_received,
            self.bulk_sent,
            self.bulk_received,
            self.round_trips,
            self.credit_stalls
        )
    }
}
