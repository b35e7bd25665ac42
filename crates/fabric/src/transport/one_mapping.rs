//! For ThreadSanitizer only (`--cfg accord_tsan`): both ends of a lane in one process use the same mapping of its memory.
//!
//! ThreadSanitizer identifies memory by its address. With two mappings of one file it would see neither races nor the
//! order that the rings' positions establish.

use accord_types::short_lock::{ShortGuard, ShortLock};
use rustix::fs::fstat;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A file's mapping, and the number of its users.
struct Mapping {
    inode: u64,
    base: AtomicPtr<u8>,
    users: usize,
}

static MAPPINGS: ShortLock<Vec<Mapping>> = ShortLock::new(Vec::new());

fn mappings() -> ShortGuard<'static, Vec<Mapping>> {
    MAPPINGS.lock()
}

/// Returns the address of the file's mapping; `map` creates it for the first user.
pub(super) fn take(file: &OwnedFd, map: impl FnOnce() -> io::Result<NonNull<u8>>) -> io::Result<NonNull<u8>> {
    let inode = fstat(file)?.st_ino;
    let mut mappings = mappings();
    let known = mappings.iter_mut().find(|one| one.inode == inode);
    if let Some((base, one)) = known.and_then(|one| Some((NonNull::new(*one.base.get_mut())?, one))) {
        one.users += 1;
        return Ok(base);
    }
    let base = map()?;
    mappings.push(Mapping { inode, base: AtomicPtr::new(base.as_ptr()), users: 1 });
    Ok(base)
}

/// Removes one user. Returns whether it was the last one, which must unmap the file.
pub(super) fn give_back(base: NonNull<u8>) -> bool {
    let mut mappings = mappings();
    let Some(at) = mappings.iter().position(|one| one.base.load(Ordering::Relaxed) == base.as_ptr()) else {
        return true;
    };
    mappings[at].users -= 1;
    let last = mappings[at].users == 0;
    if last {
        mappings.swap_remove(at);
    }
    last
}
