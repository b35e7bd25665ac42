//! Finds the program's present call without unwinding the stack each time.
//!
//! There are few paths through this library to one of its functions, and each has its return addresses at fixed distances on the stack. The unwinder
//! learns a path once. Afterwards the path is recognised by its return addresses, and the program's own return address is read from its known place,
//! without heap or lock.

use super::stack;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Most return addresses of one path; longer paths are unwound each time.
const STEPS_MAX: usize = 48;
/// Most paths that are kept.
const WAYS_MAX: usize = 512;
/// Number of lists of paths, by the first return address.
const LISTS: usize = 64;

/// A return address, and its distance above [`code`]'s marker on the stack.
#[derive(Clone, Copy, Default)]
struct Step {
    above: usize,
    address: usize,
}

/// A path through this library, innermost first. The last step is the program's call, whose address differs.
struct CallPath {
    next: *const Self,
    steps: Box<[Step]>,
}

/// Paths are never freed and only added, so that they are read without a lock, and are consistent in a forked child.
static WAYS: [AtomicPtr<CallPath>; LISTS] = [const { AtomicPtr::new(null_mut()) }; LISTS];
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// The offset of [`code`]'s own return address above the marker; 0 until it is known.
static FIRST: AtomicUsize = AtomicUsize::new(0);

/// Returns an address inside of the program's call into this library, as [`stack::caller`].
#[inline(never)]
pub(crate) fn code() -> Option<usize> {
    let marker = 0u8;
    let marker = black_box(&raw const marker).addr();
    let first = FIRST.load(Ordering::Acquire);
    if first != 0
        && let Some(address) = known(marker, first)
    {
        return Some(address - 1);
    }
    learn(marker)
}

/// Returns the word on the stack there.
///
/// # Safety
/// A frame of this thread holds the word.
unsafe fn word(address: usize) -> usize {
    // SAFETY: by the caller's guarantee. Volatile, because no Rust variable is there.
    unsafe { (address as *const usize).read_volatile() }
}

fn list(address: usize) -> &'static AtomicPtr<CallPath> {
    &WAYS[(address ^ (address >> 6)) % LISTS]
}

/// Returns the program's return address, if the path is known.
fn known(marker: usize, first: usize) -> Option<usize> {
    // SAFETY: `code` has not returned, so that its return address is at the same place as before.
    let mut way = list(unsafe { word(marker + first) }).load(Ordering::Acquire).cast_const();
    // SAFETY: ways are never freed.
    while let Some(found) = unsafe { way.as_ref() } {
        if let Some((last, steps)) = found.steps.split_last() {
            // SAFETY: an expected return address identifies the function whose frame surrounds it, and so the end of that frame and the
            // place of the next return address. The comparison stops at the first difference.
            let same = |step: &Step| unsafe { word(marker + step.above) } == step.address;
            if steps.iter().all(same) {
                // SAFETY: as above.
                return Some(unsafe { word(marker + last.above) });
            }
        }
        way = found.next;
    }
    None
}

struct Learner {
    own: Range<usize>,
    marker: usize,
    steps: [Step; STEPS_MAX],
    count: usize,
    passed: usize,
    /// Whether the path has only plain calls, and may be kept.
    plain: bool,
    code: Option<usize>,
}

#[cold]
fn learn(marker: usize) -> Option<usize> {
    let mut learner = Learner {
        own: stack::own(),
        marker,
        steps: [Step::default(); STEPS_MAX],
        count: 0,
        passed: 0,
        // On other architectures calls don't leave their return address at the end of the caller's frame.
        plain: cfg!(target_arch = "x86_64"),
        code: None,
    };
    // SAFETY: `learner` outlives the call, and `step` only uses it and the given context.
    unsafe { stack::backtrace(step, (&raw mut learner).cast()) };
    let steps = &learner.steps[..learner.count];
    // SAFETY: the unwinder has just found these frames of this thread's callers.
    let as_found = |step: &Step| unsafe { word(marker + step.above) } == step.address;
    if learner.code.is_some() && learner.plain && !steps.is_empty() && steps.iter().all(as_found) {
        keep(steps);
        FIRST.store(steps[0].above, Ordering::Release);
    }
    learner.code
}

extern "C" fn step(context: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its context and the `Learner` of `learn`, which no other code uses meanwhile.
    let (learner, (ip, before, sp)) = unsafe { (&mut *data.cast::<Learner>(), stack::position(context)) };
    if ip == 0 {
        return stack::STOP;
    }
    let code = if before { ip } else { ip - 1 };
    let own = learner.own.contains(&code);
    // The frames of the unwinding itself are below.
    if let Some(above) = sp.checked_sub(learner.marker + size_of::<usize>()) {
        match learner.steps.get_mut(learner.count) {
            Some(step) if !before => *step = Step { above, address: ip },
            _ => learner.plain = false,
        }
        learner.count = (learner.count + 1).min(STEPS_MAX);
    }
    if own {
        learner.passed += 1;
        return if learner.passed < stack::OWN_MAX { stack::GO_ON } else { stack::STOP };
    }
    learner.code = Some(code);
    stack::STOP
}

fn keep(steps: &[Step]) {
    let Some(first) = steps.first() else { return };
    // With only one step the program's own call is the first.
    if steps.len() < 2 || KEPT.fetch_add(1, Ordering::Relaxed) >= WAYS_MAX {
        return;
    }
    let list = list(first.address);
    let way = Box::leak(Box::new(CallPath { next: list.load(Ordering::Acquire), steps: steps.into() }));
    // Another thread may have added a path first.
    while let Err(now) = list.compare_exchange(way.next.cast_mut(), &raw mut *way, Ordering::AcqRel, Ordering::Acquire)
    {
        way.next = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls from outside the test's own object, which is this library here.
    #[inline(never)]
    fn asked_from_elsewhere(deeper: u32) -> (Option<usize>, Option<usize>) {
        if deeper > 0 {
            return black_box(asked_from_elsewhere(deeper - 1));
        }
        (black_box(code()), black_box(stack::caller()))
    }

    #[test]
    fn a_known_way_leads_where_the_unwinder_leads() {
        for _ in 0..3 {
            for deeper in 0..4 {
                let (known, unwound) = asked_from_elsewhere(deeper);
                assert!(known.is_some());
                assert_eq!(known, unwound);
            }
        }
        if cfg!(target_arch = "x86_64") {
            assert!(KEPT.load(Ordering::Relaxed) > 0, "ways are kept");
        }
    }

    /// A path that differs in one step is another path.
    #[test]
    fn a_way_is_known_by_all_of_its_steps() {
        let stack = [11usize, 22, 33, 44];
        let marker = stack.as_ptr().addr();
        let at = |n: usize| Step { above: n * size_of::<usize>(), address: stack[n] };
        keep(&[at(0), at(1), Step { address: 34, ..at(2) }, at(3)]);
        assert_eq!(known(marker, 0), None);
        keep(&[at(0), at(1), at(2), Step { address: 0, ..at(3) }]);
        assert_eq!(known(marker, 0), Some(44), "the last one is what is asked for");
    }
}
