//! Events of `data`, `host_data` and `declare`, whose calls don't say which they are (OpenACC 3.3, 5.1.3).

use super::{Construct, ENTER_DATA, EXIT_DATA, Pair, active, around};
use crate::api::SYNC;
use crate::thread;
use accord_runtime::{Entries, LocalThread, Runtime};
use accord_types::Result;

/// Runs `body`, the start of a `data` or `host_data` region, between its events.
pub(crate) fn data_start(
    entries: &mut Entries<'_>,
    runtime: &Runtime,
    local: &mut LocalThread,
    body: impl FnOnce(&mut Entries<'_>, &mut LocalThread) -> Result<()>,
) -> Result<()> {
    if !active() {
        return body(entries, local);
    }
    let construct = if uses_device(entries.kinds) { Construct::HostData } else { Construct::Data };
    let depth = local.regions();
    thread::with_host_data(|regions| {
        // Those that ended while nobody looked.
        regions.retain(|region| *region < depth);
        if construct == Construct::HostData {
            regions.push(depth);
        }
    });
    around(ENTER_DATA, construct, SYNC, runtime, local, |local| body(entries, local))
}

/// Runs `body`, the end of this thread's innermost region, between its events.
pub(crate) fn data_end(
    runtime: &Runtime,
    local: &mut LocalThread,
    body: impl FnOnce(&mut LocalThread) -> Result<()>,
) -> Result<()> {
    if !active() {
        return body(local);
    }
    let depth = local.regions().saturating_sub(1);
    let found = thread::with_host_data(|regions| regions.pop_if(|region| *region == depth));
    let construct = if found.is_some() { Construct::HostData } else { Construct::Data };
    around(EXIT_DATA, construct, SYNC, runtime, local, body)
}

/// Runs `body`, the start or end of a scope with `declare`d variables, between its events.
pub(crate) fn declare(
    entries: &mut Entries<'_>,
    runtime: &Runtime,
    local: &mut LocalThread,
    body: impl FnOnce(&mut Entries<'_>, &mut LocalThread) -> Result<()>,
) -> Result<()> {
    if !active() {
        return body(entries, local);
    }
    around(pair_of(entries.kinds), Construct::Declare, SYNC, runtime, local, |local| body(entries, local))
}

/// Device addresses for `use_device` are asked for, with and without `if_present`.
fn uses_device(kinds: &[u16]) -> bool {
    const USE_DEVICE: [u8; 2] = [0x0e, 0x10];
    kinds.iter().any(|kind| USE_DEVICE.contains(&kind.to_le_bytes()[0]))
}

/// Kinds that copy out, delete or release: the scope is left.
fn pair_of(kinds: &[u16]) -> Pair {
    const ENDS: [u8; 4] = [0x02, 0x82, 0x07, 0x17];
    let ends = kinds.iter().any(|kind| ENDS.contains(&kind.to_le_bytes()[0]));
    if ends { EXIT_DATA } else { ENTER_DATA }
}
