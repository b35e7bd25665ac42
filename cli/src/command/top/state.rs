//! The state of `accord top`, and the effect of its keys: without I/O or clock.

use super::rows::Rows;
use accord_proto::v1::{WatchOrder, WatchReply, WatchRequest, WatchTable};

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum View {
    /// Devices.
    #[default]
    Devices,
    /// Nodes.
    Nodes,
    /// Users, with their jobs and devices.
    Users,
    /// Running and waiting jobs.
    Jobs,
}

/// The order of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum Sort {
    /// By name; jobs in the order of the queue.
    #[default]
    Name,
    /// The busiest first.
    Use,
    /// Those with most memory in use first.
    Memory,
}

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// The outcome of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Nothing,
    /// Other rows must be requested.
    Ask,
    Quit,
}

/// The state of `accord top`.
#[derive(Debug, Default)]
pub(crate) struct Top {
    pub(crate) view: View,
    pub(crate) sort: Sort,
    /// The only user whose rows are requested; empty means all.
    pub(crate) user: String,
    /// The coordinator's address, `host:port`.
    pub(crate) coordinator: String,
    /// Number of rows before the first one on the screen.
    from: u32,
    /// Number of rows that fit on the screen.
    fit: u32,
    /// The last request's number.
    request: u64,
    pub(crate) rows: Rows,
    /// Milliseconds since the rows were received.
    pub(crate) age_ms: u64,
    /// The reason why the rows are outdated.
    pub(crate) problem: Option<String>,
}

impl View {
    pub(crate) const ALL: [Self; 4] = [Self::Nodes, Self::Devices, Self::Users, Self::Jobs];

    pub(crate) fn table(self) -> WatchTable {
        match self {
            Self::Devices => WatchTable::Devices,
            Self::Nodes => WatchTable::Nodes,
            Self::Users => WatchTable::Users,
            Self::Jobs => WatchTable::Jobs,
        }
    }
}

impl Sort {
    pub(crate) fn order(self) -> WatchOrder {
        match self {
            Self::Name => WatchOrder::Unspecified,
            Self::Use => WatchOrder::Busy,
            Self::Memory => WatchOrder::Memory,
        }
    }
}

impl Top {
    pub(crate) fn new(coordinator: &str, view: View, sort: Sort, user: &str) -> Self {
        Self { coordinator: coordinator.to_owned(), view, sort, user: user.to_owned(), ..Self::default() }
    }

    /// Returns the request for the rows on the screen.
    pub(crate) fn request(&self) -> WatchRequest {
        WatchRequest {
            version: accord_proto::VERSIONS.own(),
            number: self.request,
            table: self.view.table().into(),
            order: self.sort.order().into(),
            user: self.user.clone(),
            from: self.from,
            rows: self.fit,
        }
    }

    /// Applies a reply.
    pub(crate) fn take(&mut self, reply: WatchReply) {
        self.rows.take(self.view.table(), self.request, reply);
        (self.age_ms, self.problem) = (0, None);
    }

    /// Returns the coordinator's clock now.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.rows.unix_ms.saturating_add(self.age_ms)
    }

    /// Sets the number of rows that fit on the screen.
    pub(crate) fn resize(&mut self, fit: u32) -> Act {
        if self.fit == fit { Act::Nothing } else { self.ask(|top| top.fit = fit) }
    }

    /// Changes the state by a key of the user. Returns the action that follows.
    pub(crate) fn key(&mut self, key: Key) -> Act {
        let last = self.rows.total.saturating_sub(self.fit);
        let to = match key {
            Key::Char('q') => return Act::Quit,
            Key::Char('d') => return self.show(View::Devices),
            Key::Char('n') => return self.show(View::Nodes),
            Key::Char('u') => return self.show(View::Users),
            Key::Char('j') => return self.show(View::Jobs),
            Key::Char('s') => {
                return self.ask(|top| {
                    (top.from, top.sort) = (0, top.sort.next());
                });
            }
            Key::Char(_) => return Act::Nothing,
            Key::Up => self.from.saturating_sub(1),
            Key::Down => self.from.saturating_add(1),
            Key::PageUp => self.from.saturating_sub(self.fit),
            Key::PageDown => self.from.saturating_add(self.fit),
            Key::Home => 0,
            Key::End => last,
        };
        let to = to.min(last);
        if to == self.from { Act::Nothing } else { self.ask(|top| top.from = to) }
    }

    fn show(&mut self, view: View) -> Act {
        if view == self.view { Act::Nothing } else { self.ask(|top| (top.view, top.from) = (view, 0)) }
    }

    fn ask(&mut self, change: impl FnOnce(&mut Self)) -> Act {
        change(self);
        self.request += 1;
        Act::Ask
    }
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Name => Self::Use,
            Self::Use => Self::Memory,
            Self::Memory => Self::Name,
        }
    }

    /// Returns the order's name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Use => "use",
            Self::Memory => "memory",
        }
    }
}
