//! A user's actions on one job, and the check of their outcome.

use crate::plan::{Fate, Plan, Request, RequestMethod};
use crate::site::{HOSTS, JOB_MAX, Site};
use accord_tests::{Finished, Result, Running, Tool, tool};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Duration of the regions of a program that is ended by something else, in milliseconds.
const LONG_MS: u64 = 60_000;
/// The time limit for programs of a job that had an outage: they may wait for a lost peer.
const AFTER_OUTAGE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// The way a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    AsPlanned,
    /// The job had no request, and another job had its device, or all of them.
    WithoutDevice,
    /// A node was lost meanwhile, so that it may have failed.
    InOutage,
}

/// Runs a job to its end.
///
/// # Errors
/// Returns the violation.
pub(crate) fn run(site: &Site, user: u32, name: &str, plan: &Plan) -> Result<Outcome> {
    let begun = Instant::now();
    let running = start(site, user, name, plan)?;
    match act(site, user, name, plan, &running) {
        Ok(()) => {}
        Err(_) if site.had_outage_since(begun) => {}
        Err(why) => {
            let finished = end(running)?;
            if is_without_device(plan, &finished) {
                return Ok(Outcome::WithoutDevice);
            }
            let printed: Vec<String> = finished.iter().map(Finished::report).collect();
            return Err(format!("{why}\n{}", printed.join("\n")));
        }
    }
    if site.had_outage_since(begun) {
        let wait_until = Instant::now() + AFTER_OUTAGE;
        while running.iter().any(Running::goes_on) && Instant::now() < wait_until {
            std::thread::sleep(PAUSE);
        }
        end(running)?;
        return Ok(Outcome::InOutage);
    }
    let finished = running.into_iter().map(Running::finish).collect::<Result<Vec<Finished>>>()?;
    if site.had_outage_since(begun) {
        return Ok(Outcome::InOutage);
    }
    if is_without_device(plan, &finished) {
        return Ok(Outcome::WithoutDevice);
    }
    finished.iter().try_for_each(|one| check(plan, one))?;
    Ok(Outcome::AsPlanned)
}

fn end(running: Vec<Running>) -> Result<Vec<Finished>> {
    let ended = running.into_iter().map(|one| {
        let _ = signal_all(&one, Signal::SIGKILL);
        one.finish()
    });
    ended.collect()
}

fn start(site: &Site, user: u32, name: &str, plan: &Plan) -> Result<Vec<Running>> {
    let program = site.program(name, plan.way == RequestMethod::Command).into_os_string();
    let lasts = match plan.fate {
        Fate::Ends | Fate::Held | Fate::Withdrawn => plan.lasts,
        Fate::Killed | Fate::Terminated | Fate::Interrupted | Fate::OverLimit | Fate::Cancelled => LONG_MS,
    };
    let program = [program, site.path("records").join(name).into_os_string(), lasts.to_string().into()];
    let accord = tool(Tool::Accord)?.into_os_string();
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<OsString>>();
    let text = plan.text();
    let job = match plan.way {
        RequestMethod::Nothing => site.preloaded(user, plan.host, &program),
        RequestMethod::Variable => site.preloaded(user, plan.host, &program).env("ACCORD_DEVICES", text),
        RequestMethod::Mpirun => {
            let mpirun = words(&["mpirun", "--oversubscribe", "-np", "2"]);
            site.preloaded(user, plan.host, &[&mpirun[..], &program[..]].concat()).env("ACCORD_DEVICES", text)
        }
        RequestMethod::Command => {
            let run = words(&["run", "--devices", &text, "--"]);
            site.job(user, plan.host, &[&[accord], &run[..], &program[..]].concat())
        }
        RequestMethod::RunRanks => {
            let run = words(&["run", "-np", "2", "--devices-per-rank", &text.replace(" per-rank", ""), "--"]);
            site.job(user, plan.host, &[&[accord], &run[..], &program[..]].concat())
        }
        RequestMethod::RanksOfSlurm => {
            // A number that no other job has.
            let job: u32 = name.bytes().fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
            return (0..HOSTS).map(|rank| rank_of_slurm(site, user, rank, job, &text, &program)).collect();
        }
    };
    Ok(vec![job.start()?])
}

/// Returns a rank on each host.
pub(crate) fn rank_of_slurm(
    site: &Site,
    user: u32,
    rank: usize,
    job: u32,
    text: &str,
    program: &[OsString],
) -> Result<Running> {
    let numbers = [("SLURM_PROCID", rank), ("SLURM_NODEID", rank), ("SLURM_NTASKS", HOSTS), ("SLURM_LOCALID", 0)];
    let numbers = numbers.map(|(name, value)| (name.to_owned(), value.to_string().into()));
    let started = site.preloaded(user, rank, program).env("ACCORD_DEVICES", text).envs(numbers);
    let started = started.env("SLURM_STEP_TASKS_PER_NODE", format!("1(x{HOSTS})"));
    started.env("SLURM_JOB_ID", job.to_string()).env("SLURM_STEP_ID", "0").start()
}

/// Carries out the job's fate.
fn act(site: &Site, user: u32, name: &str, plan: &Plan, running: &[Running]) -> Result<()> {
    let first = &running[0];
    match plan.fate {
        Fate::Ends | Fate::OverLimit => Ok(()),
        Fate::Withdrawn => {
            std::thread::sleep(Duration::from_millis(plan.lasts));
            // The job may have ended.
            let _ = signal_all(first, Signal::SIGINT);
            Ok(())
        }
        Fate::Killed => {
            await_start(first)?;
            running.iter().try_for_each(|one| one.signal(Signal::SIGKILL))
        }
        Fate::Terminated => await_start(first).and_then(|()| first.signal(Signal::SIGTERM)),
        Fate::Interrupted => await_start(first).and_then(|()| signal_all(first, Signal::SIGINT)),
        Fate::Held => {
            let deadline = Instant::now() + JOB_MAX;
            while first.goes_on() && Instant::now() < deadline {
                let Some(job) = site.number_of(name).map(|job| job.to_string()) else { continue };
                let held = site.accord(user, &["hold", &job]);
                if held.code() == 0 {
                    site.accord(user, &["release", &job]).success()?;
                } else if !held.stderr.contains("does not wait") && !held.stderr.contains("no waiting or running job") {
                    return Err(held.report());
                }
                break;
            }
            Ok(())
        }
        Fate::Cancelled => {
            await_start(first)?;
            let job = site.number_of(name).ok_or("a running job is not in the queue")?;
            site.accord(user, &["cancel", &job.to_string()]).success().map(drop)
        }
    }
}

/// Waits until a program holds devices.
fn await_start(running: &Running) -> Result<()> {
    let deadline = Instant::now() + JOB_MAX;
    while !running.output().contains("holds ") {
        if !running.goes_on() {
            return Err("it ended before it started".to_owned());
        }
        if Instant::now() > deadline {
            return Err("it did not start".to_owned());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn signal_all(running: &Running, signal: Signal) -> Result<()> {
    killpg(Pid::from_raw(running.id().cast_signed()), signal).map_err(|error| error.to_string())
}

fn check(plan: &Plan, finished: &Finished) -> Result<()> {
    let fail = |why: &str| Err(format!("{why}\n{}", finished.report()));
    if finished.timed_out {
        return fail("it took too long");
    }
    if !finished.left_behind.is_empty() {
        return fail("it left processes behind");
    }
    match plan.fate {
        Fate::Ends | Fate::Held if finished.code() != 0 => fail("it failed"),
        Fate::Ends | Fate::Held => {
            let wrong = counts(finished).find(|count| !fits(plan.request, *count));
            wrong.map_or(Ok(()), |count| fail(&format!("it has {count} devices")))
        }
        Fate::OverLimit if !finished.stderr.contains("its time limit") => fail("its limit did not end it"),
        Fate::Cancelled if !finished.stderr.contains("cancelled by") => fail("it was not cancelled"),
        _ => Ok(()),
    }
}

/// Whether a program without a request was refused its device, which a job has, or found all devices taken.
fn is_without_device(plan: &Plan, finished: &[Finished]) -> bool {
    let says = |text: &str| finished.iter().any(|one| one.stderr.contains(text));
    plan.way == RequestMethod::Nothing && (says(" to itself") || says("no node of the cluster offers"))
}

fn counts(finished: &Finished) -> impl Iterator<Item = u64> {
    finished.stdout.lines().filter_map(|line| line.strip_prefix("holds ")?.parse().ok())
}

fn fits(request: Request, count: u64) -> bool {
    (request.counts.0..=request.counts.1).contains(&count)
}
