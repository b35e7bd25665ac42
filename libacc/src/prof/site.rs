//! The source of an event: file, function and lines, and names of variables (OpenACC 3.3, 5.2.1).
//!
//! Looked up once for each place in the program, and only while a tool listens. Never freed, because tools keep the strings.

use super::recent::Recent;
use crate::raw_lock::Locked;
use crate::source;
use accord_types::HostRange;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
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

/// A place that a runtime above OpenACC sets: file and function, as texts of the program, and line.
type SetPlace = (*const c_char, *const c_char, i32);

thread_local! {
    /// The place of this thread's calls, if a runtime above OpenACC has set it.
    static SET: Cell<Option<SetPlace>> = const { Cell::new(None) };
}

/// Sites of places that were set, by the address of the file's name and the line.
static SET_SITES: Locked<BTreeMap<(usize, i32), &'static Site>> = Locked::new(BTreeMap::new());

/// Sets the place of this thread's next calls. A null file ends that.
pub(crate) fn set_place(file: *const c_char, function: *const c_char, line: i32) {
    SET.set((!file.is_null()).then_some((file, function, line)));
}

/// Returns the site of the place that was set for this thread's calls.
fn set_site() -> Option<&'static Site> {
    let (file, function, line) = SET.get()?;
    let key = (file.addr(), line);
    if let Some(site) = SET_SITES.with(|sites| sites.get(&key).copied()) {
        return Some(site);
    }
    // SAFETY: the runtime passes terminated texts, or null.
    let text = |text: *const c_char| (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_owned());
    let site: &'static Site = Box::leak(Box::new(Site {
        code: file.addr(),
        file: text(file),
        function: text(function),
        line,
        function_lines: [UNKNOWN; 2],
        variables: Locked::new(BTreeMap::new()),
    }));
    SET_SITES.with(|sites| Some(*sites.entry(key).or_insert(site)))
}

/// Returns the call that this thread is in, with the construct's lines.
pub(super) fn spot(extent: Extent) -> Option<Spot> {
    if let Some(site) = set_site() {
        return Some(Spot { site, line: site.line, end_line: site.line });
    }
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
    SET_SITES.with(|sites| sites.retain(|_, site| !span.contains(&site.code)));
}
