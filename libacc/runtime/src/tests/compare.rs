//! Regions that are compared with a mirror of their device.

use super::fake::{Fake, Running, object};
use super::world::kind::*;
use super::world::{NO_TAGS, World};
use crate::compare::{ArrayDescription, ComparisonHost, Elements, Field, Scalar};
use crate::ports::DeviceClient;
use crate::prof::{Notice, Observer};
use crate::{Global, GlobalKind};
use accord_types::{DeviceInfo, DeviceType, Error, ErrorCode, GlobalSpec, HostRange, QueueId, Result, Tolerance};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
const REGION: usize = 0x40_1000;
/// Bytes of each array.
const BYTES: usize = 8000;

/// The user who reads the messages, and the mirror.
struct Reader {
    mirror: Arc<Fake>,
    lines: Mutex<Vec<String>>,
}

struct Host(Arc<Reader>);

impl ComparisonHost for Host {
    fn mirror(&self, _device: &DeviceInfo, _addresses: u64) -> Result<Arc<dyn DeviceClient>> {
        Ok(self.0.mirror.clone())
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn array(&self, range: HostRange) -> ArrayDescription {
        let fields = vec![Field { offset: 0, scalar: Scalar::Float(8), path: String::new() }];
        ArrayDescription {
            name: format!("{:#x}", range.start),
            declared: String::new(),
            elements: Some(Elements { bytes: 8, before: 0, fields }),
            index: Box::new(|number| format!("[{number}]")),
        }
    }

    fn report(&self, line: &str) {
        self.0.lines.lock().unwrap().push(line.to_owned());
    }
}

struct Nothing;

impl Observer for Nothing {
    fn wanted(&self) -> &'static AtomicBool {
        static NEVER: AtomicBool = AtomicBool::new(false);
        &NEVER
    }

    fn is_active(&self) -> bool {
        false
    }

    fn notice(&self, _notice: &Notice) {
        panic!("no tool wants notices");
    }
}

/// A world in which `regions` of one device are compared.
fn compared() -> (World, Arc<Reader>) {
    let w = World::new();
    let mirror = w.another(DeviceType::Cpu);
    let reader = Arc::new(Reader { mirror, lines: Mutex::default() });
    w.runtime.compare(Tolerance::default(), Box::new(Host(reader.clone())));
    w.runtime.observe(Box::new(Nothing));
    (w, reader)
}

impl Reader {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

/// Returns a region that writes two values at an offset of what `place` leads to: one in its first run, which is the mirror's, one in the second.
fn writes(
    offset: u64,
    values: [f64; 2],
    place: impl Fn(&Running<'_>) -> u64 + Send + Sync,
) -> impl Fn(&mut Running<'_>) + Send + Sync {
    let runs = AtomicUsize::new(0);
    move |running: &mut Running<'_>| {
        let value = values[runs.fetch_add(1, Ordering::Relaxed) % 2];
        let at = place(running) + offset;
        running.write(at, &value.to_ne_bytes());
    }
}

#[test]
fn a_region_that_computes_the_same_has_no_message() {
    let (mut w, reader) = compared();
    w.kernel(REGION, writes(16, [3.0, 3.0 + 1e-13], |running| running.slots[0]));
    w.enter(&[(TO, BYTES, A)]).unwrap();
    for _ in 0..3 {
        w.parallel(REGION, &[(FORCE_PRESENT, BYTES, A)], NO_TAGS).unwrap();
    }
    assert_eq!(reader.take(), [""; 0]);
    let counts = reader.mirror.counts();
    assert_eq!((counts.launches, w.fake().counts().launches), (3, 3));
    w.exit(&[(DELETE, BYTES, A)]).unwrap();
    w.assert_empty();
    w.runtime.end_comparison();
    let lines = reader.take();
    assert_eq!(lines[0], "compare: compared 3 runs of 1 region with a CPU device: all data is equal (24000 bytes)");
}

#[test]
fn the_first_difference_of_each_array_is_reported_once() {
    let (mut w, reader) = compared();
    w.kernel(REGION, writes(16, [2.0, 3.0], |running| running.slots[0]));
    for _ in 0..2 {
        w.parallel(REGION, &[(TOFROM, BYTES, A), (TO, 4000, B)], NO_TAGS).unwrap();
    }
    let lines = reader.take();
    let line = "is 3.0, on the CPU device 2.0; 1 of 1000 elements differs, by up to 3.3e-1 of the value";
    assert!(lines.len() == 1 && lines[0].contains("0x100000[2] ") && lines[0].ends_with(line), "{lines:?}");
    assert_eq!(w.get(A + 16, 8), 3f64.to_ne_bytes(), "the device's value counts");
    w.runtime.end_comparison();
    assert!(reader.take()[1].ends_with("differs in 2 of 2 runs"));
}

#[test]
fn data_behind_pointers_is_compared() {
    let (mut w, reader) = compared();
    w.enter(&[(TO, BYTES, B)]).unwrap();
    w.put_u64(A + 8, B as u64);
    w.enter(&[(STRUCT, 1, A), (TO, 16, A), (ATTACH, 0, A + 8)]).unwrap();
    w.kernel(REGION, writes(24, [5.0, 6.0], |running| running.read_u64(running.slots[0] + 8)));
    w.parallel(REGION, &[(FORCE_PRESENT, 16, A)], NO_TAGS).unwrap();
    let lines = reader.take();
    assert!(lines.len() == 1 && lines[0].contains("0x200000[3] is 6.0"), "{lines:?}");
}

#[test]
fn a_pointer_ahead_of_its_section_leads_there() {
    let (mut w, reader) = compared();
    // The section begins 800 bytes behind what the pointer points to.
    w.enter(&[(TO, BYTES, B + 800)]).unwrap();
    w.put_u64(A + 8, B as u64);
    w.enter(&[(STRUCT, 1, A), (TO, 16, A), (ATTACH, 800, A + 8)]).unwrap();
    w.kernel(REGION, writes(800 + 24, [5.0, 6.0], |running| running.read_u64(running.slots[0] + 8)));
    w.parallel(REGION, &[(FORCE_PRESENT, 16, A)], NO_TAGS).unwrap();
    let lines = reader.take();
    assert!(lines.len() == 1 && lines[0].contains("[3] is 6.0"), "{lines:?}");
}

#[test]
fn a_structure_that_the_program_has_freed_is_not_read() {
    let (mut w, reader) = compared();
    w.enter(&[(TO, BYTES, B)]).unwrap();
    w.put_u64(A + 8, B as u64);
    w.enter(&[(STRUCT, 1, A), (TO, 16, A), (ATTACH, 0, A + 8)]).unwrap();
    *w.ram.freed.lock().unwrap() = Some(HostRange { start: A, len: 16 });
    w.kernel(REGION, writes(24, [5.0, 6.0], |running| running.read_u64(running.slots[0] + 8)));
    w.parallel(REGION, &[(FORCE_PRESENT, 16, A)], NO_TAGS).unwrap();
    let lines = reader.take();
    assert!(lines.len() == 1 && lines[0].contains("0x200000[3] is 6.0"), "{lines:?}");
}

#[test]
fn a_variable_that_the_device_lacks_does_not_fail_the_construct() {
    let (mut w, reader) = compared();
    w.fake().lacks_globals.store(true, Ordering::Relaxed);
    let spec = GlobalSpec { object: object(), offset: B as u64, len: 8, variable: None };
    w.runtime.register_globals(1, vec![Global { host: B, bytes: 8, kind: GlobalKind::Variable, spec }]);
    w.kernel(REGION, writes(16, [2.0, 3.0], |running| running.slots[0]));
    w.parallel(REGION, &[(TOFROM, BYTES, A)], NO_TAGS).unwrap();
    let lines = reader.take();
    assert!(lines.len() == 1 && lines[0].contains("0x100000[2] is 3.0"), "{lines:?}");
}

#[test]
fn memory_of_acc_malloc_is_compared_around_mapped_parts() {
    let (mut w, reader) = compared();
    let block = w.runtime.malloc(&mut w.t, BYTES).unwrap();
    w.runtime.map_data(&mut w.t, B, block + 800, 80).unwrap();
    w.kernel(REGION, writes(80, [5.0, 6.0], |running| running.slots[0]));
    w.parallel(REGION, &[(FORCE_PRESENT, 80, B)], NO_TAGS).unwrap();
    let lines = reader.take();
    assert!(lines.len() == 1 && lines[0].contains(&format!("{:#x}[0] is 6.0", block + 880)), "{lines:?}");
    w.runtime.unmap_data(&mut w.t, B).unwrap();
    w.runtime.free(&mut w.t, block).unwrap();
    w.assert_empty();
}

#[test]
fn small_differences_may_be_those_of_sums() {
    let (mut w, reader) = compared();
    w.kernel(REGION, writes(16, [3.0, 3.0 + 1e-9], |running| running.slots[0]));
    w.parallel(REGION, &[(TOFROM, BYTES, A)], NO_TAGS).unwrap();
    let lines = reader.take();
    assert!(lines.len() == 1 && lines[0].contains("; reductions and atomic updates add in another order"), "{lines:?}");
}

#[test]
fn a_region_that_fails_on_the_mirror_is_not_compared_again() {
    let (mut w, reader) = compared();
    w.kernel(REGION, |running| {
        let at = running.slots[0];
        running.write(at, &1f64.to_ne_bytes());
    });
    w.enter(&[(TO, BYTES, A)]).unwrap();
    w.parallel(REGION, &[(FORCE_PRESENT, BYTES, A)], NO_TAGS).unwrap();
    reader.mirror.fail(QueueId::SYNC, Error::new(ErrorCode::Execution, "ended with SIGSEGV"));
    for _ in 0..2 {
        w.parallel(REGION, &[(FORCE_PRESENT, BYTES, A)], NO_TAGS).unwrap();
    }
    let lines = reader.take();
    assert!(lines.len() == 1 && lines[0].contains("is not compared: ") && lines[0].contains("SIGSEGV"), "{lines:?}");
    w.runtime.end_comparison();
    let lines = reader.take();
    assert!(lines[0].ends_with("2 could not be compared"), "{lines:?}");
}
