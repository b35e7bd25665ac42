//! Copies of device memory in host memory for MPI.

use super::layout::{Block, ByteRange, Extents, Piece};
use super::library;
use crate::errors::{SourceLine, end};
use crate::transfer::{self, Mode};
use crate::{acc, memory, modules};
use std::ffi::c_void;

/// The arguments of a routine, which Fortran passes by reference.
pub(super) type Arguments<'a> = &'a mut [*mut c_void];

/// Whether MPI reads a buffer or writes to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Reads,
    /// Perhaps not to all of it; with `MPI_IN_PLACE` it reads it, too.
    Writes,
}

/// The arguments that hold the numbers of elements in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counts {
    One(usize),
    /// As many for each rank.
    EachRank(usize),
    /// A list with a number for each rank, and a list of displacements.
    Lists(usize, usize),
    /// A number, a displacement in bytes and a datatype for each rank, in a list each.
    TypedLists(usize, usize, usize),
    /// A list with a number for each rank, all of which are there.
    Sum(usize),
    /// The own number of such a list, of which the call writes no more; with `MPI_IN_PLACE` all are there.
    OwnOf(usize),
    /// One number, of which the call writes no more; with `MPI_IN_PLACE` there are as many for each rank.
    OwnOfEach(usize),
    /// A number of bytes.
    Bytes(usize),
    /// One element.
    Element,
}

/// A buffer argument of a routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Buffer {
    pub(super) access: Access,
    /// Indices of the arguments.
    pub(super) address: usize,
    pub(super) counts: Counts,
    pub(super) datatype: usize,
    /// Whether only the root's counts.
    pub(super) is_of_root: bool,
}

/// Indices of arguments that describe the participants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    /// `None` for routines of windows and files.
    pub(super) communicator: Option<usize>,
    pub(super) root: Option<usize>,
}

/// A part of device memory and its copy in host memory, which is empty if MPI gets the device's address.
pub(super) struct StagedBuffer {
    device: usize,
    host: Vec<u8>,
    /// Nonzero for the bytes that MPI may write; `None` for all of them.
    mask: Option<Vec<u8>>,
    access: Access,
    /// The offset of the program's address in the copy.
    offset: isize,
}

/// Returns an integer argument.
///
/// # Safety
/// The argument is an integer.
unsafe fn integer(arguments: &[*mut c_void], at: usize) -> i32 {
    // SAFETY: the caller's promise; Fortran passes its address.
    unsafe { arguments[at].cast::<i32>().read() }
}

/// Returns an argument that is a list of integers.
///
/// # Safety
/// The argument is a list of at least `count` integers.
unsafe fn list(arguments: &[*mut c_void], at: usize, count: i32) -> &[i32] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(arguments[at].cast(), usize::try_from(count).unwrap_or(0)) }
}

impl Buffer {
    /// Replaces a device address among the arguments by one that MPI can use. Returns the buffer if it is in device memory.
    ///
    /// # Safety
    /// The arguments are those of a routine with this buffer.
    pub(super) unsafe fn stage(self, group: Group, arguments: Arguments<'_>) -> Option<StagedBuffer> {
        let given = arguments[self.address].addr();
        let device_address = match memory::device_of(given) {
            Some(_) => given,
            None => modules::device_address(given)?,
        };
        let device = memory::device_of(device_address)?;
        if library::takes_gpu_memory() && acc::on_device(device, acc::has_cuda_context) {
            arguments[self.address] = device_address as *mut c_void;
            // SAFETY: the caller's promise.
            unsafe { self.displace(group, arguments) };
            return Some(StagedBuffer::direct(device_address));
        }
        // SAFETY: the caller's promise.
        let communicator = group.communicator.map(|at| unsafe { integer(arguments, at) });
        let (ranks, rank) = match communicator {
            Some(communicator) if self.counts.is_of_ranks() || group.root.is_some() => library::ranks(communicator)
                .unwrap_or_else(|| {
                    end(
                        SourceLine::now(),
                        "a device array is the buffer of a collective call between two groups",
                        "pass a host array",
                    )
                }),
            _ => (1, 0),
        };
        // SAFETY: the caller's promise.
        let root = group.root.map(|at| unsafe { integer(arguments, at) });
        if self.is_of_root && root != Some(rank) {
            return None;
        }
        // SAFETY: the caller's promise.
        let (pieces, written) = unsafe { (self.pieces(arguments, ranks)?, self.written(arguments, rank)) };
        let mut range = Piece::range(&pieces)?;
        if written.is_some()
            && let Some(allocation) = memory::find(device_address)
        {
            // Without MPI_IN_PLACE there may be no more than what is written.
            let left = allocation.bytes - (device_address - allocation.start);
            range.high = range.high.min(isize::try_from(left).unwrap_or(isize::MAX));
        }
        let has_gaps = written.is_some() || pieces.len() > 1 || pieces.iter().any(|piece| !piece.extents.is_dense());
        let marked = match written {
            Some(count) => vec![Piece { block: Block { displacement: 0, count }, ..pieces[0] }],
            None => pieces,
        };
        let staged =
            StagedBuffer::new(device_address, range, self.access, || has_gaps.then_some((&*marked, communicator)));
        arguments[self.address] = staged.address() as *mut c_void;
        // SAFETY: the caller's promise.
        unsafe { self.displace(group, arguments) };
        Some(staged)
    }

    /// Gives MPI the address of an only rank's elements, in place of their displacement: Open MPI 4 multiplies it by the datatype's extent, and so
    /// writes outside of the buffer.
    ///
    /// # Safety
    /// As for [`Buffer::stage`].
    unsafe fn displace(self, group: Group, arguments: Arguments<'_>) {
        static NONE: i32 = 0;
        let (Counts::TypedLists(_, displacements, _), Some(communicator)) = (self.counts, group.communicator) else {
            return;
        };
        // SAFETY: the caller's promise.
        let (communicator, first) = unsafe { (integer(arguments, communicator), integer(arguments, displacements)) };
        if library::ranks(communicator).is_some_and(|(ranks, _)| ranks == 1) {
            arguments[self.address] = arguments[self.address].wrapping_byte_offset(first as isize);
            arguments[displacements] = (&raw const NONE).cast_mut().cast();
        }
    }

    /// Returns the elements of the buffer; `None` if MPI does not know their datatype.
    ///
    /// # Safety
    /// As for [`Buffer::stage`].
    unsafe fn pieces(self, arguments: &[*mut c_void], ranks: i32) -> Option<Vec<Piece>> {
        let block =
            |displacement: i32, count: i32| Block { displacement: displacement as isize, count: count as isize };
        // SAFETY: the caller's promise.
        let (number, all) = unsafe { (|at| integer(arguments, at), |at| list(arguments, at, ranks)) };
        let blocks = match self.counts {
            Counts::One(at) => vec![block(0, number(at))],
            Counts::Element => vec![block(0, 1)],
            Counts::EachRank(at) | Counts::OwnOfEach(at) => {
                vec![Block { displacement: 0, count: number(at) as isize * ranks as isize }]
            }
            Counts::Sum(at) | Counts::OwnOf(at) => {
                vec![Block { displacement: 0, count: all(at).iter().map(|count| *count as isize).sum() }]
            }
            Counts::Lists(counts, displacements) => {
                all(displacements).iter().zip(all(counts)).map(|(from, count)| block(*from, *count)).collect()
            }
            Counts::Bytes(at) => {
                let block = block(0, number(at));
                return Some(vec![Piece { offset: 0, block, datatype: 0, extents: Extents::BYTE }]);
            }
            Counts::TypedLists(counts, offsets, datatypes) => {
                let each = all(counts).iter().zip(all(offsets)).zip(all(datatypes));
                let pieces = each.filter(|((count, _), _)| **count > 0).map(|((count, offset), datatype)| {
                    let extents = library::extents(*datatype)?;
                    Some(Piece { offset: *offset as isize, block: block(0, *count), datatype: *datatype, extents })
                });
                return pieces.collect();
            }
        };
        let datatype = number(self.datatype);
        let extents = library::extents(datatype)?;
        Some(blocks.into_iter().map(|block| Piece { offset: 0, block, datatype, extents }).collect())
    }

    /// Returns the number of elements that the call writes, if there may be more in the buffer.
    ///
    /// # Safety
    /// As for [`Buffer::stage`].
    unsafe fn written(self, arguments: &[*mut c_void], rank: i32) -> Option<isize> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.counts {
                Counts::OwnOf(at) => list(arguments, at, rank + 1).last().map(|count| *count as isize),
                Counts::OwnOfEach(at) => Some(integer(arguments, at) as isize),
                _ => None,
            }
        }
    }
}

impl Counts {
    /// Whether the number of elements depends on that of ranks.
    fn is_of_ranks(self) -> bool {
        !matches!(self, Self::One(_) | Self::Bytes(_) | Self::Element)
    }
}

impl StagedBuffer {
    /// Returns a buffer whose address MPI gets. MPI's own copies are not ordered with those of the device's queues, which have to finish before.
    fn direct(device: usize) -> Self {
        let mut buffer = Self { device, host: Vec::new(), mask: None, access: Access::Reads, offset: 0 };
        buffer.refresh();
        buffer
    }

    /// Whether MPI uses a copy.
    pub(super) fn is_copied(&self) -> bool {
        !self.host.is_empty()
    }

    /// Copies a range of device memory. `gaps` returns how to find the bytes with data if there may be others.
    fn new<'a>(
        address: usize,
        range: ByteRange,
        access: Access,
        gaps: impl FnOnce() -> Option<(&'a [Piece], Option<i32>)>,
    ) -> Self {
        let bytes = usize::try_from(range.high - range.low).unwrap_or(0);
        let device = address.wrapping_add_signed(range.low);
        let mut staged = Self { device, host: zeroed(bytes), mask: None, access, offset: -range.low };
        // What MPI leaves unwritten keeps its value.
        staged.refresh();
        if access == Access::Writes
            && let Some((pieces, communicator)) = gaps()
        {
            let Some(communicator) = communicator else {
                end(
                    SourceLine::now(),
                    "a device array with gaps between its elements receives from a window or a file",
                    "receive to a host array, or without gaps",
                )
            };
            let mut mask = zeroed(bytes);
            let start = mask.as_mut_ptr().expose_provenance().wrapping_add_signed(staged.offset);
            for piece in pieces.iter().filter(|piece| piece.block.count > 0) {
                // SAFETY: the range contains all pieces.
                unsafe { library::mark(start.wrapping_add_signed(piece.offset), *piece, communicator) };
            }
            staged.mask = Some(mask);
        }
        staged
    }

    /// Returns the address for MPI.
    fn address(&self) -> usize {
        self.host.as_ptr().expose_provenance().wrapping_add_signed(self.offset)
    }

    /// Leaves the copy to MPI, which may use it for any time.
    pub(super) fn leave(self) {
        self.host.leak();
    }

    /// Copies the device's memory again, after all work of the device.
    pub(super) fn refresh(&mut self) {
        let to = self.host.as_mut_ptr().expose_provenance();
        transfer::bytes(to, self.device, self.host.len(), Mode::DeviceToHost);
    }

    /// Copies to the device what MPI has written.
    pub(super) fn complete(&mut self) {
        if self.access == Access::Reads {
            return;
        }
        let mut current;
        let mut from = &self.host;
        if let Some(mask) = &self.mask {
            // Other receives may have written between the elements.
            current = zeroed(self.host.len());
            transfer::bytes(current.as_mut_ptr().expose_provenance(), self.device, current.len(), Mode::DeviceToHost);
            for ((byte, written), is_data) in current.iter_mut().zip(&self.host).zip(mask) {
                if *is_data != 0 {
                    *byte = *written;
                }
            }
            from = &current;
        }
        transfer::bytes(self.device, from.as_ptr().expose_provenance(), from.len(), Mode::HostToDevice);
    }
}

/// Returns host memory for a copy.
fn zeroed(bytes: usize) -> Vec<u8> {
    let mut memory = Vec::new();
    if memory.try_reserve_exact(bytes).is_err() {
        end(
            SourceLine::now(),
            &format!("no {bytes} bytes of host memory for the copy of a device array that MPI gets"),
            "send it in parts",
        );
    }
    memory.resize(bytes, 0);
    memory
}
