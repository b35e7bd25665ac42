//! How much has to be there before a socket counts as readable.

use super::socket_option;
use std::io;
use std::os::fd::AsFd;

/// Bytes that `socket`, of TCP, needs to be readable; its end and its errors count at once, as ever. [`ANY`] as in the beginning.
///
/// # Errors
/// If the system refuses.
pub(super) fn readable_from(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    socket_option::set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// A byte is enough.
pub(super) const ANY: usize = 1;
