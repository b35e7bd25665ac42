//! Copies of a stream to other processes by lanes. The bytes of consecutive ones are sent without a pause. Otherwise each would wait until the previous one
//! has landed, which takes a round trip to the other node.

use accord_types::Result;
use std::collections::VecDeque;

/// Most copies out of a stream whose sinks have their bytes but are not finished, not counting the first.
pub(crate) const ROW_MAX: usize = 64;

/// Ends `first`, whose sink has its bytes. Copies that `next` returns meanwhile end after it, in order. `end` is told whether others are left.
///
/// # Errors
/// Returns the errors of `next` and `end`. If `next` fails, the earlier copies are ended first. No copy is started or ended
/// after an end that fails.
pub(crate) fn end_in_order<T>(
    mut first: T,
    mut next: impl FnMut() -> Result<Option<T>>,
    mut end: impl FnMut(T, bool) -> Result<()>,
) -> Result<()> {
    let (mut row, mut failed) = (VecDeque::new(), Ok(()));
    loop {
        while row.len() < ROW_MAX && failed.is_ok() {
            match next() {
                Ok(Some(given)) => row.push_back(given),
                Ok(None) => break,
                Err(error) => failed = Err(error),
            }
        }
        end(first, !row.is_empty() || failed.is_err())?;
        let Some(given) = row.pop_front() else { return failed };
        first = given;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{Error, ErrorCode};
    use std::cell::RefCell;

    /// Runs with copies that `next` returns after each end. Returns the outcome and the steps.
    fn run(given: &[&[u32]], failing: Option<u32>) -> (Result<()>, Vec<String>) {
        let (left, done) = (RefCell::new(VecDeque::from(given.to_vec())), RefCell::new(Vec::new()));
        let next = || {
            let mut left = left.borrow_mut();
            let Some([first, rest @ ..]) = left.front().copied() else { return Ok(None) };
            left[0] = rest;
            done.borrow_mut().push(format!("give {first}"));
            Ok(Some(*first))
        };
        let end = |number: u32, more: bool| {
            done.borrow_mut().push(format!("end {number} {more}"));
            left.borrow_mut().pop_front();
            let failed = Error::new(ErrorCode::Execution, "lost");
            if failing == Some(number) { Err(failed) } else { Ok(()) }
        };
        let outcome = end_in_order(0, next, end);
        (outcome, done.into_inner())
    }

    #[test]
    fn they_are_given_as_they_come_and_end_in_order() {
        assert_eq!(run(&[], None), (Ok(()), vec!["end 0 false".into()]));
        let (outcome, done) = run(&[&[1, 2], &[], &[3], &[], &[]], None);
        assert_eq!(outcome, Ok(()));
        assert_eq!(done, ["give 1", "give 2", "end 0 true", "end 1 true", "give 3", "end 2 true", "end 3 false"]);
    }

    #[test]
    fn after_an_error_nothing_is_done() {
        let (outcome, done) = run(&[&[1, 2], &[], &[3]], Some(1));
        assert!(outcome.is_err());
        assert_eq!(done, ["give 1", "give 2", "end 0 true", "end 1 true"]);
    }

    #[test]
    fn what_cannot_be_given_fails_when_those_before_it_have_ended() {
        let mut given = vec![Err(Error::new(ErrorCode::Execution, "gone")), Ok(Some(2)), Ok(Some(1))];
        let mut ended = Vec::new();
        let next = || given.pop().expect("nothing is given after that");
        let outcome = end_in_order(0, next, |number, more| {
            ended.push((number, more));
            Ok(())
        });
        assert!(outcome.unwrap_err().to_string().contains("gone"));
        assert_eq!(ended, [(0, true), (1, true), (2, true)]);
    }

    #[test]
    fn so_many_at_once() {
        let many: Vec<u32> = (1..=2 * ROW_MAX as u32).collect();
        let (_, done) = run(&[&many, &[]], None);
        let before = done.iter().take_while(|step| step.starts_with("give")).count();
        assert_eq!(before, ROW_MAX);
    }
}
