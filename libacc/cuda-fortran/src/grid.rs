//! Runs kernels on a CPU device, in its worker: blocks in parallel on the device's cores, and a block's threads in
//! sequence. If they wait for each other, the compiler has cut the kernel at its barriers, or they run as fibers.

use crate::errors::report;
use crate::fibers::{Fibers, ThreadPosition, index};
use accord_types::kernel_launch::EncodedLaunch;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A kernel that takes its arguments by their addresses.
type Thunk = unsafe extern "C" fn(*const *const c_void);
/// A function that returns where an object's compiled kernels read the calling thread's place in the grid.
type OwnPlace = extern "C" fn() -> *mut ThreadPosition;

/// Most threads of the system that run blocks.
const THREADS: usize = 256;

/// One kernel's run, shared by the threads of the system.
struct Run<'a> {
    launch: EncodedLaunch<'a>,
    thunk: Thunk,
    place: OwnPlace,
    arguments: &'a [usize],
    next: AtomicU64,
    blocks: u64,
    /// Whether a call of the thunk is for all threads of a block.
    is_for_block: bool,
}

/// Runs a kernel as the region of a CPU device. A call of `thunk` is for one thread.
///
/// # Safety
/// `entries` is the region's argument, whose only entry is a launch of this kernel.
#[unsafe(no_mangle)]
unsafe extern "C" fn accord_cuf_run(entries: *const *const u64, thunk: Thunk, region: usize, place: OwnPlace) {
    // SAFETY: the caller's promise.
    unsafe { run(entries, thunk, region, place, false) };
}

/// Runs a kernel that was cut at its barriers. A call of `thunk` is for all threads of a block.
///
/// # Safety
/// As for [`accord_cuf_run`].
#[unsafe(no_mangle)]
unsafe extern "C" fn accord_cuf_run_blocks(entries: *const *const u64, thunk: Thunk, region: usize, place: OwnPlace) {
    // SAFETY: the caller's promise.
    unsafe { run(entries, thunk, region, place, true) };
}

/// Runs a kernel.
///
/// # Safety
/// As for [`accord_cuf_run`].
unsafe fn run(entries: *const *const u64, thunk: Thunk, region: usize, place: OwnPlace, is_for_block: bool) {
    // SAFETY: the first word of a launch is its length.
    let bytes = unsafe {
        let first = *entries;
        std::slice::from_raw_parts(first.cast::<u8>(), EncodedLaunch::length(*first))
    };
    let Some(launch) = EncodedLaunch::new(bytes) else {
        report(
            "a launch that this program's device code can't read; compile all its sources by the same version of accord cuf",
        );
        std::process::abort();
    };
    for (distance, address) in launch.slots() {
        let slot = region.wrapping_add_signed(distance as isize);
        // SAFETY: the slot is a variable of the region's object; other queues' launches store the same address.
        unsafe { &*(slot as *const AtomicUsize) }.store(address as usize, Ordering::Relaxed);
    }
    let values: Vec<usize> = launch.arguments().map(|argument| argument.bytes.as_ptr().addr()).collect();
    let arguments: Vec<usize> = launch
        .arguments()
        .zip(&values)
        .map(|(argument, value)| if argument.by_address { std::ptr::from_ref(value).addr() } else { *value })
        .collect();
    let blocks = launch.grid().iter().map(|count| u64::from(*count)).product();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = cores.min(THREADS).min(usize::try_from(blocks).unwrap_or(THREADS));
    let run = Run { launch, thunk, place, arguments: &arguments, next: AtomicU64::new(0), blocks, is_for_block };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If a thread can't be started, the present ones run its blocks.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || run.some_blocks());
        }
        run.some_blocks();
    });
}

impl Run<'_> {
    /// Runs blocks until none is left.
    fn some_blocks(&self) {
        let place = (self.place)();
        let [nx, ny, _] = self.launch.grid().map(u64::from);
        let block = self.launch.block();
        let threads = block.iter().product::<u32>();
        let mut shared = vec![0_u128; (self.launch.shared() as usize).div_ceil(size_of::<u128>())];
        let mut fibers = self.launch.waits().then(|| Fibers::new(threads as usize, place, block));
        // SAFETY: a variable of this thread, which only this thread and its fibers use.
        unsafe {
            (&raw mut (*place).axes[2]).write(block);
            (&raw mut (*place).axes[3]).write(self.launch.grid());
            (&raw mut (*place).shared).write(shared.as_mut_ptr());
        }
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.blocks {
                return;
            }
            let at = [number % nx, number / nx % ny, number / (nx * ny)].map(|index| index as u32);
            // SAFETY: as above.
            unsafe { (&raw mut (*place).axes[1]).write(at) };
            let body = || {
                // SAFETY: the kernel's own thunk, with an address for each of its parameters.
                unsafe { (self.thunk)(self.arguments.as_ptr().cast()) };
            };
            match &mut fibers {
                _ if self.is_for_block => body(),
                Some(fibers) => fibers.run(&body),
                None => {
                    for thread in 0..threads {
                        // SAFETY: as above.
                        unsafe { (&raw mut (*place).axes[0]).write(index(thread, block)) };
                        body();
                    }
                }
            }
        }
    }
}
