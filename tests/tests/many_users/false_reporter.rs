//! Users who lie about their rank, job, account, node and name get nothing that belongs to another user.

use crate::plan::Numbers;
use crate::site::{HOSTS, Site, USERS};
use crate::user::rank_of_slurm;
use accord_tests::{Finished, Result};
use std::ffi::OsString;
use std::time::Instant;

/// The job number that launchers of two users share.
const SAME_JOB: u32 = 777;
/// Commands on jobs of other users, and on the cluster, that are refused. `JOB` stands for another user's job.
const OTHERS: [&[&str]; 8] = [
    &["cancel", "JOB"],
    &["hold", "JOB"],
    &["release", "JOB"],
    &["explain", "job", "JOB"],
    &["change", "JOB", "--first"],
    &["pause"],
    &["drain", "h0"],
    &["shutdown"],
];

/// Tells one lie. `name` is its program's name, `token` the token of another user's job, if known.
pub(crate) fn false_claim(
    site: &Site,
    user: u32,
    name: &str,
    numbers: &mut Numbers,
    token: Option<String>,
) -> Result<()> {
    let begun = Instant::now();
    let (nth, host) = (numbers.below(7), usize::try_from(numbers.below(HOSTS as u64)).unwrap());
    let victim = USERS[usize::try_from(numbers.below(10)).unwrap()];
    let refused = |finished: Finished, why: &[&str]| {
        let is_why = why.iter().any(|why| finished.stderr.contains(why)) || site.had_outage_since(begun);
        let is_held = finished.stdout.contains("holds");
        if finished.code() != 0 && is_why && !is_held {
            Ok(())
        } else {
            Err(format!("lie {nth}: {}", finished.report()))
        }
    };
    if nth > 4 {
        let (queue, own) = (site.seen(&["queue"])?, user.to_string());
        let mut others = queue["jobs"].as_array().ok_or("no jobs")?.iter().filter(|job| job["user"] != own);
        let Some(job) = others.find_map(|job| job["job"].as_u64()).map(|job| job.to_string()) else { return Ok(()) };
        let words = numbers.pick(&OTHERS).iter().map(|word| if *word == "JOB" { job.as_str() } else { word });
        let answers = ["another user's", "may not", "no waiting or running job", "has ended already"];
        return refused(site.accord(user, &words.collect::<Vec<_>>()), &answers);
    }
    let program = program(site, name, "100");
    let ask = |request: &str| site.preloaded(user, host, &program).env("ACCORD_DEVICES", request);
    match (nth, token) {
        (0, Some(token)) => {
            refused(site.preloaded(user, host, &program).env("ACCORD_JOB", token).run()?, &["or is another user's"])
        }
        (1, _) => refused(ask("1:cpu account=physics").run()?, &["the account \"physics\" is not for this user"]),
        (2, _) => {
            // The program lies about its node and user, and gets only its own job's devices.
            let false_claims = [("USER", victim.to_string()), ("ACCORD_NODE", format!("h{}", (host + 1) % HOSTS))];
            let job = false_claims.into_iter().fold(ask("1:cpu wait=60s"), |job, (name, value)| job.env(name, value));
            job.run().map(drop)
        }
        (3, _) => {
            let finished = ask("1:cpu").env("ACCORD_TLS", site.home(victim).join("tls")).run()?;
            refused(finished, &["ermission denied", "may not read"])
        }
        _ => ranks_of_same_job(site, user, &program),
    }
}

/// Returns the token of another user's job.
pub(crate) fn published(site: &Site) -> Option<String> {
    let files = std::fs::read_dir(site.path("tokens")).ok()?.flatten();
    let whole = files.filter(|file| !file.file_name().as_encoded_bytes().starts_with(b"."));
    let newest = whole.max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok())?;
    Some(std::fs::read_to_string(newest.path()).ok()?.trim().to_owned())
}

/// Runs ranks of an honest user, whose launcher's job has the number that liars name.
pub(crate) fn honest(site: &Site, user: u32, name: &str) -> Result<()> {
    ranks_of_same_job(site, user, &program(site, name, "200"))
}

fn program(site: &Site, name: &str, lasts: &str) -> [OsString; 3] {
    [site.program(name, false).into_os_string(), site.path("records").join(name).into_os_string(), lasts.into()]
}

fn ranks_of_same_job(site: &Site, user: u32, program: &[OsString]) -> Result<()> {
    let begun = Instant::now();
    let ranks = (0..HOSTS).map(|rank| rank_of_slurm(site, user, rank, SAME_JOB, "1:cpu per-rank", program));
    for rank in ranks.collect::<Result<Vec<_>>>()? {
        let finished = rank.finish()?;
        if !site.had_outage_since(begun) {
            let finished = finished.success()?;
            if !finished.stdout.contains("holds 1\n") {
                return Err(finished.report());
            }
        }
    }
    Ok(())
}
