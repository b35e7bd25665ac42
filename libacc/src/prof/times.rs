//! `ACCORD_TIME`: a tool in the sense of chapter 5 that sums up the times of constructs and devices, and prints them at the end.
//!
//! Events give places, counts, bytes and the program's own times. The devices' times come as spans, as for a trace.

use super::callbacks;
use super::event_records::EventRecords;
use super::info::{Construct, Event};
use super::region_names;
use crate::raw_lock::Locked;
use crate::{output, settings};
use accord_device::file_limit;
use accord_runtime::ports::DeviceClient;
use accord_telemetry::times::{Copies, DeviceTimes, Launches, Moved, NodeTimes, PlaceTimes, Tally, Times, Traffic};
use accord_telemetry::trace_path;
use accord_types::settings as names;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{DeviceId, Span, SpanKind, SpanSink};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Deepest nesting of constructs whose times are measured.
const DEPTH_MAX: usize = 32;
/// Most places with separate sums; further ones are omitted.
const PLACES_MAX: usize = 10_000;
/// How often a running program writes its report into a file: a signal may end it without another word.
const REPORT_EVERY_NS: u64 = 1_000_000_000;

const EVENTS: [Event; 16] = [
    Event::DeviceInitStart,
    Event::DeviceInitEnd,
    Event::ComputeStart,
    Event::ComputeEnd,
    Event::EnterDataStart,
    Event::EnterDataEnd,
    Event::ExitDataStart,
    Event::ExitDataEnd,
    Event::UpdateStart,
    Event::UpdateEnd,
    Event::WaitStart,
    Event::WaitEnd,
    Event::LaunchStart,
    Event::UploadStart,
    Event::DownloadStart,
    Event::RuntimeShutdown,
];

/// One place on one device: file and function (as stable addresses), first and last line, construct, device. The end of a data
/// construct, which knows its last line, is another place than its start.
type Key = (usize, usize, [i32; 2], i32, Option<usize>);

/// The sums of events. A forked child continues the parent's.
static PLACES: Locked<BTreeMap<Key, PlaceTimes>> = Locked::new(BTreeMap::new());
/// Starts of devices, by their index.
static STARTED: Locked<BTreeMap<usize, Tally>> = Locked::new(BTreeMap::new());
static TOOL: OnceLock<Tool> = OnceLock::new();

/// Where the times go.
enum To {
    /// The summary, to standard error.
    Summary,
    /// All, to standard error.
    All,
    /// JSON, to standard error.
    Json,
    /// All, into a file whose name this is a pattern of.
    File(String),
}

struct Tool {
    to: To,
    start: Instant,
    /// When a running program's last report was begun; 0 before the first.
    reported_ns: AtomicU64,
    /// Whether a thread is writing a report. Stays so from the last one on.
    reporting: AtomicBool,
    spans: Arc<Spans>,
    devices: OnceLock<Vec<(DeviceId, DeviceTimes)>>,
    clients: OnceLock<Vec<Arc<dyn DeviceClient>>>,
    /// The process of the sums: a forked child without devices of its own prints nothing.
    process: u32,
}

thread_local! {
    /// The start times of the constructs in which this thread is.
    static STARTS: [Cell<u64>; DEPTH_MAX] = const { [const { Cell::new(0) }; DEPTH_MAX] };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Returns the sink of devices' reports, if times are requested.
pub(crate) fn sink() -> Option<Arc<dyn SpanSink>> {
    let to = match settings::value(names::TIME)?.as_str() {
        "0" => return None,
        "1" => To::Summary,
        "full" => To::All,
        "json" => To::Json,
        pattern => To::File(pattern.to_owned()),
    };
    let new = || Tool {
        to,
        start: Instant::now(),
        reported_ns: AtomicU64::new(0),
        reporting: AtomicBool::new(false),
        spans: Arc::default(),
        devices: OnceLock::new(),
        clients: OnceLock::new(),
        process: std::process::id(),
    };
    let tool = TOOL.get_or_init(new);
    Some(Arc::clone(&tool.spans) as Arc<dyn SpanSink>)
}

/// Sums up events from now on. `clients` are the session's devices.
pub(super) fn start(clients: &[Arc<dyn DeviceClient>]) {
    let Some(tool) = TOOL.get() else { return };
    let device = |(num, client): (u32, &Arc<dyn DeviceClient>)| {
        let info = client.info();
        let (node, name) = (info.node_name.clone(), info.name.clone());
        (info.id, DeviceTimes { num, node, name, remote: client.is_remote(), ..DeviceTimes::default() })
    };
    let _ = tool.clients.set(clients.to_vec());
    if tool.devices.set((0..).zip(clients).map(device).collect()).is_ok() {
        for event in EVENTS {
            callbacks::register_without_names(event, on_event as *const () as usize);
        }
    }
}

unsafe extern "C" fn on_event(prof: *mut c_void, event: *mut c_void, _api: *mut c_void) {
    // SAFETY: the callback's own records.
    unsafe { EventRecords::with(prof, event, count) };
}

fn count(reported: EventRecords<'_>) {
    let Some(tool) = TOOL.get() else { return };
    if reported.is(Event::RuntimeShutdown) {
        if tool.process == std::process::id() {
            print(tool);
        }
        return;
    }
    let of_region = reported.event.implicit != 0 && reported.event.parent_construct == Construct::Parallel as i32;
    let waits = reported.is(Event::WaitStart) || reported.is(Event::WaitEnd);
    if reported.prof.is_start() && !reported.prof.is_data() && !reported.is(Event::LaunchStart) {
        begin(tool);
    }
    let elapsed = reported.prof.is_end().then(|| end(tool)).flatten();
    // A region's own data operations belong to the region.
    let told_apart = !of_region || waits;
    if reported.is(Event::DeviceInitStart) || reported.is(Event::DeviceInitEnd) {
        if let (Some(device), Some(elapsed)) = (reported.device(), elapsed) {
            STARTED.with(|started| started.entry(device).or_default().add(elapsed));
        }
        return;
    }
    let at = key(reported);
    PLACES.with(|places| {
        if !places.contains_key(&at) {
            if places.len() >= PLACES_MAX {
                return;
            }
            places.insert(at, place(reported));
        }
        let Some(place) = places.get_mut(&at) else { return };
        if let Some(elapsed) = elapsed {
            if waits {
                place.waits.add(elapsed);
            } else if told_apart {
                place.elapsed.add(elapsed);
            }
        }
        add(place, reported);
    });
    if reported.is(Event::LaunchStart) {
        mark(tool, at, reported);
    }
    if let To::File(pattern) = &tool.to {
        refresh(tool, pattern);
    }
}

/// Marks a region that a GPU runs on one thread at its first launch, because its code may be unloaded at the end.
fn mark(tool: &Tool, at: Key, reported: EventRecords<'_>) {
    let client = reported.device().and_then(|device| tool.clients.get()?.get(device));
    let takes_images = |client: &Arc<dyn DeviceClient>| {
        accord_backends::capabilities(client.info().kind).is_some_and(|able| able.takes_images)
    };
    if !client.is_some_and(takes_images) {
        return;
    }
    let launches = |act: &mut dyn FnMut(&mut Launches)| {
        PLACES.with(|places| {
            let launches = places.get_mut(&at).into_iter().flat_map(|place| &mut place.launches);
            launches.filter(|launches| launches.kernel == reported.kernel()).for_each(act);
        });
    };
    let mut first = false;
    launches(&mut |launches| first = launches.count == 1);
    // Its PTX is read for that, without the lock.
    if first && region_names::is_for_one_thread(reported.kernel()) {
        launches(&mut |launches| launches.one_thread = true);
    }
}

fn add(place: &mut PlaceTimes, reported: EventRecords<'_>) {
    let copy = |copies: &mut Copies| {
        copies.count += 1;
        copies.bytes += reported.bytes();
    };
    if reported.is(Event::UploadStart) {
        copy(&mut place.copies_in);
    } else if reported.is(Event::DownloadStart) {
        copy(&mut place.copies_out);
    } else if reported.is(Event::LaunchStart) {
        let (kernel, [gangs, workers, vector]) = (reported.kernel(), reported.dims());
        match place.launches.iter_mut().find(|launches| launches.kernel == kernel) {
            Some(launches) => {
                launches.count += 1;
                launches.dims_vary |= [launches.gangs, launches.workers, launches.vector] != [gangs, workers, vector];
                (launches.gangs, launches.workers, launches.vector) = (gangs, workers, vector);
            }
            None => {
                let (kernel, count) = (kernel.into(), 1);
                place.launches.push(Launches { kernel, count, gangs, workers, vector, ..Launches::default() });
            }
        }
    }
}

fn key(reported: EventRecords<'_>) -> Key {
    let prof = reported.prof;
    let lines = [prof.line_no, prof.end_line_no];
    (prof.src_file.addr(), prof.func_name.addr(), lines, reported.event.parent_construct, reported.device())
}

fn place(reported: EventRecords<'_>) -> PlaceTimes {
    let number = |line: i32| u32::try_from(line).ok().filter(|line| *line > 0);
    PlaceTimes {
        file: reported.file().into(),
        function: reported.function().into(),
        line: number(reported.prof.line_no),
        end_line: number(reported.prof.end_line_no),
        construct: Construct::words(reported.event.parent_construct).into(),
        device: reported.device().and_then(|device| u32::try_from(device).ok()),
        ..PlaceTimes::default()
    }
}

fn now(tool: &Tool) -> u64 {
    u64::try_from(tool.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn begin(tool: &Tool) {
    let depth = DEPTH.get();
    STARTS.with(|starts| starts.get(depth).map(|start| start.set(now(tool))));
    DEPTH.set(depth + 1);
}

fn end(tool: &Tool) -> Option<u64> {
    // The tool may have been registered after the start.
    let depth = DEPTH.get().checked_sub(1)?;
    DEPTH.set(depth);
    STARTS.with(|starts| starts.get(depth).map(|start| now(tool).saturating_sub(start.get())))
}

fn print(tool: &Tool) {
    const PAUSE: Duration = Duration::from_millis(1);
    const PAUSES_MAX: u32 = 1_000;
    // No report of a running program comes after this one. A thread whose signal handler has called `exit` never ends its own.
    for _ in 0..PAUSES_MAX {
        if !tool.reporting.swap(true, Ordering::Acquire) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    let times = Times { ended: true, ..gather(tool) };
    let pattern = match &tool.to {
        To::Summary => return output::print(&times.brief()),
        To::All => return output::print(&times.text()),
        To::Json => return output::print(&times.json()),
        To::File(pattern) => pattern,
    };
    let path = trace_path(pattern, times.rank, std::process::id());
    if let Err(error) = file_limit::as_error(|| std::fs::write(&path, for_file(&path, &times))) {
        output::print(&format!(
            "accord: cannot write the times to {path}: {error}; set ACCORD_TIME to 1, full, json or a path that can be written\n"
        ));
    }
}

fn for_file(path: &str, times: &Times) -> String {
    let is_json = Path::new(path).extension().is_some_and(|extension| extension == "json");
    if is_json { times.json() } else { times.text() }
}

/// Writes the report of a running program, unless the last one is new or another thread is at it. The next one takes the place of one that can't be
/// written.
fn refresh(tool: &Tool, pattern: &str) {
    let (now, last) = (now(tool), tool.reported_ns.load(Ordering::Relaxed));
    if (last > 0 && now.saturating_sub(last) < REPORT_EVERY_NS) || tool.reporting.swap(true, Ordering::Acquire) {
        return;
    }
    tool.reported_ns.store(now.max(1), Ordering::Relaxed);
    if tool.process == std::process::id() {
        let times = gather(tool);
        let path = trace_path(pattern, times.rank, tool.process);
        // What is no file of its own, such as /dev/stderr, gets the last report only.
        if std::fs::symlink_metadata(&path).map_or(true, |about| about.is_file()) {
            let part = format!("{path}.part");
            let _ = file_limit::as_error(|| {
                std::fs::write(&part, for_file(&path, &times)).and_then(|()| std::fs::rename(&part, &path))
            });
        }
    }
    tool.reporting.store(false, Ordering::Release);
}

fn gather(tool: &Tool) -> Times {
    let mut places: Vec<PlaceTimes> = PLACES.with(|places| places.values().cloned().collect());
    places.retain(|place| {
        place.elapsed.count + place.waits.count + place.copies_in.count + place.copies_out.count > 0
            || !place.launches.is_empty()
    });
    let mut devices = tool.devices.get().cloned().unwrap_or_default();
    for (at, starts) in STARTED.with(|started| started.clone()) {
        if let Some((_, device)) = devices.get_mut(at) {
            device.starts = starts;
        }
    }
    let spans = tool.spans.lock();
    for ((id, kind), moved) in &spans.all {
        let Some((_, device)) = devices.iter_mut().find(|(known, _)| known == id) else { continue };
        match kind {
            SpanKind::Launch => device.launches = moved.times,
            SpanKind::CopyIn => device.copies_in = *moved,
            SpanKind::CopyOut => device.copies_out = *moved,
            SpanKind::Copy => device.copies = *moved,
            SpanKind::Push => device.pushes = *moved,
            SpanKind::Arrive => device.arrivals = *moved,
            SpanKind::Range => {}
        }
    }
    let mut places_of: HashMap<(Option<u32>, String), u32> = HashMap::new();
    for place in &places {
        for launches in &place.launches {
            *places_of.entry((place.device, launches.kernel.clone())).or_default() += 1;
        }
    }
    for place in &mut places {
        let Some((id, device)) = place.device.and_then(|num| devices.get_mut(num as usize)) else { continue };
        device.waits = sum(device.waits, place.waits);
        for launches in &mut place.launches {
            let regions = spans.regions.get(id);
            launches.on_device = regions.and_then(|regions| regions.get(&launches.kernel)).copied().unwrap_or_default();
            launches.shared = places_of.get(&(place.device, launches.kernel.clone())).is_some_and(|places| *places > 1);
        }
    }
    drop(spans);
    // Unused devices are omitted.
    let used: Vec<usize> = (0..devices.len())
        .filter(|at| {
            let device = &devices[*at].1;
            has_worked(device) || places.iter().any(|place| place.device == Some(device.num))
        })
        .collect();
    let nodes = nodes(tool, &used);
    let devices = used.iter().map(|at| devices[*at].1.clone()).collect();
    let rank = settings::rank().map(|rank| rank.rank);
    let program = crate::trace::program_name();
    let mut times = Times { program, rank, wall_ns: now(tool), ended: false, devices, nodes, places };
    times.sort();
    times
}

/// Returns the traffic between this process and each other node of the devices that were used.
fn nodes(tool: &Tool, used: &[usize]) -> Vec<NodeTimes> {
    let mut nodes = BTreeMap::new();
    for client in used.iter().filter_map(|at| tool.clients.get()?.get(*at)) {
        let Some(wire) = client.wire() else { continue };
        let node = client.info().node_name.clone();
        let sent = Traffic { bytes: wire.sent, wire_ns: wire.sent_ns };
        let received = Traffic { bytes: wire.received, wire_ns: wire.received_ns };
        let times = NodeTimes { node, sent, received };
        // Devices of one node share its connection.
        nodes.insert(times.node.clone(), times);
    }
    nodes.into_values().collect()
}

fn has_worked(device: &DeviceTimes) -> bool {
    let moved = [device.copies_in, device.copies_out, device.copies, device.pushes, device.arrivals];
    device.launches.count + moved.iter().map(|moved| moved.times.count).sum::<u64>() > 0
}

fn sum(a: Tally, b: Tally) -> Tally {
    match (a.count, b.count) {
        (0, _) => b,
        (_, 0) => a,
        _ => Tally {
            count: a.count + b.count,
            total_ns: a.total_ns + b.total_ns,
            min_ns: a.min_ns.min(b.min_ns),
            max_ns: a.max_ns.max(b.max_ns),
        },
    }
}

/// Sums up spans as they arrive, so that a long program needs no more memory than a short one.
#[derive(Default)]
struct Spans(ShortLock<Added>);

#[derive(Default)]
struct Added {
    /// Count, times and bytes by device and kind.
    all: HashMap<(DeviceId, SpanKind), Moved>,
    /// Launches by device and region.
    regions: HashMap<DeviceId, HashMap<String, Tally>>,
}

impl Spans {
    fn lock(&self) -> ShortGuard<'_, Added> {
        // Each step leaves the state consistent.
        self.0.lock()
    }
}

impl SpanSink for Spans {
    fn span(&self, span: Span) {
        let ns = span.end_ns.saturating_sub(span.start_ns);
        let mut added = self.lock();
        let moved = added.all.entry((span.device, span.kind)).or_default();
        moved.times.add(ns);
        moved.bytes += span.bytes;
        if span.kind == SpanKind::Launch {
            let regions = added.regions.entry(span.device).or_default();
            match regions.get_mut(&span.name) {
                Some(tally) => tally.add(ns),
                None => regions.entry(span.name).or_default().add(ns),
            }
        }
    }
}

/// Passes every span to both sinks.
pub(crate) struct SpanTee(pub(crate) Arc<dyn SpanSink>, pub(crate) Arc<dyn SpanSink>);

impl SpanSink for SpanTee {
    fn span(&self, span: Span) {
        self.0.span(span.clone());
        self.1.span(span);
    }
}
