//! The coordinator's session endpoint, at which a program opens its session.
//!
//! ```text
//! program                                  coordinator
//!   TLS handshake, with PROTOCOL        <->                   on the coordinator's machine its UNIX socket, and PROTOCOL
//!   Open(request)                    ->
//!                                    <-    Queued(job), for a request that waits, and again when that changes
//!                                    <-    Granted(lease), or Refused(error) and the end
//!   Hold(request), of `accord run`   ->                       a job for as long as the connection lasts
//!                                    <-    Queued(job) as above, Held(job), or Refused(error) and the end
//!   MayUse(device)                   ->                       before each device's first use
//!                                    <-    UseAnswered(device, error)
//!   Used(...)                        ->                       any time later, of a program that drives devices
//!                                    <-    NodeLost, Warning  any time later
//! ```
//!
//! The program keeps the connection open: closing it ends the session. When the coordinator is lost the program keeps its
//! devices. It reconnects with `Attach(session, key)` instead of Open; the answer is Attached, Ended or Refused. Then a
//! program that has asked for nothing names the devices that it uses, by InUse.

use crate::frame::session::{Claim, HEADER_LEN, Message, REPLY_MAX, REQUEST_MAX, USES_MAX};
use crate::handshake::{Purpose, VERSIONS};
use crate::transport::{self, Lane, PeerAddress, Refused, SharedLane, probe_often, probe_seldom};
pub use crate::wait_display::WaitedMessage;
use crate::wait_display::{WaitDisplay, called};
use accord_trust::attest::{self, LATER, NONCE_LEN, TAKEN};
use accord_trust::attester::Attester;
use accord_trust::{Identity, explain, local};
use accord_types::backoff::Backoff;
use accord_types::settings::OPEN_TIMEOUT;
use accord_types::short_lock::ShortLock;
use accord_types::{DeviceId, DeviceUse, Error, ErrorCode, HeldJob, JobToken, Lease, Result, SessionRequest};
use std::io::{ErrorKind, IoSlice};
use std::time::{Duration, Instant};

/// The protocol's name in the TLS handshake. Its number is the version of all messages to programs,
/// [`crate::handshake::VERSION`].
pub const PROTOCOL: &str = "accord-session/2";
/// The beginning of the names of all its versions.
const ANY_VERSION: &str = "accord-session/";

/// Returns the names of the versions that this process knows, its own first.
pub fn protocols() -> impl Iterator<Item = String> {
    VERSIONS.known().map(|version| format!("{ANY_VERSION}{version}"))
}

/// Returns the version that a name of the protocol has, if peers of that version are served.
pub fn version_named(name: &[u8]) -> Option<u32> {
    let version = std::str::from_utf8(name).ok()?.strip_prefix(ANY_VERSION)?;
    version.parse().ok().filter(|version| VERSIONS.serves(*version))
}

/// Time after which the user is informed that opening takes long.
const REPORT_AFTER: Duration = Duration::from_secs(2);

/// Least time for the last attempt, even if the total time is over earlier.
const LAST_TRY: Duration = Duration::from_secs(2);

/// Time for reaching one of several coordinators, whose machine may be lost.
const REACHED_WITHIN: Duration = Duration::from_secs(2);

/// Most unsent bytes behind which a question is queued.
const UNSENT_MAX: usize = 64 << 10;

/// An open session's connection to the coordinator. Dropping it ends the session.
#[derive(Debug)]
pub struct SessionConnection {
    lane: SharedLane,
    /// Bytes that the full socket did not accept: of one report at most, and of questions up to [`UNSENT_MAX`]. They precede all later bytes.
    /// Writers never block on the socket, because a stopped coordinator reads nothing.
    unsent: ShortLock<Vec<u8>>,
    /// The TCP socket below the lane; `None` for a UNIX socket.
    tcp: Option<SharedLane>,
}

/// The outcome of reconnecting to a session.
pub enum Attachment {
    /// The session continues.
    Open(SessionConnection),
    /// The session has ended or never existed, for this reason.
    Over(String),
}

/// The time limit of opening a session, and callbacks for messages to the user.
pub struct OpenRetries<'a> {
    /// Time since the first attempt. Zero allows one attempt only.
    pub time: Duration,
    /// Called once with a line for the user if the coordinator can't be reached.
    pub notify: &'a dyn Fn(&str),
    /// Called with the state of a waiting request whenever it changes, and with `None` when the wait is over.
    pub waits: &'a dyn Fn(Option<&str>),
}

/// A failed attempt.
enum Failure {
    /// A later attempt may succeed: the coordinator can't be reached, or is overloaded.
    Again(Error),
    /// A later attempt would fail too.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Opens a session as [`open`], and retries after pauses while the coordinator can't be reached or is overloaded. An
/// attempt without an answer takes at most `timeout`, and no more than the time left. Time in which the coordinator
/// reports that the request waits does not count.
///
/// # Errors
/// Returns the last attempt's error of [`open`].
pub fn open_with_retries(
    address: &PeerAddress,
    identity: &Identity,
    timeout: Duration,
    retries: &OpenRetries<'_>,
    request: &SessionRequest,
) -> Result<(Lease, SessionConnection)> {
    match ask_with_retries(address, identity, timeout, retries, request, Message::Open, &|_| retries.time)? {
        (Message::Granted(lease), connection) => Ok((lease, connection)),
        (other, _) => Err(unexpected(address, &other)),
    }
}

/// Requests a job, and blocks until it has its devices. The job ends with the connection. A request with a job's token
/// resumes that job. A job has no time limit for reaching the coordinator once it has its number: a coordinator keeps it
/// for some minutes from its own start, whenever that is.
///
/// # Errors
/// Returns the errors of [`open_with_retries`].
pub fn hold_with_retries(
    address: &PeerAddress,
    identity: &Identity,
    timeout: Duration,
    retries: &OpenRetries<'_>,
    request: &SessionRequest,
) -> Result<(HeldJob, SessionConnection)> {
    let time = |request: &SessionRequest| if request.job.is_some() { Duration::MAX } else { retries.time };
    match ask_with_retries(address, identity, timeout, retries, request, Message::Hold, &time)? {
        (Message::Held(job), connection) => Ok((job, connection)),
        (other, _) => Err(unexpected(address, &other)),
    }
}

fn ask_with_retries(
    address: &PeerAddress,
    identity: &Identity,
    timeout: Duration,
    retries: &OpenRetries<'_>,
    request: &SessionRequest,
    word: fn(SessionRequest) -> Message,
    time_for: &dyn Fn(&SessionRequest) -> Duration,
) -> Result<(Message, SessionConnection)> {
    let mut request = request.clone();
    let mut begun = Instant::now();
    let mut time = time_for(&request);
    let mut backoff = Backoff::new(time, u64::from(request.pid));
    let mut reported = false;
    loop {
        let left = time.saturating_sub(begun.elapsed()).max(LAST_TRY);
        let timeout = if time.is_zero() { timeout } else { timeout.min(left) };
        let mut place = None;
        let outcome = attempt(address, identity, timeout, &word(request.clone()), retries.waits, &mut place);
        let error = match outcome {
            Ok(answered) => return Ok(answered),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Again(error)) => error,
        };
        if place.is_some() {
            // The coordinator keeps the place of a request for a while after its connection is lost.
            request.job = place;
            (begun, reported) = (Instant::now(), false);
            time = time_for(&request);
            backoff = Backoff::new(time, u64::from(request.pid));
        }
        let Some(pause) = backoff.pause(begun.elapsed()) else { return Err(error) };
        if begun.elapsed() >= REPORT_AFTER && !std::mem::replace(&mut reported, true) {
            let tries = match request.job {
                Some(JobToken { job, .. }) if time == Duration::MAX => {
                    format!("trying on until it answers, as it keeps job {job}")
                }
                _ => format!("trying on, for {time:?} in all ({})", OPEN_TIMEOUT.name),
            };
            (retries.notify)(&format!("{}; {tries}", error.cause()));
        }
        std::thread::sleep(pause);
    }
}

/// Opens a session at the coordinator's session endpoint at `address` (`host:port`).
///
/// # Errors
/// Returns `acc_error_device_unavailable` if no coordinator answers within `timeout`, or it has another key or version.
/// Otherwise returns the coordinator's refusal.
pub fn open(
    address: &PeerAddress,
    identity: &Identity,
    timeout: Duration,
    request: &SessionRequest,
) -> Result<(Lease, SessionConnection)> {
    let answered = attempt(address, identity, timeout, &Message::Open(request.clone()), &|_| (), &mut None);
    match answered.map_err(|(Failure::Again(error) | Failure::Final(error))| error)? {
        (Message::Granted(lease), connection) => Ok((lease, connection)),
        (other, _) => Err(unexpected(address, &other)),
    }
}

/// Sends the first message and waits for the answer. Stores the token of a request that waits in `place`.
fn attempt(
    address: &PeerAddress,
    identity: &Identity,
    timeout: Duration,
    first: &Message,
    waits: &dyn Fn(Option<&str>),
    place: &mut Option<JobToken>,
) -> Result<(Message, SessionConnection), Failure> {
    let (mut answer, connection) = ask(address, identity, timeout, first)?;
    let mut displayed = WaitDisplay::new(waits);
    let mut is_waiting = false;
    loop {
        match answer {
            Message::Refused(error) => return Err(Failure::Final(error)),
            Message::Queued(job) => {
                *place = Some(job.token);
                if !std::mem::replace(&mut is_waiting, true) {
                    connection.waits(true);
                }
                displayed.update(&job);
                let lost = unavailable(format!("the coordinator at {address} is gone while {} waits", called(&job)));
                // A request has no time limit while the coordinator is connected.
                answer = displayed.next(|time| connection.read_within(time))?.ok_or(Failure::Again(lost))?;
            }
            other => {
                if is_waiting {
                    connection.waits(false);
                }
                return Ok((other, connection));
            }
        }
    }
}

fn unexpected(address: &PeerAddress, answer: &Message) -> Error {
    unavailable(format!("the coordinator at {address} answered {answer:?}"))
}

/// Reconnects to a session whose connection is lost.
///
/// # Errors
/// Returns the errors of [`open`] if the coordinator does not answer; a later attempt may succeed.
pub fn attach(address: &PeerAddress, identity: &Identity, timeout: Duration, claim: &Claim) -> Result<Attachment> {
    match ask(address, identity, timeout, &Message::Attach(claim.clone())) {
        Ok((Message::Attached, connection)) => Ok(Attachment::Open(connection)),
        Ok((Message::Ended(why), _)) => Ok(Attachment::Over(why)),
        Ok((Message::Refused(error), _)) => Ok(Attachment::Over(error.cause().to_owned())),
        Ok((other, _)) => Err(unavailable(format!("the coordinator at {address} answered {other:?}"))),
        Err(Failure::Again(error) | Failure::Final(error)) => Err(error),
    }
}

/// Asks each coordinator of a list in turn, until one answers that leads the cluster.
fn ask(
    addresses: &PeerAddress,
    identity: &Identity,
    timeout: Duration,
    first: &Message,
) -> Result<(Message, SessionConnection), Failure> {
    let each: Vec<PeerAddress> = addresses.each().collect();
    let reached_within = if each.len() > 1 { timeout.min(REACHED_WITHIN) } else { timeout };
    let mut failure = Failure::Final(unavailable(format!("{addresses} names no coordinator")));
    for address in &each {
        match ask_one(address, identity, (reached_within, timeout), first) {
            Err(Failure::Again(error)) => failure = Failure::Again(error),
            other => return other,
        }
    }
    Err(failure)
}

/// Connects within the first time, sends the first message, and reads the answer within the second time.
fn ask_one(
    address: &PeerAddress,
    identity: &Identity,
    (reached_within, timeout): (Duration, Duration),
    first: &Message,
) -> Result<(Message, SessionConnection), Failure> {
    let (lane, tcp) = reach(address, identity, reached_within)?;
    let broken = |error: std::io::Error| {
        let cause = format!("the coordinator at {address} broke off while opening a session: {error}");
        Failure::Again(unavailable(cause).remedy("look at the coordinator's messages"))
    };
    let bytes = first.encode();
    if bytes.len() > REQUEST_MAX {
        return Err(Error::new(ErrorCode::InvalidArgument, "the program's or the node's name is too long").into());
    }
    lane.limit(Some(timeout)).map_err(broken)?;
    lane.send(&bytes).map_err(broken)?;
    let reply = match read_message(&*lane) {
        Ok(Some(Message::NotLeading(text))) => {
            let remedy = "name all coordinators of the cluster in ACCORD_COORDINATOR";
            return Err(Failure::Again(
                unavailable(format!("the coordinator at {address} says: {text}")).remedy(remedy),
            ));
        }
        Ok(Some(reply)) => reply,
        Ok(None) => return Err(broken(ErrorKind::UnexpectedEof.into())),
        Err(error) => {
            let reported = unavailable(format!("the coordinator at {address}: {}", error.cause()));
            let reported = reported.remedy_if(error.remedy_text());
            // A protocol error, or a failed authentication, would occur again.
            return Err(if error.code() == ErrorCode::System {
                Failure::Again(reported)
            } else {
                Failure::Final(reported)
            });
        }
    };
    lane.limit(None).map_err(broken)?;
    Ok((reply, SessionConnection { lane, unsent: ShortLock::default(), tcp }))
}

/// Returns a lane to the coordinator, with both sides authenticated, and the TCP socket below it.
fn reach(
    address: &PeerAddress,
    identity: &Identity,
    timeout: Duration,
) -> Result<(SharedLane, Option<SharedLane>), Failure> {
    let peer = format!("the coordinator at {address}");
    let shaken = |error: std::io::Error| {
        let reason = explain::broken(&error, &peer);
        // An error that TLS itself reports would occur again.
        if explain::in_chain(&error, &peer).is_some() { Failure::Final(reason) } else { Failure::Again(reason) }
    };
    if let Some(path) = local::path_of(address.as_str()) {
        let lane = transport::connect_local(path).map_err(|refused| match refused {
            Refused::Absent(error) => Failure::Again(error),
            Refused::Strange(error) => Failure::Final(error),
        })?;
        lane.limit(Some(timeout)).map_err(shaken)?;
        // A coordinator of the release before serves this version, too.
        let protocol = protocols().next().unwrap_or_default();
        let len = u8::try_from(protocol.len()).unwrap_or(u8::MAX);
        lane.send(&[&[len], protocol.as_bytes()].concat()).map_err(shaken)?;
        await_answer(&*lane, &shaken)?;
        return Ok((lane, None));
    }
    let remedy = "set ACCORD_COORDINATOR to host:port";
    address.check("coordinator", remedy)?;
    let below = transport::connect_tcp(address, "coordinator", remedy, timeout).map_err(Failure::Again)?;
    let protocols: Vec<Vec<u8>> = protocols().map(String::into_bytes).collect();
    let secured = transport::connect_tls(below.clone(), identity.to_coordinator_by(&protocols)?, timeout);
    let lane = secured.map_err(shaken)?;
    lane.introduced(Purpose::Session.unread_max()).map_err(shaken)?;
    if let Some(attester) = identity.attester() {
        lane.limit(Some(timeout)).map_err(shaken)?;
        show_credential(&*lane, attester, &shaken)?;
    }
    Ok((lane, Some(below)))
}

/// Sends a credential for this process: of MUNGE, bound to this coordinator and connection, or a token of Kubernetes.
fn show_credential(
    lane: &dyn Lane,
    attester: &Attester,
    shaken: &impl Fn(std::io::Error) -> Failure,
) -> Result<(), Failure> {
    let mut nonce = [0; NONCE_LEN];
    lane.read_exact(&mut nonce).map_err(shaken)?;
    let credential = attester.credential(&nonce)?;
    lane.send(&attest::encode_credential(&credential)).map_err(shaken)?;
    await_answer(lane, shaken)
}

/// Reads whether the coordinator accepts this side.
fn await_answer(lane: &dyn Lane, shaken: &impl Fn(std::io::Error) -> Failure) -> Result<(), Failure> {
    let mut verdict = [0];
    lane.read_exact(&mut verdict).map_err(shaken)?;
    if verdict == [TAKEN] {
        return Ok(());
    }
    let mut len = [0; 2];
    lane.read_exact(&mut len).map_err(shaken)?;
    let mut words = vec![0; attest::words_len(len)];
    lane.read_exact(&mut words).map_err(shaken)?;
    let error = unavailable(format!("the coordinator refuses: {}", attest::words(&words)));
    Err(if verdict == [LATER] { Failure::Again(error) } else { Failure::Final(error) })
}

impl SessionConnection {
    /// Blocks until the coordinator's next message. Returns `None` when the connection is lost, which the program survives.
    ///
    /// # Errors
    /// Returns an error if the coordinator does not follow the protocol.
    pub fn next(&self) -> Result<Option<Message>> {
        match read_message(&*self.lane) {
            Err(error) if error.code() == ErrorCode::System => Ok(None),
            other => other,
        }
    }

    /// Reads as [`SessionConnection::next`], for at most `time`, if given.
    fn read_within(&self, time: Option<Duration>) -> Result<WaitedMessage> {
        match read_message_within(&*self.lane, time) {
            Err(error) if error.code() == ErrorCode::System => Ok(WaitedMessage::Message(None)),
            other => other,
        }
    }

    /// Sends a message without blocking. Bytes that the full socket does not accept follow with the next message, or with
    /// [`SessionConnection::flush`]. Returns whether the message is accepted: not while more than `unsent_max` bytes are
    /// unsent. A connection that fails is closed.
    fn send(&self, message: &Message, unsent_max: usize) -> bool {
        let mut unsent = self.unsent.lock();
        self.write(&mut unsent);
        if unsent.len() > unsent_max {
            return false;
        }
        unsent.extend(message.encode());
        self.write(&mut unsent);
        true
    }

    /// Sends unsent bytes as far as the socket accepts them. Returns whether none remain.
    pub fn flush(&self) -> bool {
        self.write(&mut self.unsent.lock())
    }

    fn write(&self, unsent: &mut Vec<u8>) -> bool {
        while !unsent.is_empty() {
            match self.lane.try_write(&[IoSlice::new(unsent)]) {
                Ok(written) => {
                    unsent.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(_) => {
                    unsent.clear();
                    self.lane.shutdown();
                }
            }
        }
        true
    }

    /// Asks the coordinator whether a device may be used. Best effort: there is no answer if the connection breaks, and a late one if the
    /// coordinator is stopped.
    pub fn ask_use(&self, device: DeviceId) {
        self.send(&Message::MayUse(device), UNSENT_MAX);
    }

    /// Blocks until the next message from the coordinator, for `time` at most.
    ///
    /// # Errors
    /// Returns an error if the coordinator violates the protocol.
    pub fn next_within(&self, time: Duration) -> Result<WaitedMessage> {
        self.read_within(Some(time))
    }

    /// Reports the use of devices that the program drives itself to the coordinator. Returns whether the connection accepts all of it: not while the
    /// coordinator reads nothing and the socket is full.
    pub fn report_used(&self, uses: &[(DeviceId, DeviceUse)]) -> bool {
        uses.chunks(USES_MAX).all(|uses| self.send(&Message::Used(uses.to_vec()), 0))
    }

    /// Adapts the TCP probes to a request that begins to wait, or ends waiting. Meanwhile almost nothing is sent, and a lost
    /// coordinator's machine may be noticed only after minutes.
    fn waits(&self, begins: bool) {
        let descriptors = self.tcp.iter().flat_map(|tcp| tcp.descriptors().handed_over);
        for socket in descriptors {
            // A socket that can't be tuned fails in the next read.
            let _ = if begins { probe_seldom(&socket) } else { probe_often(&socket) };
        }
        if !begins {
            let _ = self.lane.introduced(Purpose::Session.unread_max());
        }
    }

    /// Tells the coordinator, to which the program has come back, which devices the program uses. Best effort.
    pub fn report_in_use(&self, devices: &[DeviceId]) {
        for devices in devices.chunks(USES_MAX) {
            self.send(&Message::InUse(devices.to_vec()), UNSENT_MAX);
        }
    }

    /// Makes [`SessionConnection::next`] return `None`, from any thread, and ends the session.
    pub fn close(&self) {
        self.lane.shutdown();
    }
}

/// Reads one message of the coordinator. Returns `None` at the end between two messages, and `acc_error_system` if the
/// connection breaks.
fn read_message(lane: &dyn Lane) -> Result<Option<Message>> {
    match read_message_within(lane, None)? {
        WaitedMessage::Message(message) => Ok(message),
        WaitedMessage::Nothing => Ok(None),
    }
}

/// Reads as [`read_message`]. With a time, returns [`WaitedMessage::Nothing`] if no byte arrives within it.
fn read_message_within(lane: &dyn Lane, time: Option<Duration>) -> Result<WaitedMessage> {
    let broken = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock => Error::new(ErrorCode::System, "no answer in time"),
        // The coordinator's first message tells whether it accepts this side.
        _ => explain::in_chain(&error, "it")
            .unwrap_or_else(|| Error::new(ErrorCode::System, format!("the connection broke: {error}"))),
    };
    if time.is_some() {
        lane.limit(time).map_err(broken)?;
    }
    let mut header = [0; HEADER_LEN];
    let first = loop {
        match lane.read(&mut header[..1]) {
            Ok(n) => break n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if time.is_some() && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                lane.limit(None).map_err(broken)?;
                return Ok(WaitedMessage::Nothing);
            }
            Err(error) => return Err(broken(error)),
        }
    };
    if time.is_some() {
        lane.limit(None).map_err(broken)?;
    }
    if first == 0 {
        return Ok(WaitedMessage::Message(None));
    }
    lane.read_exact(&mut header[1..]).map_err(broken)?;
    let (kind, length) = Message::header(&header, REPLY_MAX)?;
    let mut body = vec![0; length];
    lane.read_exact(&mut body).map_err(broken)?;
    Message::decode(kind, &body).map(|message| WaitedMessage::Message(Some(message)))
}

fn unavailable(cause: String) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::VERSION;
    use crate::transport::plain;
    use accord_types::NodeId;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Reads one message of the program.
    fn read(lane: &dyn Lane) -> Option<Message> {
        let mut header = [0; HEADER_LEN];
        lane.read_exact(&mut header).ok()?;
        let (kind, length) = Message::header(&header, REQUEST_MAX).ok()?;
        let mut body = vec![0; length];
        lane.read_exact(&mut body).ok()?;
        Message::decode(kind, &body).ok()
    }

    #[test]
    fn a_coordinator_that_reads_nothing_for_long_gets_the_newest_report_and_every_question() {
        const WITHIN: Duration = Duration::from_millis(1);
        const QUESTIONS: u32 = 20;
        let (near, far) = UnixStream::pair().unwrap();
        let coordinator = plain(far.into());
        let connection =
            SessionConnection { lane: Arc::new(plain(near.into())), unsent: ShortLock::default(), tcp: None };
        let report =
            |bytes_in| [(DeviceId { node: NodeId(1), ordinal: 0 }, DeviceUse { bytes_in, ..DeviceUse::default() })];
        let stopped = AtomicBool::new(true);
        std::thread::scope(|scope| {
            // The listening thread reads with a limit, so that it can sample the devices' use.
            scope.spawn(|| {
                while stopped.load(Ordering::Relaxed) {
                    assert!(
                        matches!(connection.next_within(WITHIN), Ok(WaitedMessage::Nothing)),
                        "the connection has ended"
                    );
                }
            });
            let accepted = (0..).take_while(|&at| connection.report_used(&report(at))).count();
            assert!(accepted > 0);
            assert!(!connection.report_used(&report(0)), "nothing has room");
            (0..QUESTIONS).for_each(|ordinal| connection.ask_use(DeviceId { node: NodeId(1), ordinal }));
            assert!(!connection.flush());
            stopped.store(false, Ordering::Relaxed);
        });
        let newest = u64::MAX;
        let mut received = Vec::new();
        // The newest report is accepted as soon as the socket has room.
        while received.last() != Some(&Message::Used(report(newest).to_vec())) {
            if connection.flush() {
                connection.report_used(&report(newest));
            }
            received.push(read(&coordinator).expect("a whole message"));
        }
        let asked = |message: &Message| if let Message::MayUse(device) = message { Some(device.ordinal) } else { None };
        assert!(received.iter().filter_map(asked).eq(0..QUESTIONS));
        let reports = received.iter().filter_map(|message| match message {
            Message::Used(uses) => Some(uses[0].1.bytes_in),
            _ => None,
        });
        assert!(reports.take_while(|&bytes| bytes != newest).eq(0..(received.len() as u64 - u64::from(QUESTIONS) - 1)));
    }

    #[test]
    fn the_protocol_says_its_version() {
        assert_eq!(PROTOCOL, format!("accord-session/{VERSION}"));
    }
}
