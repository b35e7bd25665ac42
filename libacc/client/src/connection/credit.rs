//! How many bytes of commands may be on their way: the executor gives credit back as it takes them.

use accord_fabric::frame::CREDIT_WINDOW;

/// Bytes of commands for which no credit has come back.
#[derive(Default)]
pub(super) struct Credit {
    in_flight: u64,
}

impl Credit {
    /// Whether one more command may be appended. A command is counted whole, so that the last one may go beyond the window: at most
    /// [`CREDIT_WINDOW`] and one frame are on their way.
    pub(super) fn is_left(&self) -> bool {
        self.in_flight < CREDIT_WINDOW
    }

    /// A command of this many bytes was appended.
    pub(super) fn use_up(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    /// The executor gives bytes back. One that gives more than it got does not widen the window.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Bytes on their way.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
