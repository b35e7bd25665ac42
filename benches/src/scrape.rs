//! The cost for programs if metrics of coordinator and agents are scraped every second. Periods with and without
//! scraping alternate within one program's run.

use crate::report::{Report, accord, build_folder, compile};
use serde_json::json;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The argument that makes `accord-bench` run a program and scrape meanwhile.
pub(crate) const WITH_SCRAPES: &str = "__scraped";
/// Number of periods of each kind.
const PERIODS: &str = "30";
const PERIOD_MS: u64 = 2_000;
/// Times of the scrapes in an even period, in ms from its begin: every second.
const ASKED_AT: [u64; 2] = [400, 1_400];
/// Address at which all parts of a local cluster answer: its hosts have addresses of their own.
const METRICS: &str = "0.0.0.0:9464";
const PARTS: [&str; 4] = ["10.77.0.254:9464", "10.77.0.1:9464", "10.77.0.2:9464", "10.77.0.3:9464"];
const SOON: Duration = Duration::from_secs(2);
/// Noise of the machine alone above which the comparison is meaningless.
const NOISE_MAX: f64 = 1.25;
/// Highest cost of a page for the answering process: a thousandth of a core at one scrape per second.
const ANSWER_MAX_US: f64 = 1_000.0;

pub(crate) fn run() -> Result<Report, String> {
    let program = build_folder()?.join("alternating");
    compile(&crate::root().join("benches/programs/alternating.c"), &program)?;
    let program = program.to_string_lossy().into_owned();
    let own = std::env::current_exe().map_err(|error| error.to_string())?.to_string_lossy().into_owned();
    let mut report = Report::of("accord-bench scrape".to_owned());
    let line = ["run", "--local-cluster", "3x2", "--", &own, WITH_SCRAPES, &program, PERIODS, &PERIOD_MS.to_string()];
    report.take_lines("", &accord(&line, &[("ACCORD_METRICS_LISTEN", METRICS)])?)?;
    for (name, what) in [("launch_wait", "launch and wait"), ("enqueue", "enqueue of an async launch")] {
        let ratio = report.median(&format!("even/{name}"))? / report.median(&format!("odd/{name}"))?;
        report.at_most(&format!("{what}: metrics asked for every second / not"), ratio, "x", 1.05);
        // The noise of the machine itself.
        let alone = report.samples(&format!("odd/{name}"))?;
        let half = |first: usize| middle(alone.iter().copied().skip(first).step_by(2).collect());
        let noise = half(0) / half(1);
        report.at_most(
            &format!("{what}: half of the periods left alone / the others"),
            noise.max(1.0 / noise),
            "x",
            NOISE_MAX,
        );
    }
    let asked = middle(report.samples("even/parts")?.to_vec()) - middle(report.samples("odd/parts")?.to_vec());
    let answers = (ASKED_AT.len() * PARTS.len()) as f64;
    report.at_most("processor time of a part for one page", asked / answers, "us", ANSWER_MAX_US);
    Ok(report)
}

fn middle(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs the program and scrapes all parts of the cluster in even periods. Prints the parts' processor time in each
/// period.
pub(crate) fn with_scrapes(line: &[String]) -> Result<(), String> {
    let [program, arguments @ ..] = line else { return Err("a program is needed".to_owned()) };
    let (over, parts) = (AtomicBool::new(false), parts());
    if parts.len() != PARTS.len() {
        return Err(format!("{} of {} parts of the cluster are to be seen", parts.len(), PARTS.len()));
    }
    let (status, asked) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&parts, &over));
        let status = Command::new(program).args(arguments).status();
        over.store(true, Ordering::Relaxed);
        (status, asking.join())
    });
    let status = status.map_err(|error| format!("{program}: {error}"))?;
    if !status.success() {
        return Err(format!("{program} ended with {status}"));
    }
    let Ok((missing, taken)) = asked else { return Err("no page was asked for".to_owned()) };
    if missing > 0 {
        return Err(format!("{missing} pages did not come; hosts have to be network namespaces, which takes root"));
    }
    for (way, samples) in ["even", "odd"].iter().zip(taken) {
        println!("{}", json!({ "name": format!("{way}/parts"), "unit": "us of processors", "samples": samples }));
    }
    Ok(())
}

/// Returns the number of failed scrapes, and the parts' processor time in even and in odd periods.
fn ask(parts: &[u32], over: &AtomicBool) -> (usize, [Vec<f64>; 2]) {
    let (mut missing, mut taken) = (0, [Vec::new(), Vec::new()]);
    let mut period = day_ms() / PERIOD_MS + 1;
    until(period * PERIOD_MS);
    while !over.load(Ordering::Relaxed) {
        let before = processor_time(parts);
        for at in ASKED_AT {
            until(period * PERIOD_MS + at);
            if period.is_multiple_of(2) {
                missing += PARTS.iter().filter(|part| metrics(part).is_none()).count();
            }
        }
        period += 1;
        until(period * PERIOD_MS);
        // The last period is incomplete.
        if !over.load(Ordering::Relaxed) {
            taken[usize::from(period.is_multiple_of(2))].push(processor_time(parts) - before);
        }
    }
    (missing, taken)
}

fn day_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn until(day: u64) {
    std::thread::sleep(Duration::from_millis(day.saturating_sub(day_ms())));
}

/// Returns the processes of this cluster's coordinator and agents, without executors.
fn parts() -> Vec<u32> {
    let programs =
        ["accord-coordinator", "accord-node-agent"].map(|name| crate::root().join("target/release").join(name));
    let is_part = |process: &u32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).map(OsStr::from_bytes);
        let program = words.next().unwrap_or_default();
        programs.iter().any(|part| part == program)
            && words.next().is_some_and(|word| word.as_bytes().starts_with(b"--"))
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_part).collect()
}

/// Returns the processor time of these processes' threads in microseconds.
fn processor_time(processes: &[u32]) -> f64 {
    let of_thread = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let threads = processes.iter().filter_map(|process| std::fs::read_dir(format!("/proc/{process}/task")).ok());
    threads.flatten().flatten().filter_map(of_thread).sum::<f64>() / 1e3
}

/// Returns one page of metrics.
fn metrics(part: &str) -> Option<String> {
    let address: SocketAddr = part.parse().ok()?;
    let mut tcp = TcpStream::connect_timeout(&address, SOON).ok()?;
    tcp.set_read_timeout(Some(SOON)).ok()?;
    write!(tcp, "GET /metrics HTTP/1.1\r\nHost: {part}\r\nConnection: close\r\n\r\n").ok()?;
    let mut page = String::new();
    tcp.read_to_string(&mut page).ok()?;
    page.contains("\naccord_").then_some(page)
}
