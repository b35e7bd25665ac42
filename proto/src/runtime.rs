//! The runtime of the services and of the command line.

use accord_types::sandbox;
use std::io;
use std::os::unix::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// A runtime of one thread, with everything in it.
///
/// # Errors
/// Returns an error if the system gives too few descriptors.
pub fn one_threaded() -> io::Result<Runtime> {
    // Tokio panics where it gets none for its signals. So as many as it takes are tried before: three of epoll and its waker, a pair for signals and
    // a copy of one of them.
    let tried = [io::pipe()?, io::pipe()?, io::pipe()?];
    drop(tried);
    let pair = UnixStream::pair().map_err(|error| sandbox::named("socketpair", error));
    drop(pair.map_err(|error| match sandbox::remedy(&error) {
        Some(remedy) => io::Error::other(format!("{error}; {remedy}")),
        None => error,
    })?);
    Builder::new_current_thread().enable_all().build()
}
