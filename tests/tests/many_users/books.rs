//! Compares the coordinator's accounting with the programs' records.

use crate::JobFacts;
use crate::audit::Record;
use crate::plan::Take;
use crate::site::{DEVICES, HOSTS, Site, USERS};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Fractions of a millisecond that each figure omits.
const ROUNDING_MS: u64 = 2;
/// Busy time of a device is sampled, and includes the program's time before and after its region.
const SAMPLED_MS: u64 = 1_000;

/// Compares history, usage and records; `lasted` is the duration of the test.
pub(crate) fn check(site: &Site, records: &[Record], known: &JobFacts, lasted: Duration) {
    let (history, usage) = match (site.seen(&["history"]), site.seen(&["usage"])) {
        (Ok(history), Ok(usage)) => (history, usage),
        (history, usage) => return site.fault(format!("{history:?} {usage:?}")),
    };
    let jobs = history["jobs"].as_array().unwrap();
    let (mut charged, mut by_user) = (0, BTreeMap::<&str, u64>::new());
    let mut by_program: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for job in jobs {
        let (program, user) = (job["program"].as_str().unwrap(), job["user"].as_str().unwrap());
        let device_ms = job["device_ms"].as_u64().unwrap();
        charged += device_ms;
        *by_user.entry(user).or_default() += device_ms;
        by_program.entry(program).or_default().push(job);
        if USERS.get(owner_of(program)).map(ToString::to_string).as_deref() != Some(user) {
            site.fault(format!("a job of another user than its program's: {job}"));
        }
    }
    let measured = measured(records);
    let used: u64 = measured.values().map(|(ms, _)| ms).sum();
    // Programs without a request are charged, too, for their devices' busy time.
    let mut unasked = BTreeMap::<String, u64>::new();
    for (program, (ms, devices)) in &measured {
        let user = USERS.get(owner_of(program)).map(ToString::to_string);
        let owner = |job: &&Value| job["user"].as_str() == user.as_deref();
        // Ranks may belong to the job of an earlier gang with the same launcher's number, which is still running.
        let jobs = by_program.get(program).cloned().unwrap_or_else(|| jobs.iter().filter(owner).collect());
        let device_ms: u64 = jobs.iter().filter_map(|job| job["device_ms"].as_u64()).sum();
        match known.takes.get(*program) {
            Some(Take::Nothing) | None => {
                *unasked.entry(user.unwrap_or_default()).or_default() += ms + SAMPLED_MS * devices.len() as u64;
                continue;
            }
            // A lost node is not charged, and programs on it go on.
            Some(Take::Exclusive) if *ms > device_ms + ROUNDING_MS && !known.in_outage.contains(*program) => {
                site.fault(format!("{program} measured {ms} ms, and is charged {device_ms} ms: {jobs:?}"));
            }
            Some(Take::Exclusive | Take::Shared(..)) => {}
        }
        for (node, ordinal) in devices {
            if !jobs.iter().any(|job| has(job, node, *ordinal)) {
                site.fault(format!("{program} used {node}/{ordinal}, which its job does not have: {jobs:?}"));
            }
        }
    }
    let all = u64::from(DEVICES) * HOSTS as u64 * u64::try_from(lasted.as_millis()).unwrap();
    println!("{} jobs are charged {charged} ms of device time, of {all}; programs measured {used} ms", jobs.len());
    if charged > all {
        site.fault(format!("{charged} ms are charged, and there are {all}"));
    }
    for (user, charged) in by_user {
        let row = usage["rows"].as_array().and_then(|rows| rows.iter().find(|row| row["name"] == user));
        let used = row.and_then(|row| row["device_ms"].as_u64()).unwrap_or(0);
        let (unasked, rounding) = (unasked.get(user).copied().unwrap_or(0), ROUNDING_MS * jobs.len() as u64);
        if used + rounding < charged || used > charged + unasked + rounding {
            site.fault(format!(
                "the jobs of {user} are charged {charged} ms, programs that asked for nothing at most {unasked} ms, and the user {used} ms"
            ));
        }
    }
}

/// Returns the index of a program's user, which is in its name.
fn owner_of(program: &str) -> usize {
    program[1..].split('x').next().unwrap().parse().unwrap()
}

/// Milliseconds on devices, and the nodes and ordinals of these.
type Measured<'a> = (u64, BTreeSet<(&'a str, u32)>);

/// Returns each program's time on devices in milliseconds, summed over devices, with these devices.
fn measured(records: &[Record]) -> BTreeMap<&str, Measured<'_>> {
    let mut spans: BTreeMap<(&str, &str, u32), (u64, u64)> = BTreeMap::new();
    for record in records {
        let span = spans.entry((&record.program, &record.node, record.ordinal));
        let span = span.or_insert((record.begun_ns, record.last_ns));
        *span = (span.0.min(record.begun_ns), span.1.max(record.last_ns));
    }
    let mut measured: BTreeMap<&str, Measured<'_>> = BTreeMap::new();
    for ((program, node, ordinal), (begun, last)) in spans {
        let of = measured.entry(program).or_default();
        of.0 += (last - begun) / 1_000_000;
        of.1.insert((node, ordinal));
    }
    measured
}

/// Whether a job had a device.
fn has(job: &Value, node: &str, ordinal: u32) -> bool {
    let on = job["devices"].as_array().into_iter().flatten().filter(|on| on["node"] == node);
    let mut ordinals = on.flat_map(|on| on["ordinals"].as_array().into_iter().flatten());
    ordinals.any(|known| known.as_u64() == Some(ordinal.into()))
}
