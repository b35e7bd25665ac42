//! Tracks the unfinished operations of a stream. Without I/O or clock.

use accord_fabric::frame::{FRAME_MAX, STREAM_STEP, STREAM_WINDOW};
use accord_types::{Error, ErrorCode, QueueId, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The unfinished operations of one stream.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Bytes whose credit was not returned yet.
    open: Arc<AtomicU64>,
    /// Bytes that are not part of a step yet, by queue.
    pending: Vec<(QueueId, u64)>,
    pending_bytes: u64,
}

/// Credit to return when the stream has reached its present position.
#[derive(Debug)]
pub struct Step {
    open: Arc<AtomicU64>,
    queues: Vec<(QueueId, u64)>,
}

impl Window {
    /// Charges the last operation of `queue`. Returns the credit to return when it is done, once that is worth a message.
    ///
    /// # Errors
    /// Returns an error if the program had no credit for it.
    pub(crate) fn charge(&mut self, queue: QueueId, cost: u64) -> Result<Option<Step>> {
        // Tolerates some excess: a program checks its credit before it knows the frame's length, and credit from before a device was
        // shut down may arrive after its restart.
        if self.open.fetch_add(cost, Ordering::AcqRel) >= 2 * STREAM_WINDOW + FRAME_MAX as u64 {
            let cause = format!("a program has more than {STREAM_WINDOW} bytes of operations open in one stream");
            return Err(Error::new(ErrorCode::ImplementationDefined, cause));
        }
        match self.pending.iter_mut().find(|(other, _)| *other == queue) {
            Some((_, bytes)) => *bytes += cost,
            None => self.pending.push((queue, cost)),
        }
        self.pending_bytes += cost;
        if self.pending_bytes < STREAM_STEP {
            return Ok(None);
        }
        self.pending_bytes = 0;
        Ok(Some(Step { open: self.open.clone(), queues: std::mem::take(&mut self.pending) }))
    }
}

impl Step {
    /// Calls `give` with the credit of each queue. Called when the stream has reached the position.
    pub fn done(self, mut give: impl FnMut(QueueId, u64)) {
        // First, because the program may use the credit as soon as it arrives.
        self.open.fetch_sub(self.queues.iter().map(|(_, bytes)| bytes).sum(), Ordering::AcqRel);
        self.queues.into_iter().for_each(|(queue, bytes)| give(queue, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_device::stream;
    use accord_fabric::frame::operation_cost;
    use proptest::prelude::*;
    use std::collections::{HashMap, VecDeque};

    #[test]
    fn a_program_that_goes_on_without_credit_is_refused() {
        let mut window = Window::default();
        let mut put = 0;
        while window.charge(QueueId(1), operation_cost(100)).is_ok() {
            put += 1;
            assert!(put < 4_000, "there is no bound");
        }
        assert!(put >= STREAM_WINDOW / operation_cost(100));
    }

    /// An operation of a program is two of the stream at most: copies to another device wait for that first.
    #[test]
    fn command_window_fits_into_a_gpu_stream() {
        let most = 2 * STREAM_WINDOW + 2 * FRAME_MAX as u64;
        assert!(2 * most / operation_cost(0) < stream::PENDING_MAX as u64);
        assert!(most < stream::PENDING_BYTES_MAX as u64);
    }

    proptest! {
        /// A program that keeps to the window is never refused, and can always continue once its streams have.
        #[test]
        fn credit_comes_back_for_all_that_is_done(
            operations in prop::collection::vec((0..9u32, 1..FRAME_MAX, 0..4usize), 1..400),
        ) {
            let mut window = Window::default();
            let (mut open, mut steps) = (0, VecDeque::<Step>::new());
            let mut given = HashMap::<u32, i64>::new();
            for (queue, frame, finished) in operations {
                let mut done = finished;
                while open >= STREAM_WINDOW || done > 0 {
                    done = done.saturating_sub(1);
                    match steps.pop_front() {
                        Some(step) => step.done(|queue, bytes| {
                            open -= bytes;
                            *given.get_mut(&queue.0).unwrap() -= bytes.cast_signed();
                        }),
                        None if done > 0 => {}
                        None => prop_assert!(open < STREAM_WINDOW, "the program waits for ever"),
                    }
                }
                let cost = operation_cost(frame);
                open += cost;
                *given.entry(queue).or_default() += cost.cast_signed();
                steps.extend(window.charge(QueueId(queue), cost).unwrap());
                prop_assert!(given.values().all(|bytes| *bytes >= 0));
                prop_assert_eq!(given.values().sum::<i64>(), open.cast_signed());
            }
        }
    }
}
