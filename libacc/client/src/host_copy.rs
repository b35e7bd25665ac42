//! Copies between the program's memory and a device: the only place in this crate that dereferences host addresses.

use crate::pages::{self, PageRun, Writable};
pub(crate) use accord_device::program_bytes as bytes;
use accord_device::{MovesWhen, Sink};
use accord_runtime::ports::{Chain, Changes, Part};
use accord_types::{HostRange, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Most bytes that the calling thread compares.
const IMMEDIATE_MAX: usize = 64 << 10;

/// Read-only memory of the program, which is compared with a device's bytes.
pub struct Unchanged {
    range: HostRange,
    /// The range of the whole copy, of which this is a part.
    whole: HostRange,
    done: usize,
}

impl Unchanged {
    /// Creates the comparison for a range, which is `whole` or a part of it.
    pub fn new(range: HostRange, whole: HostRange) -> Self {
        Self { range, whole, done: 0 }
    }

    /// Returns the time of the comparison, which depends on its length.
    pub(crate) fn when(&self) -> MovesWhen {
        if self.range.len <= IMMEDIATE_MAX { MovesWhen::AtOnce } else { MovesWhen::InTurn }
    }

    /// Compares the next bytes.
    ///
    /// # Errors
    /// Returns an error if they differ from the program's.
    pub(crate) fn compare(&mut self, piece: &[u8]) -> Result<()> {
        let range = HostRange { start: self.range.start + self.done, len: piece.len() };
        self.compare_with(bytes(range), piece)
    }

    /// Compares the next bytes with `own`, the program's.
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
}

/// Variables of the program that were copied together, to be written only if they have changed.
pub struct Changed {
    sent: Box<[u8]>,
    parts: Box<[Part]>,
    chain: Option<Arc<Chain>>,
}

/// Number of times that changed bytes were about to be written.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Number of times that they were written.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Returns the counters of [`Changed`] copies.
pub(crate) fn changes() -> Changes {
    // Earlier reads stay before the counters' reads.
    fence(Ordering::Acquire);
    Changes { begun: BEGUN.load(Ordering::SeqCst), done: DONE.load(Ordering::SeqCst) }
}

/// Passes the bytes that differ to `write`. A thread that sees new bytes also sees in [`changes`] that they may be
/// there.
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

    /// Returns the number of bytes to receive.
    pub fn size(&self) -> usize {
        self.sent.len()
    }

    /// Returns the smallest range that contains all variables.
    pub fn range(&self) -> HostRange {
        let start = self.parts.iter().map(|part| part.dst.start).min().unwrap_or(0);
        let end = self.parts.iter().map(|part| part.dst.start + part.dst.len).max().unwrap_or(0);
        HostRange { start, len: end - start }
    }

    /// Passes the bytes that have changed to `write`.
    ///
    /// # Errors
    /// Returns an error if some have changed and can't be written.
    pub(crate) fn land(&self, bytes: &[u8], write: impl FnMut(HostRange, &[u8])) -> Result<()> {
        self.land_where(pages::check_writable, bytes, write)
    }

    /// Does the same with `check` for what may be written.
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
        // Most regions change nothing.
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

/// Passes the writable part of a variable to `write`. The rest must be unchanged.
fn land_partly(dst: HostRange, new: &[u8], write: &mut impl FnMut(HostRange, &[u8])) -> Result<()> {
    for PageRun { range, writable } in pages::stretches(dst)? {
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
        // So few bytes arrive in one piece.
        self.land(piece, |dst, new| with_bytes_mut(dst, |place| place.copy_from_slice(new)))
    }

    fn may_write(&self, range: HostRange) -> bool {
        self.parts.iter().any(|part| part.dst.overlaps(range))
    }
}

/// Lets `write` fill the program's memory for the duration of the call.
pub(crate) fn with_bytes_mut<T>(range: HostRange, write: impl FnOnce(&mut [u8]) -> T) -> T {
    if range.len == 0 {
        return write(&mut []);
    }
    // SAFETY: the program promised that `range` is writable until the copy is waited for, and does not access it
    // before; the slice does not outlive the call.
    write(unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(range.start), range.len) })
}
