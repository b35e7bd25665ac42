//! The profiling interface (OpenACC 3.3, chapter 5), with the layouts of GCC's `acc_prof.h`.
//!
//! Events of constructs and of the session are raised here, at the border. Events of single
//! allocations, uploads, downloads, launches and waits come from the runtime's notices.

mod callbacks;
mod device_events;
pub(crate) mod errors;
mod info;
mod kernels;
mod library;
mod notify;
mod place;
mod regions;
mod site;
pub(crate) mod times;
mod told;

pub(crate) use callbacks::{Kind, active, register, unregister};
pub(crate) use info::{Construct, Event};
pub(crate) use library::{load_libraries, load_program_libraries};
pub(crate) use place::{Place, here};
pub(crate) use regions::{data_end, data_start, declare};

use accord_runtime::ports::{DeviceClient, HostMemory};
use accord_runtime::prof::Subject;
use accord_runtime::{LocalThread, Runtime};
use accord_types::{DeviceNum, DeviceType, QueueId, Result};
use info::{EventInfo, Records};
use site::Site;
use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// An event pair whose end has not come. The same records are passed to callbacks of the start and the
/// end, so that a tool finds its `tool_info` again.
pub(crate) struct Open {
    end: Event,
    records: Records,
    /// The construct around it, and where that is.
    outer: (Construct, Option<&'static Site>),
}

thread_local! {
    /// The construct that this thread is in: the parent of what happens on devices.
    static PARENT: Cell<Construct> = const { Cell::new(Construct::RuntimeApi) };
    /// Where that construct is, if it was looked for.
    static SITE: Cell<Option<&'static Site>> = const { Cell::new(None) };
    /// This thread is in a routine that is there to start or end devices.
    static ASKED_FOR: Cell<bool> = const { Cell::new(false) };
}

/// Where names of regions come from.
static HOST: OnceLock<Box<dyn HostMemory>> = OnceLock::new();

/// Lets tools see what happens on the devices of `runtime`, which are behind `clients`.
///
/// # Errors
/// `acc_error_invalid_argument` for settings without a meaning.
pub(crate) fn watch(runtime: &Runtime, clients: &[Arc<dyn DeviceClient>], host: Box<dyn HostMemory>) -> Result<()> {
    // A forked child finds the same regions where its parent did.
    let _ = HOST.set(host);
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

/// The construct that this thread is in.
fn parent() -> Construct {
    PARENT.get()
}

/// Where the construct is that this thread is in; none outside of those that are told.
fn site() -> Option<&'static Site> {
    SITE.get()
}

/// The object with these addresses is gone.
pub(crate) fn forget(span: &Range<usize>) {
    kernels::forget(span);
    site::forget(span);
}

/// Whether the program asks for the start or end of a device.
fn asked_for() -> bool {
    ASKED_FOR.get()
}

/// Runs a routine that is there to start or end devices: their events are not implicit.
pub(crate) fn asking<R>(body: impl FnOnce() -> R) -> R {
    let before = ASKED_FOR.replace(true);
    let result = body();
    ASKED_FOR.set(before);
    result
}

/// Runs `body` as a part of `construct`, which has no events of its own.
pub(crate) fn within<R>(construct: Construct, body: impl FnOnce() -> R) -> R {
    let outer = PARENT.replace(construct);
    let result = body();
    PARENT.set(outer);
    result
}

/// The pairs of events that constructs and waits raise.
pub(crate) const COMPUTE: Pair = (Event::ComputeStart, Event::ComputeEnd);
pub(crate) const ENTER_DATA: Pair = (Event::EnterDataStart, Event::EnterDataEnd);
pub(crate) const EXIT_DATA: Pair = (Event::ExitDataStart, Event::ExitDataEnd);
pub(crate) const UPDATE: Pair = (Event::UpdateStart, Event::UpdateEnd);
pub(crate) const WAIT: Pair = (Event::WaitStart, Event::WaitEnd);

/// Start and end.
pub(crate) type Pair = (Event, Event);

/// Runs `body` between the events of `pair`.
pub(crate) fn around<R>(
    pair: Pair,
    construct: Construct,
    async_: i32,
    runtime: &Runtime,
    local: &mut LocalThread,
    body: impl FnOnce(&mut LocalThread) -> Result<R>,
) -> Result<R> {
    if !active() {
        return body(local);
    }
    let open = start(pair, construct, async_, runtime.subject(local, async_));
    let result = body(local);
    open.end();
    result
}

/// Raises the start of an event pair. To be called while [`active`].
/// A device that can't be named is not the profiler's to report.
pub(crate) fn start(pair: Pair, construct: Construct, async_: i32, subject: Option<Subject>) -> Open {
    start_region(pair, construct, async_, subject, 0)
}

/// The same for a compute construct, whose region has its host version at `function`.
pub(crate) fn start_region(
    pair: Pair,
    construct: Construct,
    async_: i32,
    subject: Option<Subject>,
    function: usize,
) -> Open {
    let site = site::current();
    let info = EventInfo::new(pair.0, construct);
    let end_line = if function == 0 { info::UNKNOWN } else { site::end_of_region(function) };
    let records = Records::new(pair.0, info, subject.as_ref(), async_, site).ends_at(end_line);
    let mut open = Open { end: pair.1, records, outer: (PARENT.replace(construct), SITE.replace(site)) };
    callbacks::call(pair.0, &mut open.records);
    open
}

/// The host, where a construct runs whose condition says so.
pub(crate) fn host(async_: i32) -> Subject {
    let queue = QueueId(async_.cast_unsigned());
    Subject { device_type: DeviceType::Host, device: DeviceNum(0), index: None, handles: None, queue }
}

/// Raises an event of the session that belongs to no device.
pub(crate) fn once(event: Event, construct: Construct) {
    if active() {
        let mut records = Records::new(event, EventInfo::new(event, construct), None, crate::api::SYNC, None);
        callbacks::call(event, &mut records);
    }
}

impl Open {
    /// Raises the end.
    pub(crate) fn end(mut self) {
        self.records.set_event(self.end);
        callbacks::call(self.end, &mut self.records);
        PARENT.set(self.outer.0);
        SITE.set(self.outer.1);
    }
}
