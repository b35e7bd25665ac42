//! The handshake of TLS over a lane, to its end; then rustls hands over the keys of both directions.

use super::record::{HEADER_LEN, RECORD_MAX, record_len};
use crate::handshake::Deadline;
use crate::handshake::io as exact;
use crate::transport::Lane;
use accord_trust::PeerName;
use accord_trust::identity::name_of_peer;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedConnectionCommon, UnbufferedStatus};
use rustls::{ClientConfig, ConnectionTrafficSecrets, Error, ExtractedSecrets, ServerConfig, Tls13CipherSuite};
use std::io;
use std::sync::Arc;

/// What a handshake leaves.
pub(super) struct Shaken {
    pub(super) peer: PeerName,
    pub(super) suite: &'static Tls13CipherSuite,
    pub(super) secrets: ExtractedSecrets,
    pub(super) kernel: Kernel,
}

/// Makes further keys.
pub(super) enum Kernel {
    Client(KernelConnection<ClientConnectionData>),
    Server(KernelConnection<ServerConnectionData>),
}

impl Kernel {
    pub(super) fn next_to_send(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(kernel) => kernel.update_tx_secret(),
            Self::Server(kernel) => kernel.update_tx_secret(),
        }
    }

    pub(super) fn next_to_receive(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(kernel) => kernel.update_rx_secret(),
            Self::Server(kernel) => kernel.update_rx_secret(),
        }
    }
}

/// Most bytes of a handshake that wait for the rest of a message: chains of certificates are short.
const PENDING_MAX: usize = 4 * RECORD_MAX;
/// How the other side is called in the handshake; its certificate's name is what counts.
const ANYBODY: &str = "accord.invalid";

pub(super) fn connect(lane: &dyn Lane, config: Arc<ClientConfig>, deadline: Deadline) -> io::Result<Shaken> {
    let name = ServerName::try_from(ANYBODY).map_err(io::Error::other)?;
    let mut connection = UnbufferedClientConnection::new(config, name).map_err(io::Error::other)?;
    drive(lane, deadline, &mut connection, |connection, bytes| step(connection.process_tls_records(bytes)))?;
    let (peer, suite) = found(&connection)?;
    let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(io::Error::other)?;
    Ok(Shaken { peer, suite, secrets, kernel: Kernel::Client(kernel) })
}

pub(super) fn accept(lane: &dyn Lane, config: Arc<ServerConfig>, deadline: Deadline) -> io::Result<Shaken> {
    let mut connection = UnbufferedServerConnection::new(config).map_err(io::Error::other)?;
    drive(lane, deadline, &mut connection, |connection, bytes| step(connection.process_tls_records(bytes)))?;
    let (peer, suite) = found(&connection)?;
    let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(io::Error::other)?;
    Ok(Shaken { peer, suite, secrets, kernel: Kernel::Server(kernel) })
}

fn found<Data>(connection: &UnbufferedConnectionCommon<Data>) -> io::Result<(PeerName, &'static Tls13CipherSuite)> {
    let peer = name_of_peer(connection.peer_certificates()).map_err(io::Error::other)?;
    let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.tls13());
    Ok((peer, suite.ok_or_else(|| io::Error::other("no TLS 1.3 was agreed on"))?))
}

/// What a step of rustls's wants next.
enum Next {
    /// Again, with what is there.
    Again,
    /// These bytes have to go first.
    Send(Vec<u8>),
    /// There must be more to read.
    Read,
    /// It is over.
    Done,
}

/// One step: how many bytes were used up, and what is next.
fn step<Data>(status: UnbufferedStatus<'_, '_, Data>) -> (usize, Result<Next, Error>) {
    let UnbufferedStatus { discard, state } = status;
    let next = state.and_then(|state| {
        Ok(match state {
            ConnectionState::EncodeTlsData(mut data) => {
                let mut bytes = vec![0; RECORD_MAX];
                let len = match data.encode(&mut bytes) {
                    Ok(len) => len,
                    Err(EncodeError::InsufficientSize(size)) => {
                        bytes.resize(size.required_size, 0);
                        data.encode(&mut bytes).map_err(|error| Error::General(error.to_string()))?
                    }
                    Err(error) => return Err(Error::General(error.to_string())),
                };
                bytes.truncate(len);
                Next::Send(bytes)
            }
            ConnectionState::TransmitTlsData(sent) => {
                // What was encoded went out at once.
                sent.done();
                Next::Again
            }
            ConnectionState::BlockedHandshake => Next::Read,
            ConnectionState::WriteTraffic(_) => Next::Done,
            // No record of contents was read yet.
            _ => return Err(Error::HandshakeNotComplete),
        })
    });
    (discard, next)
}

/// Goes on to the end. Reads record by record, so that nothing of what follows the handshake is taken.
fn drive<C>(
    lane: &dyn Lane,
    deadline: Deadline,
    connection: &mut C,
    mut step: impl FnMut(&mut C, &mut [u8]) -> (usize, Result<Next, Error>),
) -> io::Result<()> {
    let mut pending = Vec::new();
    // Messages of one flight go out together.
    let mut flight = Vec::new();
    loop {
        let (used, next) = step(connection, &mut pending);
        pending.drain(..used);
        match next {
            Ok(Next::Again) => {}
            Ok(Next::Send(bytes)) => flight.extend(bytes),
            Ok(Next::Read) => {
                send(lane, &mut flight, deadline)?;
                read_record(lane, &mut pending, deadline)?;
            }
            Ok(Next::Done) => return send(lane, &mut flight, deadline),
            Err(error) => {
                // rustls wants to say why: its last word is the next step, and the only one.
                if let (_, Ok(Next::Send(bytes))) = step(connection, &mut pending) {
                    flight.extend(bytes);
                }
                // Whoever is at the other end may be gone.
                let _ = send(lane, &mut flight, deadline);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

fn send(lane: &dyn Lane, flight: &mut Vec<u8>, deadline: Deadline) -> io::Result<()> {
    exact::write(lane, flight, deadline)?;
    flight.clear();
    Ok(())
}

fn read_record(lane: &dyn Lane, pending: &mut Vec<u8>, deadline: Deadline) -> io::Result<()> {
    let begin = pending.len();
    if begin > PENDING_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a handshake that is too long"));
    }
    pending.resize(begin + HEADER_LEN, 0);
    exact::read(lane, &mut pending[begin..], deadline)?;
    let bad = |error: Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let len = record_len(&pending[begin..]).map_err(bad)?.unwrap_or(HEADER_LEN);
    pending.resize(begin + len, 0);
    exact::read(lane, &mut pending[begin + HEADER_LEN..], deadline)
}
