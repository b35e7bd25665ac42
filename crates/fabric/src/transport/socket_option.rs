//! Options of sockets that no safe interface has.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option that is an integer.
///
/// # Errors
/// If the system does not know it, or not for such a socket.
pub(super) fn set(socket: impl AsFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed, and the option is read from an integer of the length that is said.
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

/// What such an option is.
///
/// # Errors
/// As for [`set`].
pub(super) fn get(socket: impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<libc::c_int> {
    let (mut value, mut len) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the descriptor is open while it is borrowed, and the option is written to an integer of the length that is said.
    let status =
        unsafe { libc::getsockopt(socket.as_fd().as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len) };
    if status == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
