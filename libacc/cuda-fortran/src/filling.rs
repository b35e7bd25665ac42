//! Fills memory with a repeated value: from a block of repetitions in the device's own memory, which copies within the device double.

use crate::acc::{self, CopyDirection};
use crate::{memory, streams};
use accord_types::short_lock::ShortLock;
use std::collections::BTreeMap;

/// Bytes of a block of repetitions, at least.
const BLOCK: usize = 4 << 10;
/// Most blocks that are kept, of all devices and values. Further values get a block for one fill.
const BLOCKS_MAX: usize = 64;

/// The blocks' addresses, by device and value.
static BLOCKS: ShortLock<BTreeMap<(i32, Vec<u8>), usize>> = ShortLock::new(BTreeMap::new());

/// A block of repetitions in a device's memory.
struct Block {
    start: usize,
    bytes: usize,
    is_kept: bool,
}

impl Block {
    /// Returns a block of the current device; `None` if it has no memory left.
    fn new(device: i32, pattern: &[u8]) -> Option<Self> {
        let count = BLOCK.div_ceil(pattern.len());
        let bytes = count * pattern.len();
        let key = (device, pattern.to_vec());
        let found = BLOCKS.lock().get(&key).copied();
        if let Some(start) = found {
            return Some(Self { start, bytes, is_kept: true });
        }
        let start = memory::device_memory(bytes);
        if start == 0 {
            return None;
        }
        let block = pattern.repeat(count);
        // SAFETY: both have the block's size.
        unsafe { acc::copy(CopyDirection::ToDevice, start, block.as_ptr().addr(), bytes, None) };
        let mut blocks = BLOCKS.lock();
        let is_kept = blocks.len() < BLOCKS_MAX && !blocks.contains_key(&key);
        if is_kept {
            blocks.insert(key, start);
        }
        Some(Self { start, bytes, is_kept })
    }
}

/// Enqueues the filling of rows of `bytes` bytes each in a device's memory. A row begins with a whole value.
pub(crate) fn enqueue(device: i32, stream: i64, rows: &[usize], bytes: usize, pattern: &[u8]) {
    let Some(first) = rows.first() else { return };
    acc::on_device(device, || {
        let Some(block) = Block::new(device, pattern) else {
            // Without memory for a block, the host's bytes are copied.
            streams::finish([Some(device), None]);
            let row = repeated(pattern, bytes);
            for to in rows {
                // SAFETY: the caller's rows have so many bytes.
                unsafe { acc::copy(CopyDirection::ToDevice, *to, row.as_ptr().addr(), bytes, None) };
            }
            return;
        };
        let queue = streams::begin(device, stream);
        // SAFETY: the caller's rows have so many bytes; source and target don't overlap.
        let copy = |to, from, count| unsafe { acc::copy(CopyDirection::Within, to, from, count, Some(queue)) };
        let mut done = bytes.min(block.bytes);
        copy(*first, block.start, done);
        while done < bytes {
            let count = done.min(bytes - done);
            copy(first + done, *first, count);
            done += count;
        }
        for row in &rows[1..] {
            copy(*row, *first, bytes);
        }
        if !block.is_kept {
            memory::release(block.start);
        }
    });
}

/// Fills rows of host memory.
pub(crate) fn host(rows: &[usize], bytes: usize, pattern: &[u8]) {
    let row = repeated(pattern, bytes);
    for to in rows {
        // SAFETY: the caller's rows have so many bytes of host memory.
        unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), *to as *mut u8, bytes) };
    }
}

fn repeated(pattern: &[u8], bytes: usize) -> Vec<u8> {
    pattern.iter().copied().cycle().take(bytes).collect()
}
