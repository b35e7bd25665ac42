//! Passes a worker's output to a sink, if it must not go to the owner's own output.

use crate::program::OutputSink;
use accord_types::Result;
use accord_types::threads;
use accord_types::turn_lock::TurnLock;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// Read ends of the worker's standard output and error.
pub(crate) struct Output {
    pipes: TurnLock<[Option<File>; 2]>,
    raw: [i32; 2],
    sink: OutputSink,
}

impl Output {
    /// Starts a thread that passes bytes to `sink`.
    ///
    /// # Errors
    /// Returns an error if the thread can't be started.
    pub(crate) fn start(stdout: OwnedFd, stderr: OwnedFd, sink: OutputSink) -> Result<Arc<Self>> {
        for fd in [&stdout, &stderr] {
            // SAFETY: plain fcntl on descriptors that we own.
            unsafe {
                let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
                libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
            }
        }
        let raw = [stdout.as_raw_fd(), stderr.as_raw_fd()];
        let pipes = TurnLock::new([Some(File::from(stdout)), Some(File::from(stderr))]);
        let output = Arc::new(Self { pipes, raw, sink });
        let reader = Arc::clone(&output);
        let started = threads::spawn("accord-output", move || while reader.wait() && reader.drain() {});
        started.map(|_| output).map_err(|error| crate::failure::no_thread(&error))
    }

    /// Passes on all bytes written so far. Returns `false` once both pipes have ended.
    pub(crate) fn drain(&self) -> bool {
        let mut pipes = self.pipes.take();
        // One system call in the usual case without bytes, because every wait comes here.
        if !self.poll(pipes.each_ref().map(Option::is_some), 0) {
            return pipes.iter().any(Option::is_some);
        }
        let mut buffer = [0u8; 8192];
        for (which, slot) in pipes.iter_mut().enumerate() {
            while let Some(pipe) = slot {
                match pipe.read(&mut buffer) {
                    Ok(0) => *slot = None,
                    Ok(n) => (self.sink)(which as u8 + 1, &buffer[..n]),
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(_) => *slot = None,
                }
            }
        }
        pipes.iter().any(Option::is_some)
    }

    /// Blocks until there are bytes to read.
    fn wait(&self) -> bool {
        let open = self.pipes.take().each_ref().map(Option::is_some);
        self.poll(open, 500);
        open[0] || open[1]
    }

    /// Whether an open pipe has bytes or has ended, within so many milliseconds.
    fn poll(&self, open: [bool; 2], timeout: i32) -> bool {
        let mut polls = [0, 1].map(|i| libc::pollfd {
            fd: if open[i] { self.raw[i] } else { -1 },
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: two valid entries; a descriptor closed meanwhile by `drain` makes poll return at once.
        unsafe { libc::poll(polls.as_mut_ptr(), 2, timeout) > 0 }
    }
}
