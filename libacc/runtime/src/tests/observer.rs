//! The notifications of an observer, and their order.

use super::world::kind::*;
use super::world::{NO_TAGS, SYNC, World};
use crate::prof::ProfilingEvent::{self, *};
use crate::prof::{Notice, Observer};
use accord_types::DeviceType;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
const REGION: usize = 0x40_1000;

struct Record {
    active: &'static AtomicBool,
    notices: Mutex<Vec<Notice>>,
}

struct Recorder(Arc<Record>);

impl Observer for Recorder {
    fn wanted(&self) -> &'static AtomicBool {
        self.0.active
    }

    fn is_active(&self) -> bool {
        self.0.active.load(Ordering::Relaxed)
    }

    fn notice(&self, notice: &Notice) {
        self.0.notices.lock().unwrap().push(*notice);
    }
}

fn watched() -> (World, Arc<Record>) {
    let w = World::new();
    // Not freed: tests create few.
    let active = Box::leak(Box::new(AtomicBool::new(false)));
    let record = Arc::new(Record { active, notices: Mutex::default() });
    w.runtime.observe(Box::new(Recorder(record.clone())));
    record.active.store(true, Ordering::Relaxed);
    (w, record)
}

impl Record {
    fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut self.notices.lock().unwrap())
    }

    fn what(&self) -> Vec<ProfilingEvent> {
        self.take().iter().map(|notice| notice.what).collect()
    }
}

#[test]
fn a_compute_construct_tells_its_whole_story() {
    let (mut w, record) = watched();
    w.parallel(REGION, &[(TOFROM, 5000, A), (TO, 4, B)], &[0x1000_0001, 12, 0]).unwrap();
    let notices = record.take();
    let what: Vec<_> = notices.iter().map(|notice| notice.what).collect();
    let story = [
        DeviceInitStart,
        DeviceInitEnd,
        EnterDataStart,
        Alloc,
        Create,
        UploadStart,
        UploadEnd,
        EnterDataEnd,
        LaunchStart,
        LaunchEnd,
        ExitDataStart,
        DownloadStart,
        DownloadEnd,
        Delete,
        Free,
        ExitDataEnd,
        WaitStart,
        WaitEnd,
    ];
    assert_eq!(what, story);
    let of = |what| notices.iter().find(|notice| notice.what == what).unwrap();
    let upload = of(UploadStart);
    assert_eq!((upload.host, upload.bytes, upload.address), (A, 5000, of(Create).address));
    assert_eq!((of(LaunchStart).function, of(LaunchStart).dims.gangs), (REGION, 12));
    assert_eq!((upload.device_type, upload.device.0), (DeviceType::Cpu, 0));
}

#[test]
fn data_and_memory_routines_tell_what_they_do() {
    let (mut w, record) = watched();
    w.runtime.init(&mut w.t, DeviceType::Cpu).unwrap();
    record.take();
    w.runtime.copyin(&mut w.t, A, 40, 3).unwrap();
    assert_eq!(record.what(), [Alloc, Create, UploadStart, UploadEnd]);
    w.runtime.copyin(&mut w.t, A, 40, 3).unwrap();
    assert_eq!(record.what(), [], "present");
    w.runtime.update_self(&mut w.t, A, 40, SYNC).unwrap();
    assert_eq!(record.what(), [DownloadStart, DownloadEnd, WaitStart, WaitEnd]);
    w.runtime.delete(&mut w.t, A, 40, 3, true).unwrap();
    assert_eq!(record.what(), [Delete, Free]);
    let block = w.runtime.malloc(&mut w.t, 64).unwrap();
    w.runtime.free(&mut w.t, block).unwrap();
    assert_eq!(record.what(), [Alloc, Free]);
    // Members share a block: one allocation, two entries.
    w.data_start(&[(STRUCT, 2, B), (ALLOC, 8, B), (ALLOC, 8, B + 16)]).unwrap();
    assert_eq!(record.what(), [Alloc, Create, Create]);
    w.data_end();
    assert_eq!(record.what(), [Delete, Delete, Free]);
    w.runtime.shutdown(&mut w.t, DeviceType::Cpu).unwrap();
    assert_eq!(record.what(), [DeviceShutdownStart, DeviceShutdownEnd]);
}

#[test]
fn an_inactive_observer_gets_no_notices() {
    let (mut w, record) = watched();
    record.active.store(false, Ordering::Relaxed);
    w.parallel(REGION, &[(TOFROM, 5000, A)], NO_TAGS).unwrap();
    assert_eq!(record.what(), []);
}
