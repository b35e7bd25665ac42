//! `GOACC_parallel_keyed`: the compute constructs (OpenACC 3.3, 2.5).

use super::entries;
use crate::prof::{self, Construct, EventFacts, Extent};
use crate::{abi_boundary, closing, settings, thread};
use accord_runtime::{Placement, Tags};
use accord_types::AsyncArg;
use std::ffi::c_void;

/// Returns the shim's next word of a list of launch tags.
type NextWord = unsafe extern "C" fn(*mut c_void) -> u32;

/// Starts a region, for the shim. Returns 1 if the shim must run the region on the host and then call [`end_host_region`].
pub(super) extern "C" fn parallel(
    dev: i32,
    function: usize,
    n: usize,
    hosts: *mut usize,
    sizes: *const usize,
    kinds: *const u16,
    next: NextWord,
    list: *mut c_void,
) -> i32 {
    if closing::is_closed() || settings::is_without_devices() {
        return 1;
    }
    abi_boundary::enter("parallel", |runtime, local| {
        // SAFETY: GCC passes n elements of each array.
        let mut entries = unsafe { entries(n, hosts, sizes, kinds) };
        // SAFETY: `next` reads words from `list` up to the 0 at the end of GCC's list, and no further.
        let tags = Tags::decode(std::iter::from_fn(|| Some(unsafe { next(list) })));
        let open = prof::active().then(|| {
            // The runtime reports invalid values.
            let async_ = tags.as_ref().map_or(AsyncArg::Sync, |tags| tags.queue).raw();
            let subject = prof::subject(runtime, local, dev, async_);
            let extent = Extent::Region(function);
            prof::start(EventFacts { pair: prof::COMPUTE, construct: Construct::Parallel, async_, subject, extent })
        });
        match runtime.parallel(local, dev, function, &mut entries, &tags)? {
            Placement::Device => {
                if let Some(open) = open {
                    open.end();
                }
                Ok(0)
            }
            Placement::Host => {
                local.begin_host_region();
                thread::begin_host_region(open);
                Ok(1)
            }
        }
    })
}

/// Ends a region that ran on the host and has returned or thrown, for the shim.
pub(super) extern "C" fn end_host_region() {
    abi_boundary::enter_without_runtime("parallel", || {
        let open = thread::end_host_region();
        thread::with_local(accord_runtime::LocalThread::end_host_region);
        if let Some(open) = open {
            open.end();
        }
        Ok(())
    });
}
