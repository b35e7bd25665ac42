//! Events of constructs' operations on devices: the runtime's notices as callbacks (OpenACC 3.3, 5.1).

use super::context::{self, asked_for, parent};
use super::info::{Event, EventInfo, Records};
use super::open::Open;
use super::site::{self, Extent, Spot};
use super::{callbacks, region_names};
use crate::thread;
use accord_runtime::prof::{Notice, Observer, ProfilingEvent, Subject};
use std::sync::atomic::AtomicBool;

/// Converts notices to calls of the tools' routines.
pub(super) struct Tools;

impl Observer for Tools {
    fn wanted(&self) -> &'static AtomicBool {
        callbacks::wanted()
    }

    fn is_active(&self) -> bool {
        callbacks::active()
    }

    fn notice(&self, notice: &Notice) {
        let (event, end) = events(notice.what);
        if event.is_end() {
            // The tool may have been registered after the start.
            let open = thread::with_open_events(|open| open.pop_if(|open| open.end == event));
            if let Some(open) = open {
                open.end();
            }
            return;
        }
        let subject = Subject {
            device_type: notice.device_type,
            device: notice.device,
            index: Some(notice.index),
            handles: notice.handles,
            queue: notice.queue,
        };
        let construct = context::construct();
        let spot = match construct {
            Some(construct) => construct.spot,
            None if notice.function != 0 => site::spot(Extent::Region(notice.function)),
            None => site::spot(Extent::Call),
        };
        // The construct's queue is reported by its async-argument.
        let asked = construct.filter(|construct| construct.queue == notice.queue);
        let async_ = asked.map_or(notice.queue.0.cast_signed(), |construct| construct.async_);
        let mut records = Records::new(event, event_info(event, notice, spot), Some(&subject), async_, spot);
        callbacks::call(event, &mut records);
        if let Some(end) = end {
            let outer = (parent(), construct);
            thread::with_open_events(|open| open.push(Open { end, records, outer }));
        }
    }
}

fn event_info(event: Event, notice: &Notice, spot: Option<Spot>) -> EventInfo {
    let info = EventInfo::new(event, parent());
    match notice.what {
        ProfilingEvent::LaunchStart => {
            let dims = [notice.dims.gangs, notice.dims.workers, notice.dims.vector].map(u64::from);
            info.launch(region_names::name(notice.function), dims)
        }
        ProfilingEvent::Create
        | ProfilingEvent::Delete
        | ProfilingEvent::Alloc
        | ProfilingEvent::Free
        | ProfilingEvent::UploadStart
        | ProfilingEvent::DownloadStart => {
            let named = spot.filter(|_| callbacks::wants_variables());
            let name = named.and_then(|spot| spot.site.variable(notice.host, notice.bytes));
            info.data(name, notice.bytes, notice.host, notice.address)
        }
        ProfilingEvent::DeviceInitStart | ProfilingEvent::DeviceShutdownStart if asked_for() => info,
        ProfilingEvent::DeviceInitStart | ProfilingEvent::DeviceShutdownStart => info.implicit(),
        _ if notice.implicit => info.implicit(),
        _ => info,
    }
}

/// Returns the event of a notice, and the event that ends it.
fn events(what: ProfilingEvent) -> (Event, Option<Event>) {
    match what {
        ProfilingEvent::DeviceInitStart => (Event::DeviceInitStart, Some(Event::DeviceInitEnd)),
        ProfilingEvent::DeviceInitEnd => (Event::DeviceInitEnd, None),
        ProfilingEvent::DeviceShutdownStart => (Event::DeviceShutdownStart, Some(Event::DeviceShutdownEnd)),
        ProfilingEvent::DeviceShutdownEnd => (Event::DeviceShutdownEnd, None),
        ProfilingEvent::Create => (Event::Create, None),
        ProfilingEvent::Delete => (Event::Delete, None),
        ProfilingEvent::Alloc => (Event::Alloc, None),
        ProfilingEvent::Free => (Event::Free, None),
        ProfilingEvent::EnterDataStart => (Event::EnterDataStart, Some(Event::EnterDataEnd)),
        ProfilingEvent::EnterDataEnd => (Event::EnterDataEnd, None),
        ProfilingEvent::ExitDataStart => (Event::ExitDataStart, Some(Event::ExitDataEnd)),
        ProfilingEvent::ExitDataEnd => (Event::ExitDataEnd, None),
        ProfilingEvent::LaunchStart => (Event::LaunchStart, Some(Event::LaunchEnd)),
        ProfilingEvent::LaunchEnd => (Event::LaunchEnd, None),
        ProfilingEvent::UploadStart => (Event::UploadStart, Some(Event::UploadEnd)),
        ProfilingEvent::UploadEnd => (Event::UploadEnd, None),
        ProfilingEvent::DownloadStart => (Event::DownloadStart, Some(Event::DownloadEnd)),
        ProfilingEvent::DownloadEnd => (Event::DownloadEnd, None),
        ProfilingEvent::WaitStart => (Event::WaitStart, Some(Event::WaitEnd)),
        ProfilingEvent::WaitEnd => (Event::WaitEnd, None),
    }
}
