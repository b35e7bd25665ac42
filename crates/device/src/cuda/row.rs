//! Copies of a stream to other processes that are sent and not yet complete. Operations ordered after them that only go into the driver's stream are issued
//! without waiting: the bytes have left the memory. They are reported done after the copies.

use super::stream::{Op, Stream};
use crate::sent_row::{ROW_MAX, end_in_order};
use accord_types::Result;
use std::cell::Cell;

/// A batch of copies of one kind, as in [`end_in_order`].
pub(super) struct Row<'a, Next, End> {
    pub(super) stream: &'a Stream,
    pub(super) next: Next,
    pub(super) end: End,
}

impl<T, Next, End> Row<'_, Next, End>
where
    Next: FnMut() -> Result<Option<T>>,
    End: FnMut(T, bool) -> Result<()>,
{
    /// Ends `first` and the copies that may run concurrently with it.
    pub(super) fn run(self, first: T) -> Result<()> {
        let Self { stream, mut next, mut end } = self;
        // No copy follows a failed one.
        let failed = Cell::new(false);
        let next = || next().inspect_err(|_| failed.set(true));
        end_in_order(first, next, |copy, more| {
            if !failed.get() {
                issue_behind(stream)?;
            }
            end(copy, more)
        })
    }
}

/// Issues the next operations of the list, as long as they only go into the driver's stream. Operations enqueued later are issued at once.
fn issue_behind(stream: &Stream) -> Result<()> {
    let is_such = |op: &mut Op| matches!(op, Op::Launch { .. } | Op::Store { .. } | Op::Copy { .. } | Op::Peer { .. });
    // Bounded, even if other threads keep enqueuing, because a thread may wait for the copies.
    for _ in 0..ROW_MAX {
        let Some((seq, op)) = stream.take_behind(is_such) else { break };
        stream.perform(seq, op)?;
    }
    Ok(())
}
