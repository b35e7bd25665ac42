//! Checks whether the executor and the workers of its devices live, while the program waits for them.

use super::connection::{Connection, unavailable};
use super::peer_liveness::PushSource;
use crate::watchdog::Watched;
use accord_fabric::peer::PeerId;
use accord_types::liveness::Verdict;
use accord_types::{Count, DeviceNum, Error, QueueId, Seq, printable, scarce};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The longest silence of an executor whose node the coordinator does not hear from.
const DOUBT: Duration = Duration::from_secs(4);
/// Interval of requests to the executor.
const ASK: Duration = Duration::from_secs(1);

impl Connection {
    /// Calls `wait`, which takes long, and has the executor checked meanwhile.
    pub(super) fn long_wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        let _awaiting = self.spec.session.watchdog.awaiting();
        self.alive.waiting.fetch_add(1, Ordering::SeqCst);
        let waited = wait();
        self.alive.waiting.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    /// Makes the executor be checked, whether the program waits or not, because the coordinator does not hear from the
    /// node.
    pub(super) fn doubt(&self) {
        self.alive.lock().doubted = Some(self.signs_of_life());
        self.alive.doubted.store(true, Ordering::SeqCst);
        self.spec.session.watchdog.rouse();
    }

    /// Returns a number that grows with each sign of life.
    fn signs_of_life(&self) -> u64 {
        let counters = self.link.stats().read();
        self.alive.signs_of_life.load(Ordering::Relaxed) + counters.command_received + counters.bulk_received
    }

    /// Records the program's number of a device, for messages.
    pub(super) fn name_device(&self, ordinal: u32, num: DeviceNum) {
        self.alive.lock().names.insert(ordinal, num);
    }

    /// Handles the executor's answer, with the numbers of its workers' heartbeats.
    pub(super) fn beats(&self, beats: &[(u32, u64)]) {
        let now = self.now();
        let mut state = self.alive.lock();
        let (mut lines, mut hung) = (Vec::new(), Vec::new());
        for &(ordinal, beats) in beats {
            let Some(worker) = state.worker(ordinal) else { continue };
            let verdict = worker.check_alive(now, beats, true, self.spec.session.watchdog.timeout);
            match verdict {
                Verdict::Well => {}
                Verdict::Silent(silence) => lines.push((state.name(&self.spec.node_name, Some(ordinal)), silence)),
                Verdict::Hung(_) => hung.push(ordinal),
            }
        }
        drop(state);
        for (name, silence) in lines {
            notify(&name, silence);
        }
        if !hung.is_empty() {
            self.link.control().ask(hung);
        }
    }
}

impl PushSource for Connection {
    fn is_under_way(&self, device: u32, queue: QueueId, seq: Seq) -> bool {
        self.machine().is_under_way(device, queue, seq)
    }
}

impl Watched for Connection {
    fn is_stalled(&self) -> bool {
        self.link.stats().stalls.any() || self.alive.doubted.load(Ordering::SeqCst)
    }

    fn check_alive(self: Arc<Self>, awaited: bool) {
        let machine = self.machine();
        let (lost, open) = (machine.check().is_err(), machine.has_work());
        drop(machine);
        let open = open || self.alive.is_pushed_to();
        if lost {
            return;
        }
        let here = self.alive.waiting.load(Ordering::SeqCst) > 0 || self.is_stalled();
        // Another node that the program waits for may wait for this one.
        let awaited = here || awaited && open;
        let signs_of_life = self.signs_of_life();
        let now = self.now();
        let mut state = self.alive.lock();
        let mut timeout = self.spec.session.watchdog.timeout;
        match state.doubted {
            Some(before) if before != signs_of_life => {
                state.doubted = None;
                self.alive.doubted.store(false, Ordering::SeqCst);
            }
            Some(_) => timeout = Some(timeout.map_or(DOUBT, |timeout| timeout.min(DOUBT))),
            None => {}
        }
        let verdict = state.executor.check_alive(now, signs_of_life, awaited, timeout);
        let name = state.name(&self.spec.node_name, None);
        let ask = awaited && state.asked.is_none_or(|asked| now.saturating_sub(asked) >= ASK);
        if ask {
            state.asked = Some(now);
        }
        if !awaited {
            state.workers.clear();
        }
        drop(state);
        if ask {
            self.link.control().ask(Vec::new());
        }
        match verdict {
            Verdict::Well => {}
            Verdict::Silent(silence) => notify(&name, silence),
            Verdict::Hung(silence) => self.give_up(silence),
        }
    }

    fn lost(&self, peer: PeerId, error: &Error) {
        if peer != self.link.peer() && self.machine().check().is_ok() {
            self.link.control().lost(peer, error);
        }
    }

    fn unwatched(self: Arc<Self>, error: &std::io::Error) {
        self.unthreaded(error);
    }
}

impl Connection {
    /// Ends the connection, because the system has no thread for it.
    pub(super) fn unthreaded(self: &Arc<Self>, error: &std::io::Error) {
        let lost = self.lost_error(&format!("no thread could be started: {error}"));
        self.end(lost.remedy(scarce::THREADS));
    }

    fn give_up(self: &Arc<Self>, silence: Duration) {
        let seconds = Count(usize::try_from(silence.as_secs()).unwrap_or(usize::MAX), "second");
        let error = self.lost_error(&format!("it has not answered for {seconds}, while the program waited for it"));
        self.end(error.remedy(
            "see whether the executor is stopped or its node overloaded; ACCORD_TIMEOUT sets how long a program waits",
        ));
    }
}

/// Warns the user in one line that the program may seem to hang.
pub(super) fn notify(name: &str, silence: Duration) {
    // Standard error may be closed.
    let name = printable(name);
    let _ = writeln!(std::io::stderr(), "accord: waiting for {name}: no answer for {} s", silence.as_secs());
}

impl Connection {
    fn lost_error(&self, why: &str) -> Error {
        unavailable(format!(
            "the link to the executor of node {} ({}) is lost: {why}",
            self.spec.node_name, self.spec.endpoint
        ))
        .node(&self.spec.node_name)
    }
}
