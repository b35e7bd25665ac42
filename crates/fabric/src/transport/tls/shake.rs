//! The handshake of TLS over a lane, to its end; then rustls hands over the keys of both directions.

use super::record::{HEADER_LEN, RECORD_MAX, handshake_record_len};
use crate::handshake::Deadline;
use crate::handshake::io as exact;
use crate::transport::Lane;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedConnectionCommon, UnbufferedStatus};
use rustls::{
    ClientConfig, CommonState, ConnectionTrafficSecrets, Error, ExtractedSecrets, ServerConfig, Tls13CipherSuite,
};
use std::io;
use std::sync::Arc;

/// What a handshake leaves.
pub(super) struct Shaken {
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
    drive(lane, deadline, &mut connection)?;
    let suite = found(&connection)?;
    let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(io::Error::other)?;
    Ok(Shaken { suite, secrets, kernel: Kernel::Client(kernel) })
}

pub(super) fn accept(lane: &dyn Lane, config: Arc<ServerConfig>, deadline: Deadline) -> io::Result<Shaken> {
    let mut connection = UnbufferedServerConnection::new(config).map_err(io::Error::other)?;
    drive(lane, deadline, &mut connection)?;
    let suite = found(&connection)?;
    let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(io::Error::other)?;
    Ok(Shaken { suite, secrets, kernel: Kernel::Server(kernel) })
}

fn found<Data>(connection: &UnbufferedConnectionCommon<Data>) -> io::Result<&'static Tls13CipherSuite> {
    let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.tls13());
    suite.ok_or_else(|| io::Error::other("no TLS 1.3 was agreed on"))
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

/// A side's connection.
trait Shaking {
    /// One step with the bytes that have come and were not used up.
    fn step(&mut self, bytes: &mut [u8]) -> (usize, Result<Next, Error>);
    /// Whether it has something to say.
    fn wants_write(&self) -> bool;
}

impl Shaking for UnbufferedClientConnection {
    fn step(&mut self, bytes: &mut [u8]) -> (usize, Result<Next, Error>) {
        step(self.process_tls_records(bytes))
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
    }
}

impl Shaking for UnbufferedServerConnection {
    fn step(&mut self, bytes: &mut [u8]) -> (usize, Result<Next, Error>) {
        step(self.process_tls_records(bytes))
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
    }
}

/// Goes on to the end. Reads record by record, so that nothing of what follows the handshake is taken.
fn drive(lane: &dyn Lane, deadline: Deadline, connection: &mut impl Shaking) -> io::Result<()> {
    let mut pending = Vec::new();
    // Messages of one flight go out together.
    let mut flight = Vec::new();
    loop {
        let (used, next) = connection.step(&mut pending);
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
                say_why(connection, &mut pending, &mut flight);
                // Whoever is at the other end may be gone.
                let _unheard = send(lane, &mut flight, deadline);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

/// Adds what rustls says about an error, and lets it look at nothing more: after an error it panics on what has made it.
fn say_why(connection: &mut impl Shaking, pending: &mut [u8], flight: &mut Vec<u8>) {
    while connection.wants_write() {
        match connection.step(pending) {
            (_, Ok(Next::Send(bytes))) => flight.extend(bytes),
            _ => return,
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
    let mut header = [0; HEADER_LEN];
    exact::read(lane, &mut header, deadline)?;
    let len = handshake_record_len(&header).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    pending.extend(header);
    pending.resize(begin + len, 0);
    exact::read(lane, &mut pending[begin + HEADER_LEN..], deadline)
}
