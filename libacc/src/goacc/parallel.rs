//! `GOACC_parallel_keyed`: the compute constructs (OpenACC 3.3, 2.5).

use super::{entries, list};
use crate::api::SYNC;
use crate::prof::{self, About, Construct, Extent};
use crate::{abi_boundary, process, settings, thread};
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
    if process::is_closed() || settings::is_without_devices() {
        return 1;
    }
    abi_boundary::enter("parallel", |runtime, local| {
        // SAFETY: GCC passes n elements of each array; the shim has gathered the tags.
        let (mut entries, tags) = unsafe { (entries(n, hosts, sizes, kinds), list(tag_count, tags)) };
        let open = prof::active().then(|| {
            let async_ = async_of(tags);
            let subject = prof::subject(runtime, local, dev, async_);
            let extent = Extent::Region(function);
            prof::start(About { pair: prof::COMPUTE, construct: Construct::Parallel, async_, subject, extent })
        });
        match runtime.parallel(local, dev, function, &mut entries, tags)? {
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

/// The async-argument in a launch's tags, for profilers.
fn async_of(tags: &[u32]) -> i32 {
    const DIM: u32 = 1;
    const ASYNC: u32 = 2;
    const IN_NEXT: u32 = 0xffff;
    let mut tags = tags.iter().copied();
    while let Some(tag) = tags.next() {
        let operand = tag & IN_NEXT;
        match tag >> 28 {
            DIM => {
                for _ in 0..(operand & 7).count_ones() {
                    tags.next();
                }
            }
            ASYNC if operand == IN_NEXT => return tags.next().map_or(SYNC, u32::cast_signed),
            ASYNC => return operand.cast_signed(),
            _ => break,
        }
    }
    SYNC
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_read_behind_dimensions() {
        assert_eq!(async_of(&[0]), SYNC);
        assert_eq!(async_of(&[0x1000_0005, 9, 9, 0x2000_0003, 0]), 3);
        assert_eq!(async_of(&[0x2000_ffff, u32::MAX, 0x3000_0001, 1, 0]), -1);
        assert_eq!(async_of(&[0x3000_0001, 1, 0]), SYNC);
        assert_eq!(async_of(&[0x2000_ffff]), SYNC);
    }
}
