//! The words by which the keeper of a device's turns and the threads that launch regions know of each other. Those of a
//! CPU device are in memory that its worker shares.

use crate::cpu::futex;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// Regions start.
const OPEN: u32 = 0;
/// Regions start, and the keeper is woken once there are none.
const LIMITED: u32 = 1;
/// Regions wait, and the keeper is woken at each region's end.
const CLOSED: u32 = 2;

/// Longest sleep, so that a lost wake-up never becomes a hang.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Whether regions of a device may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    Open,
    Limited,
    Closed,
}

/// The gate of a device, and the doorbell of its keeper. Zeros are an open gate.
#[repr(C)]
#[derive(Debug, Default)]
pub struct TurnWords {
    gate: AtomicU32,
    /// Number of threads whose region waits.
    parked: AtomicU32,
    doorbell: AtomicU32,
}

impl TurnWords {
    /// Whether regions start, and may run as long as they like.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.gate.load(Ordering::Relaxed) == OPEN
    }

    /// Whether regions must wait. Sequentially consistent: a region is announced before, and the gate is closed before
    /// announcements are read.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.gate.load(Ordering::SeqCst) == CLOSED
    }

    /// Blocks until regions may start. The caller's region is ready to run.
    #[cold]
    pub fn park(&self) {
        self.parked.fetch_add(1, Ordering::SeqCst);
        self.ring();
        while self.is_closed() {
            futex::wait(&self.gate, CLOSED, Some(CHECK_INTERVAL));
        }
        self.parked.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the keeper after a region, if it waits for the end of all regions.
    #[inline]
    pub fn region_ended(&self) {
        if self.is_closed() {
            self.ring();
        }
    }

    /// Wakes the keeper before the calling thread waits for further work, if the turn ends without work.
    pub fn becomes_idle(&self) {
        fence(Ordering::SeqCst);
        if self.gate.load(Ordering::Relaxed) == LIMITED {
            self.ring();
        }
    }

    pub fn ring(&self) {
        self.doorbell.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&self.doorbell);
    }

    pub(super) fn doorbell(&self) -> u32 {
        self.doorbell.load(Ordering::SeqCst)
    }

    /// Sleeps until the doorbell has rung since it was `seen`, or for `limit`.
    pub(super) fn await_doorbell(&self, seen: u32, limit: Option<Duration>) {
        futex::wait(&self.doorbell, seen, limit);
    }

    pub(super) fn parked(&self) -> bool {
        self.parked.load(Ordering::SeqCst) > 0
    }

    pub(super) fn set(&self, gate: Gate) {
        let value = match gate {
            Gate::Open => OPEN,
            Gate::Limited => LIMITED,
            Gate::Closed => CLOSED,
        };
        if self.gate.swap(value, Ordering::SeqCst) == CLOSED && gate != Gate::Closed {
            futex::wake_all(&self.gate);
        }
    }
}
