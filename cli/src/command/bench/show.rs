//! Figures as tables and as JSON.

use super::figure::{CopyEnds, Figure};
use super::routes::Routes;
use crate::args::{BenchArgs, BenchSubject};
use crate::output::{Table, bytes, time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The smallest size for which the rate is more informative than the time.
const STREAM_MIN: u64 = 256 << 10;

/// Returns the tables for display.
pub(super) fn tables(args: &BenchArgs, figures: &[Figure], routes: &Routes<'_>) -> String {
    let mut text = match args.what {
        BenchSubject::P2p => matrices(figures),
        BenchSubject::Copy | BenchSubject::Launch => rows(figures),
    };
    if args.what == BenchSubject::P2p {
        let _ = write!(text, "{}", by_route(figures));
    }
    let missing = figures.iter().filter(|figure| figure.times.is_none()).count();
    if missing > 0 {
        let _ = writeln!(
            text,
            "\n{missing} of {} were not reached in {} s: more with --seconds",
            figures.len(),
            args.seconds
        );
    }
    let sessions = other_sessions(routes);
    if sessions > 0 {
        let _ = writeln!(
            text,
            "\n{sessions} other sessions used the cluster at the beginning: figures may be theirs in part"
        );
    }
    text
}

fn rows(figures: &[Figure]) -> String {
    let mut table = Table::new(&["FROM", "TO", ">SIZE", ">MEDIAN", ">P10", ">P90", ">RATE", ">RUNS", "ROUTE"]);
    for figure in figures {
        let device = |number: u32| format!("device {number}");
        let (from, to) = match figure.way {
            CopyEnds::ToDevice(to) => ("host".to_owned(), device(to)),
            CopyEnds::FromDevice(from) => (device(from), "host".to_owned()),
            CopyEnds::Between(from, to) => (device(from), device(to)),
            CopyEnds::Launch(to) => ("launch".to_owned(), device(to)),
        };
        let size = figure.bytes.map_or_else(|| "-".to_owned(), bytes);
        let none = || "-".to_owned();
        let [median, p10, p90] = match &figure.times {
            Some(times) => [times.median_us, times.p10_us, times.p90_us].map(time),
            None => [none(), none(), none()],
        };
        let speed = figure.bytes.zip(figure.times).map_or_else(none, |(bytes, times)| rate(bytes, times.median_us));
        let runs = figure.times.map_or(0, |times| times.runs).to_string();
        table.row([from, to, size, median, p10, p90, speed, runs, figure.route.clone()]);
    }
    table.to_string()
}

/// Returns the rate for sizes where it is informative.
fn rate(bytes: u64, us: f64) -> String {
    const SAYS_MIN: u64 = 4 << 10;
    if bytes < SAYS_MIN { "-".to_owned() } else { crate::output::rate(bytes as f64 / us / 1e3) }
}

/// Returns a matrix of all pairs for each size.
fn matrices(figures: &[Figure]) -> String {
    let mut of_size: BTreeMap<u64, Vec<&Figure>> = BTreeMap::new();
    for figure in figures {
        of_size.entry(figure.bytes.unwrap_or(0)).or_default().push(figure);
    }
    let mut text = String::new();
    for (size, figures) in of_size {
        let devices =
            figures.iter().filter_map(|figure| pair(figure)).map(|(from, to)| from.max(to) + 1).max().unwrap_or(0);
        let what = if size >= STREAM_MIN { "GB/s" } else { "us" };
        let heading: Vec<String> =
            std::iter::once("FROM".to_owned()).chain((0..devices).map(|to| format!(">TO {to}"))).collect();
        let mut table = Table::with_heading(heading);
        for from in 0..devices {
            let cell = |to| {
                let figure = figures.iter().find(|figure| pair(figure) == Some((from, to)))?;
                let times = figure.times?;
                Some(match size >= STREAM_MIN {
                    true => format!("{:.2}", times.rate(size)),
                    false => format!("{:.1}", times.median_us),
                })
            };
            let cells = (0..devices).map(|to| cell(to).unwrap_or_else(|| "-".to_owned()));
            table.row(std::iter::once(from.to_string()).chain(cells));
        }
        let _ = write!(text, "{}, median, {what}\n\n{table}\n", bytes(size));
    }
    text
}

fn pair(figure: &Figure) -> Option<(u32, u32)> {
    match figure.way {
        CopyEnds::Between(from, to) => Some((from, to)),
        _ => None,
    }
}

/// Returns the pairs with the same route, and the spread of their times.
fn by_route(figures: &[Figure]) -> Table {
    let mut groups: BTreeMap<(&str, u64), Vec<&Figure>> = BTreeMap::new();
    for figure in figures {
        groups.entry((&figure.route, figure.bytes.unwrap_or(0))).or_default().push(figure);
    }
    let mut table = Table::new(&["ROUTE", ">SIZE", ">PAIRS", ">MEDIAN", ">P10", ">P90", ">RATE"]);
    for ((route, size), figures) in groups {
        let times: Vec<_> = figures.iter().filter_map(|figure| figure.times).collect();
        let mut medians: Vec<f64> = times.iter().map(|times| times.median_us).collect();
        medians.sort_by(f64::total_cmp);
        let Some(&median) = medians.get(medians.len() / 2) else { continue };
        let least = times.iter().map(|times| times.p10_us).fold(f64::INFINITY, f64::min);
        let most = times.iter().map(|times| times.p90_us).fold(0.0, f64::max);
        table.row([
            route.to_owned(),
            bytes(size),
            times.len().to_string(),
            time(median),
            time(least),
            time(most),
            rate(size, median),
        ]);
    }
    table
}

/// Returns the number of sessions at the beginning.
fn other_sessions(routes: &Routes<'_>) -> usize {
    let hidden = usize::try_from(routes.cluster.other_sessions).unwrap_or(usize::MAX);
    routes.cluster.sessions.len().saturating_add(hidden)
}

/// Returns the figures as JSON.
pub(super) fn json(args: &BenchArgs, figures: &[Figure], routes: &Routes<'_>) -> String {
    let rows: Vec<Value> = figures.iter().map(figure_json).collect();
    let devices: Vec<Value> = (0..)
        .map_while(|number| routes.device(number))
        .map(|row| json!({ "num": row.num.map(|num| num.0), "node": row.info.node_name, "name": row.info.name }))
        .collect();
    let all = json!({
        "bench": args.what.name(),
        "devices": devices,
        "other_sessions": other_sessions(routes),
        "figures": rows,
    });
    format!("{all:#}\n")
}

fn figure_json(figure: &Figure) -> Value {
    let (from, to) = match figure.way {
        CopyEnds::ToDevice(to) | CopyEnds::Launch(to) => (None, Some(to)),
        CopyEnds::FromDevice(from) => (Some(from), None),
        CopyEnds::Between(from, to) => (Some(from), Some(to)),
    };
    json!({
        "from": from,
        "to": to,
        "bytes": figure.bytes,
        "route": figure.route,
        "median_us": figure.times.map(|times| times.median_us),
        "p10_us": figure.times.map(|times| times.p10_us),
        "p90_us": figure.times.map(|times| times.p90_us),
        "runs": figure.times.map_or(0, |times| times.runs),
    })
}
