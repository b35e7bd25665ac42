//! Copies between the program's memory and a device: the one place here that follows host addresses.

use crate::pages::{self, Stretch, Writable};
use accord_device::Sink;
pub(crate) use accord_device::program_bytes as bytes;
use accord_runtime::ports::{Chain, Changes, Part};
use accord_types::{HostRange, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Up to so many bytes are compared by the calling thread.
const IMMEDIATE_MAX: usize = 64 << 10;

/// Read-only memory of the program, with which a device's bytes are compared.
pub struct Unchanged {
    range: HostRange,
    /// What was to be copied, of which this is a part.
    whole: HostRange,
    done: usize,
}

impl Unchanged {
    /// Creates the state for new bytes of a range, which is `whole` or a part of it.
    pub fn new(range: HostRange, whole: HostRange) -> Self {
        Self { range, whole, done: 0 }
    }

    /// The next bytes are here.
    ///
    /// # Errors
    /// Returns an error if they are others than the program has.
    pub(crate) fn compare(&mut self, piece: &[u8]) -> Result<()> {
        let range = HostRange { start: self.range.start + self.done, len: piece.len() };
        self.compare_with(bytes(range), piece)
    }

    /// The same, where the program has `own` in their place.
    ///
    /// # Errors
    /// Returns the errors of [`Unchanged::compare`].
    pub fn compare_with(&mut self, own: &[u8], piece: &[u8]) -> Result<()> {
        let start = self.range.start + self.done;
        self.done += piece.len();
        match own.iter().zip(piece).position(|(own, other)| own != other) {
            None => Ok(()),
            Some(at) => Err(pages::changed(self.whole, self.range, start + at)),
        }
    }
}

impl Sink for Unchanged {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        self.compare(piece)
    }

    fn immediate(&self) -> bool {
        self.range.len <= IMMEDIATE_MAX
    }
}

/// Variables of the program that have travelled together, to be written only if they are others than the program had.
pub struct Changed {
    sent: Box<[u8]>,
    parts: Box<[Part]>,
    chain: Option<Arc<Chain>>,
}

/// Number of times that such bytes differed, and are being written or are about to be.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Number of times that they were written.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Returns how often a [`Changed`] copy has written.
pub(crate) fn changes() -> Changes {
    // What was read before this stays before it.
    fence(Ordering::Acquire);
    Changes { begun: BEGUN.load(Ordering::SeqCst), done: DONE.load(Ordering::SeqCst) }
}

/// Gives `write` the bytes that differ. A thread that sees new bytes also sees in [`changes`] that they may be there.
fn write_changed(write: &mut impl FnMut(HostRange, &[u8]), range: HostRange, new: &[u8]) {
    BEGUN.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::Release);
    write(range, new);
    DONE.fetch_add(1, Ordering::SeqCst);
}

impl Changed {
    /// Creates the state for [`accord_runtime::ports::DeviceClient::copy_out_changed`].
    pub fn new(sent: &[u8], parts: &[Part], chain: Option<&Arc<Chain>>) -> Self {
        Self { sent: sent.into(), parts: parts.into(), chain: chain.cloned() }
    }

    /// Returns the number of bytes that come.
    pub fn size(&self) -> usize {
        self.sent.len()
    }

    /// The smallest range that has all places.
    pub fn range(&self) -> HostRange {
        let start = self.parts.iter().map(|part| part.dst.start).min().unwrap_or(0);
        let end = self.parts.iter().map(|part| part.dst.start + part.dst.len).max().unwrap_or(0);
        HostRange { start, len: end - start }
    }

    /// All bytes are here: gives `write` those that have changed.
    ///
    /// # Errors
    /// Returns an error if some have and can't be written.
    pub(crate) fn land(&self, bytes: &[u8], write: impl FnMut(HostRange, &[u8])) -> Result<()> {
        self.land_where(pages::check_writable, bytes, write)
    }

    /// The same, where `check` says what may be written.
    ///
    /// # Errors
    /// Returns the errors of [`Changed::land`], and those of `check`.
    pub fn land_where(
        &self,
        check: impl Fn(HostRange) -> Result<Writable>,
        bytes: &[u8],
        mut write: impl FnMut(HostRange, &[u8]),
    ) -> Result<()> {
        const PAGE: usize = 4096;
        // Most regions leave all of them as they were.
        if self.chain.is_none() && bytes == &*self.sent {
            return Ok(());
        }
        let mut writable = 0..0;
        for Part { at, dst } in &self.parts {
            let (new, sent) = (&bytes[*at..at + dst.len], &self.sent[*at..at + dst.len]);
            let changed = self.chain.as_ref().map_or_else(|| new != sent, |chain| chain.is_changed(sent, new));
            if !changed {
                continue;
            }
            let (start, end) = (dst.start, dst.start + dst.len);
            if !(writable.contains(&start) && end <= writable.end) {
                match check(*dst)? {
                    Writable::Yes => writable = start & !(PAGE - 1)..end.next_multiple_of(PAGE),
                    Writable::No => return Err(pages::changed(*dst, *dst, start)),
                    Writable::Partly => {
                        land_partly(*dst, new, &mut write)?;
                        continue;
                    }
                }
            }
            write_changed(&mut write, *dst, new);
        }
        Ok(())
    }
}

/// Gives `write` what of a variable can be written. The rest must be as it was.
fn land_partly(dst: HostRange, new: &[u8], write: &mut impl FnMut(HostRange, &[u8])) -> Result<()> {
    for Stretch { range, writable } in pages::stretches(dst)? {
        let new = &new[range.start - dst.start..][..range.len];
        if writable {
            write_changed(write, range, new);
        } else {
            Unchanged::new(range, dst).compare(new)?;
        }
    }
    Ok(())
}

impl Sink for Changed {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        // So few bytes come in one piece.
        self.land(piece, |dst, new| with_bytes_mut(dst, |place| place.copy_from_slice(new)))
    }

    fn immediate(&self) -> bool {
        true
    }

    fn may_write(&self, range: HostRange) -> bool {
        self.parts.iter().any(|part| part.dst.overlaps(range))
    }
}

/// Lets `write` fill the program's memory, for as long as the call lasts.
pub(crate) fn with_bytes_mut<T>(range: HostRange, write: impl FnOnce(&mut [u8]) -> T) -> T {
    if range.len == 0 {
        return write(&mut []);
    }
    // SAFETY: the program promised that `range` is writable until the copy is waited for, and leaves it
    // alone until then; the slice does not outlive the call.
    write(unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(range.start), range.len) })
}
