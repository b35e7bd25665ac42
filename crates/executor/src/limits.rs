//! The limits of a session's lease on this node, which the executor enforces against any program. Without I/O or clock.

use accord_types::{DevicePtr, Error, ErrorCode, Result, Seq, SessionId, StreamId};
use std::collections::BTreeMap;

/// Most pieces of memory that a program may have mapped on a device, where adjacent pieces count as one.
const RANGES_MAX: usize = 1 << 16;
/// Most pieces that may wait to be freed until their streams get there.
const LEAVING_MAX: usize = 1 << 12;

/// The part of a lease that one executor serves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// The node's devices that the lease names.
    pub ordinals: Vec<u32>,
    /// Bytes that the session may hold on each device; 0 means no limit.
    pub memory: u64,
    /// Most streams for the program's queues on each device, which share them beyond that; 0 means no limit.
    pub streams: u32,
}

impl Limits {
    /// Checks that the lease includes a device.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if it does not.
    pub(crate) fn check_device(&self, session: SessionId, ordinal: u32) -> Result<()> {
        if self.ordinals.contains(&ordinal) {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::DeviceUnavailable,
            format!("the lease of session {session} does not name device {ordinal} of the node"),
        )
        .remedy("use the device numbers that the session was given"))
    }
}

/// The memory that a program has mapped on one device.
#[derive(Debug)]
pub(crate) struct MappedRanges {
    /// Most bytes; none: no limit.
    limit: Option<u64>,
    /// Bytes mapped, including those that wait to be freed.
    bytes: u64,
    /// Starts and lengths. Adjacent ranges are merged.
    ranges: BTreeMap<u64, u64>,
    leaving: Vec<DeferredFree>,
}

/// Memory that is freed once a stream reaches a position.
#[derive(Debug)]
struct DeferredFree {
    start: u64,
    len: u64,
    stream: StreamId,
    seq: Seq,
}

impl MappedRanges {
    /// Creates the ranges of a device without mapped memory. `limit` is that of [`Limits::memory`].
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit: (limit > 0).then_some(limit), bytes: 0, ranges: BTreeMap::new(), leaving: Vec::new() }
    }

    /// Checks that `[start, start + len)` may be mapped. `reached` returns whether a stream has reached a position.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory` beyond the limit, and `acc_error_invalid_argument` for an invalid range or one that
    /// is mapped.
    pub(crate) fn check_map(
        &mut self,
        start: DevicePtr,
        len: u64,
        reached: impl FnMut(StreamId, Seq) -> bool,
    ) -> Result<()> {
        let end = end_of(start, len)?;
        self.settle(reached);
        let before = self.ranges.range(..end).next_back();
        let taken = before.is_some_and(|(from, size)| from + size > start.0)
            || self.leaving.iter().any(|leaving| leaving.start < end && start.0 < leaving.start + leaving.len);
        if taken {
            return Err(invalid(format!("{len} bytes at {start} are mapped already, in part or all of them")));
        }
        if self.ranges.len() >= RANGES_MAX {
            return Err(invalid(format!("a program has more than {RANGES_MAX} pieces of memory on a device")));
        }
        match self.limit {
            Some(limit) if self.bytes.saturating_add(len) > limit => Err(Error::new(
                ErrorCode::OutOfMemory,
                format!(
                    "{len} bytes are wanted, and {} of the quota of {limit} bytes a session and device are in use (--memory-quota of the \
                     coordinator)",
                    self.bytes
                ),
            )
            .remedy("free data that is no longer needed, spread it over more devices, or ask the site for a larger quota")),
            _ => Ok(()),
        }
    }

    /// Bytes that the lease still lets be mapped.
    pub(crate) fn left(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit - self.bytes)
    }

    /// A range that was checked is mapped now.
    pub(crate) fn mapped(&mut self, start: DevicePtr, len: u64) {
        self.bytes = self.bytes.saturating_add(len);
        let (mut from, mut size) = (start.0, len);
        if let Some(behind) = self.ranges.remove(&(from + size)) {
            size += behind;
        }
        if let Some((before, length)) = self.ranges.range(..from).next_back().map(|(at, length)| (*at, *length))
            && before + length == from
        {
            (from, size) = (before, length + size);
        }
        self.ranges.insert(from, size);
    }

    /// Checks that all of `[start, start + len)` is mapped and may be freed.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if it may not.
    pub(crate) fn check_unmap(
        &mut self,
        start: DevicePtr,
        len: u64,
        reached: impl FnMut(StreamId, Seq) -> bool,
    ) -> Result<()> {
        let end = end_of(start, len)?;
        let found = self.ranges.range(..=start.0).next_back();
        if found.is_none_or(|(from, size)| from + size < end) {
            return Err(invalid(format!("{len} bytes at {start} are given back, but were not mapped")));
        }
        if self.leaving.len() >= LEAVING_MAX {
            self.settle(reached);
        }
        if self.leaving.len() >= LEAVING_MAX || self.ranges.len() >= RANGES_MAX {
            return Err(invalid(format!("a program gives more than {LEAVING_MAX} pieces of memory back at a time")));
        }
        Ok(())
    }

    /// Frees a checked range once `stream` reaches `seq`. It counts until then.
    pub(crate) fn leaves(&mut self, start: DevicePtr, len: u64, stream: StreamId, seq: Seq) {
        let Some((from, size)) = self.ranges.range(..=start.0).next_back().map(|(from, size)| (*from, *size)) else {
            return;
        };
        self.ranges.remove(&from);
        let (end, range_end) = (start.0 + len, from + size);
        if from < start.0 {
            self.ranges.insert(from, start.0 - from);
        }
        if end < range_end {
            self.ranges.insert(end, range_end - end);
        }
        self.leaving.push(DeferredFree { start: start.0, len, stream, seq });
    }

    /// Removes freed ranges.
    fn settle(&mut self, mut reached: impl FnMut(StreamId, Seq) -> bool) {
        let bytes = &mut self.bytes;
        self.leaving.retain(|leaving| {
            let gone = reached(leaving.stream, leaving.seq);
            if gone {
                *bytes -= leaving.len;
            }
            !gone
        });
    }
}

fn end_of(start: DevicePtr, len: u64) -> Result<u64> {
    let end = start.0.checked_add(len).filter(|end| *end > start.0);
    end.ok_or_else(|| invalid(format!("{len} bytes at {start} are no range")))
}

fn invalid(cause: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: StreamId = StreamId(0);
    const PAGES: u64 = 24;

    fn at(page: u64) -> DevicePtr {
        DevicePtr(0x1000 + page)
    }

    #[test]
    fn only_devices_of_the_lease_are_given() {
        let limits = Limits { ordinals: vec![0, 2], ..Limits::default() };
        assert!(limits.check_device(SessionId(7), 2).is_ok());
        let error = limits.check_device(SessionId(7), 1).unwrap_err();
        assert!(error.cause().contains("does not name device 1"), "{error}");
    }

    #[test]
    fn senseless_ranges_are_refused() {
        let mut mapped = MappedRanges::new(0);
        for (start, len) in [(5, 0), (u64::MAX, 1), (u64::MAX - 4, 1 << 60)] {
            assert!(mapped.check_map(DevicePtr(start), len, |_, _| true).is_err());
            assert!(mapped.check_unmap(DevicePtr(start), len, |_, _| true).is_err());
        }
    }

    #[test]
    fn memory_counts_until_its_stream_has_given_it_back() {
        let mut mapped = MappedRanges::new(8);
        mapped.check_map(at(0), 8, |_, _| true).unwrap();
        mapped.mapped(at(0), 8);
        mapped.check_unmap(at(2), 4, |_, _| true).unwrap();
        mapped.leaves(at(2), 4, STREAM, Seq(3));
        let error = mapped.check_map(at(8), 1, |_, seq| seq < Seq(3)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfMemory);
        assert!(mapped.check_map(at(2), 1, |_, seq| seq < Seq(3)).is_err(), "it is still there");
        mapped.check_map(at(8), 4, |_, _| true).unwrap();
    }

    proptest! {
        /// Compared with a table of pages: no page is mapped twice, freed twice, or held beyond the limit.
        #[test]
        fn ranges_are_what_a_table_of_pages_says(
            limit in 1..PAGES,
            steps in prop::collection::vec((any::<bool>(), 0..PAGES, 1..PAGES, any::<bool>()), 1..200),
        ) {
            #[derive(Clone, Copy, PartialEq, Debug)]
            enum Page { Free, Mapped, Leaving(u64) }
            let mut mapped = MappedRanges::new(limit);
            let mut pages = [Page::Free; 2 * PAGES as usize];
            let (mut put, mut done) = (0, 0);
            for (maps, page, len, runs) in steps {
                if runs {
                    done = put;
                }
                let reached = |_, seq: Seq| seq.0 <= done;
                let range = page as usize..(page + len) as usize;
                if maps {
                    for page in &mut pages {
                        if matches!(*page, Page::Leaving(seq) if seq <= done) {
                            *page = Page::Free;
                        }
                    }
                    let used = pages.iter().filter(|page| **page != Page::Free).count() as u64;
                    let right = pages[range.clone()].iter().all(|page| *page == Page::Free) && used + len <= limit;
                    prop_assert_eq!(mapped.check_map(at(page), len, reached).is_ok(), right);
                    if right {
                        mapped.mapped(at(page), len);
                        pages[range].fill(Page::Mapped);
                    }
                } else {
                    let right = pages[range.clone()].iter().all(|page| *page == Page::Mapped);
                    prop_assert_eq!(mapped.check_unmap(at(page), len, reached).is_ok(), right);
                    if right {
                        put += 1;
                        mapped.leaves(at(page), len, STREAM, Seq(put));
                        pages[range].fill(Page::Leaving(put));
                    }
                }
                let held: u64 = mapped.ranges.values().sum::<u64>() + mapped.leaving.iter().map(|l| l.len).sum::<u64>();
                prop_assert_eq!(held, mapped.bytes);
                prop_assert!(held <= limit);
            }
        }
    }
}
