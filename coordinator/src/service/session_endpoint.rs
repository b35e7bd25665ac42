//! Programs at the session endpoint: how they get and keep their sessions.

use super::driver::{CLIENT_OUTBOX_MAX, Driver};
use crate::cluster::Input;
use accord_fabric::frame::session::{HEADER_LEN, Message, REQUEST_MAX};
use accord_fabric::{Key, handshake, new_session_key, transport};
use accord_types::{Error, ErrorCode, Result};
use handshake::{Hello, Purpose};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Semaphore, mpsc};

/// Handshakes under way: each has a thread. More wait.
const HANDSHAKES_MAX: usize = 16;
/// How long a handshake, and then the request, may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one message to a program may take to go out.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves programs.
pub(super) struct SessionEndpoint {
    key: Key,
    /// Whose programs these are.
    user: String,
    driver: Arc<Driver>,
    handshakes: Semaphore,
}

impl SessionEndpoint {
    pub(super) fn new(key: Key, user: String, driver: Arc<Driver>) -> Self {
        Self { key, user, driver, handshakes: Semaphore::new(HANDSHAKES_MAX) }
    }

    /// Serves one program's connection to its end.
    pub(super) async fn enter(&self, stream: TcpStream) {
        let peer = stream.peer_addr().map_or_else(|_| "somebody".to_owned(), |addr| addr.to_string());
        if let Err(error) = self.serve(stream).await {
            metrics::counter!(crate::metrics::REFUSED, "why" => "protocol").increment(1);
            tracing::info!("{peer} at the session endpoint: {}", error.cause());
        }
    }

    async fn serve(&self, stream: TcpStream) -> Result<()> {
        let mut stream = self.shake_hands(stream).await?;
        let first = tokio::time::timeout(HANDSHAKE_TIMEOUT, read_message(&mut stream))
            .await
            .map_err(|_| refused("no request came in time"))??;
        let Some(Message::Open(request)) = first else {
            return Err(refused("the first message is no request for a session"));
        };
        let (mut reader, writer) = stream.into_split();
        let (outbox, messages) = mpsc::channel(CLIENT_OUTBOX_MAX);
        let (key, user) = (new_session_key()?, self.user.clone());
        let client = self.driver.add_client(outbox);
        self.driver.input(Input::Open { client, request, key, user });
        let listen = async {
            loop {
                match read_message(&mut reader).await {
                    Ok(Some(Message::Uses(device))) => self.driver.input(Input::Uses { client, device }),
                    Ok(Some(_)) => return Err(refused("it sent a message that only the coordinator sends")),
                    Ok(None) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        };
        // Whichever ends first: the program has gone, or the core has ended it.
        let outcome = tokio::select! {
            outcome = listen => outcome,
            outcome = speak(writer, messages) => outcome,
        };
        self.driver.remove_client(client);
        outcome
    }

    async fn shake_hands(&self, stream: TcpStream) -> Result<TcpStream> {
        let broken = |error: std::io::Error| refused(&error.to_string());
        let _permit = self.handshakes.acquire().await.map_err(|_| refused("the coordinator stops"))?;
        let stream = stream.into_std().map_err(broken)?;
        let key = self.key.clone();
        let shaken = tokio::task::spawn_blocking(move || {
            stream.set_nonblocking(false).map_err(broken)?;
            let lane = transport::adopt(OwnedFd::from(stream.try_clone().map_err(broken)?)).map_err(broken)?;
            let key_of = |hello: &Hello| match hello.purpose {
                Purpose::Session => Ok(key),
                _ => Err(refused("this is the coordinator's session endpoint, not an agent; check the address")),
            };
            handshake::accept_if(&*lane, HANDSHAKE_TIMEOUT, key_of, |_| Ok(()))?;
            stream.set_nonblocking(true).map_err(broken)?;
            Ok(stream)
        });
        let stream = shaken.await.map_err(|_| refused("the handshake failed"))??;
        TcpStream::from_std(stream).map_err(broken)
    }
}

/// Sends messages until the core closes the outbox.
async fn speak(mut writer: OwnedWriteHalf, mut messages: mpsc::Receiver<Message>) -> Result<()> {
    while let Some(message) = messages.recv().await {
        let last = matches!(message, Message::Refused(_) | Message::Ended(_));
        tokio::time::timeout(WRITE_TIMEOUT, writer.write_all(&message.encode()))
            .await
            .map_err(|_| refused("it does not read"))?
            .map_err(|error| refused(&error.to_string()))?;
        if last {
            break;
        }
    }
    let _ = writer.shutdown().await;
    Ok(())
}

/// The next message of a program; none at the connection's end.
async fn read_message(reader: &mut (impl AsyncRead + Unpin)) -> Result<Option<Message>> {
    let mut header = [0; HEADER_LEN];
    match reader.read_exact(&mut header).await {
        Ok(_) => {}
        // A program that dies resets the connection: an ordinary end too.
        Err(_) => return Ok(None),
    }
    let (kind, length) = Message::header(&header, REQUEST_MAX)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.map_err(|error| refused(&error.to_string()))?;
    Message::decode(kind, &body).map(Some)
}

fn refused(why: &str) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, why)
}
