//! Issues certificates over the network, by invitations that are used once.
//!
//! ```text
//! client                                server, with the authority
//!   accord join 1 node n1 ------------>   is an invitation for node n1 open?
//!   <-------------------- "go", or "no"
//!   TLS 1.3, both sides by keys made of the invitation's code and the first line
//!   public key ----------------------->   takes the invitation, signs
//!   <--- authority's certificate, own certificate, coordinator's address
//!   one byte, once they are kept ----->   registers the certificate, closes the invitation
//! ```
//!
//! An invitation is open again if its client disconnects before it has stored the certificate.
//!
//! The client creates its private key and never sends it. Neither end trusts the other without the code, so an attacker
//! neither gets a certificate nor makes a node trust another authority.

mod invitation;

pub use invitation::{Code, Invitation, is_address};

use crate::explain;
use crate::identity::{Identity, name_of};
use crate::issue::{Authority, Issued, PUBLIC_KEY_LEN};
use crate::name::Role;
use accord_types::short_lock::ShortLock;
use accord_types::{Error, ErrorCode, Result};
use invitation::{asked, hello};
use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, ServerConnection, Stream};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The ALPN protocol of both ends.
const PROTOCOL: &[u8] = b"accord-join";
/// Longest first line, in bytes.
const HELLO_MAX: usize = 300;
/// The answer if an invitation for the role is open.
const GO: &[u8; 2] = b"go";
/// The answer if no invitation for the role is open.
const NO: &[u8; 2] = b"no";
/// Longest certificate or address in an answer, in bytes.
const PART_MAX: usize = 64 << 10;
const KEPT: u8 = 1;

/// The open invitations.
#[derive(Debug, Default)]
pub struct Open(ShortLock<OpenState>);

#[derive(Debug, Default)]
struct OpenState {
    /// The invitations, each with whether a client that knows its code is being served.
    invitations: Vec<(Invitation, bool)>,
    has_ended: bool,
}

impl Open {
    /// Creates a set of open invitations.
    pub fn new(invitations: Vec<Invitation>) -> Self {
        let invitations = invitations.into_iter().map(|invitation| (invitation, false)).collect();
        Self(ShortLock::new(OpenState { invitations, has_ended: false }))
    }

    /// Returns the roles whose certificates are not stored yet.
    pub fn roles(&self) -> Vec<Role> {
        self.0.lock().invitations.iter().map(|(invitation, _)| invitation.role.clone()).collect()
    }

    /// Refuses all further clients.
    pub fn end(&self) {
        self.0.lock().has_ended = true;
    }

    fn code_of(&self, role: &Role) -> Option<Code> {
        let state = self.0.lock();
        let mut open = state.invitations.iter().filter(|(_, is_taken)| !is_taken && !state.has_ended);
        open.find(|(invitation, _)| invitation.role == *role).map(|(invitation, _)| invitation.code.clone())
    }

    /// Reserves an invitation for a client that has proved its code; `None` if the invitation is not open.
    fn take(&self, role: &Role) -> Option<ReservedInvitation<'_>> {
        let mut state = self.0.lock();
        if state.has_ended {
            return None;
        }
        let (_, is_taken) = state.invitations.iter_mut().find(|(invitation, _)| invitation.role == *role)?;
        (!std::mem::replace(is_taken, true)).then(|| ReservedInvitation { open: self, role: role.clone() })
    }
}

/// An invitation that is reserved for a client. Dropping it opens the invitation again.
struct ReservedInvitation<'a> {
    open: &'a Open,
    role: Role,
}

impl ReservedInvitation<'_> {
    fn close(self) {
        self.open.0.lock().invitations.retain(|(invitation, _)| invitation.role != self.role);
    }
}

impl Drop for ReservedInvitation<'_> {
    fn drop(&mut self) {
        let mut state = self.open.0.lock();
        if let Some((_, is_taken)) = state.invitations.iter_mut().find(|(at, _)| at.role == self.role) {
            *is_taken = false;
        }
    }
}

/// The certificate that an invitation has brought.
pub struct Joined {
    /// The authority's certificate, PEM.
    pub authority: String,
    /// The own certificate, and its key.
    pub issued: Issued,
    /// `host:port` of the cluster's coordinator.
    pub coordinator: String,
}

/// State that a server needs to issue certificates.
pub struct Issuer {
    /// Signs the certificates.
    pub authority: Authority,
    /// The lifetime of each certificate.
    pub lifetime: Duration,
    /// `host:port` of the cluster's coordinator.
    pub coordinator: String,
}

/// Serves one client: issues the invited certificate, registers it once the client has stored it, and returns its role.
/// `has_code` is set once the client has proved that it knows the code. Reads and writes of `stream` must time out.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if no invitation for the client's role is open. Returns
/// `acc_error_device_unavailable` if the client does not know the code, or disconnects before it has stored the
/// certificate. Also returns the errors of [`Authority::sign`] and [`Authority::register`].
pub fn accept(mut stream: impl Read + Write, open: &Open, issuer: &Issuer, has_code: &AtomicBool) -> Result<Role> {
    let Issuer { authority, lifetime, coordinator } = issuer;
    let line = read_line(&mut stream).map_err(|error| broken("it does not say what it asks for", &error))?;
    let role = asked(&line).ok_or_else(|| invalid("it does not ask for a certificate"))?;
    let Some(code) = open.code_of(&role) else {
        let _ = stream.write_all(NO).and_then(|()| stream.flush());
        return Err(invalid(format!("no invitation for {role} is open")));
    };
    let other = |error: io::Error| broken(&format!("it has another code for {role}, or broke off"), &error);
    stream.write_all(GO).map_err(other)?;
    let config = code.seeds(line.as_bytes()).to_accept(PROTOCOL)?;
    let mut tls = ServerConnection::new(config).map_err(|error| explain::handshake(&error, "the client"))?;
    let mut stream = Stream::new(&mut tls, &mut stream);
    let mut key = [0; PUBLIC_KEY_LEN];
    stream.read_exact(&mut key).map_err(other)?;
    has_code.store(true, Ordering::Relaxed);
    let taken = open.take(&role).ok_or_else(|| invalid(format!("the invitation for {role} is no longer open")))?;
    let signed = authority.sign(role.clone(), *lifetime, key)?;
    let mut written = Ok(());
    for part in [authority.certificate(), &signed.certificate, coordinator] {
        written = written.and_then(|()| write_part(&mut stream, part));
    }
    let mut answer = [0];
    let lost = |error: io::Error| {
        broken(&format!("{role} has not said that it keeps its certificate; its line counts again"), &error)
    };
    written.and_then(|()| stream.flush()).and_then(|()| stream.read_exact(&mut answer)).map_err(lost)?;
    if answer != [KEPT] {
        return Err(lost(io::ErrorKind::InvalidData.into()));
    }
    authority.register(&signed)?;
    taken.close();
    Ok(role)
}

/// Obtains an invitation's certificate over a connection to its server, passes it to `keep`, and confirms it to the
/// server. Reads and writes of `stream` must time out.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if the invitation is not open at the server. Returns
/// `acc_error_device_unavailable` if the server does not answer, does not know the code, or sends a certificate that
/// does not fit. Also returns the error of `keep`.
pub fn join(
    mut stream: impl Read + Write,
    invitation: &Invitation,
    keep: impl FnOnce(&Joined) -> Result<()>,
) -> Result<()> {
    const AGAIN: &str = "have the server print a new one: accord setup admit";
    let (role, server) = (&invitation.role, &invitation.server);
    let hello = hello(role).ok_or_else(|| invalid(format!("no certificate of {role} is given by invitation")))?;
    let mut go = [0; GO.len()];
    let greeted = stream.write_all(hello.as_bytes()).and_then(|()| stream.flush());
    greeted.and_then(|()| stream.read_exact(&mut go)).map_err(|error| {
        broken(&format!("{server} does not answer"), &error).remedy(
            "check that accord setup server or admit runs there, and enter the line again: too many clients may have come at once",
        )
    })?;
    if go != *GO {
        let cause = format!("{server} has no open invitation for {role}: it was used, or its time is over");
        return Err(invalid(cause).remedy(AGAIN));
    }
    let config = invitation.code.seeds(hello.as_bytes()).to_connect(PROTOCOL)?;
    let name = ServerName::try_from("accord").map_err(|error| invalid(error.to_string()))?;
    let mut tls = ClientConnection::new(config, name).map_err(|error| explain::handshake(&error, "the server"))?;
    let mut stream = Stream::new(&mut tls, &mut stream);
    let pair = KeyPair::generate().map_err(|error| Error::new(ErrorCode::System, format!("no key: {error}")))?;
    let unknown = |error: io::Error| {
        let cause = format!("{server} and this side have different codes for {role}, or the connection broke: {error}");
        Error::new(ErrorCode::DeviceUnavailable, cause).remedy(AGAIN)
    };
    stream.write_all(pair.der_bytes()).and_then(|()| stream.flush()).map_err(unknown)?;
    let mut part = || read_part(&mut stream).map_err(unknown);
    let (authority, certificate, coordinator) = (part()?, part()?, part()?);
    let joined = Joined { authority, issued: Issued { certificate, key: pair.serialize_pem() }, coordinator };
    check(&joined, role)?;
    keep(&joined)?;
    // The confirmation may fail: the certificate is stored, only the server does not know it.
    let _ = stream.write_all(&[KEPT]).and_then(|()| stream.flush());
    tls.send_close_notify();
    Ok(())
}

/// Refuses an answer whose certificate is not of the own key and role, or whose coordinator has no valid address.
fn check(joined: &Joined, role: &Role) -> Result<()> {
    let Joined { authority, issued: Issued { certificate, key }, coordinator } = joined;
    let other = |why: String| Error::new(ErrorCode::DeviceUnavailable, format!("the server's answer: {why}"));
    Identity::from_pem(authority.as_bytes(), certificate.as_bytes(), key.as_bytes())
        .map_err(|error| other(error.cause().to_owned()))?;
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| other(error.to_string()))?;
    let name = name_of(&der)?;
    if name.role != *role {
        return Err(other(format!("it is a certificate of {}", name.role)));
    }
    // The address goes into root's settings and a user's shell.
    if is_address(coordinator) { Ok(()) } else { Err(other(format!("{coordinator:?} is no address HOST:PORT"))) }
}

fn read_line(stream: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < HELLO_MAX && line.last() != Some(&b'\n') {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    String::from_utf8(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn write_part(stream: &mut impl Write, part: &str) -> io::Result<()> {
    let length = u32::try_from(part.len()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(part.as_bytes())
}

fn read_part(stream: &mut impl Read) -> io::Result<String> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > PART_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("an answer of {length} bytes")));
    }
    let mut part = vec![0; length];
    stream.read_exact(&mut part)?;
    String::from_utf8(part).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn invalid(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, cause)
}

fn broken(what: &str, error: &io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        _ => error.to_string(),
    };
    Error::new(ErrorCode::DeviceUnavailable, format!("{what}: {why}"))
}
