//! The TLS handshake over a lane. After it rustls exports the keys of both directions.

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

/// The result of a handshake.
pub(super) struct HandshakeResult {
    pub(super) suite: &'static Tls13CipherSuite,
    pub(super) secrets: ExtractedSecrets,
    pub(super) kernel: Kernel,
}

/// Derives further keys.
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

/// Most buffered bytes of an incomplete handshake message: certificate chains are short.
const PENDING_MAX: usize = 4 * RECORD_MAX;
/// The server name in the handshake. Accord's verifiers check the certificate's role instead.
const PLACEHOLDER_SERVER_NAME: &str = "accord.invalid";

pub(super) fn connect(lane: &dyn Lane, config: Arc<ClientConfig>, deadline: Deadline) -> io::Result<HandshakeResult> {
    let name = ServerName::try_from(PLACEHOLDER_SERVER_NAME).map_err(io::Error::other)?;
    let mut connection = UnbufferedClientConnection::new(config, name).map_err(io::Error::other)?;
    drive(lane, deadline, &mut connection)?;
    let suite = found(&connection)?;
    let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(io::Error::other)?;
    Ok(HandshakeResult { suite, secrets, kernel: Kernel::Client(kernel) })
}

pub(super) fn accept(lane: &dyn Lane, config: Arc<ServerConfig>, deadline: Deadline) -> io::Result<HandshakeResult> {
    let mut connection = UnbufferedServerConnection::new(config).map_err(io::Error::other)?;
    drive(lane, deadline, &mut connection)?;
    let suite = found(&connection)?;
    let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(io::Error::other)?;
    Ok(HandshakeResult { suite, secrets, kernel: Kernel::Server(kernel) })
}

fn found<Data>(connection: &UnbufferedConnectionCommon<Data>) -> io::Result<&'static Tls13CipherSuite> {
    let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.tls13());
    suite.ok_or_else(|| io::Error::other("no TLS 1.3 was agreed on"))
}

/// The input that rustls's next step needs.
enum Next {
    /// Another step with the buffered bytes.
    Again,
    /// Sending of these bytes first.
    Send(Vec<u8>),
    /// More bytes from the peer.
    Read,
    /// The handshake is complete.
    Done,
}

/// Interprets one step's status. Returns how many bytes the step consumed, and what the next step needs.
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
                // The encoded bytes were sent at once.
                sent.done();
                Next::Again
            }
            ConnectionState::BlockedHandshake => Next::Read,
            ConnectionState::WriteTraffic(_) => Next::Done,
            // No application data was read yet.
            _ => return Err(Error::HandshakeNotComplete),
        })
    });
    (discard, next)
}

/// The connection of either side, during the handshake.
trait HandshakeSide {
    /// Takes one step with the bytes that were received but not consumed.
    fn step(&mut self, bytes: &mut [u8]) -> (usize, Result<Next, Error>);
    /// Whether there are bytes to send.
    fn wants_write(&self) -> bool;
}

impl HandshakeSide for UnbufferedClientConnection {
    fn step(&mut self, bytes: &mut [u8]) -> (usize, Result<Next, Error>) {
        step(self.process_tls_records(bytes))
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
    }
}

impl HandshakeSide for UnbufferedServerConnection {
    fn step(&mut self, bytes: &mut [u8]) -> (usize, Result<Next, Error>) {
        step(self.process_tls_records(bytes))
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
    }
}

/// Runs the handshake to its end. Reads record by record, so that it consumes no byte after the handshake.
fn drive(lane: &dyn Lane, deadline: Deadline, connection: &mut impl HandshakeSide) -> io::Result<()> {
    let mut pending = Vec::new();
    // The messages of one flight are sent together.
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
                append_alert(connection, &mut pending, &mut flight);
                // The peer may have closed the connection already.
                let _unheard = send(lane, &mut flight, deadline);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

/// Appends rustls's alert for an error. Passes no further input, because rustls panics if it processes bytes after an error.
fn append_alert(connection: &mut impl HandshakeSide, pending: &mut [u8], flight: &mut Vec<u8>) {
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
