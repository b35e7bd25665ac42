//! Explains a device address that the program, or MPI for it, passes to the kernel, where this process has no such memory.
//!
//! MPI may get a remote device's address of `acc_malloc` or `acc_deviceptr`, pass it to the kernel, and at best report "bad address". So this library
//! exports the C library's functions by which MPIs send and receive, and read and write files. Each calls the next library's function, and checks its
//! arguments only if the kernel returns `EFAULT`. Faults of plain memory copies are reported by `device_address.rs`.
//!
//! Open MPI reports success if the kernel refuses the memory of `MPI_File_write`, and crashes after that of `MPI_File_iwrite`.

use crate::{device_address, mappings};
use accord_types::AddressRange;
use libc::{aiocb, c_int, c_ulong, c_void, iovec, msghdr, off_t, pid_t, size_t, ssize_t};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Most parts of one call that are checked.
const PARTS_MAX: usize = 64;

/// The functions: name, arguments, and the memory of this process among the arguments.
macro_rules! family {
    ($($name:ident / $slot:ident ($($arg:ident: $type:ty),*), $given:expr;)*) => {
        $(
            static $slot: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

            /// The C library's function of this name. It is a cancellation point, so that it may be left by unwinding.
            ///
            /// # Safety
            /// As that function's.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C-unwind" fn $name($($arg: $type),*) -> ssize_t {
                let Some(next) = next(&$slot, concat!(stringify!($name), "\0")) else { return missing() };
                // SAFETY: the C library's function has this type.
                let next: unsafe extern "C-unwind" fn($($type),*) -> ssize_t = unsafe { std::mem::transmute(next) };
                // SAFETY: the arguments are the program's.
                let done = unsafe { next($($arg),*) };
                if done < 0 && errno() == libc::EFAULT {
                    notify(stringify!($name), $given);
                    set_errno(libc::EFAULT);
                }
                done
            }
        )*

        /// Resolves all functions, because code between a fork and an exec must not call the loader.
        extern "C" fn resolve_at_start() {
            $(next(&$slot, concat!(stringify!($name), "\0"));)*
        }
    };
}

family! {
    writev / WRITEV (file: c_int, parts: *const iovec, count: c_int), CallArgument::Parts(parts, count as usize);
    readv / READV (file: c_int, parts: *const iovec, count: c_int), CallArgument::Parts(parts, count as usize);
    send / SEND (socket: c_int, start: *const c_void, len: size_t, flags: c_int), CallArgument::One(start);
    recv / RECV (socket: c_int, start: *mut c_void, len: size_t, flags: c_int), CallArgument::One(start);
    sendmsg / SENDMSG (socket: c_int, message: *const msghdr, flags: c_int), CallArgument::Message(message);
    recvmsg / RECVMSG (socket: c_int, message: *mut msghdr, flags: c_int), CallArgument::Message(message);
    process_vm_readv / PROCESS_VM_READV (pid: pid_t, own: *const iovec, own_count: c_ulong, other: *const iovec, count: c_ulong, flags: c_ulong),
        CallArgument::Both(own, own_count as usize, other, count as usize);
    process_vm_writev / PROCESS_VM_WRITEV (pid: pid_t, own: *const iovec, own_count: c_ulong, other: *const iovec, count: c_ulong, flags: c_ulong),
        CallArgument::Both(own, own_count as usize, other, count as usize);
    pread / PREAD (file: c_int, start: *mut c_void, len: size_t, offset: off_t), CallArgument::One(start);
    pread64 / PREAD64 (file: c_int, start: *mut c_void, len: size_t, offset: off_t), CallArgument::One(start);
    pwrite / PWRITE (file: c_int, start: *const c_void, len: size_t, offset: off_t), CallArgument::One(start);
    pwrite64 / PWRITE64 (file: c_int, start: *const c_void, len: size_t, offset: off_t), CallArgument::One(start);
    preadv / PREADV (file: c_int, parts: *const iovec, count: c_int, offset: off_t), CallArgument::Parts(parts, count as usize);
    preadv64 / PREADV64 (file: c_int, parts: *const iovec, count: c_int, offset: off_t), CallArgument::Parts(parts, count as usize);
    pwritev / PWRITEV (file: c_int, parts: *const iovec, count: c_int, offset: off_t), CallArgument::Parts(parts, count as usize);
    pwritev64 / PWRITEV64 (file: c_int, parts: *const iovec, count: c_int, offset: off_t), CallArgument::Parts(parts, count as usize);
}

/// Functions that start a transfer, whose refusal by the kernel is known only later. So the memory is tested first.
macro_rules! asynchronous {
    ($($name:ident / $slot:ident;)*) => {
        $(
            static $slot: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

            /// The C library's function of this name.
            ///
            /// # Safety
            /// As that function's.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C" fn $name(block: *mut aiocb) -> c_int {
                let Some(next) = next(&$slot, concat!(stringify!($name), "\0")) else {
                    set_errno(libc::ENOSYS);
                    return -1;
                };
                if let Some(block) = copy(block.cast_const())
                    && AddressRange::is_in_window(block.aio_buf.addr() as u64)
                    && copy(block.aio_buf.cast::<u8>().cast_const()).is_none()
                {
                    device_address::given(stringify!($name), block.aio_buf.addr() as u64);
                }
                // SAFETY: the C library's function has this type.
                let next: unsafe extern "C" fn(*mut aiocb) -> c_int = unsafe { std::mem::transmute(next) };
                // SAFETY: the argument is the program's.
                unsafe { next(block) }
            }
        )*
    };
}

asynchronous! {
    aio_read / AIO_READ;
    aio_read64 / AIO_READ64;
    aio_write / AIO_WRITE;
    aio_write64 / AIO_WRITE64;
}

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = resolve_at_start;

/// The argument of a call.
enum CallArgument {
    One(*const c_void),
    Parts(*const iovec, usize),
    Message(*const msghdr),
    /// Memory of this process, and of another one.
    Both(*const iovec, usize, *const iovec, usize),
}

#[cold]
fn notify(call: &str, given: CallArgument) {
    match given {
        CallArgument::One(start) => device_address::given(call, start.addr() as u64),
        CallArgument::Parts(parts, count) => each(parts, count, |start| device_address::given(call, start)),
        CallArgument::Message(message) => {
            if let Some(message) = copy(message) {
                each(message.msg_iov, message.msg_iovlen, |start| device_address::given(call, start));
            }
        }
        CallArgument::Both(own, own_count, other, count) => {
            each(own, own_count, |start| device_address::given(call, start));
            each(other, count, |start| device_address::given_by_another(call, start));
        }
    }
}

/// Calls `look` with the start of each part.
fn each(parts: *const iovec, count: usize, mut look: impl FnMut(u64)) {
    for index in 0..count.min(PARTS_MAX) {
        let Some(part) = copy(parts.wrapping_add(index)) else { return };
        look(part.iov_base.addr() as u64);
    }
}

/// Copies the value at `from`. Returns `None` if it can't be read, because it may be the very address that the kernel refused.
fn copy<T: Copy>(from: *const T) -> Option<T> {
    let mut to = MaybeUninit::<T>::uninit();
    let here = iovec { iov_base: to.as_mut_ptr().cast(), iov_len: size_of::<T>() };
    let there = iovec { iov_base: from.cast_mut().cast(), iov_len: size_of::<T>() };
    // SAFETY: `here` is writable for its length, and the kernel checks the other range. A system call, because the function is exported above.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_vm_readv,
            libc::getpid(),
            &raw const here,
            1_usize,
            &raw const there,
            1_usize,
            0_usize,
        )
    };
    // SAFETY: the value was filled; `iovec` and `msghdr` are plain numbers and pointers.
    (usize::try_from(done) == Ok(size_of::<T>())).then(|| unsafe { to.assume_init() })
}

/// Returns the function of the libraries after this one. Calls before this library's constructors use it too.
fn next(slot: &AtomicPtr<c_void>, name: &str) -> Option<*mut c_void> {
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return Some(known);
    }
    let found = mappings::next(name);
    slot.store(found, Ordering::Relaxed);
    (!found.is_null()).then_some(found)
}

fn missing() -> ssize_t {
    set_errno(libc::ENOSYS);
    -1
}

fn errno() -> c_int {
    // SAFETY: the location belongs to the calling thread.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: the location belongs to the calling thread.
    unsafe { *libc::__errno_location() = value };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address that no process has.
    const NOWHERE: *mut c_void = std::ptr::without_provenance_mut(1 << 44);

    #[test]
    fn unreadable_arguments_are_inspected_without_a_fault() {
        let part = |start| iovec { iov_base: start, iov_len: 8 };
        let mut seen = Vec::new();
        let parts = [part(NOWHERE), part(std::ptr::null_mut())];
        each(parts.as_ptr(), 2, |start| seen.push(start));
        assert_eq!(seen, [1 << 44, 0]);
        each(NOWHERE.cast(), 2, |_| panic!("nothing is there"));
        assert!(copy::<msghdr>(NOWHERE.cast()).is_none());
    }

    #[test]
    fn an_error_stays_what_it_was() {
        // SAFETY: the kernel checks the addresses.
        unsafe {
            let parts = [iovec { iov_base: NOWHERE, iov_len: 8 }];
            for done in [
                process_vm_readv(libc::getpid(), NOWHERE.cast(), 1, parts.as_ptr(), 1, 0),
                process_vm_writev(libc::getpid(), parts.as_ptr(), 1, parts.as_ptr(), 1, 0),
                writev(libc::STDOUT_FILENO, NOWHERE.cast(), 1),
                pwritev(libc::STDOUT_FILENO, NOWHERE.cast(), 1, 0),
                pwrite64(-1, NOWHERE.cast(), 8, 0),
                sendmsg(-1, NOWHERE.cast(), 0),
            ] {
                assert_eq!(done, -1);
                assert!([libc::EFAULT, libc::EBADF, libc::ENOTSOCK, libc::ESPIPE].contains(&errno()), "{}", errno());
            }
            assert_eq!(readv(-1, parts.as_ptr(), 1), -1);
            assert_eq!(errno(), libc::EBADF);
        }
    }
}
