//! MPI, as `crates/fabric/src/transport/mpi/object.rs` calls it: a world of ranks that send each other whole messages. Everything is
//! called by one thread, the one that has opened the world (`MPI_THREAD_FUNNELED`).
//!
//! MPI's functions are called as they are: the crate's own wrappers do not look at what these return. An error is a negative number.

use mpi::ffi;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// The form of the functions here; the other side names the same.
const INTERFACE: u32 = 2;
/// Requests at one time: those of both directions, and some.
const REQUESTS_MAX: usize = 128;
/// What there is no number of MPI's for.
const REFUSED: c_int = -1_000_000;

/// The world, from its opening to its closing.
struct World {
    communicator: ffi::MPI_Comm,
    /// By their number; those that are free are MPI's null request.
    requests: Vec<ffi::MPI_Request>,
    free: Vec<u32>,
    /// A message that a probe has found and that was not received yet.
    found: Option<ffi::MPI_Message>,
}

fn code(code: c_int) -> c_int {
    if code == 0 { 0 } else { -code.abs() }
}

/// Writes `text` and a 0, as far as there is room.
///
/// # Safety
/// `to` is to `room` bytes that may be written.
unsafe fn give(text: &str, to: *mut c_char, room: usize) -> usize {
    let len = text.len().min(room.saturating_sub(1));
    if room > 0 {
        // SAFETY: `len` is less than `room`.
        unsafe {
            to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), len);
            to.add(len).write(0);
        }
    }
    len
}

/// The form of the functions here.
#[unsafe(no_mangle)]
pub extern "C" fn accord_mpi_interface() -> u32 {
    INTERFACE
}

/// Returns the MPI that this was built for.
#[unsafe(no_mangle)]
pub extern "C" fn accord_mpi_built_for() -> *const c_char {
    concat!(env!("MPI_BUILT_FOR"), "\0").as_ptr().cast()
}

/// Writes the present MPI's own version text and returns its length. It may be asked before a world is opened.
///
/// # Safety
/// `text` is to `room` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accord_mpi_library(text: *mut c_char, room: usize) -> usize {
    let mut words = [0_u8; 16 << 10]; // more than any MPI's MPI_MAX_LIBRARY_VERSION_STRING
    let mut len = 0;
    // SAFETY: there is room for the longest text of any MPI.
    let failed = unsafe { ffi::MPI_Get_library_version(words.as_mut_ptr().cast(), &raw mut len) };
    let len = usize::try_from(len).unwrap_or(0).min(words.len());
    let words = if failed == 0 { String::from_utf8_lossy(&words[..len]) } else { "".into() };
    // SAFETY: the caller's promise.
    unsafe { give(words.trim_end_matches('\0').trim(), text, room) }
}

/// Joins the world of this job; null with the reason in `why` if that fails.
///
/// # Safety
/// `rank` and `size` may be written, and so may `room` bytes at `why`. It is called once in a process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accord_mpi_open(rank: *mut u32, size: *mut u32, why: *mut c_char, room: usize) -> *mut c_void {
    // SAFETY: no other thread of this process uses MPI; all pointers are to what lives longer than the calls.
    let outcome = unsafe {
        let mut given = 0;
        // SAFETY: see above.
        let begun = ffi::MPI_Init_thread(
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            ffi::MPI_THREAD_FUNNELED as c_int,
            &raw mut given,
        );
        if begun == 0 { join() } else { Err(format!("MPI_Init_thread: error {begun}")) }
    };
    match outcome {
        Ok((world, own, all)) => {
            // SAFETY: the caller's promise.
            unsafe {
                rank.write(own);
                size.write(all);
            }
            Box::into_raw(Box::new(world)).cast()
        }
        Err(text) => {
            // SAFETY: the caller's promise.
            unsafe { give(&text, why, room) };
            std::ptr::null_mut()
        }
    }
}

/// A communicator of all ranks that is Accord's own, and returns errors.
///
/// # Safety
/// MPI has begun, on this thread.
unsafe fn join() -> Result<(World, u32, u32), String> {
    let mut communicator = MaybeUninit::uninit();
    let (mut rank, mut size): (c_int, c_int) = (0, 0);
    // SAFETY: the pointers are to what lives longer than the calls, and MPI has begun.
    unsafe {
        let ok = |code: c_int, what: &str| if code == 0 { Ok(()) } else { Err(format!("{what}: error {code}")) };
        ok(ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, communicator.as_mut_ptr()), "MPI_Comm_dup")?;
        let communicator = communicator.assume_init();
        ok(ffi::MPI_Comm_set_errhandler(communicator, ffi::RSMPI_ERRORS_RETURN), "MPI_Comm_set_errhandler")?;
        ok(ffi::MPI_Comm_rank(communicator, &raw mut rank), "MPI_Comm_rank")?;
        ok(ffi::MPI_Comm_size(communicator, &raw mut size), "MPI_Comm_size")?;
        let world = World {
            communicator,
            requests: vec![ffi::RSMPI_REQUEST_NULL; REQUESTS_MAX],
            free: (0..REQUESTS_MAX as u32).rev().collect(),
            found: None,
        };
        Ok((world, rank as u32, size as u32))
    }
}

/// Begins to send; the request's number is written.
///
/// # Safety
/// `world` is open, `len` bytes may be read at `bytes` until the request is done, and `request` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accord_mpi_send(
    world: *mut c_void,
    to: u32,
    tag: u32,
    bytes: *const u8,
    len: usize,
    request: *mut u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let world = unsafe { &mut *world.cast::<World>() };
    let numbers = (c_int::try_from(to), c_int::try_from(tag), c_int::try_from(len));
    let ((Ok(to), Ok(tag), Ok(len)), Some(number)) = (numbers, world.free.pop()) else { return REFUSED };
    let slot = &mut world.requests[number as usize];
    // SAFETY: the caller's promise.
    unsafe {
        request.write(number);
        code(ffi::MPI_Isend(bytes.cast(), len, ffi::RSMPI_UINT8_T, to, tag, world.communicator, slot))
    }
}

/// Looks for a message: 1 if there is one, with its rank, tag and length written. It has to be received before the next is looked for.
///
/// # Safety
/// `world` is open; `from`, `tag` and `len` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accord_mpi_probe(
    world: *mut c_void,
    from: *mut u32,
    tag: *mut u32,
    len: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let world = unsafe { &mut *world.cast::<World>() };
    if world.found.is_some() || world.free.is_empty() {
        return REFUSED;
    }
    let (mut came, mut count): (c_int, c_int) = (0, 0);
    let mut message = MaybeUninit::uninit();
    let mut status = MaybeUninit::<ffi::MPI_Status>::uninit();
    // SAFETY: the pointers are to what lives longer than the calls; what is read was written where a message has come.
    unsafe {
        let probed = ffi::MPI_Improbe(
            ffi::RSMPI_ANY_SOURCE,
            ffi::RSMPI_ANY_TAG,
            world.communicator,
            &raw mut came,
            message.as_mut_ptr(),
            status.as_mut_ptr(),
        );
        if probed != 0 || came == 0 {
            return code(probed);
        }
        let status = status.assume_init();
        world.found = Some(message.assume_init());
        let counted = ffi::MPI_Get_count(&raw const status, ffi::RSMPI_UINT8_T, &raw mut count);
        from.write(status.MPI_SOURCE as u32);
        tag.write(status.MPI_TAG as u32);
        len.write(usize::try_from(count).unwrap_or(usize::MAX));
        if counted == 0 { 1 } else { code(counted) }
    }
}

/// Begins to receive the message that was found; the request's number is written.
///
/// # Safety
/// `world` is open, `len` bytes may be written at `bytes` until the request is done, and `request` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accord_mpi_receive(
    world: *mut c_void,
    bytes: *mut u8,
    len: usize,
    request: *mut u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let world = unsafe { &mut *world.cast::<World>() };
    let (Some(mut message), Ok(len)) = (world.found.take(), c_int::try_from(len)) else { return REFUSED };
    let Some(number) = world.free.pop() else { return REFUSED };
    let slot = &mut world.requests[number as usize];
    // SAFETY: the caller's promise.
    unsafe {
        request.write(number);
        code(ffi::MPI_Imrecv(bytes.cast(), len, ffi::RSMPI_UINT8_T, &raw mut message, slot))
    }
}

/// Progresses all requests. Writes the numbers of the completed ones, which may be reused, to `done`, and returns how many there are.
///
/// # Safety
/// `world` is open; `room` numbers may be written at `done`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accord_mpi_test(world: *mut c_void, done: *mut u32, room: usize) -> c_int {
    // SAFETY: the caller's promise.
    let world = unsafe { &mut *world.cast::<World>() };
    let (mut n, mut left) = (0, REQUESTS_MAX - world.free.len());
    for (number, request) in (0..).zip(&mut world.requests) {
        if n == room || left == 0 {
            break;
        }
        // SAFETY: MPI's null request is a constant, and a request is compared as the number or pointer that it is.
        if unsafe { *request == ffi::RSMPI_REQUEST_NULL } {
            continue;
        }
        left -= 1;
        let mut is_done = 0;
        // SAFETY: the request is one of MPI's; no status is asked for.
        let failed = unsafe { ffi::MPI_Test(request, &raw mut is_done, ffi::RSMPI_STATUS_IGNORE) };
        if failed != 0 {
            return code(failed);
        }
        if is_done != 0 {
            // SAFETY: n is less than room.
            unsafe { done.add(n).write(number) };
            world.free.push(number);
            n += 1;
        }
    }
    n as c_int
}

/// Ends the world, as far as other ranks let it.
///
/// # Safety
/// `world` is open, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accord_mpi_close(world: *mut c_void) {
    // SAFETY: the caller's promise.
    let mut world = unsafe { Box::from_raw(world.cast::<World>()) };
    for request in &mut world.requests {
        // SAFETY: as in `accord_mpi_test`. Messages that are never received are given up, and so are those that are
        // never sent.
        unsafe {
            if *request != ffi::RSMPI_REQUEST_NULL {
                let _ = ffi::MPI_Cancel(request);
                let _ = ffi::MPI_Request_free(request);
            }
        }
    }
    // SAFETY: nothing of MPI is used after this.
    unsafe {
        let _ = ffi::MPI_Finalize();
    }
}
