//! Lanes over every transport.
#![allow(dead_code, reason = "each test uses some of it")]

use accord_fabric::transport::{SharedLane, Transport, inproc_pair, pair, shm_pair};
use std::time::Duration;

/// More than anything here takes, on a crowded machine too.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Less than a test may wait, and more than what must not wait takes.
pub(crate) const SHORT: Duration = Duration::from_millis(50);

pub(crate) const ALL: [Transport; 3] = [Transport::Inproc, Transport::Shm, Transport::Tcp];

/// Both ends of a lane.
pub(crate) fn ends(transport: Transport) -> (SharedLane, SharedLane) {
    let (near, far) = match transport {
        Transport::Inproc => inproc_pair(),
        Transport::Shm => shm_pair().unwrap(),
        Transport::Tcp => pair().unwrap(),
    };
    assert_eq!(near.transport(), transport);
    for lane in [&near, &far] {
        // So that a test that waits for ever fails.
        lane.limit(Some(SOON)).unwrap();
    }
    (near, far)
}

/// Bytes of which a missing or a moved one shows.
pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + seed) as u8).collect()
}
