//! Transfers whose target posts a receive. The bytes arrive as one message, and in no case is any other memory written.

mod common;

use accord_fabric::frame::transfer::{Chunk, ChunkKind};
use accord_fabric::peer::PeerId;
use accord_fabric::stalls::Stalls;
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::{
    ControlSender, DeviceReceives, Exchange, Inbox, IncomingBytes, Outbox, Pushing, TransferEnding, TransferTarget,
    receive_control, write_chunk,
};
use accord_fabric::transport::SharedLane;
use accord_fabric::transport::mpi::MpiFabric;
use accord_types::{AddressRange, DevicePtr, NativeContext, NativeRange, TransferId};
use common::worlds::two_ranks;
use common::{SOON, pattern};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

const LEN: usize = 1 << 20;
const PUSHER: PeerId = PeerId::from_raw(1);
const TARGET: PeerId = PeerId::from_raw(2);
/// More than can be posted at once.
const MANY: u64 = 70;

/// Returns memory that stands for a device's.
fn native(memory: &mut [u8]) -> NativeRange {
    let context = NativeContext::new(77, |_| true);
    NativeRange { address: memory.as_mut_ptr().expose_provenance() as u64, len: memory.len(), context }
}

/// A destination in memory that stands for a device's.
struct TargetOfTest<T> {
    receive: NativeRange,
    device: Arc<DeviceReceives>,
    is_free: bool,
    by_lane: Arc<AtomicUsize>,
    _held: Mutex<T>,
}

impl<T: Send> TransferTarget for TargetOfTest<T> {
    fn export(&self) -> Vec<u8> {
        Vec::new()
    }

    fn native(&self) -> Option<(Arc<DeviceReceives>, NativeRange)> {
        Some((self.device.clone(), self.receive))
    }

    fn is_free(&self) -> bool {
        self.is_free
    }

    fn start(&self, mut bytes: IncomingBytes, ending: TransferEnding) {
        self.by_lane.fetch_add(1, Ordering::Relaxed);
        let mut taken = vec![0; self.receive.len];
        bytes.fill(&mut taken);
        drop(bytes);
        ending.landed(Ok(()));
    }
}

/// Two ranks whose exchanges have a peer lane between them, as executors have.
struct Two {
    ranks: [MpiFabric; 2],
    pusher: Arc<Exchange>,
    target: Arc<Exchange>,
    device: Arc<DeviceReceives>,
    outbox: Arc<Outbox>,
    inbox: Arc<Inbox>,
    near: SharedLane,
    far: SharedLane,
    threads: Vec<JoinHandle<()>>,
    /// Number of transfers that have begun to arrive over the lane.
    by_lane: Arc<AtomicUsize>,
}

impl Two {
    fn new() -> Self {
        let two = Self::without_lanes();
        two.ranks.iter().for_each(MpiFabric::take_native);
        two.outbox.add(two.near.clone());
        two
    }

    /// Creates ranks without a lane in the outbox, and without MPI support for device memory.
    fn without_lanes() -> Self {
        let ranks = two_ranks();
        let near = ranks[0].connect(1).unwrap();
        let far = ranks[1].accept().unwrap().0;
        let (pusher, target) = (Exchange::new(), Exchange::new());
        let (outbox, inbox) = (Outbox::new(Arc::default()), Inbox::new(Arc::default(), false));
        let control = ControlSender::new("h2", Arc::default());
        control.connect(far.clone());
        target.arrived(PUSHER, control, inbox.clone());
        let (lane, listening, lanes) = (near.clone(), pusher.clone(), outbox.clone());
        let hears = spawn(move || {
            let take = |message| listening.on_control(TARGET, message, &lanes);
            let _ = receive_control(&*lane, &LinkStats::default(), take);
        });
        let (lane, serving, losing) = (far.clone(), inbox.clone(), target.clone());
        let serves = spawn(move || {
            let _ = serving.serve(&lane);
            losing.peer_lost(PUSHER);
        });
        let by_lane = Arc::default();
        Self {
            ranks,
            pusher,
            target,
            device: Arc::default(),
            outbox,
            inbox,
            near,
            far,
            threads: vec![hears, serves],
            by_lane,
        }
    }

    /// Makes the target expect a transfer into `receive`. `begun` counts those that begin to arrive over the lane.
    fn expect(&self, transfer: u64, receive: NativeRange) {
        self.expect_with(transfer, receive, ());
    }

    /// Expects as [`Two::expect`]. `held` is dropped once no byte can arrive over the lane.
    fn expect_with(&self, transfer: u64, receive: NativeRange, held: impl Send + 'static) {
        self.expect_where(transfer, receive, held, true);
    }

    /// Expects as [`Two::expect_with`]. `is_free`: whether no other operation writes to the memory when the receive is posted.
    fn expect_where(&self, transfer: u64, receive: NativeRange, held: impl Send + 'static, is_free: bool) {
        let (device, by_lane) = (self.device.clone(), self.by_lane.clone());
        let target = TargetOfTest { receive, device, is_free, by_lane, _held: Mutex::new(held) };
        self.target.expect(TransferId(transfer), PUSHER, receive.len as u64, Arc::new(target)).unwrap();
        self.target.due(TransferId(transfer), Ok(()));
    }

    fn push(&self, transfer: u64, len: usize) -> Pushing {
        self.pusher.push(TransferId(transfer), TARGET, len as u64, self.outbox.clone()).unwrap()
    }

    /// Starts a transfer with a posted receive, whose bytes are not sent yet.
    fn begun(&self, transfer: u64, receive: NativeRange) -> Pushing {
        let mut pushing = self.push(transfer, receive.len);
        self.expect(transfer, receive);
        assert!(pushing.drains_native().unwrap());
        pushing
    }

    /// Copies from device memory, from start to end.
    fn copy(&self, transfer: u64, bytes: NativeRange, receive: NativeRange) -> Result<(), accord_types::Error> {
        let mut pushing = self.push(transfer, bytes.len);
        self.expect(transfer, receive);
        assert!(pushing.drains_native()?);
        pushing.drain_native(bytes)?;
        pushing.finish()
    }

    /// Copies as [`Two::copy`], and blocks until the target's threads have recorded the end, of which the pusher learns first.
    fn copy_and_settle(&self, transfer: u64, bytes: NativeRange, receive: NativeRange) {
        let (posted, withdrawn) = mpsc::channel::<()>();
        let mut pushing = self.push(transfer, bytes.len);
        self.expect_with(transfer, receive, posted);
        assert!(pushing.drains_native().unwrap());
        pushing.drain_native(bytes).unwrap();
        pushing.finish().unwrap();
        // The target owns the sender, and is dropped once the inbox no longer expects the transfer.
        assert!(withdrawn.recv().is_err());
    }

    fn by_lane(&self) -> usize {
        self.by_lane.load(Ordering::Relaxed)
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        self.near.shutdown();
        self.far.shutdown();
        self.inbox.close();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_transfer_takes_three_messages_and_no_copies() {
    let two = Two::new();
    let (mut from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    let (bytes, receive) = (native(&mut from), native(&mut to));
    let before = two.ranks.each_ref().map(MpiFabric::counts);
    two.copy_and_settle(1, bytes, receive);
    let after = two.ranks.each_ref().map(MpiFabric::counts);
    assert!(to == from);
    let messages = |rank: usize| after[rank].messages - before[rank].messages;
    let exposed = |rank: usize| after[rank].exposed_messages - before[rank].exposed_messages;
    // The bytes one way; the permission to send and their landing the other way.
    assert_eq!([messages(0), exposed(0), messages(1), exposed(1)], [0, 1, 2, 0]);
    let copied: u64 = (0..2).map(|rank| after[rank].copied_bytes - before[rank].copied_bytes).sum();
    assert!(copied <= 4 * 32, "{copied}");
    assert_eq!((two.by_lane(), two.inbox.len()), (0, 0));
}

/// Blocks the thread that drops the value.
struct Holds(mpsc::Receiver<()>);

impl Drop for Holds {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

/// The thread that owns MPI reports the landing: that saves one thread, one lane and one reader.
#[test]
fn a_pusher_knows_what_has_landed_before_its_targets_threads_do() {
    let two = Two::new();
    let (mut from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    let (bytes, receive) = (native(&mut from), native(&mut to));
    let (go, held) = mpsc::channel();
    let mut pushing = two.push(1, LEN);
    two.expect_with(1, receive, Holds(held));
    assert!(pushing.drains_native().unwrap());
    pushing.drain_native(bytes).unwrap();
    pushing.finish().unwrap();
    assert!(to == from);
    // The receive is over, though its owner was not notified yet.
    assert!(two.begun(2, receive).is_concurrent());
    go.send(()).unwrap();
}

/// The pusher orders pushes whose receives overlap; others are in flight together.
#[test]
fn pushes_whose_receives_do_not_overlap_are_in_flight_together() {
    let two = Two::new();
    let (mut from, mut to) = (pattern(2 * LEN, 3), vec![0; 2 * LEN]);
    let (bytes, receive) = (native(&mut from), native(&mut to));
    let half = |range: NativeRange, at| range.part(at, LEN).unwrap();
    let mut first = two.push(1, LEN);
    assert!(!first.is_concurrent(), "no receive was announced");
    two.expect(1, half(receive, 0));
    assert!(first.drains_native().unwrap() && first.is_concurrent());
    let [mut second, mut third] = [(2, LEN), (3, LEN / 2)].map(|(transfer, at)| two.begun(transfer, half(receive, at)));
    assert!(second.is_concurrent() && !third.is_concurrent());
    // Several are in flight before the first wait.
    first.drain_native(half(bytes, 0)).unwrap();
    second.drain_native(half(bytes, LEN)).unwrap();
    second.finish().unwrap();
    first.finish().unwrap();
    assert!(to == from);
    third.drain_native(half(bytes, 0)).unwrap();
    third.finish().unwrap();
    assert!(to[LEN / 2..][..LEN] == from[..LEN]);
    // A receive that is over does not count as an overlap.
    assert!(two.begun(4, half(receive, LEN / 2)).is_concurrent());
    assert_eq!(two.by_lane(), 0);
}

#[test]
fn concurrent_transfers_use_separate_posted_receives() {
    let two = Two::new();
    std::thread::scope(|scope| {
        for queue in 0..4_usize {
            let two = &two;
            scope.spawn(move || {
                for round in 0..70_usize {
                    let len = LEN / 8 + round * 17;
                    let (mut from, mut to) = (pattern(len, round * 4 + queue), vec![0; len]);
                    two.copy((round * 4 + queue) as u64, native(&mut from), native(&mut to)).unwrap();
                    assert!(from == to, "{queue} {round}");
                }
            });
        }
    });
    assert_eq!(two.by_lane(), 0);
}

#[test]
fn unused_receives_are_withdrawn() {
    let two = Two::new();
    let (mut from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    let (bytes, receive) = (native(&mut from), native(&mut to));
    for transfer in 0..MANY {
        let mut pushing = two.push(transfer, LEN);
        two.expect(transfer, receive);
        match transfer % 3 {
            // From memory that MPI does not support.
            0 => {
                pushing.drain(&from).unwrap();
                pushing.finish().unwrap();
            }
            // In parts, which do not fit the receive.
            1 => {
                assert!(pushing.drains_native().unwrap());
                for half in [bytes.part(0, LEN / 2), bytes.part(LEN / 2, LEN / 2)] {
                    pushing.drain_native(half.unwrap()).unwrap();
                }
                pushing.finish().unwrap();
            }
            _ => {
                if transfer % 2 == 0 {
                    assert!(pushing.drains_native().unwrap());
                }
                drop(pushing);
            }
        }
    }
    let by_lane = two.by_lane();
    assert_eq!(by_lane as u64, MANY - MANY / 3);
    assert!(to == vec![0; LEN], "the memory was written");
    two.copy(MANY, bytes, receive).unwrap();
    assert!(to == from && two.by_lane() == by_lane);
}

#[test]
fn transfer_uses_the_lane_if_the_pushers_mpi_is_not_gpu_aware() {
    let two = Two::without_lanes();
    two.ranks[1].take_native();
    let (from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    let receive = native(&mut to);
    for transfer in 1..3 {
        let mut pushing = two.push(transfer, LEN);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The pusher's question precedes the lane, which decides it.
                std::thread::sleep(Duration::from_millis(50));
                if transfer == 1 {
                    two.outbox.add(two.near.clone());
                }
                two.expect(transfer, receive);
            });
            assert!(!pushing.drains_native().unwrap());
        });
        pushing.drain(&from).unwrap();
        pushing.finish().unwrap();
        assert_eq!(two.by_lane() as u64, transfer);
    }
}

#[test]
fn begun_transfer_keeps_its_lane_when_mpi_becomes_gpu_aware() {
    let two = Two::without_lanes();
    two.ranks[1].take_native();
    two.outbox.add(two.near.clone());
    let (from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    let mut pushing = two.push(1, LEN);
    two.expect(1, native(&mut to));
    assert!(!pushing.may_drain_native());
    two.ranks[0].take_native();
    pushing.drain(&from).unwrap();
    pushing.finish().unwrap();
    assert_eq!(two.by_lane(), 1);
}

#[test]
fn memory_with_a_pending_write_gets_no_posted_receive() {
    let two = Two::new();
    let (mut from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    let (bytes, receive) = (native(&mut from), native(&mut to));
    let [at, behind] =
        [0, LEN as u64].map(|from| AddressRange { start: DevicePtr(receive.address + from), len: LEN as u64 });
    // As often as there are tags, which are reused.
    for transfer in 0..MANY {
        let mut pushing = two.push(transfer, LEN);
        two.expect_where(transfer, receive, (), false);
        assert!(!two.device.overlaps(at));
        assert!(pushing.drains_native().unwrap());
        pushing.drain_native(bytes).unwrap();
        pushing.finish().unwrap();
    }
    assert_eq!(two.by_lane() as u64, MANY);
    two.expect(MANY, receive);
    assert!(two.device.overlaps(at) && !two.device.overlaps(behind));
    let mut pushing = two.push(MANY, LEN);
    assert!(pushing.drains_native().unwrap());
    pushing.drain_native(bytes).unwrap();
    pushing.finish().unwrap();
    assert!(to == from && two.by_lane() as u64 == MANY && !two.device.overlaps(at));
}

#[test]
fn when_there_is_no_room_left_transfers_go_over_the_lane() {
    let two = Two::new();
    let (mut from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    let (bytes, receive) = (native(&mut from), native(&mut to));
    // Their pushers have not begun yet.
    (0..MANY).for_each(|transfer| two.expect(transfer, receive));
    two.copy(MANY, bytes, receive).unwrap();
    assert_eq!(two.by_lane(), 1);
    let mut pushing = two.push(0, LEN);
    assert!(pushing.drains_native().unwrap());
    pushing.drain_native(bytes).unwrap();
    pushing.finish().unwrap();
    assert!(to == from && two.by_lane() == 1);
}

#[test]
fn ended_target_device_is_not_written_and_its_pusher_is_notified() {
    let two = Two::new();
    let (mut from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    let (bytes, receive) = (native(&mut from), native(&mut to));
    let mut pushing = two.begun(1, receive);
    two.device.end();
    pushing.drain_native(bytes).unwrap();
    let error = pushing.finish().unwrap_err();
    assert!(error.to_string().contains("shut down before its bytes came"), "{error}");
    assert!(to == vec![0; LEN]);
    // No receive is posted any more: the bytes use the lane, and find a device that has ended.
    two.copy(2, bytes, receive).unwrap();
    assert_eq!(two.by_lane(), 1);
    assert!(to == vec![0; LEN]);
}

#[test]
fn when_the_session_ends_nothing_is_written_any_more() {
    let two = Two::new();
    let (mut from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    let (bytes, receive) = (native(&mut from), native(&mut to));
    let mut pushing = two.begun(1, receive);
    two.target.close(&accord_types::Error::new(accord_types::ErrorCode::DeviceUnavailable, "the session is over"));
    // The message is in flight when its receive is abandoned.
    pushing.drain_native(bytes).unwrap();
    let (reported, tells) = mpsc::channel();
    let ends = spawn(move || reported.send(pushing.finish().is_err()).unwrap());
    two.far.shutdown();
    two.near.shutdown();
    two.pusher.push_lost(TARGET, &accord_types::Error::new(accord_types::ErrorCode::DeviceUnavailable, "gone"));
    assert!(tells.recv().unwrap());
    ends.join().unwrap();
    assert!(to == vec![0; LEN]);
}

#[test]
fn sending_to_the_receive_and_by_the_lane_ends_the_lane() {
    let two = Two::new();
    let (mut from, mut to) = (pattern(LEN, 3), vec![0; LEN]);
    two.copy_and_settle(1, native(&mut from), native(&mut to));
    assert!(!two.target.is_over(PUSHER));
    let chunk = Chunk { kind: ChunkKind::Data, transfer: TransferId(1), offset: 0, len: 1 };
    write_chunk(&*two.near, chunk, &[9], &Stalls::default()).unwrap();
    let end = Instant::now() + SOON;
    while !two.target.is_over(PUSHER) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(two.target.is_over(PUSHER) && to == from && two.by_lane() == 0);
}
