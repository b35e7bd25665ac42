//! A session's connection to the coordinator. When it breaks, as at the coordinator's restart, the session goes on, and comes back to
//! the coordinator as soon as there is one.

use crate::own_use::OwnUse;
use crate::settings::Coordinator;
use accord_fabric::frame::session::{Claim, Message};
use accord_fabric::session_endpoint::{self, Attachment, Heard, SessionConnection};
use accord_types::backoff::Backoff;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::turn_lock::TurnLock;
use accord_types::{DeviceId, DeviceUse, Error, Result};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// The limit of each wait for the coordinator's answer.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait for the coordinator's word that a device may be used. A coordinator that is stopped delays each program once by it.
const USE_ANSWER_MAX: Duration = Duration::from_secs(3);

/// The program's connection to the coordinator.
pub(crate) struct CoordinatorLink {
    coordinator: Coordinator,
    claim: Claim,
    state: ShortLock<Presence>,
    /// The session is over, the connection is broken, or an answer is there.
    changed: Condvar,
    /// One thread at a time asks for a device and waits for the answer.
    asking: TurnLock<()>,
}

struct Presence {
    /// None: it is broken.
    connection: Option<Arc<SessionConnection>>,
    over: bool,
    /// The device number that a thread waits for permission to use, and the answer.
    asked: Option<(u32, Option<Result<()>>)>,
    /// The coordinator has left a question unanswered, and nothing has arrived since.
    is_silent: bool,
    /// The program has begun to drive a device itself. Before that nothing is sampled, so that no timer wakes an idle program.
    drives: bool,
}

impl CoordinatorLink {
    pub(crate) fn new(coordinator: Coordinator, claim: Claim, connection: SessionConnection) -> Arc<Self> {
        let state = Presence {
            connection: Some(Arc::new(connection)),
            over: false,
            asked: None,
            is_silent: false,
            drives: false,
        };
        let (state, changed, asking) = (ShortLock::new(state), Condvar::new(), TurnLock::default());
        Arc::new(Self { coordinator, claim, state, changed, asking })
    }

    /// Tells the coordinator, as [`CoordinatorLink::use_device`], of a device that the program drives itself: its use is sampled from now on.
    ///
    /// # Errors
    /// Returns the errors of [`CoordinatorLink::use_device`].
    pub(crate) fn use_own_device(&self, device: u32) -> Result<()> {
        self.lock().drives = true;
        self.use_device(device)
    }

    /// Tells the coordinator which device number is about to be used. A program that has asked for nothing asks and waits for the answer, as the
    /// device may be a job's by now. It goes on without one while there is no coordinator, or that does not answer.
    ///
    /// # Errors
    /// Returns the coordinator's error if a job has the device to itself.
    pub(crate) fn use_device(&self, device: u32) -> Result<()> {
        let _one = self.asking.take();
        let mut state = self.lock();
        let Some(connection) = state.connection.clone() else { return Ok(()) };
        if self.is_of_job() {
            drop(state);
            // The answer, for which nothing waits, wakes the thread that samples the use of the device.
            connection.ask_use(device);
            return Ok(());
        }
        let waits = !state.is_silent;
        state.asked = waits.then_some((device, None));
        drop(state);
        connection.ask_use(device);
        if !waits {
            return Ok(());
        }
        let unanswered =
            |state: &mut Presence| !state.over && state.connection.is_some() && matches!(state.asked, Some((_, None)));
        let (mut state, is_late) =
            ShortGuard::wait_timeout_while(self.lock(), &self.changed, USE_ANSWER_MAX, unanswered);
        state.is_silent = is_late;
        state.asked.take().and_then(|(_, answer)| answer).unwrap_or(Ok(()))
    }

    /// Hands an answer to the thread that waits for it. Returns an error that no thread waits for: the device is in use already.
    fn answer(&self, device: u32, answer: Result<()>) -> Result<()> {
        let mut state = self.lock();
        match &mut state.asked {
            Some((asked, waiting @ None)) if *asked == device => *waiting = Some(answer),
            _ => return answer,
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Lets the thread go on that waits for an answer: the session has ended, so that the start of its device fails.
    fn stop_waiting(&self) {
        let mut state = self.lock();
        if let Some((_, answer @ None)) = &mut state.asked {
            *answer = Some(Ok(()));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Reports to the coordinator what the program did on its devices. Best effort: later reports contain it.
    pub(crate) fn report_used(&self, uses: &[(DeviceId, DeviceUse)]) {
        let connection = self.lock().connection.clone();
        if let Some(connection) = connection {
            connection.report_used(uses);
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

    /// Hands an answer to the thread that waits for it. Returns all other messages.
    fn pass_on(&self, message: Message) -> Option<Message> {
        self.lock().is_silent = false;
        match message {
            // A late one: the device is in use, and the session has no right to it.
            Message::UseAnswered { device, error } => {
                self.answer(device, error.map_or(Ok(()), Err)).err().map(|error| Message::Ended(words(&error)))
            }
            message => {
                if matches!(message, Message::Ended(_)) {
                    self.stop_waiting();
                }
                Some(message)
            }
        }
    }

    /// Passes the coordinator's messages to `hear`, and reports the use of devices, until the session is over. Returns why
    /// it is, if it has ended while there was no connection.
    pub(crate) fn listen(&self, own_use: &OwnUse, hear: impl Fn(Message)) -> Option<String> {
        loop {
            let connection = self.lock().connection.clone()?;
            own_use.report_again();
            loop {
                let pause = self.lock().drives.then(|| own_use.pause());
                let heard = match pause {
                    Some(pause) => connection.next_within(pause),
                    None => connection.next().map(Heard::Message),
                };
                match heard {
                    Ok(Heard::Message(Some(message))) => self.pass_on(message).into_iter().for_each(&hear),
                    Ok(Heard::Nothing) => {}
                    Ok(Heard::Message(None)) | Err(_) => break,
                }
                let uses = own_use.sample(false);
                if !(connection.flush() && connection.report_used(&uses)) {
                    own_use.report_again();
                }
            }
            self.lock().connection = None;
            self.changed.notify_all();
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

/// Returns the error as the reason for a session's end: the cause, and the remedy after a semicolon.
fn words(error: &Error) -> String {
    let remedy = error.remedy_text().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    format!("{}{remedy}", error.cause())
}
