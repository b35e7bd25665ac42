//! Blocks of one device's address range. A freed block has the moment after which it may be
//! used again, so freeing never waits and reuse in the same queue costs nothing.
//!
//! It only decides. Mapping and unmapping may wait for another node: the caller does them without the device's lock, reports
//! the result, and asks again.

use super::free_blocks::{Free, FreeBlocks};
use super::guards::{self, GuardedBlock, Guards, Placement};
use super::range::Range;
use super::slabs::Slabs;
use crate::queues::{After, Queues};
use accord_types::{DevicePtr, Error, ErrorCode, HostRange, QueueId};
use std::collections::BTreeMap;

/// Blocks start at and are multiples of this, as `cudaMalloc`'s.
const GRANULE: u64 = 256;
/// Memory is mapped and unmapped in multiples of this.
const PAGE: u64 = 2 << 20;
/// Largest growth beyond what is needed, if the device has that much to spare.
const GROWTH: u64 = 32 << 20;
/// Free blocks that are examined for one that needs no wait.
const POLLS: usize = 32;

/// The purpose of a block; messages about lack of memory count by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Present data.
    Data,
    /// `acc_malloc`.
    Malloc,
    /// Arguments of a launch.
    Arguments,
}

/// A block that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRequest {
    pub(crate) bytes: u64,
    pub(crate) purpose: Purpose,
    /// Address of the data in the program; 0 for others.
    pub(crate) host: usize,
}

/// A block in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UsedBlock {
    pub(crate) start: DevicePtr,
    /// The requested size.
    pub(crate) bytes: u64,
    /// Address of the data in the program; 0 for none.
    pub(crate) host: usize,
    pub(crate) purpose: Purpose,
}

/// The reason why there is no block yet. The caller acts on it without the device's lock, then asks again.
#[derive(Debug)]
pub(crate) enum Blocked {
    /// Wait for these queues.
    Until(Vec<QueueId>),
    /// Map this range, and report it with [`Allocator::grown`]. If the driver chooses the place, the range has only a length, and
    /// [`Allocator::got`] gets the place.
    Grow(Range),
    /// Another thread is mapping memory, which may suffice for both.
    Growing,
    /// Unmap these ranges in the synchronous queue's order, and report it with [`Allocator::unmapped`]; then wait for that queue.
    Shrink(Vec<Range>),
    /// It fails.
    Failed(Error),
}

/// The allocator of a device's memory.
#[derive(Default)]
pub(crate) struct Allocator {
    capacity: u64,
    end: u64,
    /// First address that was never mapped.
    top: u64,
    /// Bytes mapped, and those that are being mapped or unmapped.
    mapped: u64,
    /// Bytes that threads are mapping.
    growing: u64,
    free: FreeBlocks,
    used: BTreeMap<u64, Used>,
    /// Address ranges whose memory was returned.
    retired: Vec<Retired>,
    /// The driver's allocations, if it chooses their places; none if memory is mapped at addresses that are known.
    slabs: Option<Slabs>,
    /// Whether each block has pages of its own, with guard pages between.
    guards: Option<Guards>,
    /// The number of blocks taken so far.
    serial: u64,
}

struct Used {
    /// The memory of the block, which begins before it if it has guard pages.
    memory: Range,
    /// The requested size.
    bytes: u64,
    purpose: Purpose,
    shares: u32,
    /// Address in the program; 0 for none.
    host: usize,
    serial: u64,
    /// Whether the bytes around it hold the pattern.
    has_pattern: bool,
}

impl Used {
    /// Returns the length from the block's start, `start`, to the end of its memory.
    fn len_from(&self, start: u64) -> u64 {
        self.memory.start.0 + self.memory.len - start
    }
}

struct Retired {
    start: u64,
    len: u64,
    after: After,
}

impl Allocator {
    /// An allocator over `len` addresses from `start`, for a device with `capacity` bytes of memory.
    pub(crate) fn new(start: DevicePtr, len: u64, capacity: u64) -> Self {
        let top = start.0.next_multiple_of(PAGE);
        let end = start.0.saturating_add(len) / PAGE * PAGE;
        Self { capacity, end, top, ..Self::default() }
    }

    /// Creates an allocator of memory that consists of the driver's own allocations, for a device with `capacity` bytes of memory.
    pub(crate) fn of_slabs(capacity: u64) -> Self {
        Self { capacity, slabs: Some(Slabs::default()), ..Self::default() }
    }

    /// Creates an allocator whose blocks have pages of their own with guard pages between, over `len` addresses from `start`, for a device with `capacity`
    /// bytes of memory.
    pub(crate) fn with_guards(start: DevicePtr, len: u64, capacity: u64) -> Self {
        Self { guards: Some(Guards::default()), ..Self::new(start, len, capacity) }
    }

    /// Returns a block for use in `queue`. Adds to `waits` queues that have to be made to wait for others
    /// before they use it: `queue` waits for each. `refused`: why the device refused the last request, unless memory
    /// was returned to it since.
    pub(crate) fn take(
        &mut self,
        wanted: BlockRequest,
        queue: QueueId,
        queues: &Queues,
        refused: Option<&Error>,
        waits: &mut Vec<QueueId>,
    ) -> Result<DevicePtr, Blocked> {
        let bytes = wanted.bytes;
        let placement = match self.guards {
            Some(_) => Placement::of(bytes, wanted.host),
            None => bytes.max(1).checked_next_multiple_of(GRANULE).map(|len| Placement { len, ahead: 0 }),
        };
        let Some(Placement { len, ahead }) = placement else {
            return Err(Blocked::Failed(self.no_memory(bytes, None)));
        };
        let fitting = self.fitting(len, queue, queues);
        let (start, after) = match fitting {
            Some((start, after)) if queues.clear(queue, after) => (start, after),
            // Another queue still uses that memory: more memory is better than queues that wait for each other.
            Some(found) => {
                if self.free.bytes().saturating_add(len) <= self.slack() && refused.is_none() {
                    self.grow(len, queues)?;
                }
                found
            }
            None => {
                // Others use the device too: if it refuses, memory idle here may be what it lacks. The first request is for no more
                // than necessary.
                if refused.is_none() || self.slabs.as_mut().is_some_and(Slabs::begin_to_save) {
                    self.grow(len, queues)?;
                }
                self.squeeze(len, bytes, refused, queues)?
            }
        };
        for other in queues.before(queue, after) {
            if !waits.contains(&other) {
                waits.push(other);
            }
        }
        self.carve(start, len, ahead, wanted);
        Ok(DevicePtr(start + ahead))
    }

    /// Adds a holder of a block.
    pub(crate) fn share(&mut self, block: DevicePtr) {
        if let Some(used) = self.used.get_mut(&block.0) {
            used.shares = used.shares.saturating_add(1);
        }
    }

    /// Removes a holder. The last one frees the block for use after `after`.
    pub(crate) fn give_back(&mut self, block: DevicePtr, mut after: After, queues: &Queues) {
        let Some(used) = self.used.get_mut(&block.0) else { return };
        used.shares -= 1;
        if used.shares == 0 {
            let Range { start, len } = used.memory;
            self.used.remove(&block.0);
            if queues.passed(after) {
                // Blocks without pending users can join all their neighbours.
                after = After::NOTHING;
            }
            self.insert_free(start.0, Free { len, after });
        }
    }

    /// Returns the length of a block and its number of holders.
    pub(crate) fn holders(&self, block: DevicePtr) -> (u64, u32) {
        self.used.get(&block.0).map_or((0, 0), |used| (used.bytes, used.shares))
    }

    /// The block of `acc_malloc` that starts here.
    pub(crate) fn is_malloc(&self, start: DevicePtr) -> bool {
        self.used.get(&start.0).is_some_and(|used| used.purpose == Purpose::Malloc)
    }

    /// Returns the blocks of `acc_malloc`, each as its own range in the program: pointers of the program lead there.
    pub(crate) fn mallocs(&self) -> impl Iterator<Item = (DevicePtr, HostRange)> {
        let all = self.used.iter().filter(|(_, used)| used.purpose == Purpose::Malloc);
        all.map(|(start, used)| (DevicePtr(*start), HostRange { start: *start as usize, len: used.bytes as usize }))
    }

    /// Returns start and length of the block in use that contains an address.
    pub(crate) fn block_of(&self, address: u64) -> Option<(DevicePtr, u64)> {
        let (start, used) = self.used.range(..=address).next_back()?;
        let len = if self.guards.is_some() { used.bytes } else { used.len_from(*start) };
        (address - start < len).then_some((DevicePtr(*start), len))
    }

    /// Returns the block in use that contains an address.
    pub(crate) fn used_around(&self, address: u64) -> Option<UsedBlock> {
        let (start, used) = self.used.range(..=address).next_back()?;
        let block = UsedBlock { start: DevicePtr(*start), bytes: used.bytes, host: used.host, purpose: used.purpose };
        (address - start < used.bytes).then_some(block)
    }

    /// Whether an address may be in a block of this allocator.
    pub(crate) fn owns(&self, address: u64) -> bool {
        if let Some(slabs) = &self.slabs {
            return slabs.hold(address);
        }
        let first = [self.used.keys().next(), self.free.first()].into_iter().flatten().min();
        address < self.top && first.is_some_and(|low| *low <= address)
    }

    /// Returns the block that starts here, if it is to be surrounded by the pattern.
    pub(crate) fn guarded(&self, start: DevicePtr) -> Option<GuardedBlock> {
        let used = self.used.get(&start.0).filter(|used| used.purpose != Purpose::Arguments)?;
        self.guards?;
        let host = HostRange { start: used.host, len: used.bytes as usize };
        let host = (used.host != 0).then_some(host);
        Some(GuardedBlock { serial: used.serial, start, bytes: used.bytes, host, pages: used.memory })
    }

    /// Records that the pattern surrounds a block.
    pub(crate) fn has_pattern(&mut self, block: &GuardedBlock) {
        if let Some(used) = self.used.get_mut(&block.start.0).filter(|used| used.serial == block.serial) {
            used.has_pattern = true;
        }
    }

    /// Returns the block that contains an address, if the pattern surrounds it.
    pub(crate) fn pattern_around(&self, address: DevicePtr) -> Option<GuardedBlock> {
        let (start, _) = self.block_of(address.0)?;
        self.used.get(&start.0).filter(|used| used.has_pattern)?;
        self.guarded(start)
    }

    /// Returns the blocks from `first` on that the pattern surrounds, at most `most` of them.
    pub(crate) fn with_pattern(&self, first: DevicePtr, most: usize) -> Vec<GuardedBlock> {
        let with = self.used.range(first.0..).filter(|(_, used)| used.has_pattern);
        with.take(most).filter_map(|(start, _)| self.guarded(DevicePtr(*start))).collect()
    }

    /// Whether some block has no guard pages for lack of addresses. Returns `true` once.
    pub(crate) fn lacks_guards(&mut self) -> bool {
        let lacks = self.guards == Some(Guards::Lacking);
        if lacks {
            self.guards = Some(Guards::LackingTold);
        }
        lacks
    }

    /// Bytes that could be handed out without mapping more.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.bytes()
    }

    /// Returns the ranges to return to the device, if more memory is idle than is worth keeping: see
    /// [`Blocked::Shrink`].
    pub(crate) fn trim(&mut self, queues: &Queues) -> Vec<Range> {
        let mut ranges = Vec::new();
        while self.free.bytes() > self.slack() {
            let Some((start, range)) = self.free.longest_first().take(POLLS).find_map(|(start, free)| {
                let pages = self.returnable(start, free.len)?;
                queues.clear(QueueId::SYNC, free.after).then_some((start, pages))
            }) else {
                break;
            };
            ranges.push(self.take_pages(start, range));
        }
        ranges
    }

    /// A range was mapped, or was not.
    pub(crate) fn grown(&mut self, range: Range, mapped: bool) {
        self.growing -= range.len;
        if mapped {
            self.insert_free(range.start.0, Free { len: range.len, after: After::NOTHING });
        } else {
            self.mapped -= range.len;
            self.retire(range, After::NOTHING);
        }
    }

    /// Records that the driver has given a slab of `len` bytes at `start`, or none.
    pub(crate) fn got(&mut self, len: u64, start: Option<DevicePtr>) {
        self.growing -= len;
        match (start, &mut self.slabs) {
            (Some(start), Some(slabs)) => {
                slabs.add(start.0, len);
                self.insert_free(start.0, Free { len, after: After::NOTHING });
            }
            _ => self.mapped -= len,
        }
    }

    /// Records that a range will be unmapped after `after`; none if that could not be put into the queue.
    pub(crate) fn unmapped(&mut self, range: Range, after: Option<After>) {
        match after {
            Some(after) => {
                self.mapped -= range.len;
                if let Some(slabs) = &mut self.slabs {
                    slabs.remove(range.start.0);
                }
                self.retire(range, after);
            }
            None => drop(self.insert_free(range.start.0, Free { len: range.len, after: After::NOTHING })),
        }
    }

    fn retire(&mut self, range: Range, after: After) {
        self.retired.push(Retired { start: range.start.0, len: range.len, after });
    }

    /// Panics if blocks overlap or the sums are wrong.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        let mut all = self.free.check_invariants();
        all.extend(self.used.values().map(|used| (used.memory.start.0, used.memory.len)));
        assert!(
            self.used.iter().all(|(start, used)| used.memory.start.0 <= *start && used.bytes <= used.len_from(*start))
        );
        assert_eq!(self.mapped, all.iter().map(|(_, len)| len).sum::<u64>() + self.growing);
        if let Some(slabs) = &self.slabs {
            assert!(
                all.iter().all(|(start, len)| slabs.is_within_one(*start, *len)),
                "a block in two slabs, or in none"
            );
        } else {
            all.extend(self.retired.iter().map(|retired| (retired.start, retired.len)));
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "blocks overlap");
        assert!(self.mapped <= self.capacity);
        assert!(self.used.values().all(|used| used.shares > 0));
    }

    /// Bytes in use.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.values().map(|used| used.memory.len).sum()
    }

    /// Returns the idle memory worth keeping.
    fn slack(&self) -> u64 {
        self.capacity / 4
    }

    /// Returns the best free block: the smallest that `queue` may use at once, else the smallest.
    fn fitting(&self, len: u64, queue: QueueId, queues: &Queues) -> Option<(u64, After)> {
        let mut first = None;
        for start in self.free.of_len(len..self.longest(len)).take(POLLS) {
            let after = self.free.get(start)?.after;
            if queues.clear(queue, after) {
                return Some((start, after));
            }
            first.get_or_insert((start, after));
        }
        first
    }

    /// Returns the length from which on a free block is too long for `len` bytes: a block with guard pages takes all of one.
    fn longest(&self, len: u64) -> u64 {
        if self.guards.is_some() { len + 1 } else { u64::MAX }
    }

    /// Returns the unit in which memory is mapped.
    fn page(&self) -> u64 {
        if self.guards.is_some() { guards::PAGE } else { PAGE }
    }

    /// Requests more memory; returns if the device has no more.
    fn grow(&mut self, len: u64, queues: &Queues) -> Result<(), Blocked> {
        let page = self.page();
        let Some(least) = len.checked_next_multiple_of(page).filter(|least| *least <= self.capacity) else {
            return Ok(());
        };
        if self.growing >= least {
            return Err(Blocked::Growing);
        }
        if self.slabs.is_some() {
            // The driver may return the same addresses again.
            self.retired.retain(|range| !queues.passed(range.after));
        }
        // What a queue has not unmapped yet still occupies memory.
        let leaving: u64 = self.retired.iter().filter(|range| !queues.passed(range.after)).map(|range| range.len).sum();
        let space = (self.capacity - self.mapped) / page * page;
        if least > space.saturating_sub(leaving) {
            return match (space >= least, self.growing > 0) {
                (true, _) => Err(Blocked::Until(vec![QueueId::SYNC])),
                (false, true) => Err(Blocked::Growing),
                (false, false) => Ok(()),
            };
        }
        // Regions can access mapped memory outside any block unnoticed: so there is little of it at the start.
        let few = (self.mapped / 8).clamp(PAGE, GROWTH) / PAGE * PAGE;
        let usual = self.slabs.as_ref().map_or(few, |slabs| slabs.growth(least));
        let step = match self.guards {
            Some(_) => least,
            None => least.max(usual.min(self.capacity / 64 / PAGE * PAGE)).min(space - leaving),
        };
        if self.slabs.is_some() {
            self.mapped += step;
            self.growing += step;
            return Err(Blocked::Grow(Range { start: DevicePtr(0), len: step }));
        }
        let again = self.retired.iter().position(|range| range.len >= least && queues.passed(range.after));
        let (start, len) = match again {
            Some(at) => {
                let range = &mut self.retired[at];
                let (start, step) = (range.start, step.min(range.len));
                let gap = if self.guards.is_some() { guards::PAGE.min(range.len - step) } else { 0 };
                range.start += step + gap;
                range.len -= step + gap;
                if range.len == 0 {
                    self.retired.swap_remove(at);
                }
                (start, step)
            }
            None => {
                let space = self.end.saturating_sub(self.top);
                let step = step.min(space);
                if step < least {
                    return Ok(());
                }
                if let Some(state) = &mut self.guards {
                    let spare = space.saturating_sub(self.capacity - self.mapped);
                    let gap = guards::gap(step, spare, self.used.len() + self.free.len());
                    if gap == 0 && *state == Guards::Complete {
                        *state = Guards::Lacking;
                    }
                    self.top += gap;
                }
                self.top += step;
                (self.top - step, step)
            }
        };
        self.mapped += len;
        self.growing += len;
        Err(Blocked::Grow(Range { start: DevicePtr(start), len }))
    }

    /// The last resorts, when neither a free block fits nor more can be mapped; `refused` is the device's reason.
    fn squeeze(
        &mut self,
        len: u64,
        bytes: u64,
        refused: Option<&Error>,
        queues: &Queues,
    ) -> Result<(u64, After), Blocked> {
        // Neighbours that wait for different moments, as one block that waits for all of them.
        let Self { free, guards, slabs, .. } = self;
        free.join_all(|address| is_border(guards.as_ref(), slabs.as_ref(), address));
        let lengths = len..self.longest(len);
        if let Some((start, free)) = self.free.of_len(lengths).find_map(|start| Some((start, self.free.get(start)?))) {
            return Ok((start, free.after));
        }
        if refused.is_some() && self.retired.iter().any(|range| !queues.passed(range.after)) {
            // Memory that the device lacks may be about to be unmapped.
            return Err(Blocked::Until(vec![QueueId::SYNC]));
        }
        // Idle memory in pieces: it is unmapped, and mapped again in one piece.
        let pages: Vec<_> = self
            .free
            .iter()
            .filter_map(|(start, free)| Some((start, self.returnable(start, free.len)?, free.after)))
            .collect();
        let idle: u64 = pages.iter().map(|(_, (_, len), _)| len).sum();
        let space = if refused.is_some() { 0 } else { self.capacity - self.mapped };
        if idle == 0 || space + idle < len.next_multiple_of(self.page()) {
            return Err(Blocked::Failed(self.no_memory(bytes, refused)));
        }
        let mut busy: Vec<_> = pages.iter().flat_map(|(_, _, after)| queues.until(*after)).collect();
        busy.sort_unstable();
        busy.dedup();
        if !busy.is_empty() {
            return Err(Blocked::Until(busy));
        }
        Err(Blocked::Shrink(pages.into_iter().map(|(start, range, _)| self.take_pages(start, range)).collect()))
    }

    /// Takes whole pages out of the free block at `start`, to be unmapped.
    fn take_pages(&mut self, start: u64, (from, len): (u64, u64)) -> Range {
        if let Some(free) = self.free.take(start) {
            let (head, tail) = (from - start, start + free.len - (from + len));
            if head > 0 {
                self.free.put(start, Free { len: head, after: free.after });
            }
            if tail > 0 {
                self.free.put(from + len, Free { len: tail, after: free.after });
            }
        }
        Range { start: DevicePtr(from), len }
    }

    /// Takes `len` bytes from the free block at `start`.
    fn carve(&mut self, start: u64, len: u64, ahead: u64, BlockRequest { bytes, purpose, host }: BlockRequest) {
        let Some(free) = self.free.take(start) else { return };
        if free.len > len {
            self.free.put(start + len, Free { len: free.len - len, after: free.after });
        }
        self.serial += 1;
        let memory = Range { start: DevicePtr(start), len };
        let used = Used { memory, bytes, purpose, shares: 1, host, serial: self.serial, has_pattern: false };
        self.used.insert(start + ahead, used);
    }

    /// Adds a free block, joined with its neighbours if that is possible. Returns its start then.
    fn insert_free(&mut self, start: u64, block: Free) -> u64 {
        let Self { free, guards, slabs, .. } = self;
        free.insert(start, block, |address| is_border(guards.as_ref(), slabs.as_ref(), address))
    }

    /// Returns the part of a free block that can be returned to the device.
    fn returnable(&self, start: u64, len: u64) -> Option<(u64, u64)> {
        match &self.slabs {
            Some(slabs) => slabs.is_one(start, len).then_some((start, len)),
            None => whole_pages(start, len, self.page()),
        }
    }

    fn no_memory(&self, bytes: u64, refused: Option<&Error>) -> Error {
        let held = |purpose| {
            let (count, sum) = self
                .used
                .values()
                .filter(|used| used.purpose == purpose)
                .fold((0u64, 0u64), |(count, sum), used| (count + 1, sum + used.memory.len));
            format!("{sum} in {count}")
        };
        let remedy = refused.and_then(Error::remedy_text);
        let refused = refused.map_or(String::new(), |error| format!("; the device says: {}", error.cause()));
        Error::new(
            ErrorCode::OutOfMemory,
            format!(
                "no {bytes} bytes in one piece: of {} bytes of device memory, present data holds {} blocks, \
                 acc_malloc {}, arguments of launches {}, and {} lie free in pieces{refused}",
                self.capacity,
                held(Purpose::Data),
                held(Purpose::Malloc),
                held(Purpose::Arguments),
                self.free.bytes()
            ),
        )
        .remedy_if(remedy)
        .remedy("end data regions earlier, free what is not needed, or use more devices")
    }
}

/// Whether no block extends beyond this address: another slab begins here, or a block with pages of its own.
fn is_border(guards: Option<&Guards>, slabs: Option<&Slabs>, address: u64) -> bool {
    guards.is_some() || slabs.is_some_and(|slabs| slabs.begins_at(address))
}

/// The part of a block that consists of whole pages.
fn whole_pages(start: u64, len: u64, page: u64) -> Option<(u64, u64)> {
    let from = start.next_multiple_of(page);
    let to = (start + len) / page * page;
    (to > from).then(|| (from, to - from))
}
