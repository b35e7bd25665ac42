//! The profiling interface (OpenACC 3.3, chapter 5), with the layouts of GCC's `acc_prof.h`.
//!
//! Events of constructs and of the session are raised here. Events of single allocations, uploads, downloads, launches and
//! waits come from the runtime's notices.

mod callbacks;
mod context;
mod device_events;
pub(crate) mod errors;
mod event_records;
mod info;
mod library;
mod notify;
mod open;
mod place;
mod recent;
mod region_names;
mod regions;
mod site;
pub(crate) mod times;

pub(crate) use callbacks::{Kind, active, register, unregister};
pub(crate) use context::{asking, within};
pub(crate) use info::{Construct, Event};
pub(crate) use library::{load_libraries, load_program_libraries};
pub(crate) use open::{Open, OpenRegion};
pub(crate) use place::{Place, here};
pub(crate) use regions::{data_end, data_start, declare, enter_or_exit};
pub(crate) use site::{Extent, set_place};

use accord_runtime::ports::{DeviceClient, HostMemory};
use accord_runtime::prof::Subject;
use accord_runtime::{LocalThread, Runtime, on_host};
use accord_types::{DeviceNum, DeviceType, QueueId, Result};
use context::CurrentConstruct;
use info::{EventInfo, Records};
use std::ops::Range;
use std::sync::Arc;

/// Reports operations on the devices of `runtime`, which are behind `clients`, to tools.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for invalid settings.
pub(crate) fn watch(runtime: &Runtime, clients: &[Arc<dyn DeviceClient>], host: Box<dyn HostMemory>) -> Result<()> {
    region_names::take_from(host);
    place::set_devices(clients);
    runtime.observe(Box::new(device_events::Tools));
    if crate::settings::is_without_devices() {
        return Ok(());
    }
    times::start(clients);
    static ONCE: std::sync::Once = std::sync::Once::new();
    let mut started = Ok(());
    ONCE.call_once(|| started = notify::start());
    started
}

/// Removes what is known of an unloaded object with these addresses.
pub(crate) fn forget(span: &Range<usize>) {
    region_names::forget(span);
    site::forget(span);
    recent::forget();
}

/// The pairs of events that constructs and waits raise.
pub(crate) const COMPUTE: Pair = (Event::ComputeStart, Event::ComputeEnd);
pub(crate) const ENTER_DATA: Pair = (Event::EnterDataStart, Event::EnterDataEnd);
pub(crate) const EXIT_DATA: Pair = (Event::ExitDataStart, Event::ExitDataEnd);
pub(crate) const UPDATE: Pair = (Event::UpdateStart, Event::UpdateEnd);
pub(crate) const WAIT: Pair = (Event::WaitStart, Event::WaitEnd);

/// The start and the end of an event pair.
pub(crate) type Pair = (Event, Event);

/// The common facts of a construct's events.
#[derive(Clone, Copy)]
pub(crate) struct EventFacts {
    pub(crate) pair: Pair,
    pub(crate) construct: Construct,
    /// The async-argument.
    pub(crate) async_: i32,
    /// `None` if the device can't be named, which the profiler does not report.
    pub(crate) subject: Option<Subject>,
    pub(crate) extent: Extent,
}

/// Runs `body` between the events of a pair, which are raised while [`active`].
pub(crate) fn around<R>(
    local: &mut LocalThread,
    about: impl FnOnce(&mut LocalThread) -> EventFacts,
    body: impl FnOnce(&mut LocalThread) -> Result<R>,
) -> Result<R> {
    if !active() {
        return body(local);
    }
    let open = start(about(local));
    let result = body(local);
    open.end();
    result
}

/// Raises the start of an event pair. Called while [`active`].
pub(crate) fn start(about: EventFacts) -> Open {
    let EventFacts { pair, construct, async_, subject, extent } = about;
    let spot = site::spot(extent);
    let records = Records::new(pair.0, EventInfo::new(pair.0, construct), subject.as_ref(), async_, spot);
    let queue = subject.map_or(QueueId::SYNC, |subject| subject.queue);
    let outer = context::enter(construct, CurrentConstruct { spot, async_, queue });
    let mut open = Open { end: pair.1, records, outer };
    callbacks::call(pair.0, &mut open.records);
    open
}

/// Returns the device of a construct, by the argument of its call that tells where it runs.
pub(crate) fn subject(runtime: &Runtime, local: &mut LocalThread, dev: i32, async_: i32) -> Option<Subject> {
    if on_host(dev) { Some(host(async_)) } else { runtime.subject(local, async_) }
}

/// Returns the host, on which a construct runs if its condition is false.
fn host(async_: i32) -> Subject {
    let queue = QueueId(async_.cast_unsigned());
    Subject { device_type: DeviceType::Host, device: DeviceNum(0), index: None, handles: None, queue }
}

/// Raises an event of the session that concerns no device.
pub(crate) fn once(event: Event, construct: Construct) {
    if active() {
        let mut records = Records::new(event, EventInfo::new(event, construct), None, crate::api::SYNC, None);
        callbacks::call(event, &mut records);
    }
}
