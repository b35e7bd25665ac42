//! An administrator's actions during the test, and nodes that are lost and return.

use crate::plan::Numbers;
use crate::site::{HOSTS, LOST_AFTER, Site, policy};
use accord_tests::Result;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ACTS: u64 = 6;
const PAUSE: Duration = Duration::from_secs(2);

/// Acts until the users are done: each action once, then at random.
pub(crate) fn work(site: &Site, seed: u64, is_over: &AtomicBool) {
    let mut numbers = Numbers::new(seed ^ 0xad);
    let mut acts = 0;
    while !is_over.load(Ordering::Relaxed) {
        let nth = if acts < ACTS { acts } else { numbers.below(ACTS) };
        let host = usize::try_from(numbers.below(HOSTS as u64)).unwrap();
        if let Err(why) = act(site, nth, host) {
            site.fault(format!("an administrator's act {nth}: {why}"));
        }
        acts += 1;
        std::thread::sleep(PAUSE);
    }
    println!("an administrator acted {acts} times");
}

fn act(site: &Site, nth: u64, host: usize) -> Result<()> {
    let node = format!("h{host}");
    let done = |arguments: &[&str]| site.administer(arguments).success().map(drop);
    match nth {
        0 => {
            done(&["drain", &node])?;
            std::thread::sleep(PAUSE);
            done(&["drain", &node, "--undo"])
        }
        1 => check_outputs(site),
        2 => {
            done(&["pause"])?;
            std::thread::sleep(PAUSE / 4);
            done(&["pause", "--undo"])
        }
        3 => {
            let file = site.path("another.toml");
            std::fs::write(&file, policy(1 + u32::try_from(host).unwrap())).map_err(|error| error.to_string())?;
            done(&["policy", "apply", file.to_str().unwrap()])
        }
        4 => {
            let queue = site.seen(&["queue"])?;
            let last = queue["jobs"].as_array().and_then(|jobs| jobs.iter().rfind(|job| job["state"] == "waiting"));
            let Some(job) = last.and_then(|job| job["job"].as_u64()) else { return Ok(()) };
            let changed = site.administer(&["change", &job.to_string(), "--first"]);
            // The job may have started, or ended.
            let is_late = ["does not wait", "no waiting or running job"].iter().any(|why| changed.stderr.contains(why));
            if is_late { Ok(()) } else { changed.success().map(drop) }
        }
        _ => {
            site.outage_begins();
            site.plug(host, false)?;
            std::thread::sleep(2 * LOST_AFTER);
            site.plug(host, true)?;
            let back = site.cluster.read().unwrap().await_info("the lost node", |info| {
                info["nodes"].as_array().is_some_and(|nodes| nodes.iter().all(|node| node["state"] == "up"))
            });
            site.outage_ends();
            back
        }
    }
}

/// Checks that the cluster's outputs are consistent.
fn check_outputs(site: &Site) -> Result<()> {
    let queue = site.seen(&["queue"])?;
    let jobs = queue["jobs"].as_array().ok_or("no jobs")?;
    let waiting: Vec<&Value> = jobs.iter().filter(|job| job["state"] == "waiting").collect();
    let mut positions: Vec<u64> = waiting.iter().filter_map(|job| job["position"].as_u64()).collect();
    positions.sort_unstable();
    if positions != (0..waiting.len() as u64).collect::<Vec<_>>() {
        return Err(format!("positions of waiting jobs: {positions:?}"));
    }
    for job in jobs.iter().take(5) {
        let explained = site.administer(&["explain", "job", &job["job"].to_string()]);
        // The job may have ended.
        if explained.code() != 0 && !explained.stderr.contains("no waiting or running job") {
            return Err(explained.report());
        }
    }
    site.seen(&["usage"])?;
    site.seen(&["history", "--page", "1"]).map(drop)
}
