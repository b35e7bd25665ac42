//! `declare` variables that are pointers (OpenACC 3.3, 2.7.2, attach action).
//!
//! Regions and routines read such a variable on the device. So GCC has no entry for it if a clause names its target
//! (`enter data copyin(p[0:n])`), nor for an allocatable Fortran scalar. It is found by its value in the program.

use super::map::{Mapping, Stop};
use crate::ports::HostMemory;
use accord_types::HostRange;

impl Mapping<'_, '_> {
    /// [`point_into`] a range.
    #[inline]
    pub(super) fn is_declared_target(&self, range: HostRange) -> bool {
        point_into(self.host, &self.state.pointers, range)
    }

    /// Attaches `declare` variables on the device that point into data which a construct has found or made present.
    pub(super) fn attach_declared(&mut self, target: HostRange) -> Result<(), Stop> {
        self.attach_each(|_, value| has(target, value))
    }

    /// Does the same for those whose bytes were just copied from the program.
    pub(super) fn reattach_declared(&mut self, copied: HostRange) -> Result<(), Stop> {
        self.attach_each(|at, _| has(copied, at))
    }

    fn attach_each(&mut self, wanted: impl Fn(usize, usize) -> bool) -> Result<(), Stop> {
        for k in 0..self.state.pointers.len() {
            let at = self.state.pointers[k];
            let value = self.read_pointer(at) as usize;
            if value == 0 || !wanted(at, value) {
                continue;
            }
            if let (Some(target), Some(id)) = (self.state.table.find_pointer(value), self.holder_of(at)?) {
                let target = self.ready(target)?;
                self.set_pointer(id, at, self.translate(target, value).0, false, true);
            }
        }
        Ok(())
    }
}

/// Whether one of these variables points into a range.
#[inline]
pub(super) fn point_into(host: &dyn HostMemory, variables: &[usize], range: HostRange) -> bool {
    variables.iter().any(|at| {
        let mut value = [0; size_of::<usize>()];
        host.read(*at, &mut value);
        has(range, usize::from_ne_bytes(value))
    })
}

fn has(range: HostRange, address: usize) -> bool {
    address.checked_sub(range.start).is_some_and(|offset| offset < range.len)
}
