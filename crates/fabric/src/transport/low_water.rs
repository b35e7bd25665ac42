//! The low-water mark of a socket: the number of bytes from which on it counts as readable.

use super::socket_option;
use std::io;
use std::os::fd::AsFd;

/// Makes a TCP socket readable only once `bytes` bytes have arrived. Its end and its errors still count at once. [`ANY`]
/// restores the default.
///
/// # Errors
/// Returns the system's error if it refuses.
pub(super) fn readable_from(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    socket_option::set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// The default mark of one byte.
pub(super) const ANY: usize = 1;
