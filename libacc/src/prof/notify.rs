//! `ACCORD_NOTIFY`: a tool in the sense of chapter 5 that prints one line per event on standard error.

use super::callbacks::{self, Kind};
use super::event_records::EventRecords;
use super::info::{Construct, Event};
use crate::{output, settings};
use accord_types::settings as names;
use accord_types::{Error, ErrorCode, Result};
use std::ffi::c_void;
use std::fmt::Write;

/// The reported events, by the bits of the setting.
const BITS: [(u32, &[Event]); 5] = [
    (1, &[Event::LaunchStart]),
    (2, &[Event::UploadStart, Event::DownloadStart]),
    (4, &[Event::WaitStart]),
    (
        8,
        &[
            Event::ComputeStart,
            Event::ComputeEnd,
            Event::EnterDataStart,
            Event::EnterDataEnd,
            Event::ExitDataStart,
            Event::ExitDataEnd,
            Event::UpdateStart,
            Event::UpdateEnd,
        ],
    ),
    (16, &[Event::Create, Event::Delete, Event::Alloc, Event::Free]),
];

/// Starts to print the events that the setting selects.
///
/// # Errors
/// Returns `acc_error_invalid_argument` for an invalid value.
pub(super) fn start() -> Result<()> {
    let Some((variable, text)) = settings::found(names::NOTIFY) else { return Ok(()) };
    let all: u32 = BITS.iter().map(|(bit, _)| bit).sum();
    let bits = text.trim().parse().ok().filter(|bits: &u32| *bits <= all).ok_or_else(|| {
        Error::new(ErrorCode::InvalidArgument, format!("{variable} is \"{text}\", which is no number from 0 to {all}"))
            .remedy("add up what you want to see: 1 launches, 2 copies, 4 waits, 8 constructs, 16 data")
    })?;
    for (bit, events) in BITS {
        if bits & bit != 0 {
            events
                .iter()
                .for_each(|event| callbacks::register(*event as i32, on_event as *const () as usize, Kind::Register));
        }
    }
    Ok(())
}

unsafe extern "C" fn on_event(prof: *mut c_void, event: *mut c_void, _api: *mut c_void) {
    // SAFETY: the callback's own records.
    unsafe { EventRecords::with(prof, event, |reported| output::print(&line(reported))) };
}

fn line(reported: EventRecords<'_>) -> String {
    let mut line = String::from("accord: ");
    // Writing to a String can't fail.
    let _ = write(reported, &mut line);
    line.push('\n');
    line
}

fn write(reported: EventRecords<'_>, line: &mut String) -> std::fmt::Result {
    if let Some(rank) = reported.place.map(|place| place.rank).filter(|rank| *rank >= 0) {
        write!(line, "[{rank}] ")?;
    }
    let implicit = if reported.event.implicit != 0 { "implicit " } else { "" };
    write!(line, "{implicit}{}", what(reported))?;
    let known = |text: &'static str| if text.is_empty() { "(unknown)" } else { text };
    write!(line, "  file={} function={}", known(reported.file()), known(reported.function()))?;
    if reported.prof.line_no > 0 {
        write!(line, " line={}", reported.prof.line_no)?;
    }
    match reported.place.filter(|place| place.device >= 0) {
        Some(place) => {
            write!(line, " device={} node={} queue={}", place.device, place.node_name(), queue(place.queue))?;
        }
        None => write!(line, " host")?,
    }
    if reported.is(Event::LaunchStart) {
        let [gangs, workers, vector] = reported.dims();
        write!(line, " kernel={} num_gangs={gangs} num_workers={workers} vector_length={vector}", reported.kernel())?;
    } else if reported.prof.is_data() {
        write!(line, " variable={} bytes={}", known(reported.variable()), reported.bytes())?;
    }
    Ok(())
}

fn queue(queue: i64) -> String {
    match queue {
        -2 => "sync".into(),
        -1 => "noval".into(),
        number => number.to_string(),
    }
}

fn what(reported: EventRecords<'_>) -> String {
    let construct = Construct::words(reported.event.parent_construct);
    let is = |event: Event| reported.is(event);
    if is(Event::LaunchStart) {
        "launch".into()
    } else if is(Event::UploadStart) {
        "upload".into()
    } else if is(Event::DownloadStart) {
        "download".into()
    } else if is(Event::WaitStart) {
        "wait".into()
    } else if is(Event::Create) {
        "create".into()
    } else if is(Event::Delete) {
        "delete".into()
    } else if is(Event::Alloc) {
        "alloc".into()
    } else if is(Event::Free) {
        "free".into()
    } else if is(Event::ComputeStart) || is(Event::UpdateStart) {
        format!("enter {construct}")
    } else if is(Event::ComputeEnd) || is(Event::UpdateEnd) {
        format!("leave {construct}")
    } else {
        let begins = if is(Event::EnterDataStart) || is(Event::ExitDataStart) { "enter" } else { "leave" };
        let side = if is(Event::EnterDataStart) || is(Event::EnterDataEnd) { "entry" } else { "exit" };
        format!("{begins} data {side} of {construct}")
    }
}
