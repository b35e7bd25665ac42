//! Memory of a fake device.

use super::stream::lock;
use accord_types::short_lock::ShortLock;
use accord_types::{DevicePtr, Error, ErrorCode, Result};
use std::collections::BTreeMap;

/// Memory of a fake device. Only mapped bytes can be accessed.
pub struct FakeMemory {
    limit: u64,
    /// Mapped ranges by their first address.
    mapped: ShortLock<BTreeMap<u64, Vec<u8>>>,
}

impl FakeMemory {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, mapped: ShortLock::default() }
    }

    pub(super) fn free(&self) -> u64 {
        self.limit - self.used()
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// Returns an error if the range is not mapped.
    pub fn write(&self, dst: DevicePtr, bytes: &[u8]) -> Result<()> {
        self.with(dst, bytes.len() as u64, |place, at| place.copy_from_slice(&bytes[at..at + place.len()]))
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// Returns an error if the range is not mapped.
    pub fn read(&self, src: DevicePtr, bytes: &mut [u8]) -> Result<()> {
        self.with(src, bytes.len() as u64, |place, at| bytes[at..at + place.len()].copy_from_slice(place))
    }

    /// Checks that all of a range is mapped.
    ///
    /// # Errors
    /// Returns an error if the range is not mapped.
    pub fn check(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.with(start, len, |_, _| {})
    }

    /// Calls `each` with the mapped pieces of a range and their offsets in it.
    fn with(&self, start: DevicePtr, len: u64, mut each: impl FnMut(&mut [u8], usize)) -> Result<()> {
        let missing = || Error::new(ErrorCode::InvalidArgument, format!("nothing is mapped at {start} ({len} bytes)"));
        let mut mapped = lock(&self.mapped);
        let end = start.0.checked_add(len).ok_or_else(missing)?;
        let mut at = start.0;
        while at < end {
            let (&first, bytes) = mapped.range_mut(..=at).next_back().ok_or_else(missing)?;
            let from = usize::try_from(at - first).map_err(|_| missing())?;
            let until = usize::try_from(end - first).map_err(|_| missing())?.min(bytes.len());
            let place = bytes.get_mut(from..until).filter(|place| !place.is_empty()).ok_or_else(missing)?;
            each(place, usize::try_from(at - start.0).map_err(|_| missing())?);
            at += (until - from) as u64;
        }
        Ok(())
    }

    pub(super) fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        let free = self.limit - self.used();
        if len > free {
            return Err(Error::new(ErrorCode::OutOfMemory, format!("{len} bytes are wanted, {free} are left")));
        }
        let bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let before = lock(&self.mapped).insert(start.0, bytes);
        match before {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorCode::InvalidArgument, format!("{start} is mapped already"))),
        }
    }

    pub(super) fn unmap(&self, start: DevicePtr, len: u64) -> Result<()> {
        let bytes = lock(&self.mapped).remove(&start.0);
        match bytes {
            Some(bytes) if bytes.len() as u64 == len => Ok(()),
            _ => Err(Error::new(ErrorCode::InvalidArgument, format!("{start} was not mapped with {len} bytes"))),
        }
    }

    fn used(&self) -> u64 {
        lock(&self.mapped).values().map(|bytes| bytes.len() as u64).sum()
    }
}
