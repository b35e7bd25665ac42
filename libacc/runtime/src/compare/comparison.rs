//! The state of a program's comparisons.

use super::findings::Findings;
use super::host::ComparisonHost;
use super::mirror::{Buffer, Mirror};
use crate::prof::{Notice, Observer};
use accord_types::Tolerance;
use accord_types::turn_lock::TurnLock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The comparison of all regions.
pub(crate) struct Comparison {
    pub(super) tolerance: Tolerance,
    pub(super) host: Box<dyn ComparisonHost>,
    /// One region is compared at a time.
    pub(super) turn: TurnLock<Comparisons>,
}

/// The mirrors and the results.
#[derive(Default)]
pub(super) struct Comparisons {
    /// Mirrors by their devices' places in the session, or why there is none.
    pub(super) mirrors: BTreeMap<usize, Result<Mirror, String>>,
    pub(super) findings: Findings,
    /// Buffers for both devices' bytes.
    pub(super) buffers: Option<[Buffer; 2]>,
}

impl Comparisons {
    /// Ends a mirror, which is started again for the next region: one on which something has failed is of no use.
    pub(super) fn end_mirror(&mut self, device: usize) {
        if let Some(Ok(mirror)) = self.mirrors.get(&device) {
            let _ = mirror.client().shutdown();
            self.mirrors.remove(&device);
        }
    }
}

impl Comparison {
    /// Creates the comparison, in which nothing was compared yet.
    pub(super) fn new(tolerance: Tolerance, host: Box<dyn ComparisonHost>) -> Self {
        Self { tolerance, host, turn: TurnLock::default() }
    }

    /// Prints a line for the user.
    pub(super) fn report(&self, line: &str) {
        self.host.report(&format!("compare: {line}"));
    }
}

/// An observer that watches all devices, so that each launch is an observed one.
pub(crate) struct ComparisonObserver(pub(crate) Box<dyn Observer>);

impl Observer for ComparisonObserver {
    fn wanted(&self) -> &'static AtomicBool {
        static ALWAYS: AtomicBool = AtomicBool::new(true);
        &ALWAYS
    }

    fn is_active(&self) -> bool {
        true
    }

    fn notice(&self, notice: &Notice) {
        if self.0.wanted().load(Ordering::Relaxed) && self.0.is_active() {
            self.0.notice(notice);
        }
    }
}
