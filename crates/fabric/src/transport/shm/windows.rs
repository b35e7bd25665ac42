//! Exposes the ring's bytes in place to a library that copies them.

use super::{Shm, WAKE_ROOM};
use crate::transport::shared_memory::{ROOM, Word};
use crate::transport::window::{Window, Windows};
use std::io;
use std::sync::atomic::Ordering;

/// Most bytes exposed at a time: the other side goes on with the rest of the ring meanwhile.
pub(super) const WINDOW_MAX: usize = ROOM / 2;

impl Windows for Shm {
    fn will_lend(&self) {
        self.set(self.incoming, Word::Lent, 1);
    }

    fn read_in_place(&self, least: usize, lend: &mut dyn FnMut(Window<'_>) -> io::Result<()>) -> io::Result<usize> {
        let mut reader = self.reader.take();
        if self.closed.load(Ordering::Acquire) {
            return Ok(0);
        }
        let there = self.available(reader.at)?;
        let window = self.memory.window(self.incoming, reader.at, there.min(WINDOW_MAX));
        if window.len() < least {
            return Ok(0);
        }
        lend(window)?;
        self.has_read(&mut reader, window.len())?;
        Ok(window.len())
    }

    fn write_in_place(&self, most: usize, fill: &mut dyn FnMut(Window<'_>) -> io::Result<usize>) -> io::Result<()> {
        let mut writer = self.writer.take();
        let doorbell = (self.outgoing, Word::WriterSleeps, &self.out_doorbell);
        let window = self.wait(
            &mut writer,
            doorbell,
            |at| self.has_room(at),
            |writer| {
                self.check_read(writer)?;
                let whole = self.memory.window(self.outgoing, writer.at, most.min(WINDOW_MAX));
                let room = self.room_for(writer, whole.len())?;
                // Each piece has its price: a small one only at the end of the ring, or of the bytes.
                Ok((room >= whole.len().min(WAKE_ROOM)).then(|| self.memory.window(self.outgoing, writer.at, room)))
            },
        )?;
        let n = fill(window)?.min(window.len());
        writer.at = writer.at.wrapping_add(n as u64);
        self.has_written(&writer);
        Ok(())
    }
}
