//! TLS after a handshake. Its keys are derived from what the handshake proved: the session's key, the whole hello and both
//! nonces. So the TLS peer has the session's key, and an attacker in between can't splice two handshakes.

use super::hello::{HELLO_LEN, Hello, NONCE_LEN, VERSIONS, unavailable};
use super::io;
use crate::key::{Key, MAC_LEN};
use crate::transport::{SharedLane, accept_tls, connect_tls};
use accord_trust::explain;
use accord_trust::lane::LaneSeeds;
use accord_types::{Error, ErrorCode, Result};
use std::fmt;
use std::time::Duration;

/// The ALPN protocol name of lanes, before the connection's version.
const PROTOCOL: &str = "accord-lane/";
/// The default limit on the peer's answer. The peer may be a process that is just starting, on a busy machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
const LANE: &[u8] = b"accord lane";
const CLIENT: &[u8] = b"accord lane client";
const SERVER: &[u8] = b"accord lane server";

/// A secret that only the two ends of one lane know after its handshake.
#[derive(Clone, PartialEq, Eq)]
pub struct LaneSecret {
    bytes: [u8; MAC_LEN],
    /// The connection's version.
    version: u32,
}

impl LaneSecret {
    /// Derives the secret of the lane with this hello and the nonce of the server's answer, of this version.
    pub(super) fn new(key: &Key, hello: &[u8], nonce: &[u8], version: u32) -> Self {
        Self { bytes: key.prove(&[LANE, hello, nonce]), version }
    }

    fn protocol(&self) -> Vec<u8> {
        format!("{PROTOCOL}{}", self.version).into_bytes()
    }

    fn seeds(&self) -> Result<LaneSeeds> {
        let key = Key::new(self.bytes.to_vec())?;
        Ok(LaneSeeds { client: key.prove(&[CLIENT]), server: key.prove(&[SERVER]) })
    }

    /// Starts TLS as the client within `limit`. Messages name the peer `server`.
    pub(super) fn connect(&self, lane: SharedLane, server: &str, limit: Duration) -> Result<SharedLane> {
        let broken = |error: std::io::Error| explain::broken(&error, server);
        let config = self.seeds()?.to_connect(&self.protocol())?;
        let lane = connect_tls(lane, config, limit).map_err(broken)?;
        lane.limit(None).map_err(broken)?;
        Ok(lane)
    }

    fn accept(&self, lane: SharedLane) -> Result<SharedLane> {
        let broken = |error: std::io::Error| explain::broken(&error, "the peer");
        let lane = accept_tls(lane, self.seeds()?.to_accept(&self.protocol())?, TIMEOUT).map_err(broken)?;
        lane.limit(None).map_err(broken)?;
        Ok(lane)
    }
}

impl fmt::Debug for LaneSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneSecret")
    }
}

/// A client that has proven the session's key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Introduced {
    /// Its hello.
    pub hello: Hello,
    /// The lane's secret, if TLS follows.
    pub(crate) secret: Option<LaneSecret>,
}

impl From<Hello> for Introduced {
    /// Introduces a lane of a process of this machine that needs no handshake.
    fn from(hello: Hello) -> Self {
        Self { hello, secret: None }
    }
}

impl Introduced {
    /// Returns the lane to continue with, through TLS if the hello announced it. Waits for the client, for some seconds at most.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable`, with the reason, if the client does not start TLS or is not the one that was introduced.
    pub fn secure(&self, lane: SharedLane) -> Result<SharedLane> {
        match (&self.secret, self.hello.secure) {
            (Some(secret), true) => secret.accept(lane),
            (None, false) => Ok(lane),
            _ => Err(Error::new(ErrorCode::ImplementationDefined, "a lane has lost its secret")),
        }
    }

    /// Encodes the introduction as one message, with the secret in the nonce's field.
    pub(crate) fn encode(&self) -> [u8; HELLO_LEN] {
        self.hello.encode(self.secret.as_ref().map_or(&[0; NONCE_LEN], |secret| &secret.bytes))
    }

    /// Decodes the output of [`Introduced::encode`].
    pub(crate) fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Self> {
        let hello = Hello::decode(bytes)?;
        let bytes = io::take(bytes, HELLO_LEN - MAC_LEN);
        let secret = LaneSecret { bytes, version: VERSIONS.common(hello.version) };
        Ok(Self { hello, secret: hello.secure.then_some(secret) })
    }
}

/// Verifies that the hello announces TLS if the lane leaves the machine, unless it `may_be_plain`.
///
/// # Errors
/// Returns an error with the reason for the client.
pub fn check_secure(hello: &Hello, leaves_machine: bool, may_be_plain: bool) -> Result<()> {
    if hello.secure || !leaves_machine || may_be_plain {
        return Ok(());
    }
    Err(unavailable("the lane would leave the machine in clear, which this agent does not take".to_owned())
        .remedy("start agents and coordinator with --insecure-plain-tcp, or neither"))
}
