//! The sending side of the command lane.

use super::connection::Connection;
use super::unsent::Unsent;
use crate::connection::FlusherStep;
use accord_fabric::stats::LinkStats;
use accord_types::Result;
use std::io::{ErrorKind, IoSlice};
use std::sync::{Arc, MutexGuard};

impl Connection {
    /// Sends all frames that were appended before.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub(super) fn flush(self: &Arc<Self>) -> Result<()> {
        let mut unsent = self.write.take();
        // Frames that another thread has left come first.
        let rounds = if unsent.is_empty() { 1 } else { 2 };
        for _ in 0..rounds {
            if !self.take_unsent(&mut unsent)? {
                break;
            }
            let left = &mut [IoSlice::new(&unsent.bytes[unsent.sent..])];
            let sent = self.link.stats().stalls.write_all(&*self.records, left);
            unsent.sent = unsent.bytes.len();
            if let Err(error) = sent {
                drop(unsent);
                return Err(self.lose_aside(&format!("sending commands failed: {error}")));
            }
        }
        Ok(())
    }

    /// Sends frames without blocking, and leaves the rest to the flusher. A thread with bytes that the executor's
    /// streams may wait for must not wait for the executor's reader of commands.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub(super) fn flush_without_waiting(self: &Arc<Self>) -> Result<()> {
        let Some(mut unsent) = self.write.try_take() else {
            // Another thread is sending, perhaps not all.
            self.leave_to_flusher();
            return Ok(());
        };
        while self.take_unsent(&mut unsent)? {
            match self.records.try_write(&[IoSlice::new(&unsent.bytes[unsent.sent..])]) {
                Ok(sent) => unsent.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    drop(unsent);
                    self.leave_to_flusher();
                    return Ok(());
                }
                Err(error) => {
                    drop(unsent);
                    return Err(self.lose_aside(&format!("sending commands failed: {error}")));
                }
            }
        }
        Ok(())
    }

    fn leave_to_flusher(self: &Arc<Self>) {
        let mut machine = self.machine();
        machine.leave_to_flusher(self.now());
        self.act(machine);
    }

    /// Takes frames to send if there are none in `unsent`. Returns `false` if all frames are sent.
    fn take_unsent(&self, unsent: &mut MutexGuard<'_, Unsent>) -> Result<bool> {
        if !unsent.is_empty() {
            return Ok(true);
        }
        unsent.bytes.clear();
        unsent.sent = 0;
        let taken = self.machine().take_frames(&mut unsent.bytes)?;
        LinkStats::add(&self.link.stats().command_sent, unsent.bytes.len() as u64);
        Ok(taken)
    }

    /// Runs the flusher, until the connection ends.
    pub(super) fn send_overdue(self: &Arc<Self>) {
        loop {
            let step = self.machine().flusher(self.now());
            match step {
                FlusherStep::Flush(pause) => {
                    if self.flush().is_err() {
                        return;
                    }
                    std::thread::sleep(pause);
                }
                FlusherStep::Sleep(pause) => std::thread::sleep(pause),
                FlusherStep::Park => std::thread::park(),
                FlusherStep::End => return,
            }
        }
    }
}
