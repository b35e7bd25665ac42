//! Small variables that a synchronous compute construct copies both ways travel together: in one block to the device, and after
//! the region in one block back, of which the program's memory gets what has changed.
//!
//! GCC maps every scalar of a `kernels` construct so. One by one their copies would cost many times what the region does.

use super::by_value::may_be_pointer;
use super::kind::Kind;
use super::map::{Mapping, Mode, PRIVATE_MAX, Stop, is_nothing};
use crate::memory::Purpose;
use crate::plan::{STORE_MAX, Step};
use crate::ports::Part;
use crate::present::Found;
use accord_types::{HostRange, QueueId};

/// Alignment of a variable that asks for less.
const ALIGN_MIN: usize = 16;
/// What the strictest types ask for.
const ALIGN_MAX: usize = 64;

/// The variables of one construct that travel together.
#[derive(Default)]
pub(crate) struct Together {
    /// What the program had when the construct began.
    values: Vec<u8>,
    /// Their places, and which entries they are.
    parts: Vec<(Part, usize)>,
}

impl Together {
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.parts.clear();
    }
}

impl Mapping<'_, '_> {
    /// Whether an absent variable of `len` bytes that stands alone may travel with others.
    pub(super) fn goes_along(&self, len: usize) -> bool {
        let room = STORE_MAX - ALIGN_MAX;
        self.mode == Mode::Launch
            && self.queue == QueueId::SYNC
            && len <= PRIVATE_MAX
            && self.region.together.values.len() + len <= room
    }

    /// The same, at little cost, for entry `i` of a synchronous compute construct if nothing about it or the construct is out of the
    /// ordinary: true if it goes along now. Most scalars are such.
    #[inline]
    pub(super) fn goes_along_at_once(&mut self, i: usize, start: usize, len: usize) -> Result<bool, Stop> {
        if self.mode != Mode::Launch || self.queue != QueueId::SYNC || self.device.maps_unmapped {
            return Ok(false);
        }
        self.know_names()?;
        let is_plain = self.names.are_plain()
            && len > 0
            && self.goes_along(len)
            && self.device.arrivals.is_empty()
            && self.state.links.is_empty()
            && self.state.table.find(start, len) == Found::Absent;
        if !is_plain {
            return Ok(false);
        }
        let range = HostRange { start, len };
        if len == size_of::<usize>()
            && Kind::is_forced(self.entries.kinds[i])
            && may_be_pointer(self.read_pointer(start))
        {
            return Ok(false);
        }
        self.put_along(i, range);
        Ok(true)
    }

    /// Makes sure that what the entries name is known.
    #[inline]
    pub(super) fn know_names(&mut self) -> Result<(), Stop> {
        if self.names.are_gathered() { Ok(()) } else { self.gather_names() }
    }

    #[inline(never)]
    fn gather_names(&mut self) -> Result<(), Stop> {
        for i in 0..self.entries.hosts.len() {
            let (host, bias) = (self.entries.hosts[i], self.entries.sizes[i]);
            let (kind, len) = (self.kind(i)?, self.entries.len_of(i));
            if is_nothing(host) {
                self.names.add_nothing(kind);
                continue;
            }
            let memory = self.host;
            let pointed = || {
                let mut value = [0; size_of::<usize>()];
                memory.read(host, &mut value);
                usize::from_ne_bytes(value).wrapping_add(bias)
            };
            self.names.add(kind, host, len, pointed);
        }
        self.names.finish();
        Ok(())
    }

    /// Entry `i` does.
    pub(super) fn take_along(&mut self, i: usize, range: HostRange) -> Result<(), Stop> {
        self.before_reading(range)?;
        self.put_along(i, range);
        Ok(())
    }

    fn put_along(&mut self, i: usize, range: HostRange) {
        let together = &mut self.region.together;
        let align = 1usize << (self.entries.kinds[i] >> 8).min(8);
        let at = together.values.len().next_multiple_of(align.clamp(ALIGN_MIN, ALIGN_MAX));
        together.values.resize(at + range.len, 0);
        self.host.read(range.start, &mut together.values[at..]);
        together.parts.push((Part { at, dst: range }, i));
    }

    /// All entries were looked at: makes room for those that travel together, and says how they come back.
    pub(super) fn send_together(&mut self) -> Result<(), Stop> {
        let (len, count) = (self.region.together.values.len(), self.region.together.parts.len());
        if count == 0 {
            return Ok(());
        }
        let device = self.allocate(len, Purpose::Arguments)?;
        self.region.temporaries.push(device);
        let at = self.plan.bytes.len();
        self.plan.bytes.extend_from_slice(&self.region.together.values);
        self.plan.before.push(Step::Bytes { dst: device, at, len });
        for k in 0..count {
            let (part, entry) = self.region.together.parts[k];
            self.plan.parts.push(part);
            self.slot(entry, device.offset(part.at as u64).0);
        }
        self.plan.brings_back(device, at, count, None);
        Ok(())
    }
}
