//! Pointers and descriptors that a launch contains, and pointers to those.
//!
//! A Fortran dummy argument that is allocatable or a pointer is passed as the address of the caller's descriptor (or pointer, of a
//! scalar). GCC maps the array, the descriptor, and the dummy's own pointer to the descriptor. The latter two exist for one
//! launch only, in its argument block, where the pointer is relative.

use super::block::{ArgLocation, Private};
use super::map::{Mapping, Mode, Stop};
use crate::memory::Purpose;
use crate::plan::Step;
use crate::present::Attachment;

/// The required value of a construct's pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A device address, or null.
    Device(u64),
    /// An offset in the launch's block.
    Block(usize),
}

impl Mapping<'_, '_> {
    /// The pointer of entry `i`, for this launch only.
    pub(super) fn private_pointer(&mut self, i: usize, host: usize, target: Target) -> Result<(), Stop> {
        let len = Attachment::BYTES;
        if let Some(at) = self.block.reserve(len) {
            match target {
                Target::Device(value) => self.block.private(at, len).copy_from_slice(&value.to_ne_bytes()),
                Target::Block(inside) => self.block.point(at, inside),
            }
            self.block.set_private(i, at);
            self.block.privates.push(Private { host, len, place: ArgLocation::Block(at) });
            return Ok(());
        }
        let value = self.absolute(target)?;
        let device = self.allocate(len, Purpose::Arguments)?;
        self.region.temporaries.push(device);
        self.plan.pointer(device, value);
        self.slot(i, device.0);
        self.block.privates.push(Private { host, len, place: ArgLocation::Device(device) });
        Ok(())
    }

    /// Creates a descriptor for this launch only, from the bytes at `at` of the plan, which are the plan's last. `entries` are it
    /// and the pointers in it.
    pub(super) fn private_descriptor(
        &mut self,
        entries: std::ops::Range<usize>,
        (host, len): (usize, usize),
        at: usize,
    ) -> Result<(), Stop> {
        let place = if let Some(inside) = self.block.reserve(len) {
            self.block.private(inside, len).copy_from_slice(&self.plan.bytes[at..at + len]);
            self.plan.bytes.truncate(at);
            for j in entries {
                self.block.set_private(j, inside + (self.entries.hosts[j] - host));
            }
            ArgLocation::Block(inside)
        } else {
            let dst = self.allocate(len, Purpose::Arguments)?;
            self.region.temporaries.push(dst);
            self.plan.before.push(Step::Bytes { dst, at, len });
            for j in entries {
                self.slot(j, dst.offset((self.entries.hosts[j] - host) as u64).0);
            }
            ArgLocation::Device(dst)
        };
        self.block.privates.push(Private { host, len, place });
        Ok(())
    }

    /// Returns the place where this launch has a pointer variable or a descriptor of the program.
    pub(super) fn private_target(&self, address: u64) -> Option<Target> {
        if self.mode != Mode::Launch {
            return None;
        }
        let address = address as usize;
        let within = |p: &&Private| (p.host..p.host + p.len).contains(&address);
        let private = self.block.privates.iter().find(within)?;
        let offset = address - private.host;
        Some(match private.place {
            ArgLocation::Block(at) => Target::Block(at + offset),
            ArgLocation::Device(device) => Target::Device(device.offset(offset as u64).0),
        })
    }

    /// Returns a device address for a target: what is in the block gets a copy in device memory, for use from outside the block.
    pub(super) fn absolute(&mut self, target: Target) -> Result<u64, Stop> {
        let inside = match target {
            Target::Device(value) => return Ok(value),
            Target::Block(inside) => inside,
        };
        let holds = |p: &Private| match p.place {
            ArgLocation::Block(at) => (at..at + p.len).contains(&inside).then_some((at, p.len)),
            ArgLocation::Device(_) => None,
        };
        let Some((at, len)) = self.block.privates.iter().find_map(holds) else { return Ok(0) };
        let mut bytes = self.block.private(at, len).to_vec();
        for pointer in self.block.pointers(at, len) {
            let word = &mut bytes[pointer - at..][..Attachment::BYTES];
            let inner = u64::from_ne_bytes(std::array::from_fn(|k| word[k]));
            // What is pointed at came first, so this ends.
            let value = self.absolute(Target::Block(inner as usize))?;
            word.copy_from_slice(&value.to_ne_bytes());
        }
        let device = self.allocate(len, Purpose::Arguments)?;
        self.region.temporaries.push(device);
        self.plan.bytes(device, &bytes);
        Ok(device.offset((inside - at) as u64).0)
    }
}
