//! Flow control of commands and copies. The executor returns credit for the bytes of commands as it reads them. It also
//! limits the copies between devices of different processes in flight, and reports their completion.

use accord_fabric::frame::{CREDIT_WINDOW, Command};
use accord_types::QueueId;

/// The credit that a command needs, besides its own bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Nothing.
    Command,
    /// An operation of a device's queue.
    Operation(u32, QueueId),
    /// A push to another device of the session.
    Push(u32, QueueId),
    /// An expected copy that another process pushes.
    Expect,
}

impl Need {
    /// Returns the need of a command.
    pub fn of(command: &Command) -> Self {
        match (command, command.operation()) {
            (&Command::Push { device, queue, .. }, _) => Self::Push(device, QueueId(queue)),
            (Command::Expect { .. }, _) => Self::Expect,
            (_, Some((device, queue))) => Self::Operation(device, QueueId(queue)),
            (_, None) => Self::Command,
        }
    }
}

/// The credit that the executor has granted.
pub(super) struct GrantedCredit {
    pub(super) commands: Credit,
    pub(super) exchanged: ExchangeCredit,
}

impl GrantedCredit {
    /// Creates the credit of a new connection, with this many copies of each role.
    pub(super) fn new(exchange_window: u32) -> Self {
        Self { commands: Credit::default(), exchanged: ExchangeCredit::new(exchange_window) }
    }
}

/// Bytes of commands without returned credit.
#[derive(Default)]
pub(super) struct Credit {
    in_flight: u64,
}

impl Credit {
    /// Whether another command may be appended. A command is counted whole, so that the last one may exceed the window:
    /// at most [`CREDIT_WINDOW`] and one frame are in flight.
    pub(super) fn is_left(&self) -> bool {
        self.in_flight < CREDIT_WINDOW
    }

    /// Records an appended command of this many bytes.
    pub(super) fn use_up(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    /// Records returned credit. Returning more than was used does not widen the window.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Number of bytes in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }
}

/// Copies between devices that are not known to be complete, by the executor's role.
pub(super) struct ExchangeCredit {
    window: u32,
    pushes: u32,
    expects: u32,
}

impl ExchangeCredit {
    /// Creates a credit for this many copies of each role.
    pub(super) fn new(window: u32) -> Self {
        Self { window, pushes: 0, expects: 0 }
    }

    /// Whether there is credit for a command's need. A thread that has one end of a copy may wait for the other one, so
    /// neither end waits for credit of the other role.
    pub(super) fn is_left(&self, need: Need) -> bool {
        match need {
            Need::Push(..) => self.pushes < self.window,
            Need::Expect => self.expects < self.window,
            Need::Command | Need::Operation(..) => true,
        }
    }

    /// Records an appended command.
    pub(super) fn use_up(&mut self, command: &Command) {
        match command {
            Command::Push { .. } => self.pushes += 1,
            Command::Expect { .. } => self.expects += 1,
            _ => {}
        }
    }

    /// Returns the credit of completed transfers. Reporting more than were open does not widen the window.
    pub(super) fn give_back(&mut self, pushes: u32, expects: u32) {
        self.pushes = self.pushes.saturating_sub(pushes);
        self.expects = self.expects.saturating_sub(expects);
    }

    /// Number of open pushes, and of expected copies.
    pub(super) fn open(&self) -> (u32, u32) {
        (self.pushes, self.expects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_fabric::peer::PeerId;

    #[test]
    fn a_window_is_used_up_and_comes_back_and_never_grows() {
        let mut credit = Credit::default();
        credit.use_up(CREDIT_WINDOW - 1);
        assert!(credit.is_left());
        credit.use_up(100);
        assert!(!credit.is_left());
        credit.give_back(99);
        assert!(!credit.is_left(), "all of the window is in use");
        credit.give_back(1);
        assert!(credit.is_left());
        credit.give_back(u64::MAX);
        assert_eq!(credit.in_flight(), 0);
    }

    #[test]
    fn each_end_of_copies_has_room_of_its_own() {
        let mut credit = ExchangeCredit::new(2);
        let (push, to) = (Need::Push(0, QueueId(1)), PeerId::PROGRAM);
        for transfer in 0..2 {
            credit.use_up(&Command::Push { device: 0, queue: 1, src: 0, len: 8, transfer, to });
        }
        assert!(!credit.is_left(push) && credit.is_left(Need::Expect));
        credit.use_up(&Command::Expect { device: 0, dst: 0, len: 8, transfer: 2, from: to, seq: 0 });
        credit.give_back(1, 0);
        assert_eq!(credit.open(), (1, 1));
        assert!(credit.is_left(push));
        credit.give_back(u32::MAX, u32::MAX);
        assert_eq!(credit.open(), (0, 0));
    }
}
