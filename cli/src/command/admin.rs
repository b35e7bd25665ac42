//! `accord drain`, `accord close` and `accord shutdown`: what an administrator does to a running cluster.

use crate::args::{CloseArgs, DrainArgs, ShutdownArgs};
use crate::client::Coordinator;
use crate::failure::Result;
use crate::output::{print, show};

/// Runs `accord drain`. All nodes are tried; the first refusal is the error.
pub(crate) fn drain(args: &DrainArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    each(&args.nodes, |node| {
        let sessions = coordinator.drain(node, !args.undo)?;
        show(&drained(node, !args.undo, &sessions));
        Ok(())
    })
}

/// Runs `accord close`, likewise.
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

/// Does it for all; the first failure is the result.
pub(super) fn each<T>(all: &[T], mut act: impl FnMut(&T) -> Result<()>) -> Result<u8> {
    let mut first = Ok(0);
    for one in all {
        let done = act(one);
        first = first.and_then(|code| done.map(|()| code));
    }
    first
}

/// What came of a drain.
fn drained(node: &str, drain: bool, sessions: &[u64]) -> String {
    let state = if drain { "takes part in no new session" } else { "takes part in new sessions again" };
    let listed: Vec<String> = sessions.iter().map(u64::to_string).collect();
    match sessions.len() {
        0 if drain => format!("{node} {state}; no session uses it\n"),
        _ if !drain => format!("{node} {state}\n"),
        1 => format!("{node} {state}; session {} still uses it\n", listed[0]),
        count => format!("{node} {state}; {count} sessions still use it: {}\n", listed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn a_drain_says_who_still_uses_the_node() {
        assert_eq!(drained("h2", true, &[]), "h2 takes part in no new session; no session uses it\n");
        assert_eq!(drained("h2", true, &[7]), "h2 takes part in no new session; session 7 still uses it\n");
        assert_eq!(drained("h2", true, &[7, 9]), "h2 takes part in no new session; 2 sessions still use it: 7, 9\n");
        assert_eq!(drained("h2", false, &[7, 9]), "h2 takes part in new sessions again\n");
    }

    #[test]
    fn all_are_tried_and_the_first_failure_is_told() {
        let mut tried = Vec::new();
        let failed = each(&[1, 2, 3], |one| {
            tried.push(*one);
            if *one == 1 { Ok(()) } else { Err(Failure::new(format!("no {one}"))) }
        });
        assert_eq!(failed.unwrap_err().to_string(), Failure::new("no 2").to_string());
        assert_eq!(tried, [1, 2, 3]);
    }
}
