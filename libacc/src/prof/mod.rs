//! The profiling interface (OpenACC 3.3, chapter 5), with the layouts of GCC's `acc_prof.h`.
//!
//! Events of constructs and of the session are raised here, at the border. Events of single
//! allocations, uploads, downloads and launches come from the runtime's notices.

mod callbacks;
mod device_events;
mod info;
mod library;

pub(crate) use callbacks::{Kind, active, register, unregister};
pub(crate) use info::{Construct, Event};
pub(crate) use library::{load_libraries, load_program_library};

use accord_runtime::{LocalThread, Runtime};
use accord_types::Result;
use info::{ApiInfo, EventInfo, ProfInfo};
use std::cell::Cell;

/// An event pair whose end has not come. The same record is passed to callbacks of the start and the
/// end, so that a tool finds its `tool_info` again.
pub(crate) struct Open {
    end: Event,
    prof: ProfInfo,
    event: EventInfo,
    api: ApiInfo,
    /// The construct around it.
    outer: Construct,
}

thread_local! {
    /// The construct that this thread is in: the parent of what happens on devices.
    static PARENT: Cell<Construct> = const { Cell::new(Construct::RuntimeApi) };
}

/// Lets tools see what happens on the devices of `runtime`.
pub(crate) fn watch(runtime: &Runtime) {
    runtime.observe(Box::new(device_events::Tools));
}

/// The construct that this thread is in.
fn parent() -> Construct {
    PARENT.get()
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
    let open = start(pair, construct, async_, runtime, local);
    let result = body(local);
    open.end();
    result
}

/// Raises the start of an event pair. To be called while [`active`].
pub(crate) fn start(pair: Pair, construct: Construct, async_: i32, runtime: &Runtime, local: &mut LocalThread) -> Open {
    // A device that can't be named is not the profiler's to report.
    let kind = runtime.get_device_type(local);
    let num = kind.as_ref().ok().and_then(|kind| runtime.get_device_num(local, *kind).ok());
    let kind = kind.map_or(0, |kind| kind as i32);
    let num = num.and_then(|num| i32::try_from(num).ok()).unwrap_or(info::UNKNOWN);
    let mut open = Open {
        end: pair.1,
        prof: ProfInfo::new(pair.0, kind, num, async_),
        event: EventInfo::new(pair.0, construct),
        api: ApiInfo::new(kind),
        outer: PARENT.replace(construct),
    };
    callbacks::call(pair.0, &mut open.prof, &mut open.event, &mut open.api);
    open
}

/// Raises an event of the session that belongs to no device.
pub(crate) fn once(event: Event, construct: Construct) {
    if active() {
        let mut prof = ProfInfo::new(event, 0, info::UNKNOWN, crate::api::SYNC);
        let (mut info, mut api) = (EventInfo::new(event, construct), ApiInfo::new(0));
        callbacks::call(event, &mut prof, &mut info, &mut api);
    }
}

impl Open {
    /// Raises the end.
    pub(crate) fn end(mut self) {
        self.prof.set_event(self.end);
        self.event.set_event(self.end);
        callbacks::call(self.end, &mut self.prof, &mut self.event, &mut self.api);
        PARENT.set(self.outer);
    }
}
