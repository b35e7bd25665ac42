//! A stream's next push may send its bytes before earlier ones have landed.

use super::*;
use crate::transfer::chunk_io::{read_bytes, read_chunk};
use crate::transfer::{Pushing, PushingStream};
use accord_types::{DeviceId, NodeId, StreamId};
use std::time::{Duration, Instant};

const STREAM: PushingStream = (DeviceId { node: NodeId(1), ordinal: 0 }, StreamId(3));
const SOON: Duration = Duration::from_secs(20);

/// Returns a target that receives four bytes, and sends them to `to` with their [`TransferEnding`].
fn keeper(to: mpsc::Sender<(Vec<u8>, TransferEnding)>) -> Arc<dyn TransferTarget> {
    let take = move |mut bytes: IncomingBytes, ending: TransferEnding| {
        let mut buffer = vec![0; 4];
        bytes.fill(&mut buffer);
        drop(bytes);
        to.send((buffer, ending)).unwrap();
    };
    Arc::new(Taker { take, handle: b"" })
}

/// Starts a push and its expected transfer, whose bytes may be sent if it is `due`.
fn pushed(two: &Two, number: u64, due: bool, to: &mpsc::Sender<(Vec<u8>, TransferEnding)>) -> Pushing {
    let transfer = TransferId(number);
    let pushing = two.pusher.push(transfer, TARGET, 4, two.outbox.clone()).unwrap().of(STREAM);
    two.target.expect(transfer, PUSHER, 4, keeper(to.clone())).unwrap();
    if due {
        two.target.due(transfer, Ok(()));
    }
    pushing
}

fn await_follows(pushing: &Pushing) {
    let start = Instant::now();
    while !pushing.follows() {
        assert!(start.elapsed() < SOON, "the target is not ready");
        std::thread::yield_now();
    }
}

#[test]
fn a_sent_push_releases_its_lane_before_it_has_landed() {
    let two = two();
    let (to, from) = mpsc::channel();
    let mut first = pushed(&two, 1, true, &to);
    let mut second = pushed(&two, 2, true, &to);
    let third = pushed(&two, 3, false, &to);
    await_follows(&first);
    await_follows(&second);
    assert!(!third.follows(), "its target is not ready");
    first.drain(b"ab").unwrap();
    first.drain(b"cd").unwrap();
    assert!(first.drain(b"e").unwrap_err().cause().contains("too many bytes"));
    second.drain(b"efgh").unwrap();
    let (one, other) = (from.recv_timeout(SOON).unwrap(), from.recv_timeout(SOON).unwrap());
    assert_eq!((&one.0[..], &other.0[..]), (&b"abcd"[..], &b"efgh"[..]));
    let ended = std::thread::spawn(move || first.finish().and_then(|()| second.finish()));
    // They land in any order.
    other.1.landed(Ok(()));
    one.1.landed(Ok(()));
    ended.join().unwrap().unwrap();
    two.target.due(TransferId(3), Ok(()));
    await_follows(&third);
}

/// A push never uses a faster lane than the stream's earlier pushes.
#[test]
fn pushes_of_one_stream_use_the_same_lane() {
    let two = two();
    let (to, _from) = mpsc::channel();
    let (near, far) = crate::transport::pair().unwrap();
    two.outbox.add(near);
    // The first lane is in use meanwhile.
    let mut other = pushed(&two, 7, true, &to);
    other.drain(b"wx").unwrap();
    let mut first = pushed(&two, 1, true, &to);
    first.drain(b"abcd").unwrap();
    other.drain(b"yz").unwrap();
    let mut second = pushed(&two, 2, true, &to);
    second.drain(b"efgh").unwrap();
    drop((first, second, other));
    // Nothing of the stream is in flight, so that the first lane is used again.
    let mut third = pushed(&two, 3, true, &to);
    third.drain(b"ijkl").unwrap();
    two.outbox.close(&Error::new(ErrorCode::DeviceShutdown, "over"));
    let mut received = Vec::new();
    while let Some(chunk) = read_chunk(&*far).unwrap() {
        let mut bytes = vec![0; chunk.len];
        read_bytes(&*far, &mut bytes).unwrap();
        received.push((chunk.transfer.0, bytes));
    }
    assert_eq!(received, [(1, b"abcd".to_vec()), (2, b"efgh".to_vec())]);
}

#[test]
fn a_sent_push_can_not_be_aborted() {
    let two = two();
    let (to, from) = mpsc::channel();
    let mut first = pushed(&two, 1, true, &to);
    first.drain(b"abcd").unwrap();
    // The stream has failed. The target gets no abort, which would end the lane.
    drop(first);
    from.recv_timeout(SOON).unwrap().1.landed(Ok(()));
    let mut second = pushed(&two, 2, true, &to);
    second.drain(b"efgh").unwrap();
    from.recv_timeout(SOON).unwrap().1.landed(Ok(()));
    second.finish().unwrap();
    assert!(two.pusher.lock().table.pushes() == 0 && two.target.lock().table.expects() == 0);
}
