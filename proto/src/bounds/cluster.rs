//! Bounds of the messages of the Cluster service.

use super::{Bounded, PAGE_ITEMS_MAX, PATHS_OF_MAX, all, within};
use crate::convert::Malformed;
use crate::v1;
use accord_types::texts::{NAME_MAX, WORDS_MAX};
use v1::watch_row::Line;

/// Most rows of a reply.
pub const WATCH_ROWS_MAX: usize = 256;
/// Most users, jobs or programs in a row.
pub const WATCH_NAMES_MAX: usize = 8;
/// Bytes of the page's address with a code: a host's name, a port and the code.
pub const PAGE_URL_MAX: usize = 512;

/// Lines of a session's log of one node.
pub const LOG_LINES_MAX: usize = 1 << 10;
/// Bytes of the logs in one reply, about.
pub const LOG_REPLY_BYTES_MAX: usize = 2 << 20;

fn names(list: &[String], field: &'static str) -> Result<(), Malformed> {
    within(list.len(), WATCH_NAMES_MAX, field)?;
    list.iter().try_for_each(|name| within(name.len(), NAME_MAX, field))
}

impl Bounded for v1::DescribeRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, viewer, measure: _, paths_of, page: _ } = self;
        viewer.check()?;
        within(paths_of.len(), PATHS_OF_MAX, "DescribeRequest.paths_of is too long")
    }
}

impl Bounded for v1::LogLine {
    fn check(&self) -> Result<(), Malformed> {
        let Self { unix_ms: _, text } = self;
        within(text.len(), WORDS_MAX, "LogLine.text is too long")
    }
}

impl Bounded for v1::SessionLog {
    fn check(&self) -> Result<(), Malformed> {
        let Self { question: _, user, lines, dropped: _ } = self;
        within(user.len(), NAME_MAX, "SessionLog.user is too long")?;
        all(lines, LOG_LINES_MAX, "SessionLog.lines is too long")
    }
}

impl Bounded for v1::NodeLog {
    fn check(&self) -> Result<(), Malformed> {
        let Self { node_name, lines, dropped: _ } = self;
        within(node_name.len(), NAME_MAX, "NodeLog.node_name is too long")?;
        all(lines, LOG_LINES_MAX, "NodeLog.lines is too long")
    }
}

impl Bounded for v1::SessionLogsReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { nodes, silent } = self;
        all(nodes, PAGE_ITEMS_MAX, "SessionLogsReply.nodes is too long")?;
        within(silent.len(), PAGE_ITEMS_MAX, "SessionLogsReply.silent is too long")?;
        silent.iter().try_for_each(|name| within(name.len(), NAME_MAX, "SessionLogsReply.silent is too long"))
    }
}

impl Bounded for v1::OpenPageReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { url, valid_ms: _, is_local: _ } = self;
        within(url.len(), PAGE_URL_MAX, "OpenPageReply.url is too long")
    }
}

impl Bounded for v1::Viewer {
    fn check(&self) -> Result<(), Malformed> {
        let Self { node_name, order: _, kind: _, rank: _ } = self;
        within(node_name.len(), NAME_MAX, "Viewer.node_name is too long")
    }
}

impl Bounded for v1::ClusterView {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            version: _,
            nodes,
            sessions,
            numbering,
            uptime_ms: _,
            plain_tcp: _,
            paths,
            measuring: _,
            unix_ms: _,
            next: _,
            limits: _,
            other_sessions: _,
        } = self;
        all(nodes, PAGE_ITEMS_MAX, "ClusterView.nodes is too long")?;
        all(sessions, PAGE_ITEMS_MAX, "ClusterView.sessions is too long")?;
        within(numbering.len(), PAGE_ITEMS_MAX, "ClusterView.numbering is too long")?;
        all(paths, PAGE_ITEMS_MAX, "ClusterView.paths is too long")
    }
}

impl Bounded for v1::Path {
    fn check(&self) -> Result<(), Malformed> {
        let Self { from: _, to: _, times: _, source: _, transport } = self;
        within(transport.len(), NAME_MAX, "Path.transport is too long")
    }
}

impl Bounded for v1::Session {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            id: _,
            program,
            node_name,
            pid: _,
            rank: _,
            order: _,
            executors,
            lost,
            attached: _,
            age_ms: _,
            device_count: _,
            uses,
            user,
            share_milli: _,
        } = self;
        all(uses, PAGE_ITEMS_MAX, "Session.uses is too long")?;
        within(user.len(), NAME_MAX, "Session.user is too long")?;
        within(program.len(), NAME_MAX, "Session.program is too long")?;
        within(node_name.len(), NAME_MAX, "Session.node_name is too long")?;
        within(executors.len(), PAGE_ITEMS_MAX, "Session.executors is too long")?;
        within(lost.len(), PAGE_ITEMS_MAX, "Session.lost is too long")
    }
}

impl Bounded for v1::ClusterSummary {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            started_unix_ms: _,
            nodes_up: _,
            nodes_draining: _,
            nodes_away: _,
            devices: _,
            devices_busy: _,
            devices_unknown: _,
            devices_idle: _,
            devices_out: _,
            jobs_running: _,
            jobs_waiting: _,
            others_running: _,
            others_waiting: _,
            sessions: _,
            paused: _,
        } = self;
        Ok(())
    }
}

impl Bounded for v1::WatchRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, number: _, table: _, order: _, user, from: _, rows: _ } = self;
        within(user.len(), NAME_MAX, "WatchRequest.user is too long")
    }
}

impl Bounded for v1::WatchReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { request: _, unix_ms: _, summary, total: _, from: _, rows: _, changed } = self;
        summary.check()?;
        all(changed, WATCH_ROWS_MAX, "WatchReply.changed is too long")
    }
}

impl Bounded for v1::WatchRow {
    fn check(&self) -> Result<(), Malformed> {
        let Self { at: _, line } = self;
        match line {
            Some(Line::Node(node)) => node.check(),
            Some(Line::Device(device)) => device.check(),
            Some(Line::User(user)) => user.check(),
            Some(Line::Job(job)) => job.check(),
            None => Ok(()),
        }
    }
}

impl Bounded for v1::NodeLine {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            name,
            state: _,
            reason,
            devices: _,
            devices_busy: _,
            devices_unknown: _,
            devices_held: _,
            devices_idle: _,
            memory: _,
            memory_used: _,
            sessions: _,
            heard_unix_ms: _,
        } = self;
        within(name.len(), NAME_MAX, "NodeLine.name is too long")?;
        within(reason.len(), WORDS_MAX, "NodeLine.reason is too long")
    }
}

impl Bounded for v1::DeviceLine {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            node_name,
            ordinal: _,
            name,
            condition: _,
            reason,
            busy_percent: _,
            memory: _,
            memory_used: _,
            users,
            other_users: _,
            jobs,
            programs,
            other_sessions: _,
            idle_since_unix_ms: _,
            quarantined_since_unix_ms: _,
            quarantine_charged: _,
            used_by_others: _,
        } = self;
        within(node_name.len(), NAME_MAX, "DeviceLine.node_name is too long")?;
        within(name.len(), NAME_MAX, "DeviceLine.name is too long")?;
        within(reason.len(), WORDS_MAX, "DeviceLine.reason is too long")?;
        names(users, "DeviceLine.users is too long")?;
        within(jobs.len(), WATCH_NAMES_MAX, "DeviceLine.jobs is too long")?;
        names(programs, "DeviceLine.programs is too long")
    }
}

impl Bounded for v1::Quarantined {
    fn check(&self) -> Result<(), Malformed> {
        let Self { ordinal: _, reason, since_unix_ms: _, by_administrator: _, charged: _ } = self;
        within(reason.len(), WORDS_MAX, "Quarantined.reason is too long")
    }
}

impl Bounded for v1::UserLine {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            user,
            users: _,
            jobs_running: _,
            jobs_waiting: _,
            sessions: _,
            devices: _,
            busy_percent: _,
            devices_unknown: _,
            devices_idle: _,
            memory_used: _,
        } = self;
        within(user.len(), NAME_MAX, "UserLine.user is too long")
    }
}

impl Bounded for v1::JobLine {
    fn check(&self) -> Result<(), Malformed> {
        let Self { job, busy_percent: _, memory_used: _, idle_since_unix_ms: _ } = self;
        job.check()
    }
}
