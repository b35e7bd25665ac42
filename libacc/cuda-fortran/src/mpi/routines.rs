//! MPI's routines with staged buffers, and those that complete requests. Routines without buffers get the program's arguments unseen.

use super::buffers::{Access, Arguments, Buffer, Counts, Group, StagedBuffer};
use super::requests::{self, Handles, RequestRoutine};
use super::windows::{self, WindowRoutine};
use std::ffi::c_void;

/// The buffers of a routine, by the indices of its arguments. The last argument is the error code.
struct Exchange {
    buffers: &'static [Buffer],
    group: Group,
    end: End,
}

/// The end of the use of buffers; with the index of the argument that is the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// With the call.
    Call,
    Request(usize),
    PersistentRequest(usize),
    /// With a call that completes the window's accesses to a rank; the indices of the rank and the window.
    Window(usize, usize),
}

impl Exchange {
    const fn new(communicator: usize, buffers: &'static [Buffer]) -> Self {
        Self { buffers, group: Group { communicator: Some(communicator), root: None }, end: End::Call }
    }

    /// Returns one of a routine without a communicator.
    const fn alone(buffers: &'static [Buffer]) -> Self {
        Self { buffers, group: Group { communicator: None, root: None }, end: End::Call }
    }

    const fn with_root(mut self, root: usize) -> Self {
        self.group.root = Some(root);
        self
    }

    const fn until(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// Calls `next` with addresses that MPI can use.
    ///
    /// # Safety
    /// The arguments are those of such a routine.
    unsafe fn call(&self, arguments: Arguments<'_>, next: impl FnOnce(&[*mut c_void])) {
        let mut buffers: Vec<StagedBuffer> = Vec::new();
        for buffer in self.buffers {
            // SAFETY: the caller's promise.
            buffers.extend(unsafe { buffer.stage(self.group, arguments) });
        }
        next(arguments);
        // SAFETY: the caller's promise.
        let integer = |at: usize| unsafe { arguments[at].cast::<i32>().read() };
        let is_good = integer(arguments.len() - 1) == 0;
        if !matches!(self.end, PersistentRequest(_)) {
            buffers.retain(StagedBuffer::is_copied);
        }
        if let Request(request) | PersistentRequest(request) = self.end
            && is_good
        {
            requests::forget(integer(request));
        }
        match self.end {
            _ if buffers.is_empty() => {}
            Request(request) if is_good => requests::keep(integer(request), buffers),
            PersistentRequest(request) if is_good => requests::keep_persistent(integer(request), buffers),
            Window(rank, window) if is_good => windows::keep(integer(window), integer(rank), buffers),
            _ => buffers.iter_mut().for_each(StagedBuffer::complete),
        }
    }
}

const fn reads(address: usize, counts: Counts, datatype: usize) -> Buffer {
    Buffer { access: Access::Reads, address, counts, datatype, is_of_root: false }
}

const fn writes(address: usize, counts: Counts, datatype: usize) -> Buffer {
    Buffer { access: Access::Writes, address, counts, datatype, is_of_root: false }
}

const fn of_root(buffer: Buffer) -> Buffer {
    Buffer { is_of_root: true, ..buffer }
}

/// Defines routines with their arguments' names and what `call` does for them.
macro_rules! routines {
    ($($name:ident ($($argument:ident)*) $what:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: *mut c_void),*) {
            static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let name = const {
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                }
            };
            let next = |arguments: &[*mut c_void]| {
                let [$($argument),*] = *arguments else { return };
                // SAFETY: the MPI library's routine of this name has as many arguments, each by reference.
                unsafe {
                    let next: unsafe extern "C" fn($($argument: *mut c_void),*) =
                        std::mem::transmute($crate::mpi::library::next(&NEXT, name));
                    next($($argument),*);
                }
            };
            // SAFETY: the program calls the routine with its arguments.
            unsafe { $what.call(&mut [$($argument),*], next) };
        }
    )*};
}
pub(super) use routines;

use Counts::{Bytes, EachRank, Element, Lists, One, OwnOf, OwnOfEach, Sum, TypedLists};
use End::{PersistentRequest, Request, Window};
use RequestRoutine::{Completes, Frees, Starts};
use WindowRoutine::{CompletesAll, CompletesRank};

/// A message's buffer.
const SENT: &[Buffer] = &[reads(0, One(1), 2)];
const RECEIVED: &[Buffer] = &[writes(0, One(1), 2)];
const EXCHANGED: &[Buffer] = &[reads(0, One(1), 2), writes(5, One(6), 7)];
/// Buffers of a reduction.
const REDUCED: &[Buffer] = &[reads(0, One(2), 3), writes(1, One(2), 3)];
const REDUCED_AT_ROOT: &[Buffer] = &[reads(0, One(2), 3), of_root(writes(1, One(2), 3))];
/// Buffers of the other collective routines.
const GATHERED: &[Buffer] = &[reads(0, One(1), 2), of_root(writes(3, EachRank(4), 5))];
const GATHERED_LISTS: &[Buffer] = &[reads(0, One(1), 2), of_root(writes(3, Lists(4, 5), 6))];
const SCATTERED: &[Buffer] = &[of_root(reads(0, EachRank(1), 2)), writes(3, One(4), 5)];
const SCATTERED_LISTS: &[Buffer] = &[of_root(reads(0, Lists(1, 2), 3)), writes(4, One(5), 6)];
const GATHERED_BY_ALL: &[Buffer] = &[reads(0, One(1), 2), writes(3, EachRank(4), 5)];
const GATHERED_BY_ALL_LISTS: &[Buffer] = &[reads(0, One(1), 2), writes(3, Lists(4, 5), 6)];
const ALL_TO_ALL: &[Buffer] = &[reads(0, EachRank(1), 2), writes(3, EachRank(4), 5)];
const ALL_TO_ALL_LISTS: &[Buffer] = &[reads(0, Lists(1, 2), 3), writes(4, Lists(5, 6), 7)];
const ALL_TO_ALL_TYPED: &[Buffer] = &[reads(0, TypedLists(1, 2, 3), 3), writes(4, TypedLists(5, 6, 7), 7)];
const REDUCED_LISTS: &[Buffer] = &[reads(0, Sum(2), 3), writes(1, OwnOf(2), 3)];
const REDUCED_BLOCKS: &[Buffer] = &[reads(0, EachRank(2), 3), writes(1, OwnOfEach(2), 3)];
/// Buffers of packed data, which have no datatype of their own.
const PACKED: &[Buffer] = &[reads(0, One(1), 2), writes(3, Bytes(4), 2)];
const UNPACKED: &[Buffer] = &[reads(0, Bytes(1), 5), writes(3, One(4), 5)];
/// The program's own buffers of one-sided calls.
const FETCHED: &[Buffer] = &[reads(0, One(1), 2), writes(3, One(4), 5)];
const FETCHED_ELEMENT: &[Buffer] = &[reads(0, Element, 2), writes(1, Element, 2)];
const SWAPPED_ELEMENT: &[Buffer] = &[reads(0, Element, 3), reads(1, Element, 3), writes(2, Element, 3)];
/// Buffers of files, without and with an offset.
const WRITTEN: &[Buffer] = &[reads(1, One(2), 3)];
const READ: &[Buffer] = &[writes(1, One(2), 3)];
const WRITTEN_AT: &[Buffer] = &[reads(2, One(3), 4)];
const READ_AT: &[Buffer] = &[writes(2, One(3), 4)];

routines! {
    mpi_send_(a b c d e f g) Exchange::new(5, SENT);
    mpi_ssend_(a b c d e f g) Exchange::new(5, SENT);
    mpi_bsend_(a b c d e f g) Exchange::new(5, SENT);
    mpi_rsend_(a b c d e f g) Exchange::new(5, SENT);
    mpi_recv_(a b c d e f g h) Exchange::new(5, RECEIVED);
    mpi_mrecv_(a b c d e f) Exchange::alone(RECEIVED);
    mpi_imrecv_(a b c d e f) Exchange::alone(RECEIVED).until(Request(4));
    mpi_sendrecv_(a b c d e f g h i j k l m) Exchange::new(10, EXCHANGED);
    mpi_sendrecv_replace_(a b c d e f g h i j) Exchange::new(7, RECEIVED);
    mpi_isend_(a b c d e f g h) Exchange::new(5, SENT).until(Request(6));
    mpi_issend_(a b c d e f g h) Exchange::new(5, SENT).until(Request(6));
    mpi_ibsend_(a b c d e f g h) Exchange::new(5, SENT).until(Request(6));
    mpi_irsend_(a b c d e f g h) Exchange::new(5, SENT).until(Request(6));
    mpi_irecv_(a b c d e f g h) Exchange::new(5, RECEIVED).until(Request(6));
    mpi_isendrecv_(a b c d e f g h i j k l m) Exchange::new(10, EXCHANGED).until(Request(11));
    mpi_isendrecv_replace_(a b c d e f g h i j) Exchange::new(7, RECEIVED).until(Request(8));
    mpi_send_init_(a b c d e f g h) Exchange::new(5, SENT).until(PersistentRequest(6));
    mpi_ssend_init_(a b c d e f g h) Exchange::new(5, SENT).until(PersistentRequest(6));
    mpi_bsend_init_(a b c d e f g h) Exchange::new(5, SENT).until(PersistentRequest(6));
    mpi_rsend_init_(a b c d e f g h) Exchange::new(5, SENT).until(PersistentRequest(6));
    mpi_recv_init_(a b c d e f g h) Exchange::new(5, RECEIVED).until(PersistentRequest(6));

    mpi_bcast_(a b c d e f) Exchange::new(4, RECEIVED);
    mpi_reduce_(a b c d e f g h) Exchange::new(6, REDUCED_AT_ROOT).with_root(5);
    mpi_allreduce_(a b c d e f g) Exchange::new(5, REDUCED);
    mpi_scan_(a b c d e f g) Exchange::new(5, REDUCED);
    mpi_exscan_(a b c d e f g) Exchange::new(5, REDUCED);
    mpi_gather_(a b c d e f g h i) Exchange::new(7, GATHERED).with_root(6);
    mpi_gatherv_(a b c d e f g h i j) Exchange::new(8, GATHERED_LISTS).with_root(7);
    mpi_scatter_(a b c d e f g h i) Exchange::new(7, SCATTERED).with_root(6);
    mpi_scatterv_(a b c d e f g h i j) Exchange::new(8, SCATTERED_LISTS).with_root(7);
    mpi_allgather_(a b c d e f g h) Exchange::new(6, GATHERED_BY_ALL);
    mpi_allgatherv_(a b c d e f g h i) Exchange::new(7, GATHERED_BY_ALL_LISTS);
    mpi_alltoall_(a b c d e f g h) Exchange::new(6, ALL_TO_ALL);
    mpi_alltoallv_(a b c d e f g h i j) Exchange::new(8, ALL_TO_ALL_LISTS);
    mpi_ibcast_(a b c d e f g) Exchange::new(4, RECEIVED).until(Request(5));
    mpi_ireduce_(a b c d e f g h i) Exchange::new(6, REDUCED_AT_ROOT).with_root(5).until(Request(7));
    mpi_iallreduce_(a b c d e f g h) Exchange::new(5, REDUCED).until(Request(6));
    mpi_iscan_(a b c d e f g h) Exchange::new(5, REDUCED).until(Request(6));
    mpi_iexscan_(a b c d e f g h) Exchange::new(5, REDUCED).until(Request(6));
    mpi_igather_(a b c d e f g h i j) Exchange::new(7, GATHERED).with_root(6).until(Request(8));
    mpi_igatherv_(a b c d e f g h i j k) Exchange::new(8, GATHERED_LISTS).with_root(7).until(Request(9));
    mpi_iscatter_(a b c d e f g h i j) Exchange::new(7, SCATTERED).with_root(6).until(Request(8));
    mpi_iscatterv_(a b c d e f g h i j k) Exchange::new(8, SCATTERED_LISTS).with_root(7).until(Request(9));
    mpi_iallgather_(a b c d e f g h i) Exchange::new(6, GATHERED_BY_ALL).until(Request(7));
    mpi_iallgatherv_(a b c d e f g h i j) Exchange::new(7, GATHERED_BY_ALL_LISTS).until(Request(8));
    mpi_ialltoall_(a b c d e f g h i) Exchange::new(6, ALL_TO_ALL).until(Request(7));
    mpi_ialltoallv_(a b c d e f g h i j k) Exchange::new(8, ALL_TO_ALL_LISTS).until(Request(9));

    mpi_alltoallw_(a b c d e f g h i j) Exchange::new(8, ALL_TO_ALL_TYPED);
    mpi_ialltoallw_(a b c d e f g h i j k) Exchange::new(8, ALL_TO_ALL_TYPED).until(Request(9));
    mpi_reduce_scatter_(a b c d e f g) Exchange::new(5, REDUCED_LISTS);
    mpi_ireduce_scatter_(a b c d e f g h) Exchange::new(5, REDUCED_LISTS).until(Request(6));
    mpi_reduce_scatter_block_(a b c d e f g) Exchange::new(5, REDUCED_BLOCKS);
    mpi_ireduce_scatter_block_(a b c d e f g h) Exchange::new(5, REDUCED_BLOCKS).until(Request(6));
    mpi_reduce_local_(a b c d e f) Exchange::alone(REDUCED);
    mpi_pack_(a b c d e f g h) Exchange::new(6, PACKED);
    mpi_unpack_(a b c d e f g h) Exchange::new(6, UNPACKED);

    mpi_put_(a b c d e f g h i) Exchange::alone(SENT).until(Window(3, 7));
    mpi_get_(a b c d e f g h i) Exchange::alone(RECEIVED).until(Window(3, 7));
    mpi_accumulate_(a b c d e f g h i j) Exchange::alone(SENT).until(Window(3, 8));
    mpi_get_accumulate_(a b c d e f g h i j k l m) Exchange::alone(FETCHED).until(Window(6, 11));
    mpi_fetch_and_op_(a b c d e f g h) Exchange::alone(FETCHED_ELEMENT).until(Window(3, 6));
    mpi_compare_and_swap_(a b c d e f g h) Exchange::alone(SWAPPED_ELEMENT).until(Window(4, 6));
    mpi_rput_(a b c d e f g h i j) Exchange::alone(SENT).until(Request(8));
    mpi_rget_(a b c d e f g h i j) Exchange::alone(RECEIVED).until(Request(8));
    mpi_rget_accumulate_(a b c d e f g h i j k l m n) Exchange::alone(FETCHED).until(Request(12));
    mpi_raccumulate_(a b c d e f g h i j k) Exchange::alone(SENT).until(Request(9));
    mpi_win_fence_(a b c) CompletesAll(1);
    mpi_win_complete_(a b) CompletesAll(0);
    mpi_win_unlock_(a b c) CompletesRank(0, 1);
    mpi_win_unlock_all_(a b) CompletesAll(0);
    mpi_win_flush_(a b c) CompletesRank(0, 1);
    mpi_win_flush_all_(a b) CompletesAll(0);
    mpi_win_flush_local_(a b c) CompletesRank(0, 1);
    mpi_win_flush_local_all_(a b) CompletesAll(0);
    mpi_win_free_(a b) CompletesAll(0);

    mpi_file_write_(a b c d e f) Exchange::alone(WRITTEN);
    mpi_file_write_all_(a b c d e f) Exchange::alone(WRITTEN);
    mpi_file_write_shared_(a b c d e f) Exchange::alone(WRITTEN);
    mpi_file_write_ordered_(a b c d e f) Exchange::alone(WRITTEN);
    mpi_file_write_at_(a b c d e f g) Exchange::alone(WRITTEN_AT);
    mpi_file_write_at_all_(a b c d e f g) Exchange::alone(WRITTEN_AT);
    mpi_file_read_(a b c d e f) Exchange::alone(READ);
    mpi_file_read_all_(a b c d e f) Exchange::alone(READ);
    mpi_file_read_shared_(a b c d e f) Exchange::alone(READ);
    mpi_file_read_ordered_(a b c d e f) Exchange::alone(READ);
    mpi_file_read_at_(a b c d e f g) Exchange::alone(READ_AT);
    mpi_file_read_at_all_(a b c d e f g) Exchange::alone(READ_AT);
    mpi_file_iwrite_(a b c d e f) Exchange::alone(WRITTEN).until(Request(4));
    mpi_file_iwrite_all_(a b c d e f) Exchange::alone(WRITTEN).until(Request(4));
    mpi_file_iwrite_shared_(a b c d e f) Exchange::alone(WRITTEN).until(Request(4));
    mpi_file_iwrite_at_(a b c d e f g) Exchange::alone(WRITTEN_AT).until(Request(5));
    mpi_file_iwrite_at_all_(a b c d e f g) Exchange::alone(WRITTEN_AT).until(Request(5));
    mpi_file_iread_(a b c d e f) Exchange::alone(READ).until(Request(4));
    mpi_file_iread_all_(a b c d e f) Exchange::alone(READ).until(Request(4));
    mpi_file_iread_shared_(a b c d e f) Exchange::alone(READ).until(Request(4));
    mpi_file_iread_at_(a b c d e f g) Exchange::alone(READ_AT).until(Request(5));
    mpi_file_iread_at_all_(a b c d e f g) Exchange::alone(READ_AT).until(Request(5));

    mpi_start_(a b) Starts(Handles::One(0));
    mpi_startall_(a b c) Starts(Handles::Many(0, 1));
    mpi_wait_(a b c) Completes(Handles::One(0));
    mpi_test_(a b c d) Completes(Handles::One(0));
    mpi_waitall_(a b c d) Completes(Handles::Many(0, 1));
    mpi_waitany_(a b c d e) Completes(Handles::Many(0, 1));
    mpi_waitsome_(a b c d e f) Completes(Handles::Many(0, 1));
    mpi_testall_(a b c d e) Completes(Handles::Many(0, 1));
    mpi_testany_(a b c d e f) Completes(Handles::Many(0, 1));
    mpi_testsome_(a b c d e f) Completes(Handles::Many(0, 1));
    mpi_request_free_(a b) Frees(Handles::One(0));
}
