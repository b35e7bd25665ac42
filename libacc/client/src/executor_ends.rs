//! Reasons for the ends of lanes, as the coordinator reports them: the session is over, a node's agent was stopped, or
//! an executor's process has ended. A program sees only that its lanes end.

use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, ErrorCode, NodeId};
use std::collections::BTreeMap;
use std::sync::Condvar;
use std::time::{Duration, Instant};

/// The longest time between the end of a lane and the report of its reason.
const WORD_MAX: Duration = Duration::from_millis(500);
/// The time for which a report concerns the executor whose lane has ended, rather than an earlier one.
const COUNTS: Duration = Duration::from_secs(2);

/// The reason for a lane's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LaneEnd {
    /// The session is over: the cause, with a remedy after a semicolon.
    Session(String),
    /// The agent of the node with this name was stopped.
    AgentStopped(String),
    /// The executor's process has ended with this status.
    Process(String),
}

impl LaneEnd {
    /// Returns the error of operations over the lane, if this is the whole reason.
    pub(crate) fn error(&self) -> Option<Error> {
        let unavailable = |cause: &str| Error::new(ErrorCode::DeviceUnavailable, cause);
        match self {
            Self::Session(why) => Some(match why.split_once("; ") {
                Some((cause, remedy)) => unavailable(cause).remedy(remedy),
                None => unavailable(why).remedy("start the program again"),
            }),
            Self::AgentStopped(name) => Some(
                unavailable(&format!("the agent of node {name} was stopped"))
                    .remedy("use devices of other nodes, or start the program again when the agent is back"),
            ),
            Self::Process(_) => None,
        }
    }
}

/// The ends of executors, as the coordinator reports them.
#[derive(Debug, Default)]
pub(crate) struct ExecutorEnds {
    reported: ShortLock<EndReports>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct EndReports {
    /// The reason why the session is over.
    session: Option<String>,
    /// The last end on each node, and when it was reported.
    nodes: BTreeMap<NodeId, (Instant, LaneEnd)>,
    /// Time at which a thread first waited for the session's end.
    awaited: Option<Instant>,
}

impl EndReports {
    fn of(&self, node: NodeId) -> Option<LaneEnd> {
        let session = self.session.clone().map(LaneEnd::Session);
        let recent = || self.nodes.get(&node).filter(|(when, _)| when.elapsed() < COUNTS);
        session.or_else(|| recent().map(|(_, end)| end.clone()))
    }
}

impl ExecutorEnds {
    /// Records that the session is over.
    pub(crate) fn session_is_over(&self, why: &str) {
        self.reported.lock().session.get_or_insert_with(|| why.to_owned());
        self.changed.notify_all();
    }

    /// Records that the lanes to a node end.
    pub(crate) fn notify(&self, node: NodeId, end: LaneEnd) {
        let mut reported = self.reported.lock();
        // The end of a process says less than that of its agent, which caused it.
        let known = reported.nodes.get(&node).filter(|(when, _)| when.elapsed() < COUNTS);
        if !matches!((known, &end), (Some((_, LaneEnd::AgentStopped(_))), LaneEnd::Process(_))) {
            reported.nodes.insert(node, (Instant::now(), end));
        }
        drop(reported);
        self.changed.notify_all();
    }

    /// Waits for the reason why a lane to a node's executor has ended, and returns it.
    pub(crate) fn of(&self, node: NodeId) -> Option<LaneEnd> {
        let unknown = |reported: &mut EndReports| reported.of(node).is_none();
        let (reported, _) = ShortGuard::wait_timeout_while(self.reported.lock(), &self.changed, WORD_MAX, unknown);
        reported.of(node)
    }

    /// Waits for the reason why lanes between executors have ended, and returns it if that is the session's end. Does
    /// not wait again if no report arrived.
    pub(crate) fn of_session(&self) -> Option<LaneEnd> {
        let mut reported = self.reported.lock();
        let awaited = reported.awaited.filter(|since| since.elapsed() < COUNTS).unwrap_or_else(Instant::now);
        reported.awaited = Some(awaited);
        let left = WORD_MAX.saturating_sub(awaited.elapsed());
        let (reported, _) =
            ShortGuard::wait_timeout_while(reported, &self.changed, left, |reported| reported.session.is_none());
        reported.session.clone().map(LaneEnd::Session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn late_report_of_the_agent_explains_a_lost_executor() {
        let ends = Arc::<ExecutorEnds>::default();
        let later = ends.clone();
        let process = |how: &str| LaneEnd::Process(how.to_owned());
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            later.notify(NodeId(3), process("exit status: 1"));
            later.notify(NodeId(2), process("signal: 9"));
        });
        assert_eq!(ends.of(NodeId(2)), Some(process("signal: 9")));
        thread.join().unwrap();
        assert_eq!(ends.of(NodeId(3)), Some(process("exit status: 1")));
        assert_eq!(ends.of(NodeId(4)), None);
        ends.notify(NodeId(4), LaneEnd::AgentStopped("h4".to_owned()));
        ends.notify(NodeId(4), process("signal: 9"));
        assert_eq!(ends.of(NodeId(4)), Some(LaneEnd::AgentStopped("h4".to_owned())));
    }

    #[test]
    fn the_sessions_end_is_that_of_all_lanes() {
        let ends = ExecutorEnds::default();
        assert_eq!(ends.of_session(), None);
        let begun = Instant::now();
        assert_eq!(ends.of_session(), None);
        assert!(begun.elapsed() < WORD_MAX, "it does not wait again");
        ends.notify(NodeId(1), LaneEnd::Process("signal: 9".to_owned()));
        ends.session_is_over("its time is over; ask for more");
        let end = ends.of(NodeId(1)).unwrap();
        assert_eq!(ends.of_session().as_ref(), Some(&end));
        let error = end.error().unwrap();
        assert_eq!((error.cause(), error.remedy_text()), ("its time is over", Some("ask for more")));
    }
}
