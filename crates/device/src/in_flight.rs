//! The window of copies of a stream that are in flight to other processes: their bytes were sent, and they are not
//! complete. Without a window each copy would wait until the previous one has landed, which takes a round trip to the
//! other node.

use accord_types::Result;
use std::collections::VecDeque;

/// Most copies of a stream that are in flight at a time, not counting the oldest.
pub const IN_FLIGHT_MAX: usize = 64;

/// A stream that sends copies.
pub trait Sender {
    /// A copy in flight.
    type Copy;

    /// Sends the stream's next copy if it may be in flight together with the earlier ones. Does not wait for these.
    ///
    /// # Errors
    /// Returns the error of a copy that could not be sent.
    fn send_next(&mut self) -> Result<Option<Self::Copy>>;

    /// Blocks until a copy is complete. `others`: whether later ones are in flight, or could not be sent.
    ///
    /// # Errors
    /// Returns the error of the copy.
    fn complete(&mut self, copy: Self::Copy, others: bool) -> Result<()>;
}

/// Completes `first`, and the copies that `sender` sends meanwhile, in their order.
///
/// # Errors
/// Returns the error of the first copy that fails. The copies before it are completed, and no copy is sent or completed
/// after it.
pub fn complete_in_order<S: Sender>(sender: &mut S, first: S::Copy) -> Result<()> {
    let (mut oldest, mut in_flight, mut failed) = (first, VecDeque::new(), Ok(()));
    loop {
        while in_flight.len() < IN_FLIGHT_MAX && failed.is_ok() {
            match sender.send_next() {
                Ok(Some(sent)) => in_flight.push_back(sent),
                Ok(None) => break,
                Err(error) => failed = Err(error),
            }
        }
        sender.complete(oldest, !in_flight.is_empty() || failed.is_err())?;
        let Some(next) = in_flight.pop_front() else { return failed };
        oldest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{Error, ErrorCode};

    /// A stream with copies that become ready after each completion, and one that fails.
    struct Stream {
        ready: VecDeque<Vec<u32>>,
        /// The copy that is lost in flight, and the one that can't be sent.
        lost: Option<u32>,
        unsent: Option<u32>,
        done: Vec<String>,
    }

    fn failure() -> Error {
        Error::new(ErrorCode::Execution, "lost")
    }

    impl Sender for Stream {
        type Copy = u32;

        fn send_next(&mut self) -> Result<Option<u32>> {
            let Some(copy) = self.ready.front_mut().filter(|ready| !ready.is_empty()).map(|ready| ready.remove(0))
            else {
                return Ok(None);
            };
            if self.unsent == Some(copy) {
                return Err(failure());
            }
            self.done.push(format!("send {copy}"));
            Ok(Some(copy))
        }

        fn complete(&mut self, copy: u32, others: bool) -> Result<()> {
            self.done.push(format!("complete {copy} {others}"));
            self.ready.pop_front();
            if self.lost == Some(copy) { Err(failure()) } else { Ok(()) }
        }
    }

    /// Completes copy 0. Returns the outcome and the steps.
    fn run(ready: &[&[u32]], lost: Option<u32>, unsent: Option<u32>) -> (Result<()>, Vec<String>) {
        let ready = ready.iter().map(|ready| ready.to_vec()).collect();
        let mut stream = Stream { ready, lost, unsent, done: Vec::new() };
        (complete_in_order(&mut stream, 0), stream.done)
    }

    #[test]
    fn copies_are_sent_as_they_become_ready_and_complete_in_order() {
        assert_eq!(run(&[], None, None), (Ok(()), vec!["complete 0 false".into()]));
        let (outcome, done) = run(&[&[1, 2], &[], &[3], &[], &[]], None, None);
        assert_eq!(outcome, Ok(()));
        let steps = ["send 1", "send 2", "complete 0 true", "complete 1 true", "send 3", "complete 2 true"];
        assert_eq!(done, [&steps[..], &["complete 3 false"]].concat());
    }

    #[test]
    fn nothing_is_sent_or_completed_after_a_lost_copy() {
        let (outcome, done) = run(&[&[1, 2], &[], &[3]], Some(1), None);
        assert!(outcome.is_err());
        assert_eq!(done, ["send 1", "send 2", "complete 0 true", "complete 1 true"]);
    }

    #[test]
    fn an_unsent_copy_fails_once_those_before_it_are_complete() {
        let (outcome, done) = run(&[&[1, 2, 3, 4]], None, Some(3));
        assert!(outcome.is_err());
        assert_eq!(done, ["send 1", "send 2", "complete 0 true", "complete 1 true", "complete 2 true"]);
    }

    #[test]
    fn the_window_is_bounded() {
        let many: Vec<u32> = (1..=2 * IN_FLIGHT_MAX as u32).collect();
        let (_, done) = run(&[&many, &[]], None, None);
        assert_eq!(done.iter().take_while(|step| step.starts_with("send")).count(), IN_FLIGHT_MAX);
    }
}
