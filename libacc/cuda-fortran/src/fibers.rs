//! Threads of a block that wait for each other: fibers on one thread of the system.

use crate::errors::report;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};

/// Number of threads in a warp.
const WARP: usize = 32;
/// A fiber's stack, which holds a kernel's local arrays.
pub(crate) const STACK: usize = 128 << 10;

/// A thread's place in the grid, as compiled kernels read it.
#[repr(C)]
pub(crate) struct ThreadPosition {
    /// Thread and block, threads of a block, blocks of the grid.
    pub(crate) axes: [[u32; 3]; 4],
    /// The block's dynamic shared memory.
    pub(crate) shared: *mut u128,
}

/// What a suspended thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    /// All threads of the block that have not ended.
    Block,
    /// The threads of its warp that have not ended and do not wait for the block.
    Warp,
}

thread_local! {
    /// The block that runs on this thread of the system.
    static BLOCK: RefCell<Block> = const { RefCell::new(Block { values: Vec::new() }) };
    /// The running fiber, and the means to suspend it.
    static NOW: Cell<Option<(usize, *const Yielder<(), Wait>)>> = const { Cell::new(None) };
}

/// The values that the threads of a block exchange.
struct Block {
    /// The value of each thread for the exchange that it takes part in.
    values: Vec<Option<u32>>,
}

/// Fibers with their stacks, reused for one block after the other.
pub(crate) struct Fibers {
    stacks: Vec<DefaultStack>,
    count: usize,
    place: *mut ThreadPosition,
    block: [u32; 3],
}

impl Fibers {
    /// Creates the fibers; `place` is the calling thread's place in the grid, which its kernels read.
    pub(crate) fn new(count: usize, place: *mut ThreadPosition, block: [u32; 3]) -> Self {
        Self { stacks: Vec::new(), count, place, block }
    }

    /// Runs `body` once for each thread of a block.
    pub(crate) fn run(&mut self, body: &dyn Fn()) {
        // SAFETY: all fibers have ended when this function returns, so that none calls `body` later.
        let body: &'static dyn Fn() = unsafe { std::mem::transmute::<&dyn Fn(), &'static dyn Fn()>(body) };
        BLOCK.with_borrow_mut(|block| block.values = vec![None; self.count]);
        let mut fibers = Vec::with_capacity(self.count);
        for number in 0..self.count {
            let stack = match self.stacks.pop() {
                Some(stack) => stack,
                None => match DefaultStack::new(STACK) {
                    Ok(stack) => stack,
                    Err(error) => {
                        report(&format!(
                            "no stack for a thread of a block: {error}; let the device's worker have more memory maps (vm.max_map_count)"
                        ));
                        std::process::abort();
                    }
                },
            };
            fibers.push(Some(Coroutine::with_stack(stack, move |yielder: &Yielder<(), Wait>, ()| {
                NOW.set(Some((number, yielder)));
                body();
            })));
        }
        let mut waits: Vec<Option<Wait>> = vec![None; self.count];
        let mut left = self.count;
        while left > 0 {
            // Each thread is at a barrier, at an operation of its warp, has ended, or has not begun.
            let a_warp_waits = waits.contains(&Some(Wait::Warp));
            for (number, slot) in fibers.iter_mut().enumerate() {
                let Some(fiber) = slot.as_mut().filter(|_| !(a_warp_waits && waits[number] == Some(Wait::Block)))
                else {
                    continue;
                };
                // SAFETY: a variable of this thread, whose fibers take turns.
                unsafe { (&raw mut (*self.place).axes[0]).write(index(number as u32, self.block)) };
                match fiber.resume(()) {
                    CoroutineResult::Yield(wait) => waits[number] = Some(wait),
                    CoroutineResult::Return(()) => {
                        left -= 1;
                        waits[number] = None;
                        self.stacks.extend(slot.take().map(Coroutine::into_stack));
                    }
                }
            }
        }
        NOW.set(None);
    }
}

/// Suspends this thread until the threads that it waits for have arrived. Does nothing in kernels without fibers.
fn yield_fiber(wait: Wait) {
    let Some((number, yielder)) = NOW.get() else { return };
    // SAFETY: this is the running fiber, and its yielder lives as long as it.
    unsafe { (*yielder).suspend(wait) };
    NOW.set(Some((number, yielder)));
}

/// Contributes a value, and reads those of the participating threads.
fn exchange<R>(value: u32, wait: Wait, read: impl FnOnce(usize, &[Option<u32>]) -> R) -> R {
    let own = NOW.get().map_or(0, |(number, _)| number);
    let set = |value| {
        BLOCK.with_borrow_mut(|block| {
            if let Some(slot) = block.values.get_mut(own) {
                *slot = value;
            }
        });
    };
    set(Some(value));
    yield_fiber(wait);
    let result = BLOCK.with_borrow(|block| read(own, &block.values));
    yield_fiber(wait);
    set(None);
    result
}

/// Returns how many threads of the block have contributed a value other than 0, and how many participate.
fn in_block(value: u32) -> (u32, u32) {
    exchange(value, Wait::Block, |_, values| {
        values.iter().flatten().fold((0, 0), |(set, all), value| (set + u32::from(*value != 0), all + 1))
    })
}

/// Returns which threads of the warp have contributed a value other than 0, and which participate.
fn in_warp(value: u32) -> (u32, u32) {
    exchange(value, Wait::Warp, |own, values| {
        let first = own / WARP * WARP;
        let lanes = values.iter().skip(first).take(WARP).enumerate();
        lanes.fold((0, 0), |(set, all), (lane, value)| {
            (set | u32::from(value.is_some_and(|value| value != 0)) << lane, all | u32::from(value.is_some()) << lane)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_barrier() {
    yield_fiber(Wait::Block);
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_barrier_popc(value: u32) -> u32 {
    in_block(value).0
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_barrier_and(value: u32) -> u32 {
    let (set, all) = in_block(value);
    u32::from(set == all)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_barrier_or(value: u32) -> u32 {
    u32::from(in_block(value).0 != 0)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_warp_barrier(_mask: u32) {
    yield_fiber(Wait::Warp);
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_lane() -> u32 {
    NOW.get().map_or(0, |(number, _)| (number % WARP) as u32)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_vote_ballot(mask: u32, value: bool) -> u32 {
    in_warp(u32::from(value)).0 & mask
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_vote_any(mask: u32, value: bool) -> bool {
    in_warp(u32::from(value)).0 & mask != 0
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_vote_all(mask: u32, value: bool) -> bool {
    let (set, all) = in_warp(u32::from(value));
    set & mask == all & mask
}

#[unsafe(no_mangle)]
extern "C" fn accord_ballot_l4(value: u32) -> u32 {
    in_warp(value).0
}

/// Returns the value of the lane that `source` computes from this lane's number; its own if there is none.
fn shuffle(value: u32, source: impl FnOnce(usize) -> Option<usize>) -> u32 {
    exchange(value, Wait::Warp, |own, values| {
        let first = own / WARP * WARP;
        let lane = source(own % WARP).filter(|lane| *lane < WARP).map(|lane| first + lane);
        lane.and_then(|lane| values.get(lane).copied().flatten()).unwrap_or(value)
    })
}

/// Shuffles of integers and of reals of four bytes.
macro_rules! shuffles {
    ($($integer:ident $real:ident: |$lane:ident, $by:ident| $source:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $integer(value: u32, $by: u32) -> u32 {
                shuffle(value, |$lane| $source)
            }

            #[unsafe(no_mangle)]
            extern "C" fn $real(value: f32, by: u32) -> f32 {
                f32::from_bits($integer(value.to_bits(), by))
            }
        )*
    };
}

shuffles! {
    accord_shfl_i32 accord_shfl_f32: |_lane, by| Some(by as usize % WARP);
    accord_shfl_up_i32 accord_shfl_up_f32: |lane, by| lane.checked_sub(by as usize);
    accord_shfl_down_i32 accord_shfl_down_f32: |lane, by| lane.checked_add(by as usize);
    accord_shfl_xor_i32 accord_shfl_xor_f32: |lane, by| Some(lane ^ by as usize);
}

/// Returns the place of a thread in its block.
pub(crate) fn index(thread: u32, block: [u32; 3]) -> [u32; 3] {
    [thread % block[0], thread / block[0] % block[1], thread / (block[0] * block[1])]
}
