//! Whose agent has ended an MPI world, which the coordinator sees first.

use super::processes::Processes;
use std::time::{Duration, Instant};

/// Between two looks into the log.
const PAUSE: Duration = Duration::from_millis(10);

/// The node whose agent has taken the others along, in a line: MPI's launcher may not have ended yet.
pub(super) fn who_died(processes: &Processes<'_>) -> Option<String> {
    first_dead(&processes.log("coordinator")).map(str::to_owned)
}

/// The same, as soon as the coordinator says so; none if it does not until `end`.
pub(super) fn who_died_by(processes: &Processes<'_>, end: Instant) -> Option<String> {
    loop {
        let died = who_died(processes);
        if died.is_some() || Instant::now() >= end {
            return died;
        }
        std::thread::sleep(PAUSE);
    }
}

/// What a coordinator's log says of the first agent that has gone and did not come back.
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
        let said = |text: &str| format!("2026-11-23T20:18:57Z accord-coordinator warn: the agent of node {text}\n");
        let (h2, back) =
            ("h2 (node1) has gone without a word: it ends MPI world j", "h2 (node1) is back: MPI world j goes on");
        let h22 = "h22 (node9) has gone without a word: it ends MPI world j";
        assert_eq!(first_dead("accord-coordinator listening on 10.77.0.254:7000\n"), None);
        let log = |texts: &[&str]| texts.iter().map(|text| said(text)).collect::<String>();
        assert!(first_dead(&log(&[h2, h22])).is_some_and(|text| text.ends_with(h2)));
        assert_eq!(first_dead(&log(&[h2, back])), None);
        assert!(first_dead(&log(&[h22, h2, back])).is_some_and(|text| text.ends_with(h22)));
        assert!(first_dead(&log(&[h2, back, h22, h2])).is_some_and(|text| text.ends_with(h22)));
    }
}
