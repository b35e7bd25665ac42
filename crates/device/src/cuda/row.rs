//! Copies of a stream to other processes that were sent and have not landed. What comes behind them and only goes into the driver's stream does not wait for
//! that: their bytes have left the memory. It is not done before they are, and neither is what waits for it.

use super::stream::{Op, Stream};
use crate::sent_row::{ROW_MAX, end_in_order};
use accord_types::Result;
use std::cell::Cell;

/// How copies of a kind go on, as in [`end_in_order`].
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
    /// Ends `first` and what may go beside it.
    pub(super) fn run(self, first: T) -> Result<()> {
        let Self { stream, mut next, mut end } = self;
        // Nothing goes behind one that has failed.
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

/// Puts what comes next into the driver's stream, as far as that is all that it takes. What is put in later goes there at once.
fn issue_behind(stream: &Stream) -> Result<()> {
    let is_such = |op: &mut Op| matches!(op, Op::Launch { .. } | Op::Store { .. } | Op::Copy { .. } | Op::Peer { .. });
    // However many are put in meanwhile: somebody may wait for the copies.
    for _ in 0..ROW_MAX {
        let Some((seq, op)) = stream.take_behind(is_such) else { break };
        stream.perform(seq, op)?;
    }
    Ok(())
}
