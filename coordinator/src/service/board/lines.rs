//! Converts rows to messages, and hides what the watcher may not see.

use super::job_facts::JobFacts;
use super::observe::CoreAccess;
use super::tables::{OTHERS, Visibility};
use super::{Board, DeviceSeen, JobSeen, UserSeen, index};
use accord_proto::bounds::WATCH_NAMES_MAX;
use accord_proto::v1;
use v1::watch_row::Line;
use v1::{DeviceCondition, NodeState, WatchTable};

impl Board {
    /// Returns the row of a table as a message.
    pub(super) fn line(
        &self,
        core: &impl CoreAccess,
        visibility: &Visibility,
        table: WatchTable,
        row: u32,
    ) -> Option<Line> {
        Some(match table {
            WatchTable::Unspecified => return None,
            WatchTable::Nodes => Line::Node(self.node_line(row)),
            WatchTable::Devices => Line::Device(self.device_line(visibility, &self.devices[row as usize])),
            WatchTable::Users => Line::User(self.user_line(visibility, row)),
            WatchTable::Jobs => Line::Job(self.job_line(core, &self.jobs[row as usize])),
        })
    }

    /// Returns the totals of the cluster.
    pub(super) fn summary(&self, visibility: &Visibility) -> v1::ClusterSummary {
        let nodes = |is: &dyn Fn(NodeState) -> bool| index(self.nodes.iter().filter(|node| is(node.state)).count());
        let devices = |is: &dyn Fn(&DeviceSeen) -> bool| index(self.devices.iter().filter(|device| is(device)).count());
        let users = |is_seen: bool, of: fn(&UserSeen) -> u32| -> u32 {
            let users = (0..).zip(&self.users).filter(|(at, _)| visibility.see(*at) == is_seen);
            users.map(|(_, user)| of(user)).sum()
        };
        v1::ClusterSummary {
            started_unix_ms: self.started_unix_ms,
            nodes_up: nodes(&|state| state == NodeState::Up),
            nodes_draining: nodes(&|state| state == NodeState::Draining),
            nodes_away: nodes(&|state| matches!(state, NodeState::Lost | NodeState::Gone)),
            devices: index(self.devices.len()),
            devices_busy: devices(&|device| device.activity.percent.is_some_and(|percent| percent > 0)),
            devices_unknown: devices(&|device| device.activity.percent.is_none()),
            devices_idle: devices(&|device| device.activity.idle_since_unix_ms.is_some()),
            devices_out: devices(&DeviceSeen::is_out),
            jobs_running: users(true, |user| user.running),
            jobs_waiting: users(true, |user| user.waiting),
            others_running: users(false, |user| user.running),
            others_waiting: users(false, |user| user.waiting),
            sessions: index(self.sessions.len()),
            paused: self.paused,
        }
    }

    fn node_line(&self, row: u32) -> v1::NodeLine {
        let node = &self.nodes[row as usize];
        let devices = self.devices_of(row);
        let count = |is: &dyn Fn(&DeviceSeen) -> bool| index(devices.iter().filter(|device| is(device)).count());
        let is_away = matches!(node.state, NodeState::Lost | NodeState::Gone);
        v1::NodeLine {
            name: node.name.clone(),
            state: node.state.into(),
            reason: node.reason.clone(),
            devices: index(devices.len()),
            devices_busy: count(&|device| device.activity.percent.is_some_and(|percent| percent > 0)),
            devices_unknown: count(&|device| device.activity.percent.is_none()),
            devices_held: count(&|device| !device.jobs.is_empty()),
            devices_idle: count(&|device| device.activity.idle_since_unix_ms.is_some()),
            memory: devices.iter().map(|device| device.memory).sum(),
            memory_used: devices.iter().map(|device| device.activity.held).sum(),
            sessions: node.sessions,
            heard_unix_ms: is_away.then_some(node.heard_unix_ms),
        }
    }

    fn device_line(&self, visibility: &Visibility, device: &DeviceSeen) -> v1::DeviceLine {
        let (seen, others): (Vec<u32>, Vec<u32>) = device.users.iter().partition(|user| visibility.see(**user));
        let mut users: Vec<String> = seen.iter().map(|user| self.users[*user as usize].name.clone()).collect();
        users.sort_unstable();
        let more = users.len().saturating_sub(WATCH_NAMES_MAX);
        users.truncate(WATCH_NAMES_MAX);
        let jobs = device.jobs.iter().map(|job| &self.jobs[*job as usize]).filter(|job| visibility.see(job.user));
        let sessions = device.uses.iter().map(|used| &self.sessions[used.session as usize]);
        let programs: Vec<String> = sessions
            .filter(|session| visibility.see(session.user))
            .take(WATCH_NAMES_MAX)
            .map(|session| session.program.clone())
            .collect();
        v1::DeviceLine {
            node_name: self.nodes[device.node as usize].name.clone(),
            ordinal: device.ordinal,
            name: device.name.clone(),
            condition: device.condition.into(),
            reason: device.reason.clone(),
            busy_percent: if device.condition == DeviceCondition::Lost { None } else { device.activity.percent },
            memory: device.memory,
            memory_used: device.activity.held,
            other_users: index(others.len() + more),
            users,
            jobs: jobs.take(WATCH_NAMES_MAX).map(|job| job.id.0).collect(),
            other_sessions: index(device.uses.len() - programs.len()),
            programs,
            idle_since_unix_ms: device.activity.idle_since_unix_ms,
            quarantined_since_unix_ms: device.quarantine.as_ref().map(|quarantine| quarantine.since_unix_ms),
            quarantine_charged: device.quarantine.as_ref().is_some_and(|quarantine| quarantine.is_charged),
            used_by_others: device.activity.by_others,
        }
    }

    fn user_line(&self, visibility: &Visibility, row: u32) -> v1::UserLine {
        let mut all = UserSeen::default();
        let mut users = 0;
        let parts =
            (0..).zip(&self.users).filter(|(at, _)| if row == OTHERS { !visibility.see(*at) } else { *at == row });
        for (_, user) in parts {
            users += 1;
            all.running += user.running;
            all.waiting += user.waiting;
            all.sessions += user.sessions;
            all.devices += user.devices;
            all.known += user.known;
            all.percent += user.percent;
            all.unknown += user.unknown;
            all.idle += user.idle;
            all.held = all.held.saturating_add(user.held);
        }
        v1::UserLine {
            user: self.users.get(row as usize).map(|user| user.name.clone()).unwrap_or_default(),
            users,
            jobs_running: all.running,
            jobs_waiting: all.waiting,
            sessions: all.sessions,
            devices: all.devices,
            busy_percent: all.percent.checked_div(all.known),
            devices_unknown: all.unknown,
            devices_idle: all.idle,
            memory_used: all.held,
        }
    }

    fn job_line(&self, core: &impl CoreAccess, job: &JobSeen) -> v1::JobLine {
        let (percent, memory_used) = self.use_by(job);
        let is_idle = !job.is_waiting() && job.is_exclusive && percent == Some(0);
        let idle_since =
            job.devices.iter().filter_map(|device| self.devices[*device as usize].activity.idle_since_unix_ms);
        v1::JobLine {
            job: Some(job.words.get_or_init(|| self.words(core, job)).clone()),
            busy_percent: percent.filter(|_| !job.is_waiting()),
            memory_used,
            idle_since_unix_ms: idle_since.max().filter(|_| is_idle),
        }
    }

    /// Returns a job's message. Its parts are copied from the core; words are made of them once the core is unlocked.
    fn words(&self, core: &impl CoreAccess, job: &JobSeen) -> v1::Job {
        match core.with_core(|cluster| JobFacts::copy(cluster, job.id)) {
            Some(facts) => facts.message(self.started_unix_ms),
            // The job has ended since the board was made.
            None => v1::Job { job: job.id.0, user: self.users[job.user as usize].name.clone(), ..v1::Job::default() },
        }
    }
}
