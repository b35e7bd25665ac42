//! Threads of an executor.

use std::thread::JoinHandle;

/// Starts a thread; without one its lane is as good as lost, and dropped with the closure.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).ok()
}
