//! Finds the agent whose death ended an MPI world; the coordinator notices it first.

use super::processes::Processes;
use std::time::{Duration, Instant};

/// Pause between two reads of the log.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns a line with the node of the agent that died first. MPI's launcher may still be running.
pub(super) fn dead_node_line(processes: &Processes<'_>) -> Option<String> {
    first_dead(&processes.log("coordinator")).map(str::to_owned)
}

/// Waits for the line of [`dead_node_line`], and returns it; `None` if the coordinator's log does not have it by `end`.
pub(super) fn dead_node_line_by(processes: &Processes<'_>, end: Instant) -> Option<String> {
    loop {
        let died = dead_node_line(processes);
        if died.is_some() || Instant::now() >= end {
            return died;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns the log's message about the first agent that disconnected and did not reconnect.
fn first_dead(log: &str) -> Option<&str> {
    const OF_AGENT: &str = "the agent of node ";
    let node = |text: &str| text[OF_AGENT.len()..].split(' ').next().map(str::to_owned);
    let mut gone = Vec::<&str>::new();
    for text in log.lines().filter_map(|line| line.find(OF_AGENT).map(|at| &line[at..])) {
        if text.contains(" is back:") {
            gone.retain(|other| node(other) != node(text));
        } else {
            gone.push(text);
        }
    }
    gone.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_back_has_not_ended_the_run() {
        let printed = |text: &str| format!("2026-11-23T20:18:57Z accord-coordinator warn: the agent of node {text}\n");
        let (h2, back) =
            ("h2 (node1) has gone without a word: it ends MPI world j", "h2 (node1) is back: MPI world j goes on");
        let h22 = "h22 (node9) has gone without a word: it ends MPI world j";
        assert_eq!(first_dead("accord-coordinator listening on 10.77.0.254:7000\n"), None);
        let log = |texts: &[&str]| texts.iter().map(|text| printed(text)).collect::<String>();
        assert!(first_dead(&log(&[h2, h22])).is_some_and(|text| text.ends_with(h2)));
        assert_eq!(first_dead(&log(&[h2, back])), None);
        assert!(first_dead(&log(&[h22, h2, back])).is_some_and(|text| text.ends_with(h22)));
        assert!(first_dead(&log(&[h2, back, h22, h2])).is_some_and(|text| text.ends_with(h22)));
    }
}
