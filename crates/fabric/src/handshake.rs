//! The first bytes of every connection: who is there, in which version, with the same key.
//!
//! ```text
//! client                                   server
//!   Hello (64 bytes)                 ->
//!                                    <-    Answer: refusal, or nonce + server's proof
//!   client's proof (32 bytes)        ->
//!                                    <-    Answer: welcome, or refusal
//! ```
//!
//! The first 12 bytes of a hello (magic, version) and the first 16 of an answer (magic, version,
//! verdict, length of the rest) are the same in every version, so that two versions can still
//! tell each other that they differ. Both sides prove that they have the session's key, over both nonces. Where the lane leaves
//! the machine, TLS begins then (`secret`): the hello says so, and both sides hold to what was proven there.

mod hello;
pub(crate) mod io;
mod secret;

use crate::key::{self, Key, MAC_LEN};
use crate::route::Route;
use crate::transport::{self, Lane, PeerAddress, SharedLane, Transport};
use accord_types::{Error, ErrorCode, Result};
pub(crate) use hello::HELLO_BEGINNING_LEN;
pub use hello::{HELLO_LEN, Hello, MAGIC, Purpose, VERSION};
use hello::{NONCE_LEN, malformed, unavailable, version_differs};
pub use io::Deadline;
pub use secret::{Introduced, LaneSecret, check_secure};
use std::time::Duration;

const ANSWER_LEN: usize = 16;
const CHALLENGE_LEN: usize = NONCE_LEN + MAC_LEN;
/// Longest text of a refusal.
const REFUSAL_MAX: usize = 1024;

/// Verdicts of an answer: it goes on; it does not; it does not at this time. Others are refusals too.
const WELCOME: u16 = 0;
const REFUSED: u16 = 1;
const REFUSED_FOR_NOW: u16 = 2;

const CLIENT: &[u8] = b"accord client";
const SERVER: &[u8] = b"accord server";

/// Connects by TCP to an address of this machine, whoever's that is, see [`connect_by`].
///
/// # Errors
/// As for [`connect_by`].
pub fn connect(to: &PeerAddress, hello: &Hello, key: &Key, timeout: Duration) -> Result<SharedLane> {
    connect_with(&Route::tcp(to.clone()), hello, key, timeout)
}

/// Connects to the server as `route` says and introduces itself to the node that it names. `timeout` bounds that. TLS may follow, for
/// which an executor has some seconds more.
///
/// # Errors
/// `acc_error_device_unavailable`, with the reason: nobody there, another key or version, refused; transient if refused for now.
pub fn connect_by(route: &Route, hello: &Hello, key: &Key, timeout: Duration) -> Result<SharedLane> {
    let secure = route.transport == Transport::Tls;
    connect_with(route, &Hello { to: Some(route.endpoint.node), secure, ..*hello }, key, timeout)
}

fn connect_with(route: &Route, hello: &Hello, key: &Key, timeout: Duration) -> Result<SharedLane> {
    let deadline = Deadline::after(timeout);
    let name = hello.purpose.server();
    let remedy = match hello.purpose {
        Purpose::Session => "set ACCORD_COORDINATOR to host:port",
        _ => "check the name; it must be host:port",
    };
    let server = format!("the {name} at {}", route.endpoint);
    let mut secret = None;
    let lane = transport::connect(route, name, remedy, timeout, |lane| {
        secret = Some(introduce(lane, hello, key, deadline, &server)?);
        lane.introduced(hello.purpose.reads_at_once()).map_err(|error| unavailable(format!("{server}: {error}")))
    })?;
    match secret {
        Some(secret) if hello.secure => secret.connect(lane, &server),
        _ => Ok(lane),
    }
}

/// Introduces itself to the server at the other end of a new lane.
///
/// # Errors
/// As for [`connect_by`].
pub fn introduce(lane: &dyn Lane, hello: &Hello, key: &Key, deadline: Deadline, server: &str) -> Result<LaneSecret> {
    let broken = |error: std::io::Error| unavailable(format!("{server} broke the handshake off: {error}"));
    let mut nonce = [0; NONCE_LEN];
    key::fill_random(&mut nonce)?;
    let hello = hello.encode(&nonce);
    io::write(lane, &hello, deadline).map_err(broken)?;
    let length = read_answer(lane, deadline, server)?;
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
        0 => Ok(LaneSecret::new(key, &hello, server_nonce)),
        length => Err(unavailable(format!("{server} does not follow the protocol: a welcome of {length} bytes"))),
    }
}

/// Reads the fixed part of an answer, and the rest if it is a refusal. Returns the length of the rest.
fn read_answer(lane: &dyn Lane, deadline: Deadline, server: &str) -> Result<usize> {
    let broken = |error: std::io::Error| unavailable(format!("{server} broke the handshake off: {error}"));
    let mut answer = [0; ANSWER_LEN];
    io::read(lane, &mut answer, deadline).map_err(broken)?;
    if answer[..8] != MAGIC {
        return Err(unavailable(format!("{server} does not speak Accord's protocol")).remedy("check the port"));
    }
    let version = u32::from_le_bytes(io::take(&answer, 8));
    if version != VERSION {
        return Err(unavailable(format!("{server} speaks protocol {version}, this program {VERSION}"))
            .remedy("install the same version on both"));
    }
    let verdict = u16::from_le_bytes(io::take(&answer, 12));
    let length = usize::from(u16::from_le_bytes(io::take(&answer, 14)));
    if verdict == WELCOME {
        return Ok(length);
    }
    let mut text = vec![0; length.min(REFUSAL_MAX)];
    io::read(lane, &mut text, deadline).map_err(broken)?;
    let error = unavailable(format!("{server} refused the connection: {}", String::from_utf8_lossy(&text)));
    Err(if verdict == REFUSED_FOR_NOW { error.transient() } else { error })
}

/// Takes a client's introduction. Reads nothing that comes after it, which may be TLS's: see [`Introduced::secure`]. A client that does not fit
/// is told why before the error comes back; the connection is of no use then.
///
/// # Errors
/// With the reason why the client was refused; `acc_error_device_shutdown` if it has left without a word.
pub fn accept(lane: &dyn Lane, key: &Key, timeout: Duration) -> Result<Introduced> {
    accept_if(lane, timeout, |_| Ok(key.clone()), |_| Ok(()))
}

/// As [`accept`], with the key that `key_of` finds for a hello, which may be anybody's, and a further condition on one that was
/// proven. The causes of their errors are told to the client. The time that the condition takes does not count, but the client
/// waits for it.
///
/// # Errors
/// With the reason why the client was refused.
pub fn accept_if(
    lane: &dyn Lane,
    timeout: Duration,
    key_of: impl FnOnce(&Hello) -> Result<Key>,
    condition: impl FnOnce(&Hello) -> Result<()>,
) -> Result<Introduced> {
    let outcome = examine(lane, timeout, key_of, condition);
    if let Err(error) = &outcome {
        let deadline = Deadline::after(timeout);
        let remedy = error.remedy_text().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        let text = format!("{}{remedy}", error.cause());
        let text = &text.as_bytes()[..text.len().min(REFUSAL_MAX)];
        let verdict = if error.is_transient() { REFUSED_FOR_NOW } else { REFUSED };
        // The client may be gone already.
        let _ = io::write(lane, &[&answer(verdict, text.len())[..], text].concat(), deadline);
        io::close_gently(lane, deadline);
    }
    let introduced = outcome?;
    let untunable = |error: std::io::Error| unavailable(format!("cannot tune the connection: {error}"));
    lane.introduced(introduced.hello.purpose.reads_at_once()).map_err(untunable)?;
    Ok(introduced)
}

fn examine(
    lane: &dyn Lane,
    timeout: Duration,
    key_of: impl FnOnce(&Hello) -> Result<Key>,
    condition: impl FnOnce(&Hello) -> Result<()>,
) -> Result<Introduced> {
    let deadline = Deadline::after(timeout);
    let broken = |error: std::io::Error| malformed(&error.to_string());
    let mut bytes = [0; HELLO_LEN];
    // Magic and version first: another version's hello may be shorter than ours.
    io::read(lane, &mut bytes[..HELLO_BEGINNING_LEN], deadline).map_err(|error| match error.kind() {
        // Somebody has only looked whether anybody is here.
        std::io::ErrorKind::UnexpectedEof => Error::new(ErrorCode::DeviceShutdown, error.to_string()),
        _ => broken(error),
    })?;
    if bytes[..8] != MAGIC {
        return Err(malformed("it does not begin with Accord's magic bytes"));
    }
    let version = u32::from_le_bytes(io::take(&bytes, 8));
    if version != VERSION {
        return Err(version_differs(version));
    }
    io::read(lane, &mut bytes[HELLO_BEGINNING_LEN..], deadline).map_err(broken)?;
    let hello = Hello::decode(&bytes)?;
    let key = key_of(&hello)?;
    let mut nonce = [0; NONCE_LEN];
    key::fill_random(&mut nonce)?;
    let proof = key.prove(&[SERVER, &bytes, &nonce]);
    io::write(lane, &[&answer(WELCOME, CHALLENGE_LEN)[..], &nonce, &proof].concat(), deadline).map_err(broken)?;
    let mut proof = [0; MAC_LEN];
    io::read(lane, &mut proof, deadline).map_err(broken)?;
    if !key.proves(&[CLIENT, &bytes, &nonce], &proof) {
        return Err(unavailable("the keys differ".to_owned()));
    }
    condition(&hello)?;
    io::write(lane, &answer(WELCOME, 0), Deadline::after(timeout)).map_err(broken)?;
    let secret = hello.secure.then(|| LaneSecret::new(&key, &bytes, &nonce));
    Ok(Introduced { hello, secret })
}

fn answer(verdict: u16, length: usize) -> [u8; ANSWER_LEN] {
    let mut bytes = [0; ANSWER_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..14].copy_from_slice(&verdict.to_le_bytes());
    bytes[14..].copy_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests;
