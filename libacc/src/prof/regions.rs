//! Events of `data`, `host_data` and `declare`, whose calls do not name the construct (OpenACC 3.3, 5.1.3).

use super::{Construct, ENTER_DATA, EXIT_DATA, EventFacts, Extent, OpenRegion, Pair, active, around, site, subject};
use crate::api::SYNC;
use crate::thread;
use accord_runtime::{Entries, LocalThread, Runtime};
use accord_types::Result;

/// Runs `body`, the start of a `data` or `host_data` region, between its events.
pub(crate) fn data_start(
    dev: i32,
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
    let about = |local: &mut LocalThread| {
        let subject = subject(runtime, local, dev, SYNC);
        let line = site::spot(Extent::Start).map_or(site::UNKNOWN, |spot| spot.line);
        thread::with_open_regions(|regions| {
            // Removes regions that ended while no tool was registered.
            regions.retain(|region| region.depth < depth);
            regions.push(OpenRegion { depth, construct, line, subject });
        });
        EventFacts { pair: ENTER_DATA, construct, async_: SYNC, subject, extent: Extent::Start }
    };
    around(local, about, |local| body(entries, local))
}

/// Runs `body`, the end of this thread's innermost region, between its events.
pub(crate) fn data_end(
    runtime: &Runtime,
    local: &mut LocalThread,
    body: impl FnOnce(&mut LocalThread) -> Result<()>,
) -> Result<()> {
    let about = |local: &mut LocalThread| {
        let depth = local.regions().saturating_sub(1);
        let found = thread::with_open_regions(|regions| regions.pop_if(|region| region.depth == depth));
        // The start of a missing region was not seen.
        let region = found.unwrap_or_else(|| OpenRegion {
            depth,
            construct: Construct::Data,
            line: site::UNKNOWN,
            subject: runtime.subject(local, SYNC),
        });
        let OpenRegion { construct, line, subject, .. } = region;
        EventFacts { pair: EXIT_DATA, construct, async_: SYNC, subject, extent: Extent::EndOf(line) }
    };
    around(local, about, body)
}

/// Runs `body`, the start or end of a scope with `declare` variables, between its events.
pub(crate) fn declare(
    dev: i32,
    entries: &mut Entries<'_>,
    runtime: &Runtime,
    local: &mut LocalThread,
    body: impl FnOnce(&mut Entries<'_>, &mut LocalThread) -> Result<()>,
) -> Result<()> {
    let (pair, construct) = (pair_of(entries.kinds), Construct::Declare);
    let about = |local: &mut LocalThread| {
        let subject = subject(runtime, local, dev, SYNC);
        EventFacts { pair, construct, async_: SYNC, subject, extent: Extent::Call }
    };
    around(local, about, |local| body(entries, local))
}

/// Returns the events of a call that means `enter data` or `exit data`, by its entries.
pub(crate) fn enter_or_exit(kinds: &[u16]) -> (Pair, Construct) {
    let pair = pair_of(kinds);
    (pair, if pair == EXIT_DATA { Construct::ExitData } else { Construct::EnterData })
}

/// Whether entries request device addresses for `use_device`, with or without `if_present`.
fn uses_device(kinds: &[u16]) -> bool {
    const USE_DEVICE: [u8; 2] = [0x0e, 0x10];
    kinds.iter().any(|kind| USE_DEVICE.contains(&kind.to_le_bytes()[0]))
}

/// Returns the end's events for kinds that copy out, delete or release, and the start's for others.
fn pair_of(kinds: &[u16]) -> Pair {
    const ENDS: [u8; 4] = [0x02, 0x82, 0x07, 0x17];
    let ends = kinds.iter().any(|kind| ENDS.contains(&kind.to_le_bytes()[0]));
    if ends { EXIT_DATA } else { ENTER_DATA }
}
