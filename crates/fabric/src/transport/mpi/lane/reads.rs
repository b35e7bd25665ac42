//! The reading side of a lane.

use super::MpiLane;
use crate::transport::mpi::exposed_memory::ReceiveBuffer;
use crate::transport::mpi::shared::{Counters, LaneTable};
use crate::transport::mpi::streams::Next;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The reader's next step.
enum ReadStep {
    /// `reading` or the mailbox holds a message.
    On,
    Into(usize),
    End,
}

impl MpiLane {
    /// Copies available bytes, or blocks until there are some.
    pub(super) fn take(&self, bytes: &mut [u8], end: Option<Instant>) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let n = self.copy(bytes);
            if n > 0 {
                return Ok(n);
            }
            match self.await_next(end, bytes.len(), |len| ReceiveBuffer::of(&mut bytes[..len]))? {
                ReadStep::On => {}
                ReadStep::Into(len) => return self.await_space(len),
                ReadStep::End => return Ok(0),
            }
        }
    }

    /// Copies the rest of a kept message, or else bytes from the mailbox.
    fn copy(&self, bytes: &mut [u8]) -> usize {
        let mailbox = &self.end.mailbox;
        let n = match self.reading.copy(bytes) {
            0 => mailbox.read(bytes),
            n => n,
        };
        if n > 0 {
            Counters::add(&self.shared.counts.copied_bytes, n);
        }
        if mailbox.should_report_credit() {
            let mut state = self.shared.lock();
            state.streams.report_read(self.key, mailbox.notify());
            self.shared.has_changed(state);
        }
        n
    }

    /// Blocks until the next message, offer or end, and passes it to `take` with the table locked. Returns `None` if a
    /// message is in the mailbox.
    fn wait_to_read<T>(
        &self,
        end: Option<Instant>,
        mut take: impl FnMut(&mut LaneTable, Next) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let arrived = || (!self.end.mailbox.is_empty()).then_some(None);
        let work = |state: &mut LaneTable, key| {
            state.streams.report_read(key, self.end.mailbox.notify());
            if let Some(arrived) = arrived() {
                return Ok(Some(arrived));
            }
            let next = state.streams.next(key);
            if matches!(next, Next::Nothing) {
                self.is_quiet();
            }
            Ok(take(state, next).map(Some))
        };
        if let Some(arrived) = arrived() {
            return Ok(arrived);
        }
        match self.quiet_since() {
            Some(seen) => self.wait_since(seen, end, Some(&self.reading.waits), arrived, work),
            None => self.wait_or(end, Some(&self.reading.waits), arrived, work),
        }
    }

    /// Records that there is nothing to read; the caller has the table locked.
    fn is_quiet(&self) {
        self.reading.quiet.store(self.end.changed.raised().into(), Ordering::Relaxed);
    }

    /// Returns the signal's count if there was nothing to read since that count.
    fn quiet_since(&self) -> Option<u32> {
        let raised = self.end.changed.raised();
        (self.reading.quiet.load(Ordering::Relaxed) == u64::from(raised)).then_some(raised)
    }

    /// Blocks until the next message, offer or end. For offered bytes, at most `most` of which are received, `space` returns
    /// the buffer.
    fn await_next(
        &self,
        end: Option<Instant>,
        most: usize,
        mut space: impl FnMut(usize) -> ReceiveBuffer,
    ) -> io::Result<ReadStep> {
        let next = self.wait_to_read(end, |state, next| match next {
            Next::Message(message) => {
                self.reading.keep(message);
                Some(ReadStep::On)
            }
            Next::Offered(_) => state.streams.ask(self.key, most).map(|(_, len)| {
                state.receives.insert(self.key, space(len));
                ReadStep::Into(len)
            }),
            Next::Nothing => None,
            Next::End => Some(ReadStep::End),
        })?;
        Ok(next.unwrap_or(ReadStep::On))
    }

    /// Blocks until a buffer passed to MPI is released. Without a time limit, because MPI may be writing into it.
    fn await_space(&self, len: usize) -> io::Result<usize> {
        let filled = self.wait(None, Some(&self.receives), |state, key| {
            let filled = state.streams.filled(key);
            if filled.is_some() {
                state.receives.remove(&key);
            }
            Ok(filled)
        })?;
        Ok(if filled { len } else { 0 })
    }

    /// Receives at most `most` exposed bytes into the buffer of `space`. Returns their number, or `None` if the next item is a
    /// message, which is kept.
    pub(super) fn fill(&self, most: usize, space: impl FnMut(usize) -> ReceiveBuffer) -> io::Result<Option<usize>> {
        match self.await_next(None, most, space)? {
            ReadStep::On => Ok(None),
            ReadStep::Into(len) => match self.await_space(len)? {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                len => Ok(Some(len)),
            },
            ReadStep::End => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Blocks until the next message, offer or end. Returns `None` if the message is where [`MpiLane::take`] reads it.
    pub(super) fn await_message(&self, end: Option<Instant>) -> io::Result<Option<Next>> {
        self.wait_to_read(end, |_, next| match next {
            Next::Nothing => None,
            next => Some(next),
        })
    }

    /// Whether there is something to read.
    pub(super) fn finds_something(&self) -> bool {
        let mailbox = &self.end.mailbox;
        if self.reading.has_left() || !mailbox.is_empty() {
            return true;
        }
        if self.quiet_since().is_some() {
            return false;
        }
        let state = self.shared.lock();
        let finds = !mailbox.is_empty() || state.streams.is_readable(self.key);
        if !finds {
            self.is_quiet();
        }
        finds
    }
}
