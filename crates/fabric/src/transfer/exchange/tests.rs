use super::*;
use crate::transport::ReceiveEnded;
use accord_types::{ErrorCode, NativeRange};
use std::num::NonZeroU16;
use std::sync::mpsc;

mod follows;
mod owners;

const PUSHER: PeerId = PeerId::from_raw(1);
const TARGET: PeerId = PeerId::from_raw(2);

struct Line(mpsc::Sender<ControlMessage>);

impl TransferControl for Line {
    fn send(&self, message: ControlMessage) {
        self.0.send(message).unwrap();
    }
    fn post(&self, _room: NativeRange, _told: ReceiveEnded) -> Option<(NonZeroU16, Arc<dyn PostedReceive>)> {
        None
    }
}

/// A destination in memory of the test, which receives bytes by a function.
struct Taker<F> {
    take: F,
    handle: &'static [u8],
}

impl<F: Fn(IncomingBytes, TransferEnding) + Send + Sync> TransferTarget for Taker<F> {
    fn export(&self) -> Vec<u8> {
        self.handle.to_vec()
    }
    fn native(&self) -> Option<(Arc<DeviceReceives>, NativeRange)> {
        None
    }
    fn is_free(&self) -> bool {
        true
    }
    fn start(&self, bytes: IncomingBytes, ending: TransferEnding) {
        (self.take)(bytes, ending);
    }
}

struct Two {
    pusher: Arc<Exchange>,
    target: Arc<Exchange>,
    outbox: Arc<Outbox>,
}

/// Returns two exchanges in one process: peer 1 pushes to peer 2 over a real lane.
fn two() -> Two {
    let (near, far) = crate::transport::pair().unwrap();
    let (pusher, target) = (Exchange::new(), Exchange::new());
    let outbox = Outbox::new(Arc::default());
    outbox.add(near);
    let inbox = Inbox::new(Arc::default(), false);
    let (line, messages) = mpsc::channel();
    target.arrived(PUSHER, Arc::new(Line(line)), inbox.clone());
    std::thread::spawn(move || inbox.serve(&far));
    let (listening, lanes) = (pusher.clone(), outbox.clone());
    std::thread::spawn(move || {
        for message in messages {
            listening.on_control(TARGET, message, &lanes).unwrap();
        }
    });
    Two { pusher, target, outbox }
}

/// Returns a target that receives all bytes at once and sends them to `to`. It exports `handle`.
fn taker(len: usize, to: mpsc::Sender<Vec<u8>>, handle: &'static [u8]) -> Arc<dyn TransferTarget> {
    let take = move |mut bytes: IncomingBytes, ending: TransferEnding| {
        let mut buffer = vec![0; len];
        bytes.fill(&mut buffer);
        drop(bytes);
        to.send(buffer).unwrap();
        ending.landed(Ok(()));
    };
    Arc::new(Taker { take, handle })
}

#[test]
fn a_push_waits_for_ready_and_ends_with_landed() {
    let two = two();
    let (to, from) = mpsc::channel();
    let mut pushing = two.pusher.push(TransferId(1), TARGET, 4, two.outbox.clone()).unwrap();
    let thread = std::thread::spawn(move || pushing.drain(b"abcd").and_then(|()| pushing.finish()));
    two.target.expect(TransferId(1), PUSHER, 4, taker(4, to, b"")).unwrap();
    assert!(from.try_recv().is_err());
    two.target.due(TransferId(1), Ok(()));
    thread.join().unwrap().unwrap();
    assert_eq!(from.recv().unwrap(), b"abcd");
    assert!(two.pusher.lock().table.pushes() == 0 && two.target.lock().table.expects() == 0);
}

#[test]
fn a_refusal_reaches_the_pusher() {
    let two = two();
    let (to, _from) = mpsc::channel();
    let mut pushing = two.pusher.push(TransferId(1), TARGET, 4, two.outbox.clone()).unwrap();
    two.target.expect(TransferId(1), PUSHER, 4, taker(4, to, b"")).unwrap();
    two.target.due(TransferId(1), Err(Error::new(ErrorCode::Execution, "crashed")));
    assert_eq!(pushing.drain(b"abcd").unwrap_err().cause(), "crashed");
    drop(pushing);
    assert!(two.pusher.lock().table.pushes() == 0 && two.target.lock().table.expects() == 0);
}

#[test]
fn an_abandoned_push_frees_the_target_and_the_next_one_lands() {
    let two = two();
    let (to, from) = mpsc::channel();
    drop(two.pusher.push(TransferId(1), TARGET, 4, two.outbox.clone()).unwrap());
    two.target.expect(TransferId(1), PUSHER, 4, taker(4, to.clone(), b"")).unwrap();
    two.target.due(TransferId(1), Ok(()));
    let mut pushing = two.pusher.push(TransferId(2), TARGET, 4, two.outbox.clone()).unwrap();
    two.target.expect(TransferId(2), PUSHER, 4, taker(4, to, b"")).unwrap();
    two.target.due(TransferId(2), Ok(()));
    pushing.drain(b"ef").unwrap();
    pushing.drain(b"gh").unwrap();
    pushing.finish().unwrap();
    assert_eq!(from.recv().unwrap(), b"efgh");
    assert!(from.try_recv().is_err());
    assert!(two.pusher.lock().table.pushes() == 0 && two.target.lock().table.expects() == 0);
}

#[test]
fn losing_the_target_ends_a_push() {
    let two = two();
    let mut pushing = two.pusher.push(TransferId(1), TARGET, 4, two.outbox.clone()).unwrap();
    let thread = std::thread::spawn(move || pushing.drain(b"abcd"));
    two.pusher.push_lost(TARGET, &Error::new(ErrorCode::DeviceUnavailable, "h2 is gone"));
    assert_eq!(thread.join().unwrap().unwrap_err().cause(), "h2 is gone");
}

#[test]
fn bytes_bypass_the_lane_if_the_target_sends_a_handle() {
    let two = two();
    let (to, from) = mpsc::channel();
    for (number, handle) in [(1, &b"there"[..]), (2, b"")] {
        let transfer = TransferId(number);
        let mut pushing = two.pusher.push(transfer, TARGET, 4, two.outbox.clone()).unwrap();
        two.target.expect(transfer, PUSHER, 4, taker(4, to.clone(), handle)).unwrap();
        two.target.due(transfer, Ok(()));
        let reached = pushing.reach(|offered| Some(offered.to_vec())).unwrap();
        assert_eq!(reached.as_deref(), Some(handle).filter(|handle| !handle.is_empty()));
        if reached.is_none() {
            pushing.drain(b"abcd").unwrap();
        }
        pushing.finish().unwrap();
    }
    assert_eq!(from.recv().unwrap(), b"abcd", "only the second one came over the lane");
    assert!(from.try_recv().is_err());
    assert!(two.pusher.lock().table.pushes() == 0 && two.target.lock().table.expects() == 0);
}

#[test]
fn an_unused_handle_leaves_no_state() {
    let two = two();
    let (to, from) = mpsc::channel();
    let mut pushing = two.pusher.push(TransferId(1), TARGET, 4, two.outbox.clone()).unwrap();
    two.target.expect(TransferId(1), PUSHER, 4, taker(4, to, b"there")).unwrap();
    two.target.due(TransferId(1), Ok(()));
    pushing.drain(b"abcd").unwrap();
    pushing.finish().unwrap();
    assert_eq!(from.recv().unwrap(), b"abcd");
    assert_eq!(two.pusher.lock().table.pushes(), 0);
}

#[test]
fn a_blocked_push_goes_on_when_a_copy_is_over() {
    let two = two();
    let begin = |number: u32| two.pusher.push(TransferId(number.into()), TARGET, 4, two.outbox.clone()).unwrap();
    let mut pushing: Vec<_> = (0..EXCHANGE_WINDOW).map(begin).collect();
    let pusher = two.pusher.clone();
    let waiting = std::thread::spawn(move || pusher.wait_to_push());
    assert!(two.target.wait_to_expect().is_ok());
    let last = pushing.pop();
    // The push is tracked until its target has answered.
    drop(last);
    let refused =
        ControlMessage::Refused(TransferId(u64::from(EXCHANGE_WINDOW) - 1), Error::new(ErrorCode::Execution, "no"));
    two.pusher.on_control(TARGET, refused, &two.outbox).unwrap();
    waiting.join().unwrap().unwrap();
    two.pusher.close(&Error::new(ErrorCode::DeviceShutdown, "over"));
    assert!(two.pusher.wait_to_push().is_err());
}

#[test]
fn a_direct_copy_to_a_lost_target_fails() {
    let two = two();
    let (to, _from) = mpsc::channel();
    let mut pushing = two.pusher.push(TransferId(1), TARGET, 4, two.outbox.clone()).unwrap();
    two.target.expect(TransferId(1), PUSHER, 4, taker(4, to, b"there")).unwrap();
    two.target.due(TransferId(1), Ok(()));
    assert!(pushing.reach(|_| Some(())).unwrap().is_some());
    two.pusher.push_lost(TARGET, &Error::new(ErrorCode::DeviceUnavailable, "gone"));
    assert_eq!(pushing.finish().unwrap_err().cause(), "gone");
    drop(pushing);
    assert!(two.pusher.lock().table.pushes() == 0);
}
