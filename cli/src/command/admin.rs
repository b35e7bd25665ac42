//! `accord drain`, `accord close` and `accord shutdown`: administration of a running cluster.

use crate::args::{CloseArgs, DrainArgs, ShutdownArgs};
use crate::client::Coordinator;
use crate::deadline::time_of_day;
use crate::failure::Result;
use crate::output::{age, print, show};
use accord_proto::v1::{DrainNodeReply, DrainNodeRequest};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Runs `accord drain`. All nodes are tried; the first refusal is the error.
pub(crate) fn drain(args: &DrainArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    let drained = each(&args.targets, |target| {
        let (node, ordinal) = target_of(target);
        let request = DrainNodeRequest {
            version: accord_proto::VERSION,
            node_name: node.to_owned(),
            drain: !args.undo,
            ordinal,
            in_ms: args.by.map_or(0, |by| u64::try_from(by.as_millis()).unwrap_or(u64::MAX)),
            end: args.end,
            reason: args.reason.clone().unwrap_or_default(),
        };
        let reply = coordinator.drain(request.clone())?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        show(&outcome(target, &request, &reply, unix));
        Ok(())
    });
    if !args.wait || drained.is_err() {
        return drained;
    }
    each(&args.targets, |target| {
        let (node, ordinal) = target_of(target);
        coordinator.watch_drain(node, ordinal, |uses| show(&waits(target, uses)))
    })
}

/// Returns a sentence on what a drain waits for.
fn waits(target: &str, uses: &DrainNodeReply) -> String {
    let named = |one: &str, numbers: &[u64]| match numbers {
        [] => None,
        [number] => Some(format!("{one} {number}")),
        many => Some(format!("{one}s {}", list(many))),
    };
    let named: Vec<String> = named("job", &uses.jobs).into_iter().chain(named("session", &uses.sessions)).collect();
    if named.is_empty() {
        format!("{target} is free\n")
    } else {
        format!("{target} waits for {}\n", named.join(" and "))
    }
}

pub(super) fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Splits a target into its node and, if it names one, its device.
pub(super) fn target_of(target: &str) -> (&str, Option<u32>) {
    let device = target.rsplit_once('/').and_then(|(node, ordinal)| Some((node, ordinal.parse().ok()?)));
    device.map_or((target, None), |(node, ordinal)| (node, Some(ordinal)))
}

/// Runs `accord close`. All sessions are tried; the first refusal is the error.
pub(crate) fn close(args: &CloseArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    each(&args.sessions, |session| {
        coordinator.close(*session)?;
        print(&format!("session {session} is ended\n"));
        Ok(())
    })
}

/// Runs `accord shutdown`.
pub(crate) fn shutdown(args: &ShutdownArgs) -> Result<u8> {
    Coordinator::required()?.shutdown(args.agents)?;
    print(if args.agents { "the coordinator and its agents stop\n" } else { "the coordinator stops\n" });
    Ok(0)
}

/// Calls `act` for each item; the first failure is the result.
pub(super) fn each<T>(all: &[T], mut act: impl FnMut(&T) -> Result<()>) -> Result<u8> {
    let mut first = Ok(0);
    for one in all {
        let done = act(one);
        first = first.and_then(|code| done.map(|()| code));
    }
    first
}

/// Returns the outcome of a drain in words, at a time since 1970.
fn outcome(target: &str, request: &DrainNodeRequest, reply: &DrainNodeReply, now: Duration) -> String {
    let state = match (request.drain, request.ordinal) {
        (true, None) => "takes part in no new session",
        (true, Some(_)) => "is given to no job and no new session",
        (false, None) => "takes part in new sessions again",
        (false, Some(_)) => "is given to jobs and new sessions again",
    };
    if !request.drain {
        return format!("{target} {state}\n");
    }
    let until = match request.in_ms {
        0 => String::new(),
        ms => {
            let then = format!("{} UTC, in {}", time_of_day(now.saturating_add(Duration::from_millis(ms))), age(ms));
            let left = if request.end { "jobs that are left then are ended" } else { "jobs that are left then go on" };
            format!("; jobs may run there until {then}; {left}")
        }
    };
    let sessions = match &reply.sessions[..] {
        [] => "no session uses it".to_owned(),
        [one] => format!("session {one} still uses it"),
        many => format!("{} sessions still use it: {}", many.len(), list(many)),
    };
    let jobs = match &reply.jobs[..] {
        [] => String::new(),
        [one] => format!("; job {one} holds devices there"),
        many => format!("; {} jobs hold devices there: {}", many.len(), list(many)),
    };
    format!("{target} {state}; {sessions}{jobs}{until}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn a_drain_names_the_sessions_and_jobs_that_still_use_the_node_and_its_deadline() {
        let now = Duration::from_secs((3 * 24 + 16) * 3600);
        let says = |drain: bool, in_ms: u64, sessions: &[u64], jobs: &[u64]| {
            let request = DrainNodeRequest { drain, in_ms, end: in_ms > 0, ..DrainNodeRequest::default() };
            outcome("h2", &request, &DrainNodeReply { sessions: sessions.into(), jobs: jobs.into() }, now)
        };
        assert_eq!(says(true, 0, &[], &[]), "h2 takes part in no new session; no session uses it\n");
        assert_eq!(says(true, 0, &[7], &[]), "h2 takes part in no new session; session 7 still uses it\n");
        assert_eq!(says(true, 0, &[7, 9], &[]), "h2 takes part in no new session; 2 sessions still use it: 7, 9\n");
        assert_eq!(says(false, 0, &[7, 9], &[1]), "h2 takes part in new sessions again\n");
        assert_eq!(
            says(true, 7_260_000, &[], &[3]),
            "h2 takes part in no new session; no session uses it; job 3 holds devices there; \
             jobs may run there until 18:01 UTC, in 2 h 1 min; jobs that are left then are ended\n"
        );
    }

    #[test]
    fn a_drain_that_waits_names_jobs_and_sessions() {
        let says = |sessions: &[u64], jobs: &[u64]| {
            waits("h2/1", &DrainNodeReply { sessions: sessions.into(), jobs: jobs.into() })
        };
        assert_eq!(says(&[], &[]), "h2/1 is free\n");
        assert_eq!(says(&[7], &[]), "h2/1 waits for session 7\n");
        assert_eq!(says(&[7, 9], &[3, 4]), "h2/1 waits for jobs 3, 4 and sessions 7, 9\n");
    }

    #[test]
    fn a_target_is_a_node_or_one_device_of_it() {
        assert_eq!(
            (target_of("gpu07/3"), target_of("gpu07"), target_of("a/b")),
            (("gpu07", Some(3)), ("gpu07", None), ("a/b", None))
        );
    }

    #[test]
    fn all_targets_are_tried_and_the_first_error_is_reported() {
        let mut tried = Vec::new();
        let failed = each(&[1, 2, 3], |one| {
            tried.push(*one);
            if *one == 1 { Ok(()) } else { Err(Failure::new(format!("no {one}"))) }
        });
        assert_eq!(failed.unwrap_err().to_string(), Failure::new("no 2").to_string());
        assert_eq!(tried, [1, 2, 3]);
    }
}
