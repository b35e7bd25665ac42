//! A transfer's receiver may hold the last reference to its device, whose destructor may block. So it is dropped without
//! locks.

use super::*;
use crate::transport::PostedReceive;
use accord_types::NativeContext;
use accord_types::short_lock::DroppedUnlocked;

const LEN: u64 = 1 << 20;

/// Posts every requested receive, and keeps the callbacks.
#[derive(Default)]
struct Posting(ShortLock<Vec<ReceiveEnded>>);

#[derive(Debug)]
struct Posted;

impl PostedReceive for Posted {
    fn withdraw(&self) -> bool {
        true
    }
    fn abandon(&self) {}
    fn has_ended(&self) -> bool {
        false
    }
    fn await_free(&self) {}
}

impl TransferControl for Posting {
    fn send(&self, _message: ControlMessage) {}
    fn post(&self, _room: NativeRange, reported: ReceiveEnded) -> Option<(NonZeroU16, Arc<dyn PostedReceive>)> {
        self.0.lock().push(reported);
        Some((NonZeroU16::MIN, Arc::new(Posted)))
    }
}

/// Panics if it is dropped under a lock. Its references count the remaining owners.
struct Owner(#[allow(dead_code, reason = "it looks when it is dropped")] DroppedUnlocked, Arc<()>);

struct TargetOfTest {
    transfer: u64,
    is_free: bool,
    _owner: Owner,
}

impl TransferTarget for TargetOfTest {
    fn export(&self) -> Vec<u8> {
        Vec::new()
    }
    fn native(&self) -> Option<(Arc<DeviceReceives>, NativeRange)> {
        let context = NativeContext::new(0, |_| true);
        Some((Arc::default(), NativeRange { address: self.transfer << 32, len: LEN as usize, context }))
    }
    fn is_free(&self) -> bool {
        self.is_free
    }
    fn start(&self, _bytes: IncomingBytes, _ending: TransferEnding) {}
}

struct Target {
    /// Whether no other operation writes to the posted memory.
    is_free: bool,
    exchange: Arc<Exchange>,
    control: Arc<Posting>,
    owners: Arc<()>,
}

impl Target {
    /// Creates a target whose exchange has the only reference to `inbox`.
    fn new() -> Self {
        let (exchange, control) = (Exchange::new(), Arc::<Posting>::default());
        exchange.arrived(PUSHER, control.clone(), Inbox::new(Arc::default(), false));
        Self { is_free: true, exchange, control, owners: Arc::default() }
    }

    /// Expects a transfer for which a receive can be posted.
    fn expect(&self, transfer: u64) -> Result<()> {
        let owner = Owner(DroppedUnlocked::default(), self.owners.clone());
        let target = TargetOfTest { transfer, is_free: self.is_free, _owner: owner };
        self.exchange.expect(TransferId(transfer), PUSHER, LEN, Arc::new(target))
    }

    /// Expects transfers and lets their bytes be sent.
    fn posted(transfers: std::ops::Range<u64>) -> Self {
        let target = Self::new();
        for transfer in transfers.clone() {
            target.expect(transfer).unwrap();
            target.exchange.due(TransferId(transfer), Ok(()));
        }
        assert_eq!(target.control.0.lock().len() as u64, transfers.end - transfers.start);
        assert!(target.owners() > 0);
        target
    }

    /// Ends the posted receives.
    fn notify(&self, filled: [bool; 2]) {
        let reported = std::mem::take(&mut *self.control.0.lock());
        reported.into_iter().zip(filled).for_each(|(reported, filled)| reported(filled));
    }

    fn owners(&self) -> usize {
        Arc::strong_count(&self.owners) - 1
    }
}

#[test]
fn an_ended_receive_drops_its_owner_unlocked() {
    let target = Target::posted(0..2);
    target.notify([true, false]);
    assert_eq!(target.owners(), 0);
}

#[test]
fn an_unannounced_receive_drops_its_owner_unlocked() {
    let target = Target { is_free: false, ..Target::new() };
    target.expect(1).unwrap();
    target.exchange.due(TransferId(1), Ok(()));
    let reported = std::mem::take(&mut *target.control.0.lock());
    drop(reported);
    // The transfer arrives on a lane.
    assert_eq!(target.owners(), 1);
    target.exchange.peer_lost(PUSHER);
    assert_eq!(target.owners(), 0);
}

#[test]
fn a_lost_pusher_drops_owners_unlocked() {
    let target = Target::posted(0..2);
    target.expect(7).unwrap();
    target.exchange.peer_lost(PUSHER);
    assert_eq!(target.owners(), 0);
}

#[test]
fn a_refused_transfer_drops_its_owner_unlocked() {
    let target = Target::new();
    target.expect(1).unwrap();
    let one = target.owners();
    assert!(target.expect(1).is_err());
    assert_eq!(target.owners(), one);
    target.exchange.due(TransferId(1), Err(Error::new(ErrorCode::Execution, "crashed")));
    assert_eq!(target.owners(), 0);
}

#[test]
fn closing_drops_owners_unlocked() {
    let target = Target::posted(0..2);
    target.expect(7).unwrap();
    target.exchange.close(&Error::new(ErrorCode::DeviceShutdown, "over"));
    target.notify([false, false]);
    assert_eq!(target.owners(), 0);
    assert!(target.expect(8).is_err());
    assert_eq!(target.owners(), 0);
}

#[test]
fn discarding_drops_the_owner_unlocked() {
    let inbox = Inbox::new(Arc::default(), false);
    let owner = Owner(DroppedUnlocked::default(), Arc::default());
    let owners = owner.1.clone();
    inbox.post(TransferId(1), LEN, Box::new(move |incoming| drop((incoming, owner))));
    inbox.discard(TransferId(1));
    assert_eq!((Arc::strong_count(&owners), inbox.len()), (1, 1));
}
