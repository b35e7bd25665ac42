//! Which places of the code an input has reached, in builds that count them: `scripts/fuzz-corpus` makes one. Stable compilers do that
//! (`-C instrument-coverage`); here the counters are read between inputs.

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
        // SAFETY: a counter of this program; nothing is made of its value but whether it is 0.
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

/// Nothing was reached yet.
pub(crate) fn reset() {
    counters::reset();
}

/// The places that were reached since; none where nothing counts them.
pub(crate) fn reached() -> Vec<u64> {
    counters::reached()
}
