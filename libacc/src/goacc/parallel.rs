//! `GOACC_parallel_keyed`: the compute constructs (OpenACC 3.3, 2.5).

use super::entries;
use crate::prof::{self, About, Construct, Extent};
use crate::{abi_boundary, closing, settings, thread};
use accord_runtime::{Placement, Tags};
use accord_types::AsyncArg;
use std::ffi::c_void;

/// Returns the shim's next word of a list of launch tags.
type NextWord = unsafe extern "C" fn(*mut c_void) -> u32;

/// Called by the shim. Returns 1 if the shim has to run the region on the host, after which it
/// calls [`end_host_region`].
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
        // SAFETY: `list` is what `next` takes words from, until the 0 at the end of GCC's list, behind which none is taken.
        let tags = Tags::decode(std::iter::from_fn(|| Some(unsafe { next(list) })));
        let open = prof::active().then(|| {
            // The runtime reports what makes no sense.
            let async_ = tags.as_ref().map_or(AsyncArg::Sync, |tags| tags.queue).raw();
            let subject = prof::subject(runtime, local, dev, async_);
            let extent = Extent::Region(function);
            prof::start(About { pair: prof::COMPUTE, construct: Construct::Parallel, async_, subject, extent })
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

/// Called by the shim when a region that ran on the host has returned or thrown.
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
