//! `GOACC_parallel_keyed`: the compute constructs (OpenACC 3.3, 2.5).

use super::{entries, list};
use crate::{door, thread};
use accord_runtime::Placement;

/// Called by the shim. Returns 1 if the shim has to run the region on the host, after which it
/// calls [`end_host_region`].
pub(super) extern "C" fn parallel(
    dev: i32,
    function: usize,
    n: usize,
    hosts: *mut usize,
    sizes: *const usize,
    kinds: *const u16,
    tag_count: usize,
    tags: *const u32,
) -> i32 {
    door::enter("parallel", |runtime, local| {
        // SAFETY: GCC passes n elements of each array; the shim has gathered the tags.
        let (mut entries, tags) =
            unsafe { (entries(n, hosts, sizes, kinds), list(tag_count, tags)) };
        let placement = runtime.parallel(local, dev, function, &mut entries, tags)?;
        if placement == Placement::Host {
            local.begin_host_region();
        }
        Ok(i32::from(placement == Placement::Host))
    })
}

/// Called by the shim when a region that ran on the host has returned or thrown.
pub(super) extern "C" fn end_host_region() {
    door::enter_without_runtime("parallel", || {
        thread::with_local(accord_runtime::LocalThread::end_host_region);
        Ok(())
    });
}
