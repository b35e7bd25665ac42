//! Keeps the numbers of the standard descriptors.

/// Occupies the numbers 0 to 2 that are closed, as in programs that run in the background. This library's sockets would have them otherwise, and what
/// the program writes to its standard output would go to another process.
///
/// The numbers stay without use: the descriptors can't be read or written (`EBADF`, as if closed), and close themselves in new programs.
pub(crate) fn occupy() {
    for number in 0..=libc::STDERR_FILENO {
        // SAFETY: the call looks at a number only.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } != -1 {
            continue;
        }
        // SAFETY: the path is terminated.
        let opened = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if opened > libc::STDERR_FILENO {
            // Another thread has taken the number meanwhile.
            // SAFETY: the descriptor is of this function alone.
            unsafe { libc::close(opened) };
        }
    }
}
