//! Routines that use their buffers longer than a call or request, or by rules of their own. MPI gets the device's address, or the program ends.

use super::buffers::Arguments;
use super::library;
use super::routines::routines;
use crate::errors::{SourceLine, end};
use crate::{acc, memory, modules, streams};
use std::ffi::c_void;

/// The reason why no copy in host memory can replace a device array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// Other ranks access the memory.
    Window,
    /// The routine has no staging.
    Buffer,
}

/// A routine whose buffers are not staged: its name, as Fortran's object files have it, and the indices of the arguments with their addresses.
pub(super) struct Unstaged(pub(super) &'static str, pub(super) &'static [usize], pub(super) Use);

impl Unstaged {
    /// Calls `next` with addresses that MPI can use; ends the program if MPI can't use that of a device array.
    ///
    /// # Safety
    /// The arguments are those of such a routine.
    pub(super) unsafe fn call(&self, arguments: Arguments<'_>, next: impl FnOnce(&[*mut c_void])) {
        for at in self.1 {
            let given = arguments[*at].addr();
            let address = memory::device_of(given).map_or_else(|| modules::device_address(given), |_| Some(given));
            let Some(address) = address else { continue };
            let Some(device) = memory::device_of(address) else { continue };
            if !library::takes_gpu_memory() || !acc::on_device(device, acc::has_cuda_context) {
                self.refuse(device);
            }
            streams::finish([Some(device), None]);
            arguments[*at] = address as *mut c_void;
        }
        next(arguments);
    }

    fn refuse(&self, device: i32) -> ! {
        let (cause, remedy) = match self.2 {
            Use::Window => (
                "which this MPI can't open to other ranks",
                "make the window of a host array, as by MPI_Win_allocate, and copy between it and the device array",
            ),
            Use::Buffer => {
                ("which this call can't use as a buffer", "pass a host array, and copy between it and the device array")
            }
        };
        let call = documented_name(self.0);
        end(SourceLine::now(), &format!("{call} with an array of device {device}, {cause}"), remedy)
    }
}

/// Returns a routine's name as MPI's documents have it.
fn documented_name(symbol: &str) -> String {
    let name = symbol.trim_start_matches("mpi_").trim_end_matches('_');
    let (first, rest) = name.split_at(name.len().min(1));
    format!("MPI_{}{rest}", first.to_ascii_uppercase())
}

/// Defines routines with their arguments' names and the indices of the buffers among these.
macro_rules! unstaged {
    ($($name:ident ($($argument:ident)*) $addresses:expr;)*) => {
        routines! { $($name ($($argument)*) Unstaged(stringify!($name), $addresses, Use::Buffer);)* }
    };
}

routines! {
    mpi_win_create_(a b c d e f g) Unstaged("mpi_win_create_", &[0], Use::Window);
    mpi_win_attach_(a b c d) Unstaged("mpi_win_attach_", &[1], Use::Window);
}

// The length of a character is the last argument.
unstaged! {
    mpi_neighbor_allgather_(a b c d e f g h) &[0, 3];
    mpi_ineighbor_allgather_(a b c d e f g h i) &[0, 3];
    mpi_neighbor_allgather_init_(a b c d e f g h i j) &[0, 3];
    mpi_neighbor_allgatherv_(a b c d e f g h i) &[0, 3];
    mpi_ineighbor_allgatherv_(a b c d e f g h i j) &[0, 3];
    mpi_neighbor_allgatherv_init_(a b c d e f g h i j k) &[0, 3];
    mpi_neighbor_alltoall_(a b c d e f g h) &[0, 3];
    mpi_ineighbor_alltoall_(a b c d e f g h i) &[0, 3];
    mpi_neighbor_alltoall_init_(a b c d e f g h i j) &[0, 3];
    mpi_neighbor_alltoallv_(a b c d e f g h i j) &[0, 4];
    mpi_ineighbor_alltoallv_(a b c d e f g h i j k) &[0, 4];
    mpi_neighbor_alltoallv_init_(a b c d e f g h i j k l) &[0, 4];
    mpi_neighbor_alltoallw_(a b c d e f g h i j) &[0, 4];
    mpi_ineighbor_alltoallw_(a b c d e f g h i j k) &[0, 4];
    mpi_neighbor_alltoallw_init_(a b c d e f g h i j k l) &[0, 4];
    mpi_bcast_init_(a b c d e f g h) &[0];
    mpi_reduce_init_(a b c d e f g h i j) &[0, 1];
    mpi_allreduce_init_(a b c d e f g h i) &[0, 1];
    mpi_scan_init_(a b c d e f g h i) &[0, 1];
    mpi_exscan_init_(a b c d e f g h i) &[0, 1];
    mpi_reduce_scatter_init_(a b c d e f g h i) &[0, 1];
    mpi_reduce_scatter_block_init_(a b c d e f g h i) &[0, 1];
    mpi_gather_init_(a b c d e f g h i j k) &[0, 3];
    mpi_gatherv_init_(a b c d e f g h i j k l) &[0, 3];
    mpi_scatter_init_(a b c d e f g h i j k) &[0, 3];
    mpi_scatterv_init_(a b c d e f g h i j k l) &[0, 4];
    mpi_allgather_init_(a b c d e f g h i j) &[0, 3];
    mpi_allgatherv_init_(a b c d e f g h i j k) &[0, 3];
    mpi_alltoall_init_(a b c d e f g h i j) &[0, 3];
    mpi_alltoallv_init_(a b c d e f g h i j k l) &[0, 4];
    mpi_alltoallw_init_(a b c d e f g h i j k l) &[0, 4];
    mpi_psend_init_(a b c d e f g h i j) &[0];
    mpi_precv_init_(a b c d e f g h i j) &[0];
    mpi_buffer_attach_(a b c) &[0];
    mpi_pack_external_(a b c d e f g h i) &[1, 4];
    mpi_unpack_external_(a b c d e f g h i) &[1, 4];
    mpi_file_write_all_begin_(a b c d e) &[1];
    mpi_file_write_ordered_begin_(a b c d e) &[1];
    mpi_file_write_at_all_begin_(a b c d e f) &[2];
    mpi_file_read_all_begin_(a b c d e) &[1];
    mpi_file_read_ordered_begin_(a b c d e) &[1];
    mpi_file_read_at_all_begin_(a b c d e f) &[2];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routines_are_named_as_in_documents() {
        assert_eq!(documented_name("mpi_neighbor_allgather_"), "MPI_Neighbor_allgather");
        assert_eq!(documented_name("mpi_file_read_at_all_begin_"), "MPI_File_read_at_all_begin");
    }
}
