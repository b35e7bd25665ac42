//! Blocks of one device's address range. A freed block carries the moment after which it may be
//! used again, so freeing never waits and reuse in the same queue costs nothing.

use crate::queues::{After, Queues};
use accord_types::{DevicePtr, Error, ErrorCode, QueueId};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks start at and are multiples of this, as `cudaMalloc`'s.
const GRANULE: u64 = 256;
/// Memory is mapped and unmapped in multiples of this.
const PAGE: u64 = 2 << 20;
/// Least growth, where the device has that much to spare.
const GROWTH: u64 = 32 << 20;
/// Free blocks that are looked at for one that needs no wait.
const LOOKS: usize = 32;

/// What a block is for; messages about lack of memory count by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Present data.
    Data,
    /// `acc_malloc`.
    Malloc,
    /// Arguments of a launch.
    Arguments,
}

/// Why there is no block.
#[derive(Debug)]
pub(crate) enum Blocked {
    /// Wait for these queues without holding the device's lock, then ask again.
    Until(Vec<QueueId>),
    /// There will be none.
    Failed(Error),
}

/// How the allocator changes what is mapped.
pub(crate) trait Mapper {
    /// See [`crate::ports::Port::map`].
    fn map(&self, start: DevicePtr, len: u64) -> Result<(), Error>;
    /// See [`crate::ports::Port::unmap`].
    fn unmap(&self, queue: QueueId, start: DevicePtr, len: u64) -> Result<(), Error>;
}

/// See the module.
#[derive(Default)]
pub(crate) struct Allocator {
    capacity: u64,
    end: u64,
    /// First address that was never mapped.
    top: u64,
    mapped: u64,
    free_bytes: u64,
    free: BTreeMap<u64, Free>,
    by_len: BTreeSet<(u64, u64)>,
    used: BTreeMap<u64, Used>,
    /// Address ranges whose memory was given back.
    retired: Vec<Retired>,
}

#[derive(Clone, Copy)]
struct Free {
    len: u64,
    after: After,
}

struct Used {
    len: u64,
    /// As it was asked for.
    bytes: u64,
    purpose: Purpose,
    shares: u32,
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

    /// A block of at least `bytes` for use in `queue`. Queues that have to be made to wait for others
    /// before they use it are added to `waits`: `queue` waits for each.
    pub(crate) fn take(
        &mut self,
        bytes: u64,
        purpose: Purpose,
        queue: QueueId,
        queues: &mut Queues,
        mapper: &dyn Mapper,
        waits: &mut Vec<QueueId>,
    ) -> Result<DevicePtr, Blocked> {
        let Some(len) = bytes.max(1).checked_next_multiple_of(GRANULE) else {
            return Err(Blocked::Failed(self.no_memory(bytes, None)));
        };
        let fitting = self.fitting(len, queue, queues);
        let (start, after) = match fitting {
            Some((start, after)) if queues.clear(queue, after) => (start, After::NOTHING),
            // Memory that another queue still uses: rather take more than make queues wait for each other.
            Some((start, after)) if self.free_bytes.saturating_add(len) > self.slack() => (start, after),
            Some((start, after)) => match self.grow(len, queues, mapper) {
                Ok(Some(grown)) => grown,
                Ok(None) | Err(_) => (start, after),
            },
            None => match self.grow(len, queues, mapper) {
                Ok(Some(grown)) => grown,
                Ok(None) => self.squeeze(len, bytes, None, queues, mapper)?,
                // Others use the device too: what lies idle here may be what it lacks.
                Err(error) if error.code() == ErrorCode::OutOfMemory => {
                    self.squeeze(len, bytes, Some(error), queues, mapper)?
                }
                Err(error) => return Err(Blocked::Failed(error)),
            },
        };
        for other in queues.before(queue, after) {
            if !waits.contains(&other) {
                waits.push(other);
            }
        }
        self.carve(start, len, bytes, purpose);
        Ok(DevicePtr(start))
    }

    /// One more holder of a block.
    pub(crate) fn share(&mut self, block: DevicePtr) {
        if let Some(used) = self.used.get_mut(&block.0) {
            used.shares = used.shares.saturating_add(1);
        }
    }

    /// One holder less. The last one frees the block for use after `after`.
    pub(crate) fn give_back(&mut self, block: DevicePtr, mut after: After, queues: &Queues) {
        let Some(used) = self.used.get_mut(&block.0) else { return };
        used.shares -= 1;
        if used.shares == 0 {
            let len = used.len;
            self.used.remove(&block.0);
            if queues.passed(after) {
                // Blocks that nobody has to wait for join their neighbours best.
                after = After::NOTHING;
            }
            self.insert_free(block.0, Free { len, after });
        }
    }

    /// Length of a block and its number of holders.
    pub(crate) fn holders(&self, block: DevicePtr) -> (u64, u32) {
        self.used.get(&block.0).map_or((0, 0), |used| (used.bytes, used.shares))
    }

    /// The block of `acc_malloc` that starts here.
    pub(crate) fn is_malloc(&self, start: DevicePtr) -> bool {
        self.used.get(&start.0).is_some_and(|used| used.purpose == Purpose::Malloc)
    }

    /// Start and length of the block in use that holds an address.
    pub(crate) fn block_of(&self, address: u64) -> Option<(DevicePtr, u64)> {
        let (start, used) = self.used.range(..=address).next_back()?;
        (address - start < used.len).then_some((DevicePtr(*start), used.len))
    }

    /// Whether an address is one that this allocator hands out.
    pub(crate) fn owns(&self, address: u64) -> bool {
        let first = [self.used.keys().next(), self.free.keys().next()].into_iter().flatten().min();
        address < self.top && first.is_some_and(|low| *low <= address)
    }

    /// Bytes that could be handed out without mapping more.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Gives memory back to the device while more of it lies idle than is worth keeping.
    pub(crate) fn trim(&mut self, queues: &mut Queues, mapper: &dyn Mapper) -> Result<(), Error> {
        while self.free_bytes > self.slack() {
            let Some(found) = self.by_len.iter().rev().take(LOOKS).find_map(|(len, start)| {
                let free = self.free.get(start)?;
                let pages = whole_pages(*start, *len)?;
                queues.clear(QueueId::SYNC, free.after).then_some((*start, pages))
            }) else {
                return Ok(());
            };
            self.unmap(found.0, found.1, queues, mapper)?;
        }
        Ok(())
    }

    /// Panics if blocks overlap or the sums are wrong.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        let mut all: Vec<(u64, u64)> = self.free.iter().map(|(start, free)| (*start, free.len)).collect();
        assert_eq!(
            self.by_len.iter().map(|(len, start)| (*start, *len)).collect::<BTreeSet<_>>(),
            all.iter().copied().collect()
        );
        assert_eq!(self.free_bytes, all.iter().map(|(_, len)| len).sum::<u64>());
        all.extend(self.used.iter().map(|(start, used)| (*start, used.len)));
        assert_eq!(self.mapped, all.iter().map(|(_, len)| len).sum::<u64>());
        all.extend(self.retired.iter().map(|retired| (retired.start, retired.len)));
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "blocks overlap");
        assert!(self.mapped <= self.capacity);
        assert!(self.used.values().all(|used| used.shares > 0));
    }

    /// Bytes in use.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.values().map(|used| used.len).sum()
    }

    /// Idle memory worth keeping.
    fn slack(&self) -> u64 {
        self.capacity / 4
    }

    /// The best free block: the smallest that `queue` may use at once, else the smallest.
    fn fitting(&self, len: u64, queue: QueueId, queues: &Queues) -> Option<(u64, After)> {
        let mut first = None;
        for (_, start) in self.by_len.range((len, 0)..).take(LOOKS) {
            let after = self.free.get(start)?.after;
            if queues.clear(queue, after) {
                return Some((*start, after));
            }
            first.get_or_insert((*start, after));
        }
        first
    }

    /// Maps more and adds it to the free blocks; none if the device has no more.
    fn grow(&mut self, len: u64, queues: &Queues, mapper: &dyn Mapper) -> Result<Option<(u64, After)>, Error> {
        let room = (self.capacity - self.mapped) / PAGE * PAGE;
        let Some(least) = len.checked_next_multiple_of(PAGE).filter(|least| *least <= room) else {
            return Ok(None);
        };
        let step = least.max(GROWTH.min(self.capacity / 64 / PAGE * PAGE)).min(room);
        let again = self.retired.iter().position(|range| range.len >= least && queues.passed(range.after));
        let (start, step) = match again {
            Some(at) => {
                let range = &mut self.retired[at];
                let (start, step) = (range.start, step.min(range.len));
                mapper.map(DevicePtr(start), step)?;
                range.start += step;
                range.len -= step;
                if range.len == 0 {
                    self.retired.swap_remove(at);
                }
                (start, step)
            }
            None => {
                let step = step.min(self.end.saturating_sub(self.top));
                if step < least {
                    return Ok(None);
                }
                mapper.map(DevicePtr(self.top), step)?;
                self.top += step;
                (self.top - step, step)
            }
        };
        self.mapped += step;
        let start = self.insert_free(start, Free { len: step, after: After::NOTHING });
        Ok(Some((start, self.free[&start].after)))
    }

    /// The last resorts, when neither a free block fits nor more can be mapped; `refused` is the device's reason.
    fn squeeze(
        &mut self,
        len: u64,
        bytes: u64,
        refused: Option<Error>,
        queues: &mut Queues,
        mapper: &dyn Mapper,
    ) -> Result<(u64, After), Blocked> {
        // Neighbours that wait for different moments, as one block that waits for all of them.
        self.join_all();
        if let Some((_, start)) = self.by_len.range((len, 0)..).next() {
            return Ok((*start, self.free[start].after));
        }
        // Idle memory in pieces: give it back and map it again in one.
        let pages: Vec<_> = self
            .free
            .iter()
            .filter_map(|(start, free)| Some((*start, whole_pages(*start, free.len)?, free.after)))
            .collect();
        let idle: u64 = pages.iter().map(|(_, (_, len), _)| len).sum();
        let room = if refused.is_some() { 0 } else { self.capacity - self.mapped };
        if idle == 0 || room + idle < len.next_multiple_of(PAGE) {
            return Err(Blocked::Failed(self.no_memory(bytes, refused)));
        }
        let mut busy: Vec<_> = pages.iter().flat_map(|(_, _, after)| queues.until(*after)).collect();
        busy.sort_unstable();
        busy.dedup();
        if !busy.is_empty() {
            return Err(Blocked::Until(busy));
        }
        for (start, range, _) in pages {
            self.unmap(start, range, queues, mapper).map_err(Blocked::Failed)?;
        }
        Err(Blocked::Until(vec![QueueId::SYNC]))
    }

    fn join_all(&mut self) {
        let all: Vec<_> = std::mem::take(&mut self.free).into_iter().collect();
        self.by_len.clear();
        self.free_bytes = 0;
        let mut joined: Option<(u64, Free)> = None;
        for (start, free) in all {
            match &mut joined {
                Some((first, sum)) if *first + sum.len == start => {
                    sum.len += free.len;
                    let moment = sum.after.moment.max(free.after.moment);
                    let queue = if sum.after.queue == free.after.queue { free.after.queue } else { None };
                    sum.after = After { queue, moment };
                }
                _ => {
                    if let Some((start, free)) = joined.replace((start, free)) {
                        self.put_free(start, free);
                    }
                }
            }
        }
        if let Some((start, free)) = joined {
            self.put_free(start, free);
        }
    }

    /// Unmaps whole pages of the free block at `start`.
    fn unmap(
        &mut self,
        start: u64,
        (from, len): (u64, u64),
        queues: &mut Queues,
        mapper: &dyn Mapper,
    ) -> Result<(), Error> {
        mapper.unmap(QueueId::SYNC, DevicePtr(from), len)?;
        queues.filled(QueueId::SYNC, false);
        if let Some(free) = self.take_free(start) {
            let (head, tail) = (from - start, start + free.len - (from + len));
            if head > 0 {
                self.put_free(start, Free { len: head, after: free.after });
            }
            if tail > 0 {
                self.put_free(from + len, Free { len: tail, after: free.after });
            }
        }
        self.mapped -= len;
        let after = After { queue: Some(QueueId::SYNC), moment: queues.now() };
        self.retired.push(Retired { start: from, len, after });
        Ok(())
    }

    /// Takes `len` bytes from the free block at `start`.
    fn carve(&mut self, start: u64, len: u64, bytes: u64, purpose: Purpose) {
        let Some(free) = self.take_free(start) else { return };
        if free.len > len {
            self.put_free(start + len, Free { len: free.len - len, after: free.after });
        }
        self.used.insert(start, Used { len, bytes, purpose, shares: 1 });
    }

    /// Adds a free block, joined with neighbours that wait for the same; its start then.
    fn insert_free(&mut self, mut start: u64, mut free: Free) -> u64 {
        let joins = |a: After, b: After| a.queue == b.queue && (a == After::NOTHING) == (b == After::NOTHING);
        if let Some((before, left)) = self.free.range(..start).next_back().map(|(s, f)| (*s, *f))
            && before + left.len == start
            && joins(left.after, free.after)
        {
            self.take_free(before);
            start = before;
            free.len += left.len;
            free.after.moment = free.after.moment.max(left.after.moment);
        }
        if let Some(right) = self.free.get(&(start + free.len)).copied()
            && joins(right.after, free.after)
        {
            self.take_free(start + free.len);
            free.len += right.len;
            free.after.moment = free.after.moment.max(right.after.moment);
        }
        self.put_free(start, free);
        start
    }

    fn put_free(&mut self, start: u64, free: Free) {
        self.free_bytes += free.len;
        self.by_len.insert((free.len, start));
        self.free.insert(start, free);
    }

    fn take_free(&mut self, start: u64) -> Option<Free> {
        let free = self.free.remove(&start)?;
        self.by_len.remove(&(free.len, start));
        self.free_bytes -= free.len;
        Some(free)
    }

    fn no_memory(&self, bytes: u64, refused: Option<Error>) -> Error {
        let held = |purpose| {
            let (count, sum) = self
                .used
                .values()
                .filter(|used| used.purpose == purpose)
                .fold((0u64, 0u64), |(count, sum), used| (count + 1, sum + used.len));
            format!("{sum} in {count}")
        };
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
                self.free_bytes
            ),
        )
        .remedy("end data regions earlier, free what is not needed, or use more devices")
    }
}

/// The part of a block that consists of whole pages.
fn whole_pages(start: u64, len: u64) -> Option<(u64, u64)> {
    let from = start.next_multiple_of(PAGE);
    let to = (start + len) / PAGE * PAGE;
    (to > from).then(|| (from, to - from))
}
