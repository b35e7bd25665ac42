//! Device memory that is never cleared. With `FAKE_CUDA_REMAINS` (a folder) it is in files that all processes share,
//! so that an allocation contains the bytes of its previous owner.

use crate::control::{OUT_OF_MEMORY, lock, setting, variable};
use crate::memory::total;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Mutex;

const STEP: u64 = 2 << 20;

struct Physical {
    file: File,
    /// Allocations of this process: from start to length. Those of other processes are known by their file locks.
    taken: BTreeMap<u64, u64>,
}

static DEVICES: Mutex<BTreeMap<i32, Physical>> = Mutex::new(BTreeMap::new());

fn folder() -> Option<PathBuf> {
    variable("FAKE_CUDA_REMAINS").map(PathBuf::from)
}

pub(crate) fn are_kept() -> bool {
    folder().is_some()
}

fn open(device: i32) -> Option<Physical> {
    let name = format!("gpu-{}-{device}", setting("FAKE_CUDA_UUID_SEED", 0));
    let file = File::options().read(true).write(true).create(true).truncate(false).open(folder()?.join(name)).ok()?;
    file.set_len(total()).ok()?;
    Some(Physical { file, taken: BTreeMap::new() })
}

/// Allocates the first free part of the memory.
pub(crate) fn take(device: i32, len: u64) -> Result<u64, i32> {
    let mut devices = lock(&DEVICES);
    if let std::collections::btree_map::Entry::Vacant(entry) = devices.entry(device) {
        entry.insert(open(device).ok_or(OUT_OF_MEMORY)?);
    }
    let physical = devices.get_mut(&device).ok_or(OUT_OF_MEMORY)?;
    let mut at = 0;
    while at + len <= total() {
        let own = physical.taken.range(..at + len).next_back().map(|(start, len)| start + len).filter(|end| *end > at);
        match own {
            Some(end) => at = end,
            None if set_lock(&physical.file, libc::F_WRLCK, at, len) => {
                physical.taken.insert(at, len);
                return Ok(at);
            }
            None => at += STEP,
        }
    }
    Err(OUT_OF_MEMORY)
}

pub(crate) fn give_back(device: i32, place: u64, len: u64) {
    if let Some(physical) = lock(&DEVICES).get_mut(&device) {
        physical.taken.remove(&place);
        set_lock(&physical.file, libc::F_UNLCK, place, len);
    }
}

/// Locks belong to the process, so that its end frees its memory.
fn set_lock(file: &File, kind: i32, start: u64, len: u64) -> bool {
    // SAFETY: all-zero is a valid value; the descriptor is open.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = kind as i16;
        lock.l_whence = libc::SEEK_SET as i16;
        lock.l_start = start as i64;
        lock.l_len = len as i64;
        libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) == 0
    }
}

/// Maps memory at `start`, which the caller has reserved.
pub(crate) fn map(device: i32, place: u64, start: u64, len: u64) -> bool {
    let devices = lock(&DEVICES);
    let Some(physical) = devices.get(&device) else { return false };
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    let file = physical.file.as_raw_fd();
    // SAFETY: the range is the caller's reservation.
    unsafe { libc::mmap(start as *mut _, len as usize, access, flags, file, place as i64) != libc::MAP_FAILED }
}
