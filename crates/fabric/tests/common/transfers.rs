//! One transfer over a lane between two ranks, and the ranks' counts for it.

use super::SOON;
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::{Inbox, Incoming, Outbox};
use accord_fabric::transport::SharedLane;
use accord_fabric::transport::mpi::{Counts, MpiFabric};
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::sync::{Arc, mpsc};

/// Sends a transfer as a push does, and receives it as its target does, at most `piece` bytes at a time. Returns each rank's counts for it, and how
/// the lane ended for its reader.
pub(crate) fn transfer(
    ranks: [&MpiFabric; 2],
    (from, to): (SharedLane, SharedLane),
    bytes: &[u8],
    piece: usize,
) -> ([Counts; 2], Result<()>) {
    let (stats, inbox) = (Arc::<LinkStats>::default(), Inbox::new(Arc::default(), false));
    let (taken, takes) = mpsc::channel();
    let len = bytes.len();
    let take = move |mut incoming: Incoming| {
        let mut all = vec![0; len];
        all.chunks_mut(piece).for_each(|space| incoming.fill(space).unwrap());
        taken.send(all).unwrap();
    };
    inbox.post(TransferId(7), len as u64, Box::new(take));
    let before = ranks.map(MpiFabric::counts);
    let outbox = Outbox::new(stats.clone());
    outbox.add(from);
    let reader = std::thread::spawn(move || inbox.serve(&to));
    outbox.begin(TransferId(7), len as u64).unwrap().send(bytes).unwrap();
    assert!(takes.recv_timeout(SOON).unwrap() == bytes);
    assert!(stats.read().bulk_sent >= len as u64);
    let after = ranks.map(MpiFabric::counts);
    outbox.close(&Error::new(ErrorCode::DeviceShutdown, "over"));
    let ended = reader.join().unwrap();
    let since = |rank: usize| Counts {
        messages: after[rank].messages - before[rank].messages,
        exposed_messages: after[rank].exposed_messages - before[rank].exposed_messages,
        exposed_bytes: after[rank].exposed_bytes - before[rank].exposed_bytes,
        copied_bytes: after[rank].copied_bytes - before[rank].copied_bytes,
        news: after[rank].news - before[rank].news,
        passed: after[rank].passed - before[rank].passed,
        handed: after[rank].handed - before[rank].handed,
    };
    ([since(0), since(1)], ended)
}
