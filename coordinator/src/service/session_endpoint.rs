//! The session endpoint: programs obtain and keep sessions here.

use super::caller::Caller;
use super::driver::{CLIENT_OUTBOX_MAX, Driver};
use super::groups::Groups;
use super::report_pace::ReportRateLimit;
use super::shared_stream::SharedStream;
use super::to_program::ToProgram;
use accord_cluster::Input;
use accord_fabric::frame::session::{Claim, HEADER_LEN, Message, REPLY_MAX, REQUEST_MAX};
use accord_fabric::new_session_key;
use accord_proto::Stream;
use accord_types::{Error, ErrorCode, Result};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// Timeout for a program's request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Turns of the scheduler that a message to an agent needs: one task takes it from the outbox, another one writes it;
/// doubled for safety.
const TURNS: usize = 4;
/// Timeout for writing a message to a program.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the connections of programs.
pub(super) struct SessionEndpoint {
    driver: Arc<Driver>,
    groups: Arc<Groups>,
    /// Silence of a program's machine after which its session ends.
    program_lost_after: Duration,
}

impl SessionEndpoint {
    pub(super) fn new(driver: Arc<Driver>, groups: Arc<Groups>, program_lost_after: Duration) -> Self {
        Self { driver, groups, program_lost_after }
    }

    /// Serves a program's connection until it ends.
    pub(super) async fn enter(&self, stream: Stream, caller: &Caller) {
        if let Err(error) = self.serve(stream, caller).await {
            crate::metrics::refused(crate::metrics::RefusalReason::Protocol);
            let address = caller.address.map(|address| format!(" at {address}")).unwrap_or_default();
            tracing::info!("{}{address}: {}", caller.called(), error.cause());
        }
    }

    /// Returns the longest silence of a program's machine.
    pub(super) fn program_lost_after(&self) -> Duration {
        self.program_lost_after
    }

    async fn serve(&self, stream: Stream, caller: &Caller) -> Result<()> {
        let mut reader = SharedStream::new(stream, self.program_lost_after);
        let writer = reader.clone();
        let (outbox, messages) = mpsc::channel(CLIENT_OUTBOX_MAX);
        let first = tokio::time::timeout(REQUEST_TIMEOUT, read_message(&mut reader))
            .await
            .map_err(|_| refused("no request came in time"))?;
        let user = match &first {
            // Correctable mistakes are reported. A peer that speaks another protocol gets no answer.
            Err(error) if error.code() == ErrorCode::InvalidArgument => Err(error.clone()),
            Err(error) => return Err(error.clone()),
            Ok(_) => caller.user(),
        };
        let user = match user {
            Ok(user) => user,
            Err(error) => {
                let _ = outbox.try_send(ToProgram::Message(Message::Refused(error.clone())));
                speak(writer, messages).await?;
                return Err(error);
            }
        };
        let first = first?;
        let asks = match &first {
            Some(Message::Open(request) | Message::Hold(request)) => request.devices.is_some(),
            Some(Message::Attach(_)) => false,
            _ => return Err(refused("the first message is no request for a session")),
        };
        if let Some(why) = self.driver.state_failure().filter(|_| asks) {
            let (cause, remedy) = why.split_once("; ").unwrap_or((&why, "ask an administrator"));
            let error = refused(&format!("the coordinator can't keep a request: {cause}")).remedy(remedy.to_owned());
            let _ = outbox.try_send(ToProgram::Message(Message::Refused(error.clone())));
            speak(writer, messages).await?;
            return Err(error);
        }
        let key = new_session_key()?;
        if asks || self.driver.with_cluster(|cluster| cluster.policy_version()) > 0 {
            self.groups.notify(&self.driver, &user).await;
        }
        let client = self.driver.add_client(outbox);
        match first {
            Some(Message::Open(request)) => self.driver.input(Input::Open { client, request, key, user }),
            Some(Message::Hold(request)) => self.driver.input(Input::Hold { client, request, key, user }),
            Some(Message::Attach(Claim { session, key, request })) => {
                self.driver.input(Input::Attach { client, session, request, key, user });
            }
            _ => {}
        }
        let (begun, mut pace) = (Instant::now(), ReportRateLimit::default());
        let listen = async {
            loop {
                match read_message_or_end(&mut reader).await {
                    Ok(Ok(Message::MayUse(device))) => self.driver.input(Input::MayUse { client, device }),
                    Ok(Ok(Message::InUse(devices))) => {
                        self.driver.input(Input::InUse { client, devices });
                        pace.keep(begun.elapsed()).await;
                    }
                    Ok(Ok(Message::Used(uses))) => {
                        self.driver.input(Input::ProgramUsed { client, uses });
                        pace.keep(begun.elapsed()).await;
                    }
                    Ok(Ok(_)) => return Err(refused("it sent a message that only the coordinator sends")),
                    Ok(Err(end)) => return Ok(end),
                    Err(error) => return Err(error),
                }
            }
        };
        // Ends when the program disconnects or the core closes the outbox.
        let ended = tokio::select! {
            ended = listen => ended,
            ended = speak(writer, messages) => ended,
        };
        self.driver.remove_client(client, matches!(ended, Ok(End::Lost)));
        ended.map(drop)
    }
}

/// Answers a program's first message by this one, and closes the connection.
pub(super) async fn refuse(stream: Stream, answer: Message, lost_after: Duration) {
    let mut stream = SharedStream::new(stream, lost_after);
    // What is not read when the connection ends could take the answer along.
    let _ = tokio::time::timeout(REQUEST_TIMEOUT, read_message(&mut stream)).await;
    let (outbox, messages) = mpsc::channel(1);
    let _ = outbox.try_send(ToProgram::Message(answer));
    let _ = speak(stream, messages).await;
}

/// Sends messages until the core closes the outbox, or the connection is lost.
async fn speak(mut writer: SharedStream, mut messages: mpsc::Receiver<ToProgram>) -> Result<End> {
    let mut is_waiting = false;
    while let Some(message) = messages.recv().await {
        let message = message.message();
        let (bytes, last) = written(&message);
        let waits = matches!(message, Message::Queued(_));
        if waits != std::mem::replace(&mut is_waiting, waits) {
            writer.waits(waits);
        }
        if matches!(message, Message::Granted(_) | Message::UseAnswered { .. }) {
            let_agents_be_notified().await;
        }
        match tokio::time::timeout(WRITE_TIMEOUT, writer.write_all(&bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if LOST.contains(&error.kind()) => return Ok(End::Lost),
            Ok(Err(error)) => return Err(refused(&error.to_string())),
            Err(_) => return Err(refused("it does not read")),
        }
        if last {
            break;
        }
    }
    let _ = writer.shutdown().await;
    Ok(End::Gone)
}

/// Returns a message's bytes, and whether it is the last message. A lease that is too long for programs becomes a
/// refusal.
fn written(message: &Message) -> (Vec<u8>, bool) {
    let bytes = message.encode();
    if bytes.len() <= REPLY_MAX {
        return (bytes, matches!(message, Message::Refused(_) | Message::NotLeading(_) | Message::Ended(_)));
    }
    let cause = format!("the cluster's devices take {} bytes to describe, at most {REPLY_MAX} are read", bytes.len());
    let error = refused(&cause).remedy("set ACC_DEVICE_TYPE to one type of devices");
    (Message::Refused(error).encode(), true)
}

/// Yields until the tasks that send to agents have run. A program must not get a session before its agents: if this
/// process were killed in between, no agent would know the session.
async fn let_agents_be_notified() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

/// Errors of a connection that its program has not closed.
const LOST: [ErrorKind; 6] = [
    ErrorKind::TimedOut,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
    ErrorKind::ConnectionReset,
    ErrorKind::ConnectionAborted,
    ErrorKind::BrokenPipe,
];

/// How a connection has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The process has closed the connection or has died, or the core has ended it.
    Gone,
    /// The machine at the other end does not answer, or the connection was reset: by that machine's restart or by one
    /// in between. The process may connect again.
    Lost,
}

/// Reads the next message of a program; `None` at the end of the connection.
async fn read_message(reader: &mut (impl AsyncRead + Unpin)) -> Result<Option<Message>> {
    read_message_or_end(reader).await.map(std::result::Result::ok)
}

/// Reads the next message of a program, or returns how the connection has ended.
async fn read_message_or_end(reader: &mut (impl AsyncRead + Unpin)) -> Result<std::result::Result<Message, End>> {
    let mut header = [0; HEADER_LEN];
    if let Err(error) = reader.read_exact(&mut header).await {
        return Ok(Err(if LOST.contains(&error.kind()) { End::Lost } else { End::Gone }));
    }
    let (kind, length) = Message::header(&header, REQUEST_MAX)?;
    let mut body = vec![0; length];
    match reader.read_exact(&mut body).await {
        Ok(_) => {}
        Err(error) if LOST.contains(&error.kind()) => return Ok(Err(End::Lost)),
        Err(error) => return Err(refused(&error.to_string())),
    }
    Message::decode(kind, &body).map(Ok)
}

fn refused(why: &str) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::ReadBuf;

    /// A connection that ends: in order, or by an error.
    struct Ends(Option<ErrorKind>);

    impl AsyncRead for Ends {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(self.0.map_or(Ok(()), |kind| Err(kind.into())))
        }
    }

    #[tokio::test]
    async fn a_program_is_gone_only_if_it_closed_its_connection() {
        for (by, end) in [
            (None, End::Gone),
            (Some(ErrorKind::InvalidData), End::Gone),
            (Some(ErrorKind::TimedOut), End::Lost),
            (Some(ErrorKind::ConnectionReset), End::Lost),
            (Some(ErrorKind::BrokenPipe), End::Lost),
        ] {
            assert_eq!(read_message_or_end(&mut Ends(by)).await, Ok(Err(end)), "{by:?}");
        }
    }
}
