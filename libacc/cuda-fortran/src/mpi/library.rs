//! Routines of the MPI library, found at their first call: a program without MPI has none.

use super::layout::{Extents, Piece};
use crate::errors::{SourceLine, end};
use accord_types::settings;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// MPI's code of success.
const SUCCESS: i32 = 0;
/// At least the integers of a status of any MPI.
const STATUS: usize = 64;
/// Bytes of data that MPI unpacks at once: it counts elements and bytes with 32 bits.
const UNPACKED: isize = 1 << 26;
/// `RTLD_DEFAULT` and `RTLD_NEXT`.
const ANY: usize = 0;
const NEXT: usize = usize::MAX;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn find(handle: usize, name: &CStr) -> usize {
    // SAFETY: both handles are the loader's, and the name is terminated.
    unsafe { dlsym(handle as *mut c_void, name.as_ptr()) }.addr()
}

fn known(slot: &AtomicUsize, handle: usize, name: &CStr) -> usize {
    match slot.load(Ordering::Relaxed) {
        0 => {
            let address = find(handle, name);
            if address == 0 {
                end(
                    SourceLine::now(),
                    &format!("no library of the program has {}", name.to_string_lossy()),
                    "link it with the shared libraries of an MPI, as accord cuf does",
                );
            }
            slot.store(address, Ordering::Relaxed);
            address
        }
        address => address,
    }
}

/// Returns the MPI library's routine that the program's own one of this name precedes.
pub(super) fn next(slot: &AtomicUsize, name: &CStr) -> usize {
    known(slot, NEXT, name)
}

/// Calls a routine of the MPI library with these arguments, by reference.
macro_rules! call {
    ($name:literal ($($argument:expr => $kind:ty),*)) => {{
        static SLOT: AtomicUsize = AtomicUsize::new(0);
        // SAFETY: the routine has these arguments in Fortran, and the program calls it after MPI's initialisation.
        unsafe {
            let routine: unsafe extern "C" fn($($kind),*) = std::mem::transmute(known(&SLOT, ANY, $name));
            routine($($argument),*);
        }
    }};
}

/// Returns the extents of a datatype; `None` if MPI does not know it, of which the program's own call tells.
pub(super) fn extents(datatype: i32) -> Option<Extents> {
    let (mut size, mut error, mut errors) = (0, SUCCESS, 0);
    let (mut lower, mut extent, mut true_lower, mut true_extent) = (0_isize, 0_isize, 0_isize, 0_isize);
    call!(c"mpi_type_size_"(&datatype => &i32, &mut size => &mut i32, &mut error => &mut i32));
    errors |= error;
    if errors == SUCCESS {
        call!(c"mpi_type_get_extent_"(&datatype => &i32, &mut lower => &mut isize, &mut extent => &mut isize, &mut error => &mut i32));
        errors |= error;
        call!(c"mpi_type_get_true_extent_"(&datatype => &i32, &mut true_lower => &mut isize, &mut true_extent => &mut isize, &mut error => &mut i32));
        errors |= error;
    }
    // MPI's sizes have 32 bits, and it says so with a negative number.
    if errors == SUCCESS && size < 0 {
        end(
            SourceLine::now(),
            "an element of an MPI datatype for a device array has 2 GiB of data or more",
            "send more and smaller elements",
        );
    }
    (errors == SUCCESS).then_some(Extents { size: size as isize, extent, true_lower, true_extent })
}

/// Returns the ranks of a communicator, and the own rank; `None` for communicators between two groups.
pub(super) fn ranks(communicator: i32) -> Option<(i32, i32)> {
    let (mut ranks, mut rank, mut between, mut error) = (0, 0, 0, SUCCESS);
    call!(c"mpi_comm_test_inter_"(&communicator => &i32, &mut between => &mut i32, &mut error => &mut i32));
    if between != 0 || error != SUCCESS {
        return None;
    }
    call!(c"mpi_comm_size_"(&communicator => &i32, &mut ranks => &mut i32, &mut error => &mut i32));
    call!(c"mpi_comm_rank_"(&communicator => &i32, &mut rank => &mut i32, &mut error => &mut i32));
    Some((ranks, rank))
}

/// Whether a request has completed. It remains the program's.
pub(super) fn is_complete(request: i32) -> bool {
    let (mut complete, mut status, mut error) = (0, [0_i32; STATUS], SUCCESS);
    call!(c"mpi_request_get_status_"(&request => &i32, &mut complete => &mut i32, status.as_mut_ptr() => *mut i32, &mut error => &mut i32));
    error == SUCCESS && complete != 0
}

/// Writes ones to the bytes of a piece; `start` is the address of its element 0.
///
/// # Safety
/// The piece's bytes are valid.
pub(super) unsafe fn mark(start: usize, piece: Piece, communicator: i32) {
    let Piece { block, datatype, extents, .. } = piece;
    for part in extents.parts(block, UNPACKED) {
        let count = part.count as i32;
        let to = start.wrapping_add_signed(part.displacement * extents.extent);
        let (mut bytes, mut position, mut error) = (0, 0, SUCCESS);
        call!(c"mpi_pack_size_"(&count => &i32, &datatype => &i32, &communicator => &i32, &mut bytes => &mut i32, &mut error => &mut i32));
        let packed = vec![u8::MAX; usize::try_from(bytes).unwrap_or(0)];
        if error == SUCCESS && bytes as isize >= part.count * extents.size {
            call!(c"mpi_unpack_"(packed.as_ptr() => *const u8, &bytes => &i32, &mut position => &mut i32, to => usize, &count => &i32,
                &datatype => &i32, &communicator => &i32, &mut error => &mut i32));
            if error == SUCCESS {
                continue;
            }
        }
        end(
            SourceLine::now(),
            "MPI can't unpack the datatype of a device array, which would show the gaps between its elements",
            "receive to a host array, or without gaps",
        );
    }
}

/// Whether the MPI takes memory of GPUs: by the setting, else by its own query, which both Open MPI and MPICH have.
pub(super) fn takes_gpu_memory() -> bool {
    static TAKES: OnceLock<bool> = OnceLock::new();
    *TAKES.get_or_init(|| {
        let (value, _) = settings::MPI_GPUS.in_force(|name| std::env::var(name).ok());
        match value.as_str() {
            "on" => true,
            "off" => false,
            _ => {
                let query = find(ANY, c"MPIX_Query_cuda_support");
                // SAFETY: the function has no arguments and returns an int.
                query != 0 && unsafe { std::mem::transmute::<usize, extern "C" fn() -> i32>(query) }() != 0
            }
        }
    })
}
