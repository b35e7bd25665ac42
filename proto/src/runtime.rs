//! The Tokio runtime of the services and of the tools.

use accord_types::sandbox;
use std::io;
use std::os::unix::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// Creates a runtime that runs everything on one thread.
///
/// # Errors
/// Returns an error if the process has too few descriptors left.
pub fn one_threaded() -> io::Result<Runtime> {
    // Tokio panics if it can't open its descriptors, so as many are opened here first. Epoll and its waker need three;
    // signals need a pair and a copy of one.
    let tried = [io::pipe()?, io::pipe()?, io::pipe()?];
    drop(tried);
    let pair = UnixStream::pair().map_err(|error| sandbox::named("socketpair", error));
    drop(pair.map_err(|error| match sandbox::remedy(&error) {
        Some(remedy) => io::Error::other(format!("{error}; {remedy}")),
        None => error,
    })?);
    Builder::new_current_thread().enable_all().build()
}
