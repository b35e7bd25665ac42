//! Suspensions of a process's GPUs.

use super::{REGIONS, Test, add, device_of, doubles, read_doubles, write};
use crate::support::fake;
use crate::then::then;
use accord_device::{Device, KeptFile, KeptMemory, TurnAgent, TurnKeeper, resume, suspend};
use accord_gpu::{CudaConfig, CudaDevice, inventory};
use accord_types::{NextTurn, NodeId, QueueId, SuspendRefusal};
use libtest_mimic::Failed;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

/// Bytes of a device's memory in two pieces.
const WHOLE: u64 = 68 << 20;

/// An agent that gives each device a turn without an end.
struct Turns(Mutex<Sender<Arc<TurnKeeper>>>);

impl TurnAgent for Turns {
    fn join(&self, _ordinal: u32, keeper: &Arc<TurnKeeper>) {
        keeper.hold(1, None);
        let _ = self.0.lock().expect("no panic").send(keeper.clone());
    }

    fn wants(&self, _ordinal: u32) {}

    fn returns(&self, _ordinal: u32, _turn: u64, _next: NextTurn) {}

    fn leave(&self, _ordinal: u32, _keeper: &Arc<TurnKeeper>) {}
}

fn with_keeper(ordinal: usize) -> Result<(Arc<CudaDevice>, Arc<TurnKeeper>), Failed> {
    let (joins, joined) = channel();
    let turns = Some(Arc::new(Turns(Mutex::new(joins))) as Arc<dyn TurnAgent>);
    let device = device_of(ordinal, REGIONS, CudaConfig { turns, ..CudaConfig::default() })?;
    Ok((device, joined.recv()?))
}

/// A copy that waits in a queue for the host uses the memory of both devices, in whichever order they are suspended.
pub(crate) fn copies_between_devices() -> Test {
    if inventory(NodeId(0), "here").devices.len() < 2 {
        println!("skipped: there is one GPU");
        return Ok(());
    }
    for reverse in [false, true] {
        let ((one, first), (two, second)) = (with_keeper(0)?, with_keeper(1)?);
        let (stream, other) = (one.create_stream(QueueId(1))?, two.create_stream(QueueId(1))?);
        let (from, to) = (one.addresses().0, two.addresses().0);
        let written = write(&one, stream, from, doubles([3.0; 64]))?;
        one.synchronize(stream, written)?;
        let ((hold, held), (begun, begins)) = (channel::<()>(), channel());
        then(&*one, stream, (from, 8), move || {
            begun.send(()).expect("the test waits");
            let _ = held.recv();
            Ok(())
        })?;
        begins.recv()?;
        one.copy_to(stream, from, &*two, to, 512, None)?.ok_or("two GPUs")?;
        let keepers = if reverse { [second, first] } else { [first, second] };
        let suspended = std::thread::spawn({
            let keepers = keepers.clone();
            move || suspend(&keepers, |_| Ok(KeptMemory::default()))
        });
        // The suspension has held all work back before the host lets the copy go on.
        let more = std::thread::spawn({
            let one = one.clone();
            move || add(&one, stream, from, 64, 1.0)
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        hold.send(())?;
        let bytes = suspended.join().expect("no panic");
        assert_eq!(bytes, Ok(2 * (64 << 20)), "in reverse order: {reverse}");
        assert!(resume(&keepers).is_ok());
        more.join().expect("no panic")?;
        assert!(read_doubles(&two, other, to, 64)?.iter().all(|x| *x == 3.0));
        assert!(read_doubles(&one, stream, from, 64)?.iter().all(|x| *x == 4.0));
    }
    Ok(())
}

/// Memory that can't leave its device stays there, and memory that can't come back stays in host memory and is tried again.
pub(crate) fn failures() -> Test {
    if !fake::is_loaded() {
        println!("skipped: a real driver does not fail");
        return Ok(());
    }
    let (device, keeper) = with_keeper(0)?;
    let keepers = [keeper];
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    // A second piece.
    device.map(at.offset(64 << 20), 4 << 20)?;
    let count = (9 << 20) / 8;
    let wanted: Vec<_> = (0..count).map(f64::from).collect();
    let written = write(&device, stream, at, doubles(wanted.clone()))?;
    device.synchronize(stream, written)?;
    let refused = suspend(&keepers, |needed| Err(SuspendRefusal::HostMemory { needed, left: 5 }));
    assert_eq!(refused, Err(SuspendRefusal::HostMemory { needed: WHOLE, left: 5 }));
    // A copy through a slot, and its event.
    for call in ["cuMemcpyDtoHAsync_v2", "cuEventRecord"] {
        fake::fail(call, 3, 801);
        assert_eq!(suspend(&keepers, |_| Ok(KeptMemory::default())), Err(SuspendRefusal::Failed(801)), "{call}");
    }
    // The agent's memory holds a part only.
    let kept = KeptFile::create(64 << 20)?;
    let mapped = || KeptMemory::map(vec![kept.descriptor().try_clone_to_owned()?]);
    assert_eq!(suspend(&keepers, |_| Ok(mapped().expect("it can be mapped"))), Ok(WHOLE));
    for (call, refusal) in [
        ("cuMemCreate", SuspendRefusal::Failed(801)),
        ("cuMemcpyHtoDAsync_v2", SuspendRefusal::Failed(801)),
        ("cuEventRecord", SuspendRefusal::Failed(801)),
    ] {
        fake::fail(call, 0, 801);
        assert_eq!(resume(&keepers), Err(refusal), "{call}");
    }
    assert_eq!(resume(&keepers), Ok(()));
    assert_eq!(read_doubles(&device, stream, at, count as u64)?, wanted);
    Ok(())
}
