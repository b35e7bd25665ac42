//! What nodes have written about a session: agents are asked for it, and answer on their connections.

use super::caller::Caller;
use super::driver::Driver;
use super::viewer::Viewer;
use accord_cluster::LinkId;
use accord_proto::bounds::LOG_REPLY_BYTES_MAX;
use accord_proto::convert::check_version;
use accord_proto::v1;
use accord_trust::access::Act;
use accord_types::SessionId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response, Status};

/// How long agents may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// A question under way, which its drop removes.
struct Question<'a> {
    driver: &'a Driver,
    number: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.driver.with_log_questions(|questions| questions.remove(self.number));
    }
}

/// Answers a request for a session's logs.
///
/// # Errors
/// Returns `not_found` if no node has a log of a session of the caller's with this number, and `resource_exhausted` if too many callers ask at once.
pub(super) async fn session_logs(
    driver: &Arc<Driver>,
    request: Request<v1::SessionLogsRequest>,
) -> Result<Response<v1::SessionLogsReply>, Status> {
    let viewer = Viewer::of(Caller::check(&request, Act::SeeJobs)?);
    let request = request.into_inner();
    check_version(request.version)?;
    let session = SessionId(request.session);
    let agents = driver.agents_of(session);
    let (answers, mut logs) = mpsc::channel(agents.len().max(1));
    let number = driver.with_log_questions(|questions| questions.add(&viewer.called, answers)).ok_or_else(|| {
        Status::resource_exhausted("too many questions for logs are under way; ask again in some seconds")
    })?;
    let _question = Question { driver, number };
    let mut waiting: HashMap<LinkId, String> = HashMap::new();
    for (link, node_name) in agents {
        if driver.ask_for_log(link, number, session) {
            waiting.insert(link, node_name);
        }
    }
    let (deadline, mut nodes) = (Instant::now() + ANSWER_WITHIN, Vec::new());
    while !waiting.is_empty() {
        let Ok(Some((link, log))) = timeout_at(deadline, logs.recv()).await else { break };
        let Some(node_name) = waiting.remove(&link) else { continue };
        if may_see(&viewer, &log) {
            nodes.push(v1::NodeLog { node_name, lines: log.lines, dropped: log.dropped });
        }
    }
    if nodes.is_empty() {
        let silent = if waiting.is_empty() { "" } else { ", and not all nodes have answered" };
        let why = format!("no node has a log of a session {session} of yours{silent}; see `accord info`");
        return Err(Status::not_found(why));
    }
    nodes.sort_by(|one, other| one.node_name.cmp(&other.node_name));
    shorten(&mut nodes, LOG_REPLY_BYTES_MAX);
    let mut silent: Vec<String> = waiting.into_values().collect();
    silent.sort();
    Ok(Response::new(v1::SessionLogsReply { nodes, silent }))
}

/// Whether the caller may see a log: its own session's, or any as an administrator.
fn may_see(viewer: &Viewer, log: &v1::SessionLog) -> bool {
    !log.user.is_empty() && (viewer.is_admin || viewer.user.as_deref() == Some(log.user.as_str()))
}

/// Drops the first lines of each node where all are longer than `max` bytes together.
fn shorten(nodes: &mut [v1::NodeLog], max: usize) {
    /// Bytes that a line takes beside its text, at most.
    const BESIDE: usize = 32;
    let share = max / nodes.len().max(1);
    for node in nodes {
        let mut bytes: usize = node.lines.iter().map(|line| line.text.len() + BESIDE).sum();
        let surplus = node.lines.iter().take_while(|line| {
            let is_too_much = bytes > share;
            bytes -= line.text.len() + BESIDE;
            is_too_much
        });
        let surplus = surplus.count();
        node.lines.drain(..surplus);
        node.dropped = node.dropped.saturating_add(surplus as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(user: &str) -> v1::SessionLog {
        v1::SessionLog { question: 1, user: user.to_owned(), ..v1::SessionLog::default() }
    }

    #[test]
    fn a_user_sees_logs_of_own_sessions_and_an_administrator_all() {
        let viewer =
            |user: Option<&str>, is_admin| Viewer { called: "x".to_owned(), user: user.map(str::to_owned), is_admin };
        assert!(may_see(&viewer(Some("eva"), false), &log("eva")));
        assert!(!may_see(&viewer(Some("eva"), false), &log("max")));
        assert!(!may_see(&viewer(None, false), &log("max")));
        assert!(may_see(&viewer(None, true), &log("max")));
        assert!(!may_see(&viewer(None, true), &log("")), "the agent has no log of it");
    }

    #[test]
    fn a_reply_that_is_too_long_keeps_the_last_lines() {
        let line = |text: &str| v1::LogLine { unix_ms: 1, text: text.to_owned() };
        let node = |lines: &[&str]| v1::NodeLog {
            node_name: "h".to_owned(),
            lines: lines.iter().map(|text| line(text)).collect(),
            dropped: 1,
        };
        let mut nodes = [node(&["aaaa", "bbbb", "cccc"]), node(&["d"])];
        shorten(&mut nodes, 2 * (2 * 36));
        assert_eq!((nodes[0].lines.len(), nodes[0].lines[0].text.as_str(), nodes[0].dropped), (2, "bbbb", 2));
        assert_eq!((nodes[1].lines.len(), nodes[1].dropped), (1, 1));
    }
}
