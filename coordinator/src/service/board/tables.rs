//! Selects and orders the rows that a watcher sees.

use super::super::viewer::Viewer;
use super::{Board, DeviceSeen, JobSeen, UserSeen, index};
use accord_proto::bounds::WATCH_ROWS_MAX;
use accord_proto::v1;
use accord_types::natural_order;
use std::borrow::Cow;
use std::cmp::Reverse;
use v1::{WatchOrder, WatchTable};

/// The row that stands for all users that the watcher may not see.
pub(super) const OTHERS: u32 = u32::MAX;
/// Sorts an unknown utilization first, because it may be the largest.
const UNKNOWN: u32 = 101;

/// The visibility of a board's users to a watcher, by index.
#[derive(Debug)]
pub(crate) struct Visibility(Vec<bool>);

/// The requested rows of a table.
#[derive(Debug)]
pub(super) struct Window {
    /// Number of rows in the table.
    pub(super) total: u32,
    /// Index of the first row.
    pub(super) from: u32,
    pub(super) rows: Vec<u32>,
}

impl Visibility {
    pub(crate) fn of(board: &Board, viewer: &Viewer) -> Self {
        Self(board.users.iter().map(|user| viewer.sees_user(&user.name, board.others_jobs)).collect())
    }

    pub(super) fn see(&self, user: u32) -> bool {
        self.0.get(user as usize).copied().unwrap_or(false)
    }
}

impl Board {
    /// Returns the requested rows: the last ones if the request begins beyond the table's end.
    pub(super) fn window(&self, visibility: &Visibility, request: &v1::WatchRequest) -> Window {
        let all = self.rows(visibility, request);
        let many = (request.rows as usize).min(WATCH_ROWS_MAX);
        let from = (request.from as usize).min(all.len().saturating_sub(many));
        let rows = all.iter().skip(from).take(many).copied().collect();
        Window { total: index(all.len()), from: index(from), rows }
    }

    /// Returns all rows of a table, in order.
    fn rows(&self, visibility: &Visibility, request: &v1::WatchRequest) -> Cow<'_, [u32]> {
        let only = (!request.user.is_empty()).then(|| self.by_name.get(&request.user).copied());
        // A hidden user is treated like one that does not exist.
        let only = only.map(|user| user.filter(|user| visibility.see(*user)));
        let chosen = |all: &'_ [u32], is: &dyn Fn(u32, u32) -> bool| -> Option<Vec<u32>> {
            only.map(|user| match user {
                Some(user) => all.iter().copied().filter(|row| is(*row, user)).collect(),
                None => Vec::new(),
            })
        };
        match request.table() {
            WatchTable::Unspecified => Cow::default(),
            WatchTable::Devices => {
                let all = self.devices_by(request.order());
                let some = chosen(all, &|row, user| self.devices[row as usize].users.contains(&user));
                some.map_or(Cow::Borrowed(all), Cow::Owned)
            }
            WatchTable::Nodes => {
                let all = self.nodes_by(request.order());
                let some = chosen(all, &|row, user| self.devices_of(row).iter().any(|on| on.users.contains(&user)));
                some.map_or(Cow::Borrowed(all), Cow::Owned)
            }
            WatchTable::Jobs => {
                let all = self.jobs_by(request.order());
                let some = chosen(all, &|row, user| self.jobs[row as usize].user == user);
                let seen = || all.iter().copied().filter(|row| visibility.see(self.jobs[*row as usize].user)).collect();
                Cow::Owned(some.unwrap_or_else(seen))
            }
            WatchTable::Users => Cow::Owned(self.users_by(request.order(), visibility, only)),
        }
    }

    pub(super) fn devices_of(&self, node: u32) -> &[DeviceSeen] {
        let devices = &self.nodes[node as usize].devices;
        &self.devices[devices.start as usize..devices.end as usize]
    }

    fn devices_by(&self, order: WatchOrder) -> &[u32] {
        let by_name = || self.by_node_name.iter().flat_map(|node| self.nodes[*node as usize].devices.clone());
        let [names, busy, memory] = &self.orders.devices;
        let of = |row: &u32| &self.devices[*row as usize];
        match order {
            WatchOrder::Unspecified => names.get_or_init(|| by_name().collect()),
            WatchOrder::Busy => busy.get_or_init(|| {
                let mut rows: Vec<u32> = by_name().collect();
                rows.sort_by_key(|row| (of(row).is_out(), Reverse(of(row).activity.percent.unwrap_or(UNKNOWN))));
                rows
            }),
            WatchOrder::Memory => memory.get_or_init(|| {
                let mut rows: Vec<u32> = by_name().collect();
                rows.sort_by_key(|row| Reverse(of(row).activity.held));
                rows
            }),
        }
    }

    fn nodes_by(&self, order: WatchOrder) -> &[u32] {
        let [busy, memory] = &self.orders.nodes;
        let sorted = |key: &dyn Fn(&DeviceSeen) -> u64| {
            let mut rows = self.by_node_name.to_vec();
            rows.sort_by_cached_key(|row| Reverse(self.devices_of(*row).iter().map(key).sum::<u64>()));
            rows
        };
        match order {
            WatchOrder::Unspecified => &self.by_node_name,
            WatchOrder::Busy => {
                busy.get_or_init(|| sorted(&|device| u64::from(device.activity.percent.unwrap_or(UNKNOWN))))
            }
            WatchOrder::Memory => memory.get_or_init(|| sorted(&|device| device.activity.held)),
        }
    }

    fn jobs_by(&self, order: WatchOrder) -> &[u32] {
        let all = || (0..index(self.jobs.len())).collect::<Vec<u32>>();
        let [queue, busy, memory] = &self.orders.jobs;
        let (kept, is_memory) = match order {
            WatchOrder::Unspecified => return queue.get_or_init(all),
            WatchOrder::Busy => (busy, false),
            WatchOrder::Memory => (memory, true),
        };
        kept.get_or_init(|| {
            let mut rows = all();
            rows.sort_by_cached_key(|row| {
                let (percent, held) = self.use_by(&self.jobs[*row as usize]);
                let is_waiting = self.jobs[*row as usize].is_waiting();
                let most = if is_memory { held } else { percent.unwrap_or(UNKNOWN).into() };
                (is_waiting, if is_waiting { Reverse(0) } else { Reverse(most) })
            });
            rows
        })
    }

    fn users_by(&self, order: WatchOrder, visibility: &Visibility, only: Option<Option<u32>>) -> Vec<u32> {
        let mut rows: Vec<u32> = match only {
            Some(user) => user.into_iter().collect(),
            None => (0..index(self.users.len())).filter(|user| visibility.see(*user)).collect(),
        };
        let of = |row: &u32| &self.users[*row as usize];
        rows.sort_by(|a, b| natural_order(&of(a).name, &of(b).name));
        match order {
            WatchOrder::Unspecified => {}
            WatchOrder::Busy => rows.sort_by_key(|row| Reverse(of(row).percent + UNKNOWN * of(row).unknown)),
            WatchOrder::Memory => rows.sort_by_key(|row| Reverse(of(row).held)),
        }
        let has_some = |user: &UserSeen| user.running + user.waiting + user.sessions > 0;
        let others = (0..).zip(&self.users).any(|(at, user)| !visibility.see(at) && has_some(user));
        if only.is_none() && others {
            rows.push(OTHERS);
        }
        rows
    }

    /// Returns the average utilization of a running job's devices, and the memory that its sessions hold.
    pub(super) fn use_by(&self, job: &JobSeen) -> (Option<u32>, u64) {
        let (mut sum, mut held) = (Some(0), 0_u64);
        for device in &job.devices {
            let uses = self.devices[*device as usize].uses.iter();
            for used in uses.filter(|used| self.sessions[used.session as usize].job == Some(job.id)) {
                sum = sum.zip(used.percent).map(|(sum, percent): (u32, u32)| sum + percent);
                held = held.saturating_add(used.held);
            }
        }
        let devices = index(job.devices.len());
        (sum.and_then(|sum| sum.checked_div(devices)).map(|percent| percent.min(100)), held)
    }
}
