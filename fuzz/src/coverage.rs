//! Reads which code an input has reached, in builds with coverage counters, which `scripts/fuzz-corpus` makes by the stable option
//! `-C instrument-coverage`. The counters are read between inputs.

#[cfg(feature = "coverage")]
mod counters {
    unsafe extern "C" {
        safe fn __llvm_profile_begin_counters() -> *mut u64;
        safe fn __llvm_profile_end_counters() -> *mut u64;
    }

    fn each(mut work: impl FnMut(usize, *mut u64)) {
        let (begin, end) = (__llvm_profile_begin_counters(), __llvm_profile_end_counters());
        let count = (end.addr() - begin.addr()) / size_of::<u64>();
        (0..count).for_each(|at| work(at, begin.wrapping_add(at)));
    }

    pub(super) fn reset() {
        // SAFETY: a coverage counter of this program, on which no other code depends.
        each(|_, counter| unsafe { counter.write_volatile(0) });
    }

    pub(super) fn reached() -> Vec<u64> {
        let mut places = Vec::new();
        each(|at, counter| {
            // SAFETY: as above.
            if unsafe { counter.read_volatile() } > 0 {
                places.push(at as u64);
            }
        });
        places
    }
}

#[cfg(not(feature = "coverage"))]
mod counters {
    pub(super) fn reset() {}

    pub(super) fn reached() -> Vec<u64> {
        Vec::new()
    }
}

/// Resets all counters.
pub(crate) fn reset() {
    counters::reset();
}

/// Returns the code reached since the last reset, or nothing in builds without counters.
pub(crate) fn reached() -> Vec<u64> {
    counters::reached()
}
