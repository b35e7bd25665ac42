//! Warnings about a node whose agent takes long to answer, like those about an executor.

use super::watching::notify;
use crate::watchdog::{Watchdog, Watched};
use accord_fabric::peer::PeerId;
use accord_types::Error;
use accord_types::liveness::WARN_AFTER;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

struct Opening {
    node_name: String,
    begun: Instant,
    reported: AtomicBool,
}

/// Connects by `connect`, which may take long.
pub(super) fn opening<T>(watchdog: &Arc<Watchdog>, node_name: &str, connect: impl FnOnce() -> T) -> T {
    let opening = Opening { node_name: node_name.to_owned(), begun: Instant::now(), reported: AtomicBool::new(false) };
    let opening: Arc<dyn Watched> = Arc::new(opening);
    let watched: Weak<dyn Watched> = Arc::downgrade(&opening);
    watchdog.add(watched);
    let _awaiting = watchdog.awaiting();
    connect()
}

impl Watched for Opening {
    fn is_stalled(&self) -> bool {
        false
    }

    fn check_alive(self: Arc<Self>, _awaited: bool) {
        let silence = self.begun.elapsed();
        if silence >= WARN_AFTER && !self.reported.swap(true, Ordering::SeqCst) {
            notify(&format!("node {}", self.node_name), silence);
        }
    }

    fn lost(&self, _peer: PeerId, _error: &Error) {}

    fn unwatched(self: Arc<Self>, _error: &std::io::Error) {}
}
