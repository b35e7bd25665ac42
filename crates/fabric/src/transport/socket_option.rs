//! Socket options that have no safe interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an integer option.
///
/// # Errors
/// Returns the system's error if the system does not support the option for this socket.
pub(super) fn set(socket: impl AsFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed, and the option's value is an integer of the given length.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the value of an integer option.
///
/// # Errors
/// Returns the errors of [`set`].
pub(super) fn get(socket: impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<libc::c_int> {
    let (mut value, mut len) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the descriptor is open while it is borrowed, and the option's value is an integer of the given length.
    let status =
        unsafe { libc::getsockopt(socket.as_fd().as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len) };
    if status == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
