//! Small variables that a synchronous compute construct copies both ways travel together: in one block to the device, and after
//! the region in one block back, of which the program's memory gets what has changed.
//!
//! GCC maps every scalar of a `kernels` construct so. One by one their copies would cost many times what the region does.

use super::map::{Mapping, Mode, PRIVATE_MAX, Stop};
use crate::memory::Purpose;
use crate::plan::{STORE_MAX, Step};
use crate::ports::Part;
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

    /// Entry `i` does.
    pub(super) fn take_along(&mut self, i: usize, range: HostRange) -> Result<(), Stop> {
        self.before_reading(range)?;
        let together = &mut self.region.together;
        let align = 1usize << (self.entries.kinds[i] >> 8).min(8);
        let at = together.values.len().next_multiple_of(align.clamp(ALIGN_MIN, ALIGN_MAX));
        together.values.resize(at + range.len, 0);
        self.host.read(range.start, &mut together.values[at..]);
        together.parts.push((Part { at, dst: range }, i));
        Ok(())
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
