//! Events of what constructs do on devices: the runtime's notices as callbacks (OpenACC 3.3, 5.1).

use super::info::{ApiInfo, Event, EventInfo, ProfInfo};
use super::{Open, callbacks, parent};
use accord_runtime::prof::{Happening, Notice, Observer};
use std::cell::RefCell;

/// Turns notices into calls of the tools' routines.
pub(super) struct Tools;

thread_local! {
    /// Pairs of events of this thread whose end has not come.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

impl Observer for Tools {
    fn is_active(&self) -> bool {
        callbacks::active()
    }

    fn notice(&self, notice: &Notice) {
        let (event, end) = events(notice.what);
        if event.is_end() {
            // Its start may have come before the tool did.
            let open = OPEN.with_borrow_mut(|open| open.pop_if(|open| open.end == event));
            if let Some(open) = open {
                open.end();
            }
            return;
        }
        let kind = notice.device_type as i32;
        let num = i32::try_from(notice.device.0).unwrap_or(super::info::UNKNOWN);
        // The queues of GCC's negative async values have the same bits.
        let queue = notice.queue.0.cast_signed();
        let mut prof = ProfInfo::new(event, kind, num, queue);
        let mut info = event_info(event, notice);
        let mut api = ApiInfo::new(kind);
        callbacks::call(event, &mut prof, &mut info, &mut api);
        if let Some(end) = end {
            let outer = parent();
            OPEN.with_borrow_mut(|open| open.push(Open { end, prof, event: info, api, outer }));
        }
    }
}

fn event_info(event: Event, notice: &Notice) -> EventInfo {
    let info = EventInfo::new(event, parent());
    match notice.what {
        Happening::LaunchStart => {
            let dims = [notice.dims.gangs, notice.dims.workers, notice.dims.vector].map(u64::from);
            info.launch(dims)
        }
        Happening::Create
        | Happening::Delete
        | Happening::Alloc
        | Happening::Free
        | Happening::UploadStart
        | Happening::DownloadStart => info.data(notice.bytes, notice.host, notice.address),
        _ => info.implicit(),
    }
}

/// The event of a notice, and the one that ends what it starts.
fn events(what: Happening) -> (Event, Option<Event>) {
    match what {
        Happening::DeviceInitStart => (Event::DeviceInitStart, Some(Event::DeviceInitEnd)),
        Happening::DeviceInitEnd => (Event::DeviceInitEnd, None),
        Happening::DeviceShutdownStart => (Event::DeviceShutdownStart, Some(Event::DeviceShutdownEnd)),
        Happening::DeviceShutdownEnd => (Event::DeviceShutdownEnd, None),
        Happening::Create => (Event::Create, None),
        Happening::Delete => (Event::Delete, None),
        Happening::Alloc => (Event::Alloc, None),
        Happening::Free => (Event::Free, None),
        Happening::EnterDataStart => (Event::EnterDataStart, Some(Event::EnterDataEnd)),
        Happening::EnterDataEnd => (Event::EnterDataEnd, None),
        Happening::ExitDataStart => (Event::ExitDataStart, Some(Event::ExitDataEnd)),
        Happening::ExitDataEnd => (Event::ExitDataEnd, None),
        Happening::LaunchStart => (Event::LaunchStart, Some(Event::LaunchEnd)),
        Happening::LaunchEnd => (Event::LaunchEnd, None),
        Happening::UploadStart => (Event::UploadStart, Some(Event::UploadEnd)),
        Happening::UploadEnd => (Event::UploadEnd, None),
        Happening::DownloadStart => (Event::DownloadStart, Some(Event::DownloadEnd)),
        Happening::DownloadEnd => (Event::DownloadEnd, None),
        Happening::WaitStart => (Event::WaitStart, Some(Event::WaitEnd)),
        Happening::WaitEnd => (Event::WaitEnd, None),
    }
}
