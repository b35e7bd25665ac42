//! Captures text that regions on GPUs print. The driver writes it to this process's standard output when it waits. An
//! executor's program needs it before its own wait ends.

use accord_types::turn_lock::TurnLock;
use std::ffi::c_int;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::null_mut;

unsafe extern "C" {
    /// The C library's stream, which the driver prints to.
    static mut stdout: *mut libc::FILE;
}

/// Bytes that are passed on at a time.
const PIECE: usize = 64 << 10;

/// This process's standard output, captured in memory. Memory of output that was read is freed.
pub struct Printed {
    file: OwnedFd,
    /// Number of bytes read.
    taken: TurnLock<u64>,
}

impl Printed {
    /// Captures text that this process prints from now on. For processes that print no text themselves.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn keep() -> std::io::Result<Self> {
        // SAFETY: the name is a C string.
        let raw = unsafe { libc::memfd_create(c"accord-printed".as_ptr(), libc::MFD_CLOEXEC) };
        if raw < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: plain calls on this process's own descriptor. It appends, so that reading bytes never moves the place of the
        // next ones.
        let done = unsafe {
            libc::fcntl(raw, libc::F_SETFL, libc::O_APPEND) >= 0 && libc::dup2(raw, libc::STDOUT_FILENO) >= 0
        };
        if !done {
            return Err(std::io::Error::last_os_error());
        }
        // Without a terminal the C library would buffer lines.
        // SAFETY: this process prints no text yet, so that the stream has no other user.
        unsafe { libc::setvbuf(stdout, null_mut(), libc::_IONBF, 0) };
        Ok(Self { file, taken: TurnLock::default() })
    }

    /// Passes text printed since the last call to `take`, in order.
    pub fn take(&self, mut take: impl FnMut(&[u8])) {
        let file = self.file.as_raw_fd();
        let mut taken = self.taken.take();
        if length(file) == *taken {
            return;
        }
        let mut piece = vec![0; PIECE];
        loop {
            // SAFETY: the buffer is valid for its length.
            let read = unsafe { libc::pread(file, piece.as_mut_ptr().cast(), piece.len(), taken.cast_signed()) };
            let Ok(read @ 1..) = usize::try_from(read) else { return };
            take(&piece[..read]);
            let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: a plain call. If it fails the bytes only occupy memory.
            unsafe { libc::fallocate(file, hole, taken.cast_signed(), read.cast_signed() as i64) };
            *taken += read as u64;
        }
    }
}

fn length(file: c_int) -> u64 {
    // SAFETY: a plain call.
    unsafe { libc::lseek(file, 0, libc::SEEK_END) }.unsigned_abs()
}
