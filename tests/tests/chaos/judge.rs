//! Judges whether the outcome of a try is a due one.

use crate::site::{Outcome, TIMEOUT};
use crate::table::{Due, Fault, Phase, Role};
use std::time::Duration;

/// The way a program ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Ending {
    WentOn,
    Error,
    Gone,
}

/// Extra time for queries, restarts and a busy machine.
const SLACK: Duration = Duration::from_secs(8);
/// The time limit of `accord run` for its agents.
const START_MAX: Duration = Duration::from_secs(20);
/// The time in which the system's probes detect a cut link.
const CUT_IS_FOUND: Duration = Duration::from_secs(6);

/// Returns the longest time to a program's end.
fn limit(fault: Fault, phase: Phase) -> Duration {
    match fault {
        // An unresponsive agent is tried twice.
        _ if phase == Phase::Open => 2 * SLACK + TIMEOUT,
        // The time limit of `accord run` for agents that exist but do not register, or are late on a busy machine.
        _ if phase == Phase::Start && (fault.is_limit() || fault == Fault::ClockBack) => START_MAX + SLACK,
        Fault::StoppedLong | Fault::StoppedForEver => TIMEOUT + SLACK,
        Fault::LinkDownForLong => CUT_IS_FOUND + SLACK,
        _ => SLACK,
    }
}

/// Returns how the program ended.
///
/// # Errors
/// Returns the fault in words.
pub(crate) fn judge(due: Due, role: Role, fault: Fault, phase: Phase, outcome: &Outcome) -> Result<Ending, String> {
    let finished = &outcome.finished;
    let wrong = |what: &str| Err(format!("{what}: {}", finished.report()));
    if finished.timed_out {
        return wrong("it hangs");
    }
    if finished.stdout.contains("FAIL") {
        return wrong("wrong results");
    }
    if finished.stderr.contains("panicked") {
        return wrong("something panicked");
    }
    if outcome.leaves_something() {
        return wrong(&format!("left behind: {:?}", outcome.left));
    }
    let killed = finished.code() > 128;
    // Whether the program runs under the limit.
    let bounded = matches!(role, Role::Program | Role::Rank) || phase == Phase::Start;
    let ending = match finished.code() {
        0 if finished.stdout.contains("PASS") => Ending::WentOn,
        // The command itself reports what it lacks, or the process that should have executed it does.
        2 | 125..=127 if phase == Phase::Start && !finished.stderr.is_empty() => Ending::Error,
        // mpirun has statuses of its own.
        1.. if role == Role::Rank && due == Due::Gone => Ending::Gone,
        1.. if role == Role::Rank => Ending::Error,
        1 if finished.stderr.contains("acc_error_") => Ending::Error,
        // A process that writes beyond the limit on files gets a signal, unless it ignores that.
        153 if bounded && fault == Fault::NoFileSpace => Ending::Gone,
        // The language's runtime, or the C library, reports that it lacks a few bytes.
        134 if bounded && fault == Fault::NoMemory && finished.stderr.contains("memory") => Ending::Error,
        _ if killed && due == Due::Gone => Ending::Gone,
        _ => return wrong("it neither went on nor ended with an error"),
    };
    if outcome.took > limit(fault, phase) {
        return wrong(&format!("it took {:?}", outcome.took));
    }
    match (due, ending) {
        (Due::GoesOn, Ending::WentOn) | (Due::Error, Ending::Error) | (Due::Gone, Ending::Gone | Ending::WentOn) => {
            Ok(ending)
        }
        (Due::Either, _) => Ok(ending),
        (Due::GoesOn, _) => wrong("it should have gone on"),
        (Due::Error, _) => wrong("it should have ended with an error"),
        (Due::Gone, Ending::Error) => wrong("it should be gone"),
    }
}
