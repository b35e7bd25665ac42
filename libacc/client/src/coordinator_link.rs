//! A session's connection to the coordinator. When it breaks, as when the coordinator restarts, the session goes on,
//! and reconnects as soon as there is a coordinator.

use crate::own_use::OwnUse;
use crate::settings::Coordinator;
use accord_fabric::frame::session::{Claim, Message};
use accord_fabric::session_endpoint::{self, Attachment, SessionConnection, WaitedMessage};
use accord_types::backoff::Backoff;
use accord_types::settings::OPEN_TIMEOUT;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{DeviceId, DeviceUse, Error, ErrorCode, NodeId, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// The time limit of each answer of the coordinator.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit of the permission to use a device. A stopped coordinator delays each program once by it.
const USE_ANSWER_MAX: Duration = Duration::from_secs(3);

/// The time that the listening thread has to begin, before a thread that waits for an answer reads the messages itself.
const BEGIN_MAX: Duration = Duration::from_millis(50);

/// Most messages that such a thread keeps for the listening thread.
const EARLY_MAX: usize = 64;

/// The thread that reads the coordinator's messages.
///
/// A program may start a device in a constructor, with the dynamic linker's lock, which a new thread needs before it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reader {
    /// The listening thread has not begun.
    None,
    /// A thread that waits for an answer.
    Asker,
    /// The listening thread.
    Listener,
}

/// The program's connection to the coordinator.
pub(crate) struct CoordinatorLink {
    coordinator: Coordinator,
    claim: Claim,
    is_of_job: bool,
    /// The time limit of an answer that the program can't go on without.
    open_limit: Duration,
    state: ShortLock<Presence>,
    /// Notified when the session is over, the connection breaks, or an answer arrives.
    changed: Condvar,
}

struct Presence {
    /// `None` while it is broken.
    connection: Option<Arc<SessionConnection>>,
    reader: Reader,
    /// Messages that an asker has read for the listening thread.
    early: Vec<Message>,
    over: bool,
    /// The devices that threads wait for permission to use, with the answers.
    asked: BTreeMap<DeviceId, Option<Result<()>>>,
    /// The devices that the program uses, or begins to use, without having asked for them.
    used: BTreeSet<DeviceId>,
    /// The program's own node, if the program uses a device there and the coordinator has not said that it told the node's agent of the session.
    unreported: Option<NodeId>,
    /// The coordinator has left a question unanswered, and nothing has arrived since.
    is_silent: bool,
    /// Whether the program has begun to drive a device itself. Until then no use is sampled, so that no timer wakes an
    /// idle program.
    drives: bool,
}

impl Presence {
    fn uses(&self, node: NodeId) -> bool {
        self.used.iter().any(|used| used.node == node)
    }

    /// Records a device that the program begins to use, with or without the coordinator's answer. Returns whether the program did not use it before.
    fn begin(&mut self, device: DeviceId) -> bool {
        if !self.uses(device.node) {
            self.unreported = Some(device.node);
        }
        self.used.insert(device)
    }
}

impl CoordinatorLink {
    /// Creates the link of an open session. `open_limit` is the time limit of a question that needs an answer.
    pub(crate) fn new(
        coordinator: Coordinator,
        claim: Claim,
        connection: SessionConnection,
        is_of_job: bool,
        open_limit: Duration,
    ) -> Arc<Self> {
        let state = Presence {
            connection: Some(Arc::new(connection)),
            reader: Reader::None,
            early: Vec::new(),
            over: false,
            asked: BTreeMap::new(),
            used: BTreeSet::new(),
            unreported: None,
            is_silent: false,
            drives: false,
        };
        let (state, changed) = (ShortLock::new(state), Condvar::new());
        Arc::new(Self { coordinator, claim, is_of_job, open_limit, state, changed })
    }

    /// Announces a device that the program drives itself, as [`CoordinatorLink::use_device`] does. Its use is sampled
    /// from now on.
    ///
    /// # Errors
    /// Returns the coordinator's error if a job has the device to itself.
    pub(crate) fn use_own_device(&self, device: DeviceId) -> Result<()> {
        self.lock().drives = true;
        self.use_by(device, true)
    }

    /// Announces the use of a device to the coordinator. A program without a request waits for permission, because the
    /// device may belong to a job by now. The first such question about a node makes the session known to its agent. On
    /// a node that the program already uses, it continues without an answer if the coordinator is absent or silent.
    ///
    /// # Errors
    /// Returns the coordinator's error if a job has the device to itself. Returns `acc_error_device_unavailable` if a
    /// question about a node that the program does not use yet has no answer in time.
    pub(crate) fn use_device(&self, device: DeviceId) -> Result<()> {
        self.use_by(device, false)
    }

    /// Whether the agent of `node` was told of the session, or is about to be. An agent that was not told keeps a lane waiting, and refuses it.
    pub(crate) fn agent_knows(&self, node: NodeId) -> bool {
        self.lock().unreported != Some(node)
    }

    fn use_by(&self, device: DeviceId, is_own: bool) -> Result<()> {
        if self.is_of_job {
            // The answer wakes the thread that samples the use of the device; no thread waits for it.
            let connection = self.lock().connection.clone();
            connection.iter().for_each(|connection| connection.ask_use(device));
            return Ok(());
        }
        let is_known = |state: &Presence| state.uses(device.node) && state.unreported != Some(device.node);
        let needs_answer = !is_own && !is_known(&self.lock());
        let answer =
            if needs_answer { self.ask_until_answered(device)? } else { self.ask(device, USE_ANSWER_MAX, false) };
        answer.unwrap_or(Ok(()))?;
        self.lock().used.insert(device);
        Ok(())
    }

    /// Asks for a device of a node whose agent does not know the session, and repeats the question on later
    /// connections. Returns `None` if the session is over.
    fn ask_until_answered(&self, device: DeviceId) -> Result<Option<Result<()>>> {
        let (begun, limit) = (Instant::now(), self.open_limit.max(USE_ANSWER_MAX));
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let is_away = |state: &mut Presence| !state.over && state.connection.is_none();
            let (state, _) = ShortGuard::wait_timeout_while(self.lock(), &self.changed, left, is_away);
            if state.over {
                return Ok(None);
            }
            drop(state);
            if let Some(answer) = self.ask(device, limit.saturating_sub(begun.elapsed()), true) {
                return Ok(Some(answer));
            }
            if begun.elapsed() >= limit {
                return Err(unanswered(limit));
            }
        }
    }

    /// Asks for a device, and waits at most `time` for the answer. Returns `None` without an answer: there is no
    /// connection, the coordinator is silent, or the session is over. If `is_needed`, the wait includes a silent
    /// coordinator's answer.
    fn ask(&self, device: DeviceId, time: Duration, is_needed: bool) -> Option<Result<()>> {
        let mut state = self.lock();
        // The program goes on without an answer. The next coordinator is told of the device, and a later refusal is of a device in use.
        let begins = !is_needed && state.begin(device);
        let connection = state.connection.clone()?;
        let waits = is_needed || !state.is_silent;
        if waits {
            state.asked.insert(device, None);
        }
        drop(state);
        connection.ask_use(device);
        if !waits {
            return None;
        }
        let is_same = |other: &Option<Arc<SessionConnection>>| {
            other.as_ref().is_some_and(|other| Arc::ptr_eq(other, &connection))
        };
        let is_unanswered = |state: &mut Presence| {
            !state.over && is_same(&state.connection) && matches!(state.asked.get(&device), Some(None))
        };
        let begun = Instant::now();
        let begins_soon = |state: &mut Presence| state.reader == Reader::None && is_unanswered(state);
        let (mut state, is_none) =
            ShortGuard::wait_timeout_while(self.lock(), &self.changed, BEGIN_MAX.min(time), begins_soon);
        if is_none {
            state.reader = Reader::Asker;
            drop(state);
            self.read_until(&connection, begun + time, is_unanswered);
            state = self.lock();
        }
        let left = time.saturating_sub(begun.elapsed());
        let (mut state, is_late) = ShortGuard::wait_timeout_while(state, &self.changed, left, is_unanswered);
        state.is_silent = is_late;
        let answer = state.asked.remove(&device).flatten();
        if begins && matches!(answer, Some(Err(_))) {
            state.used.remove(&device);
        }
        answer
    }

    /// Reads messages in place of the listening thread until `deadline`, and while `waits` holds.
    fn read_until(&self, connection: &SessionConnection, deadline: Instant, waits: impl Fn(&mut Presence) -> bool) {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut state = self.lock();
            if left.is_zero() || state.early.len() >= EARLY_MAX || !waits(&mut state) {
                break;
            }
            drop(state);
            // The listening thread meets the end of the connection, too.
            let Ok(WaitedMessage::Message(Some(message))) = connection.next_within(left) else { break };
            if let Some(message) = self.pass_on(message) {
                self.lock().early.push(message);
            }
        }
        self.lock().reader = Reader::None;
        self.changed.notify_all();
    }

    /// Makes this the thread that reads the messages. Returns those that another thread has read.
    fn begin_to_listen(&self) -> Vec<Message> {
        let mut state = self.lock();
        while state.reader == Reader::Asker {
            state = ShortGuard::wait_timeout_while(state, &self.changed, SESSION_TIMEOUT, |state| {
                state.reader == Reader::Asker
            })
            .0;
        }
        state.reader = Reader::Listener;
        let early = std::mem::take(&mut state.early);
        drop(state);
        self.changed.notify_all();
        early
    }

    /// Hands an answer to the thread that waits for it. Without such a thread, returns the error if the device is
    /// already in use.
    fn answer(&self, device: DeviceId, answer: Result<()>) -> Result<()> {
        let mut state = self.lock();
        if answer.is_ok() && state.unreported == Some(device.node) {
            state.unreported = None;
        }
        let is_in_use = state.used.contains(&device);
        match state.asked.get_mut(&device) {
            Some(waiting) if waiting.is_none() => *waiting = Some(answer),
            _ if is_in_use => return answer,
            _ => return Ok(()),
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Records the end of the session, and wakes all threads that wait for an answer. Their device starts fail with the
    /// reason, which the node already knows.
    pub(crate) fn session_is_over(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// Reports the program's use of its devices to the coordinator. A lost report does no harm, because later ones
    /// contain it.
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

    /// Whether the devices are those of a job, which the program requested or a policy assigned.
    pub(crate) fn is_of_job(&self) -> bool {
        self.is_of_job
    }

    /// Hands an answer to the thread that waits for it. Returns all other messages.
    fn pass_on(&self, message: Message) -> Option<Message> {
        self.lock().is_silent = false;
        let Message::UseAnswered { device, error } = message else { return Some(message) };
        // A late refusal: the device is in use, and the session has no right to it.
        self.answer(device, error.map_or(Ok(()), Err)).err().map(|error| Message::Ended(words(&error)))
    }

    /// Passes the coordinator's messages to `hear`, and reports the use of devices, until the session is over. Returns
    /// the reason for the session's end if it ended while the connection was broken.
    pub(crate) fn listen(&self, own_use: &OwnUse, hear: impl Fn(Message)) -> Option<String> {
        self.begin_to_listen().into_iter().for_each(&hear);
        loop {
            let connection = self.lock().connection.clone()?;
            own_use.report_again();
            loop {
                let pause = self.lock().drives.then(|| own_use.pause());
                let received = match pause {
                    Some(pause) => connection.next_within(pause),
                    None => connection.next().map(WaitedMessage::Message),
                };
                match received {
                    Ok(WaitedMessage::Message(Some(message))) => self.pass_on(message).into_iter().for_each(&hear),
                    Ok(WaitedMessage::Nothing) => {}
                    Ok(WaitedMessage::Message(None)) | Err(_) => break,
                }
                let uses = own_use.sample(false);
                if !(connection.flush() && connection.report_used(&uses)) {
                    own_use.report_again();
                }
            }
            self.lock().connection = None;
            self.changed.notify_all();
            drop(connection);
            if let Some(why) = self.reconnect() {
                return Some(why);
            }
        }
    }

    /// Reconnects, with pauses and without a time limit. Returns the reason for the session's end if the coordinator
    /// reports one.
    fn reconnect(&self) -> Option<String> {
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
                    self.go_on(connection);
                    return None;
                }
                Ok(Attachment::Over(why)) => return Some(why),
                Err(_) => {}
            }
        }
    }

    /// Adopts a new connection after its coordinator was told of all devices that the program uses, none of which goes to a job.
    fn go_on(&self, connection: SessionConnection) {
        let mut reported = BTreeSet::new();
        let mut state = self.lock();
        loop {
            let new: Vec<DeviceId> = state.used.difference(&reported).copied().collect();
            if new.is_empty() {
                break;
            }
            drop(state);
            connection.report_in_use(&new);
            reported.extend(new);
            state = self.lock();
        }
        state.unreported = None;
        // If the session has ended meanwhile, the connection is dropped.
        if !state.over {
            state.connection = Some(Arc::new(connection));
        }
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> ShortGuard<'_, Presence> {
        self.state.lock()
    }
}

fn unanswered(limit: Duration) -> Error {
    let cause = format!(
        "the coordinator has not said within {limit:?} ({}) that the program may use this node",
        OPEN_TIMEOUT.name
    );
    Error::new(ErrorCode::DeviceUnavailable, cause)
        .remedy("use devices of nodes that the program uses already, or try again when the coordinator is back")
}

/// Returns the error as the reason for a session's end: the cause, and the remedy after a semicolon.
fn words(error: &Error) -> String {
    let remedy = error.remedy_text().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    format!("{}{remedy}", error.cause())
}

#[cfg(test)]
mod tests;
