//! The first bytes of every connection: both ends introduce themselves, agree on the version, and prove the same key.
//!
//! ```text
//! client                                   server
//!   Hello (68 bytes)                 ->
//!                                    <-    Answer: refusal, or nonce + server's proof
//!   client's proof (32 bytes)        ->
//!                                    <-    Answer: welcome, or refusal
//! ```
//!
//! Two versions can report that they differ, because every version begins alike: a hello with 12 bytes (magic, version), and
//! an answer with 16 (magic, version, verdict, length of the rest). Both sides prove over both nonces that they have the
//! session's key. If the hello announces TLS, because the lane leaves the machine, TLS follows (`secret`) and is bound to
//! these proofs.

mod answer;
mod hello;
pub(crate) mod io;
mod secret;
mod server;

use crate::key::{self, Key};
use crate::route::Route;
use crate::transport::{self, Lane, PeerAddress, SharedLane, Transport};
use accord_types::protocol_version::UPGRADE;
use accord_types::{Error, ErrorCode, Result, scarce};
pub(crate) use answer::refusal;
use answer::{ANSWER_LEN, CHALLENGE_LEN, REFUSAL_MAX, REFUSED_FOR_NOW, WELCOME, answer};
pub use hello::{HELLO_LEN, Hello, MAGIC, Purpose, VERSION, VERSIONS};
use hello::{NONCE_LEN, malformed, unavailable};
pub use io::Deadline;
pub use secret::{Introduced, LaneSecret, check_secure};
pub use server::Proven;
use server::{CLIENT, SERVER};
pub(crate) use server::{Challenge, PartialHello};
use std::time::Duration;

/// The time limits of connecting to a server.
#[derive(Clone, Copy, Debug)]
pub struct ConnectLimits {
    /// The time until the server has accepted the hello.
    pub introduced: Duration,
    /// The time after that until TLS is established, if it follows. An executor may have to start meanwhile.
    pub secured: Duration,
}

impl From<Duration> for ConnectLimits {
    /// Limits the time until the server has accepted the hello.
    fn from(introduced: Duration) -> Self {
        Self { introduced, secured: secret::TIMEOUT }
    }
}

/// Connects by TCP to an address of this machine, whichever user's process serves it, see [`connect_by`].
///
/// # Errors
/// Returns the errors of [`connect_by`].
pub fn connect(to: &PeerAddress, hello: &Hello, key: &Key, timeout: Duration) -> Result<SharedLane> {
    connect_with(&Route::tcp(to.clone()), hello, key, timeout.into())
}

/// Connects to the server by `route` and introduces this process to the node that the route names, within `limits`.
///
/// # Errors
/// Returns `acc_error_device_unavailable`, with the reason: no server, another key or version, or a refusal. The error is
/// transient if the server refuses only for now.
pub fn connect_by(route: &Route, hello: &Hello, key: &Key, limits: impl Into<ConnectLimits>) -> Result<SharedLane> {
    let secure = route.transport == Transport::Tls;
    connect_with(route, &Hello { to: Some(route.endpoint.node), secure, ..*hello }, key, limits.into())
}

fn connect_with(route: &Route, hello: &Hello, key: &Key, limits: ConnectLimits) -> Result<SharedLane> {
    let deadline = Deadline::after(limits.introduced);
    let name = hello.purpose.server();
    let remedy = match hello.purpose {
        Purpose::Session => "set ACCORD_COORDINATOR to host:port",
        _ => "check the name; it must be host:port",
    };
    let server = format!("the {name} at {}", route.endpoint);
    let mut secret = None;
    let lane = transport::connect(route, name, remedy, limits.introduced, |lane| {
        secret = Some(introduce(lane, hello, key, deadline, &server)?);
        lane.introduced(hello.purpose.unread_max()).map_err(|error| unavailable(format!("{server}: {error}")))
    })?;
    match secret {
        Some(secret) if hello.secure => secret.connect(lane, &server, limits.secured),
        _ => Ok(lane),
    }
}

/// Introduces this process to the server at the other end of a new lane.
///
/// # Errors
/// Returns the errors of [`connect_by`].
pub fn introduce(lane: &dyn Lane, hello: &Hello, key: &Key, deadline: Deadline, server: &str) -> Result<LaneSecret> {
    let broken = |error| broken_off(server, &error);
    let mut nonce = [0; NONCE_LEN];
    key::fill_random(&mut nonce)?;
    let hello = hello.encode(&nonce);
    io::write(lane, &hello, deadline).map_err(broken)?;
    let (length, version) = read_answer(lane, deadline, server)?;
    if length != CHALLENGE_LEN {
        return Err(unavailable(format!("{server} does not follow the protocol: a challenge of {length} bytes")));
    }
    let mut challenge = [0; CHALLENGE_LEN];
    io::read(lane, &mut challenge, deadline).map_err(broken)?;
    let (server_nonce, proof) = challenge.split_at(NONCE_LEN);
    if !key.proves(&[SERVER, &hello, server_nonce], &io::take(proof, 0)) {
        return Err(unavailable(format!("{server} has another key"))
            .remedy("check that it is the agent of this cluster, and start the program again"));
    }
    let proof = key.prove(&[CLIENT, &hello, server_nonce]);
    io::write(lane, &proof, deadline).map_err(broken)?;
    match read_answer(lane, deadline, server)? {
        (0, _) => Ok(LaneSecret::new(key, &hello, server_nonce, VERSIONS.common(version))),
        (length, _) => Err(unavailable(format!("{server} does not follow the protocol: a welcome of {length} bytes"))),
    }
}

fn broken_off(server: &str, error: &std::io::Error) -> Error {
    unavailable(format!("{server} broke the handshake off: {error}")).remedy("see the agents' messages")
}

/// Reads the fixed part of an answer, and the rest if the answer is a refusal. Returns the length of the rest, and
/// the server's version.
fn read_answer(lane: &dyn Lane, deadline: Deadline, server: &str) -> Result<(usize, u32)> {
    let broken = |error| broken_off(server, &error);
    let mut answer = [0; ANSWER_LEN];
    io::read(lane, &mut answer, deadline).map_err(broken)?;
    if answer[..8] != MAGIC {
        return Err(unavailable(format!("{server} does not speak Accord's protocol")).remedy("check the port"));
    }
    let version = u32::from_le_bytes(io::take(&answer, 8));
    if !VERSIONS.serves(version) {
        let own = VERSIONS.own();
        return Err(unavailable(format!("{server} speaks protocol {version}, this program {own}")).remedy(UPGRADE));
    }
    let verdict = u16::from_le_bytes(io::take(&answer, 12));
    let length = usize::from(u16::from_le_bytes(io::take(&answer, 14)));
    if verdict == WELCOME {
        return Ok((length, version));
    }
    let mut text = vec![0; length.min(REFUSAL_MAX)];
    io::read(lane, &mut text, deadline).map_err(broken)?;
    let error = unavailable(format!("{server} refused the connection: {}", String::from_utf8_lossy(&text)));
    Err(if verdict == REFUSED_FOR_NOW { error.transient() } else { error })
}

/// Accepts a client's introduction. Reads no bytes after it, because they may be TLS's, see [`Introduced::secure`]. A client
/// that is refused receives the reason before this returns; the connection is unusable then.
///
/// # Errors
/// Returns an error with the reason why the client was refused, or `acc_error_device_shutdown` if it closed the connection
/// without sending a byte.
pub fn accept(lane: &dyn Lane, key: &Key, timeout: Duration) -> Result<Introduced> {
    accept_if(lane, timeout, |_| Ok(key.clone()), |_| Ok(()))
}

/// Accepts as [`accept`], with the key that `key_of` finds for a hello, which is unproven then, and a further condition on
/// a proven hello. The client receives the causes of their errors. It waits while the condition runs, but `timeout` does
/// not.
///
/// # Errors
/// Returns an error with the reason why the client was refused.
pub fn accept_if(
    lane: &dyn Lane,
    timeout: Duration,
    key_of: impl FnOnce(&Hello) -> Result<Key>,
    condition: impl FnOnce(&Hello) -> Result<()>,
) -> Result<Introduced> {
    let proven = examine(lane, timeout, key_of).inspect_err(|error| refuse(lane, error, timeout))?;
    proven.welcome(lane, timeout, condition)
}

fn examine(lane: &dyn Lane, timeout: Duration, key_of: impl FnOnce(&Hello) -> Result<Key>) -> Result<Proven> {
    let deadline = Deadline::after(timeout);
    let mut greeting = PartialHello::default();
    let hello = loop {
        let space = greeting.space();
        let come = space.len();
        let read = io::read(lane, space, deadline);
        read.map_err(|error| ended(&error, greeting.has_begun()))?;
        if let Some(hello) = greeting.take(come)? {
            break hello;
        }
    };
    let (mut challenge, words) = greeting.challenge(hello, key_of(&hello)?)?;
    io::write(lane, &words, deadline).map_err(|error| ended(&error, true))?;
    loop {
        let space = challenge.space();
        let come = space.len();
        io::read(lane, space, deadline).map_err(|error| ended(&error, true))?;
        if let Some(proven) = challenge.take(come)? {
            return Ok(proven);
        }
    }
}

/// Returns the error of a client that has gone or does not continue. A client that sent nothing has only probed the port.
pub(crate) fn ended(error: &std::io::Error, has_begun: bool) -> Error {
    if has_begun || error.kind() != std::io::ErrorKind::UnexpectedEof {
        return malformed(&error.to_string());
    }
    Error::new(ErrorCode::DeviceShutdown, error.to_string())
}

/// Sends the client the reason, and waits a moment until the client has read it.
fn refuse(lane: &dyn Lane, error: &Error, timeout: Duration) {
    let deadline = Deadline::after(timeout);
    // The client may have closed the connection already.
    let _ = io::write(lane, &refusal(error), deadline);
    io::close_gently(lane, deadline);
}

impl Proven {
    /// Accepts the client if it meets a further condition. The client waits for the condition, and receives the cause of its error. `timeout` limits
    /// the sending only.
    ///
    /// # Errors
    /// Returns an error with the reason why the client was refused.
    pub fn welcome(
        self,
        lane: &dyn Lane,
        timeout: Duration,
        condition: impl FnOnce(&Hello) -> Result<()>,
    ) -> Result<Introduced> {
        let welcome = || {
            io::write(lane, &answer(WELCOME, 0), Deadline::after(timeout))
                .map_err(|error| malformed(&error.to_string()))
        };
        let welcomed = condition(&self.hello).and_then(|()| welcome());
        welcomed.inspect_err(|error| refuse(lane, error, timeout))?;
        let untunable =
            |error| unavailable(format!("cannot tune the connection: {error}")).remedy_if(scarce::remedy(&error));
        lane.introduced(self.hello.purpose.unread_max()).map_err(untunable)?;
        Ok(Introduced { hello: self.hello, secret: self.secret })
    }
}

#[cfg(test)]
mod tests;
