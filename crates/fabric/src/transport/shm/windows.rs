//! Access to the rings' own memory, for a relay whose library copies directly from and to it.

use super::{Shm, WAKE_SPACE};
use crate::transport::lane::Lane;
use crate::transport::shared_memory::{HeaderWord, SPACE};
use crate::transport::window::Window;
use std::io;
use std::sync::atomic::Ordering;

/// Most bytes exposed at a time. The other side uses the rest of the ring meanwhile.
pub(super) const WINDOW_MAX: usize = SPACE / 2;

impl Shm {
    /// Announces to the other end that this side exposes bytes in place. The peer then sends long runs in one piece, not in chunks.
    pub(in crate::transport) fn will_expose(&self) {
        self.set(self.incoming, HeaderWord::Exposed, 1);
    }

    /// Blocks for the first byte, then reads all available bytes that fit, because each forwarded piece has a cost. Returns 0
    /// at the end.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::read`].
    pub(in crate::transport) fn read_available(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut n = self.read(bytes)?;
        if n == 0 {
            return Ok(0);
        }
        let mut reader = self.reader.take();
        // The next read reports any error.
        while n < bytes.len()
            && let Ok(Some(more @ 1..)) = self.take(&mut reader, &mut bytes[n..])
        {
            n += more;
        }
        Ok(n)
    }

    /// Passes received bytes to `expose`: at least `least`, contiguous. They count as read when `expose` returns. Returns their
    /// number, or 0 without blocking if fewer are contiguous.
    ///
    /// # Errors
    /// Returns any error of [`Lane::read`] or of `expose`; no byte counts as read then.
    pub(in crate::transport) fn read_in_place(
        &self,
        least: usize,
        expose: impl FnOnce(Window<'_>) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut reader = self.reader.take();
        if self.closed.load(Ordering::Acquire) {
            return Ok(0);
        }
        let there = self.available(reader.at)?;
        let window = self.memory.window(self.incoming, reader.at, there.min(WINDOW_MAX));
        if window.len() < least {
            return Ok(0);
        }
        expose(window)?;
        self.has_read(&mut reader, window.len())?;
        Ok(window.len())
    }

    /// Blocks until there is space, and passes a window of at most `most` bytes to `fill`. `fill` writes bytes and returns
    /// their number, and they are then published.
    ///
    /// # Errors
    /// Returns any error of [`Lane::write`] or of `fill`; no byte counts as written then.
    pub(in crate::transport) fn write_in_place(
        &self,
        most: usize,
        fill: impl FnOnce(Window<'_>) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut writer = self.writer.take();
        let doorbell = (self.outgoing, HeaderWord::WriterSleeps, &self.out_doorbell);
        let window = self.wait(
            &mut writer,
            doorbell,
            |at| self.has_space(at),
            |writer| {
                self.check_read(writer)?;
                let whole = self.memory.window(self.outgoing, writer.at, most.min(WINDOW_MAX));
                let space = self.space_for(writer, whole.len())?;
                // Each piece has a cost, so that small ones occur only at the end of the ring or of the bytes.
                Ok((space >= whole.len().min(WAKE_SPACE)).then(|| self.memory.window(self.outgoing, writer.at, space)))
            },
        )?;
        let n = fill(window)?.min(window.len());
        writer.at = writer.at.wrapping_add(n as u64);
        self.has_written(&writer);
        Ok(())
    }
}
