//! Fortran arrays in `firstprivate` clauses. GCC passes the descriptor of an allocatable array or a pointer as it is, without the array.

use super::descriptor::Descriptor;
use super::kind::{Absent, Data};
use super::map::{Mapping, Stop};
use crate::memory::Purpose;
use crate::plan::Step;
use crate::ports::ReadWhen;
use crate::present::Attachment;
use accord_types::HostRange;

impl Mapping<'_, '_> {
    /// Gives the region a descriptor that leads to the array on the device, if the bytes of entry `i` are a descriptor. If the array is present it leads
    /// to that, otherwise to a copy for this launch (firstprivate, OpenACC 3.3, 2.5.14).
    pub(super) fn firstprivate_array(&mut self, i: usize, range: HostRange) -> Result<bool, Stop> {
        if !(Descriptor::MIN..=Descriptor::MAX).contains(&range.len) {
            return Ok(false);
        }
        let mut bytes = [0; Descriptor::MAX];
        let bytes = &mut bytes[..range.len];
        self.host.read(range.start, bytes);
        if Descriptor::len(bytes) != Some(range.len) {
            return Ok(false);
        }
        let Some(array) = Descriptor::decode(bytes).and_then(|descriptor| descriptor.whole()) else { return Ok(false) };
        let base = usize::from_ne_bytes(std::array::from_fn(|k| bytes[k]));
        if self.state.memory.block_of(base as u64).is_some() {
            return Ok(false);
        }
        let device = match self.find(array)? {
            Some(id) => {
                self.hold(id, array, Data { copy_in: false, copy_out: false, always: false, absent: Absent::Skip });
                self.translate(id, array.start)
            }
            None => {
                self.check_program_memory(array)?;
                self.before_reading(array)?;
                let device = self.allocate(array.len, Purpose::Arguments)?;
                self.region.temporaries.push(device);
                self.plan.before.push(Step::In { dst: device, src: array, when: ReadWhen::BeforeReturn });
                device
            }
        };
        let value = device.0.wrapping_add(base.wrapping_sub(array.start) as u64);
        bytes[..Attachment::BYTES].copy_from_slice(&value.to_ne_bytes());
        self.pass(i, bytes)?;
        Ok(true)
    }
}
