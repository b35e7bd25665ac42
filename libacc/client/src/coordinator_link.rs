//! A session's connection to the coordinator. When it breaks, as at the coordinator's restart, the session goes on, and comes back to
//! the coordinator as soon as there is one.

use crate::settings::Coordinator;
use accord_fabric::frame::session::{Claim, Message};
use accord_fabric::session_endpoint::{self, Attachment, SessionConnection};
use accord_types::backoff::Backoff;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// The limit of each wait for the coordinator's answer.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The program's connection to the coordinator.
pub(crate) struct CoordinatorLink {
    coordinator: Coordinator,
    claim: Claim,
    state: ShortLock<Presence>,
    /// The session is over.
    changed: Condvar,
}

struct Presence {
    /// None: it is broken.
    connection: Option<Arc<SessionConnection>>,
    over: bool,
}

impl CoordinatorLink {
    pub(crate) fn new(coordinator: Coordinator, claim: Claim, connection: SessionConnection) -> Arc<Self> {
        let state = Presence { connection: Some(Arc::new(connection)), over: false };
        Arc::new(Self { coordinator, claim, state: ShortLock::new(state), changed: Condvar::new() })
    }

    /// Tells the coordinator which device number is in use. Best effort.
    pub(crate) fn report_use(&self, device: u32) {
        let connection = self.lock().connection.clone();
        if let Some(connection) = connection {
            connection.report_use(device);
        }
    }

    /// Ends the session.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.over = true;
        let connection = state.connection.take();
        drop(state);
        self.changed.notify_all();
        if let Some(connection) = connection {
            connection.close();
        }
    }

    /// Whether the program has asked for its devices, or uses those of a job.
    pub(crate) fn is_of_job(&self) -> bool {
        self.claim.request.devices.is_some() || self.claim.request.job.is_some()
    }

    /// Takes what the coordinator says, until the session is over. Returns why it is, if it has ended while there was no connection.
    pub(crate) fn listen(&self, hear: impl Fn(Message)) -> Option<String> {
        loop {
            let connection = self.lock().connection.clone()?;
            while let Ok(Some(message)) = connection.next() {
                hear(message);
            }
            self.lock().connection = None;
            drop(connection);
            if let Some(why) = self.come_back() {
                return Some(why);
            }
        }
    }

    /// Connects again, with pauses, for as long as it takes. Why the session is over, if the coordinator says so.
    fn come_back(&self) -> Option<String> {
        let (begun, mut backoff) = (Instant::now(), Backoff::new(Duration::MAX, u64::from(self.claim.request.pid)));
        loop {
            let pause = backoff.pause(begun.elapsed()).unwrap_or(SESSION_TIMEOUT);
            let waits = |state: &mut Presence| !state.over;
            let (state, _) = ShortGuard::wait_timeout_while(self.lock(), &self.changed, pause, waits);
            if state.over {
                return None;
            }
            drop(state);
            let Coordinator { address, trust } = &self.coordinator;
            let identity = trust.current(|_| ());
            match session_endpoint::attach(address, &identity, SESSION_TIMEOUT, &self.claim) {
                Ok(Attachment::Open(connection)) => {
                    let mut state = self.lock();
                    // Else the session has ended meanwhile: so does the connection.
                    if !state.over {
                        state.connection = Some(Arc::new(connection));
                    }
                    return None;
                }
                Ok(Attachment::Over(why)) => return Some(why),
                Err(_) => {}
            }
        }
    }

    fn lock(&self) -> ShortGuard<'_, Presence> {
        self.state.lock()
    }
}
