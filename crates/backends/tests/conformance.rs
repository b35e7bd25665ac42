//! Common requirements on all backends of the registry. A new backend is tested once it is registered; features of single backends have test files of
//! their own. This binary is also the program whose regions CPU devices' workers run.

#[path = "conformance/copies.rs"]
mod copies;
#[allow(dead_code)]
#[path = "../../device/tests/support/ends.rs"]
mod ends;
#[path = "conformance/order.rs"]
mod order;
#[path = "conformance/rows.rs"]
mod rows;
#[path = "conformance/shutdown.rs"]
mod shutdown;
#[allow(dead_code)] // What it knows of the driver, others ask.
#[path = "../../gpu/tests/support/mod.rs"]
mod support;

use accord_backends::BACKENDS;
use accord_device::{Backend, CopySource, Device, Source, StartConfig, cpu};
use accord_types::{DeviceId, DeviceInfo, DevicePtr, NodeId, Result, Seq, StreamId};
use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

type Test = Result<(), Failed>;
type Case = (&'static str, fn(&Rig) -> Test);

/// Bytes mapped at the start of each device's range.
const MAPPED: u64 = 32 << 20;
/// The time limit of any expected event.
const PATIENT: Duration = Duration::from_secs(30);

fn main() {
    if cpu::is_worker() {
        std::process::exit(cpu::worker_main());
    }
    let args = Arguments::from_args();
    support::fake::load_unless_real();
    let tests: &[Case] = &[
        ("what_is_said_before_the_start_holds_after_it", said_before),
        ("operations_of_a_stream_happen_in_their_order", order::within_a_stream),
        ("streams_wait_for_each_other", order::across_streams),
        ("waits_for_what_is_there_end_at_once", order::for_nothing),
        ("a_device_is_busy_while_a_stream_has_incomplete_operations", order::busy),
        ("a_failure_stays_in_its_stream_and_what_follows_is_dropped", order::failures),
        ("waiters_are_notified", order::reported),
        ("memory_is_given_back_in_its_turn", order::unmapping),
        ("copies_of_all_sizes_come_from_every_kind_of_source", copies::sources),
        ("copies_of_all_sizes_go_to_every_kind_of_sink", copies::sinks),
        ("copies_within_a_device_may_overlap", copies::overlapping),
        ("copies_to_others_follow_each_other", rows::given_ahead),
        ("a_copy_to_others_that_has_not_landed_fails_those_behind_it", rows::failed),
        ("an_idle_device_ends", shutdown::idle),
        ("a_device_ends_with_copies_under_way", shutdown::busy),
        ("a_device_that_has_ended_takes_nothing_more", shutdown::ended),
    ];
    let mut trials = Vec::new();
    for backend in BACKENDS {
        let Some(info) = a_device_of(backend) else {
            // Not to standard output, from which test runners read the list of tests.
            eprintln!("skipped: this machine has no device of backend {}", backend.name);
            continue;
        };
        for (name, test) in tests {
            let (test, info) = (*test, info.clone());
            trials.push(Trial::test(format!("{}::{name}", backend.name), move || test(&Rig::new(backend, info)?)));
        }
    }
    libtest_mimic::run(&Arguments { test_threads: Some(1), ..args }, trials).exit();
}

/// Returns a device of the backend that exists or can be created.
fn a_device_of(backend: &Backend) -> Option<DeviceInfo> {
    let config = cpu::CpuConfig { devices: Some(1), memory: Some(256 << 20) };
    let made = || cpu::inventory(NodeId(0), "here", &config).into_iter().next();
    match backend.name {
        "cpu" => made(),
        "fake" => made().map(|info| DeviceInfo { kind: backend.kind, ..info }),
        _ => (backend.find)(NodeId(0), "here").devices.into_iter().next(),
    }
}

/// A started device with some memory.
struct Rig {
    backend: &'static Backend,
    device: Arc<dyn Device>,
    /// First byte of the memory.
    at: DevicePtr,
}

impl Rig {
    fn new(backend: &'static Backend, info: DeviceInfo) -> Result<Self> {
        let device = (backend.start)(info, &StartConfig::default())?;
        let at = device.addresses().0;
        device.map(at, MAPPED)?;
        Ok(Self { backend, device, at })
    }

    fn read(&self, stream: StreamId, at: DevicePtr, len: usize) -> Result<Vec<u8>> {
        ends::read(&*self.device, stream, at, len as u64)
    }

    fn write(&self, stream: StreamId, at: DevicePtr, bytes: &[u8]) -> Result<Seq> {
        self.device.copy_in(stream, at, bytes.len() as u64, CopySource::new(ends::Bytes(bytes.to_vec(), 0)))
    }

    /// Copies in a byte that arrives when the gate opens or is dropped.
    fn gate(&self, stream: StreamId, at: DevicePtr, byte: u8) -> Result<(Seq, Sender<()>)> {
        let (open, gate) = channel();
        Ok((self.device.copy_in(stream, at, 1, CopySource::new(Gated { gate, byte }))?, open))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.device.shutdown();
    }
}

struct Gated {
    gate: Receiver<()>,
    byte: u8,
}

impl Source for Gated {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        // A failed test drops the sender.
        let _ = self.gate.recv();
        piece.fill(self.byte);
        Ok(())
    }
}

/// Returns bytes that differ by position and seed.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    let row: Vec<u8> = (0..251usize).map(|i| (i * 7 + seed * 13) as u8).collect();
    row.iter().copied().cycle().take(len).collect()
}

/// Waits for an event in another thread.
fn until(what: &str, mut done: impl FnMut() -> bool) -> Test {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > PATIENT {
            return Err(format!("not in time: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn said_before(rig: &Rig) -> Test {
    let info = rig.device.info();
    assert_eq!(info.kind, rig.backend.kind);
    assert_eq!(info.id, DeviceId { node: NodeId(0), ordinal: info.id.ordinal });
    assert!(std::ptr::eq(rig.device.capabilities(), rig.backend.capabilities));
    assert!((rig.backend.addresses_wanted)(info) >= info.memory);
    assert!(rig.device.addresses().1 >= MAPPED);
    assert_eq!(rig.device.native().is_some(), rig.backend.capabilities.native_handles);
    assert_eq!(rig.device.exports().is_some(), rig.backend.capabilities.shares_memory);
    assert_eq!(rig.device.imports().is_some(), rig.backend.capabilities.shares_memory);
    assert!(rig.device.memory_free() > 0);
    Ok(())
}
