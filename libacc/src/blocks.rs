//! Finds the block of the program's memory that contains an address: a heap block, a static variable, or the thread's stack.

use crate::{heap, source};
use accord_types::HostRange;
use std::cell::Cell;

/// Longest part of a stack that counts as one block.
const STACK_MAX: usize = 256 << 20;

thread_local! {
    /// End of this thread's stack; 1 if unknown, 0 if not queried yet.
    static STACK_END: Cell<usize> = const { Cell::new(0) };
}

/// Returns the block as [`accord_runtime::ports::HostMemory::block_of`]. The first query about an object reads its file.
pub(crate) fn block_of(address: usize) -> Option<HostRange> {
    heap::block_of(address).or_else(|| source::static_at(address)).or_else(|| stack_at(address))
}

/// Returns the stack of all calling functions on this thread as one block, because the bounds of local arrays are unknown.
#[inline(never)]
fn stack_at(address: usize) -> Option<HostRange> {
    let local = 0u8;
    let here = (&raw const local).addr();
    let end = STACK_END.get();
    let end = if end == 0 { find_end() } else { end };
    let inside = (here..end).contains(&address) && end - here <= STACK_MAX;
    inside.then(|| HostRange { start: here, len: end - here })
}

fn find_end() -> usize {
    // SAFETY: all-zero is valid for the attributes, which the next call fills in.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are filled in by the first call, and ended after the second.
    let known = unsafe {
        libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) == 0 && {
            let known = libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut bytes) == 0;
            libc::pthread_attr_destroy(&raw mut attributes);
            known
        }
    };
    let end = if known { (start as usize).saturating_add(bytes) } else { 1 };
    STACK_END.set(end);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_array_is_in_the_stack_and_a_static_one_is_itself() {
        static NUMBERS: [u64; 7] = [3; 7];
        let local = [1u8; 100];
        let address = local.as_ptr().addr();
        let block = block_of(address).expect("this thread's stack");
        assert!(block.start <= address && address + local.len() <= block.start + block.len);
        let numbers = NUMBERS.as_ptr().addr();
        assert_eq!(block_of(numbers + 8), Some(HostRange { start: numbers, len: 56 }));
        assert_eq!(block_of(8), None);
    }

    #[test]
    fn another_threads_stack_is_none() {
        let local = [1u8; 100];
        let address = local.as_ptr().addr();
        let found = std::thread::spawn(move || block_of(address)).join().unwrap();
        assert_eq!(found, None, "{address:#x}");
    }
}
