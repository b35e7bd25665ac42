//! The source of an event: file, function and lines, and names of variables (OpenACC 3.3, 5.2.1).
//!
//! Looked up once for each place in the program, and only while a tool listens. Never freed, because tools keep the strings.

use super::recent::Recent;
use crate::raw_lock::Locked;
use crate::source;
use accord_types::HostRange;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::time::Duration;

/// Most variables that are looked up for one place of the program. Each takes up to some milliseconds once, which a program
/// that keeps mapping new memory at one place should not wait for.
const VARIABLES_MAX: usize = 64;

/// Longest search for one name, in which a tool may be interested.
const LOOKUP_MAX: Duration = Duration::from_secs(30);

/// A line or another number that is not known.
pub(super) const UNKNOWN: i32 = -1;

/// A place in the program: a call of this library, or the start of a region.
pub(super) struct Site {
    /// An address in the call, or the region's.
    code: usize,
    pub(super) file: Option<CString>,
    pub(super) function: Option<CString>,
    pub(super) line: i32,
    pub(super) function_lines: [i32; 2],
    /// Names by address and length of the variables.
    variables: Locked<BTreeMap<(usize, u64), Option<&'static CStr>>>,
}

/// The lines that a call stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// Only the call's own line: `update`, `enter data`, `exit data`, `declare`, `wait`, a routine.
    Call,
    /// From the call's line to an unknown one: the start of `data` and `host_data`.
    Start,
    /// From this line, where the construct started, to the call's own.
    EndOf(i32),
    /// From the call's line to the last one of the region whose host version is at this address.
    Region(usize),
}

/// A place in the program, with the lines of the construct there.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) site: &'static Site,
    pub(super) line: i32,
    pub(super) end_line: i32,
}

/// Sites by their address.
static SITES: Locked<BTreeMap<usize, &'static Site>> = Locked::new(BTreeMap::new());

/// Returns the call that this thread is in, with the construct's lines.
pub(super) fn spot(extent: Extent) -> Option<Spot> {
    let call = site(source::call()?);
    let (line, end_line) = match extent {
        Extent::Call => (call.line, call.line),
        Extent::Start => (call.line, UNKNOWN),
        // The tool may have been registered after the start.
        Extent::EndOf(UNKNOWN) => (call.line, call.line),
        Extent::EndOf(start) => (start, call.line),
        Extent::Region(function) => return Some(spot_of_region(call, site(function))),
    };
    Some(Spot { site: call, line, end_line })
}

/// Returns a compute construct's place. In optimized code one call may serve several constructs, with the line of another one, but each has its own
/// region.
fn spot_of_region(call: &'static Site, region: &'static Site) -> Spot {
    let [first, last] = region.function_lines;
    let ([around, end], known) = (call.function_lines, first != UNKNOWN && call.line != UNKNOWN);
    if known && around != UNKNOWN && !(around..=end).contains(&first) {
        return Spot { site: region, line: first, end_line: last };
    }
    let line = if known && call.line > last { first } else { call.line };
    Spot { site: call, line, end_line: last }
}

/// Returns the place with this address.
fn site(code: usize) -> &'static Site {
    thread_local! {
        static RECENT: Recent<usize, &'static Site, 32> = const { Recent::new() };
    }
    RECENT.with(|recent| recent.get_or(code, code, || look_up(code)))
}

fn look_up(code: usize) -> &'static Site {
    if let Some(site) = SITES.with(|sites| sites.get(&code).copied()) {
        return site;
    }
    let place = source::on_helper_thread_within(LOOKUP_MAX, move || source::place(code)).flatten();
    let text = |text: Option<&String>| text.and_then(|text| CString::new(text.as_str()).ok());
    let number = |line: Option<u32>| line.and_then(|line| i32::try_from(line).ok()).unwrap_or(UNKNOWN);
    let lines = place.as_ref().and_then(|place| place.function_lines);
    let site = Site {
        code,
        file: text(place.as_ref().and_then(|place| place.file.as_ref())),
        function: text(place.as_ref().and_then(|place| place.function.as_ref())),
        line: number(place.as_ref().and_then(|place| place.line)),
        function_lines: [number(lines.map(|lines| lines.0)), number(lines.map(|lines| lines.1))],
        variables: Locked::new(BTreeMap::new()),
    };
    let site: &'static Site = Box::leak(Box::new(site));
    SITES.with(|sites| *sites.entry(code).or_insert(site))
}

impl Site {
    /// Returns the name of the variable that this memory belongs to, in the scope of this place.
    pub(super) fn variable(&'static self, host: usize, bytes: u64) -> Option<&'static CStr> {
        thread_local! {
            static RECENT: Recent<(usize, usize, u64), Option<&'static CStr>, 32> = const { Recent::new() };
        }
        if host == 0 {
            return None;
        }
        let find = || self.look_up_variable(host, bytes);
        RECENT.with(|recent| recent.get_or((self.code, host, bytes), self.code ^ host, find))
    }

    fn look_up_variable(&'static self, host: usize, bytes: u64) -> Option<&'static CStr> {
        let key = (host, bytes);
        let known = self.variables.with(|variables| match variables.get(&key) {
            Some(name) => Some(*name),
            None if variables.len() >= VARIABLES_MAX => Some(None),
            None => None,
        });
        if let Some(name) = known {
            return name;
        }
        let frames = source::frames();
        let range = HostRange { start: host, len: usize::try_from(bytes).unwrap_or(usize::MAX) };
        let found = source::on_helper_thread_within(LOOKUP_MAX, move || source::variable(range, &frames)).flatten();
        let name = found.and_then(|variable| CString::new(variable.name).ok());
        let name = name.map(|name| -> &'static CStr { Box::leak(name.into_boxed_c_str()) });
        self.variables.with(|variables| *variables.entry(key).or_insert(name))
    }
}

/// Removes the sites of an unloaded object, whose addresses may be reused.
pub(super) fn forget(span: &Range<usize>) {
    SITES.with(|sites| sites.retain(|_, site| !span.contains(&site.code)));
}
