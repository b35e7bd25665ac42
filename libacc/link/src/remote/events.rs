//! Taking events off the command lane, and what each of them does.

use super::live::Live;
use super::receiver::{Reply, Turn, Want};
use accord_device::Patience;
use accord_fabric::frame::FrameReader;
use accord_fabric::stats::LinkStats;
use accord_fabric::wire::{self, Event};
use accord_types::{DeviceId, Error, ErrorCode, QueueId, Result, Span, TransferId};
use rustix::net::{RecvFlags, recv};
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::PoisonError;
use std::time::Instant;

/// Stands for "all devices" or "all queues" in [`Event::Failed`].
const ALL: u32 = u32::MAX;

/// The reading side of a command lane.
pub(super) struct Reading {
    frames: FrameReader,
    patience: Patience,
}

impl Reading {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { frames: FrameReader::default(), patience: Patience::new(cores) }
    }

    /// Reads once, whatever comes; looks for a while before it sleeps. False at the stream's end.
    fn fill(&mut self, lane: &TcpStream) -> std::io::Result<bool> {
        let start = Instant::now();
        let limit = self.patience.limit();
        while start.elapsed() < limit {
            match self.frames.fill(&mut WithoutWaiting(lane)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                came => {
                    self.patience.waited(start.elapsed());
                    return came;
                }
            }
        }
        let came = self.frames.fill(&mut &*lane);
        self.patience.waited(start.elapsed());
        came
    }
}

impl Live {
    /// Waits as `want` says; `register` was called with it before what is waited for could come.
    ///
    /// # Errors
    /// The reply's, or the link's.
    pub(super) fn wait(&self, id: u64) -> Result<Reply> {
        loop {
            match self.receiver.turn(id) {
                Turn::Done(outcome) => return outcome,
                Turn::Read => self.read_until(|| self.receiver.is_done(id)),
                Turn::Sleep => std::thread::park(),
            }
        }
    }

    /// Waits for the reply to a command with this ticket, which `register` announced; sends first.
    ///
    /// # Errors
    /// The reply's, or the link's.
    pub(super) fn wait_for_reply(&self, id: u64) -> Result<Reply> {
        LinkStats::add(&self.stats.round_trips, 1);
        // If that fails the link is lost, and so is the wait.
        let _ = self.flush();
        self.wait(id)
    }

    /// Waits until commands may be sent again.
    ///
    /// # Errors
    /// When the link is lost.
    pub(super) fn wait_for_credit(&self) -> Result<()> {
        let id = self.receiver.register(Want::Credit);
        if self.core().has_credit() {
            self.receiver.unregister(id);
            return Ok(());
        }
        LinkStats::add(&self.stats.credit_stalls, 1);
        let _ = self.flush();
        self.wait(id).map(drop)
    }

    /// Reads and handles events until `done`, or the link is lost. The reading side must have been
    /// taken, and is handed over.
    fn read_until(&self, done: impl Fn() -> bool) {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.handle_buffered(&mut reader.frames, &done) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    self.lose(error.cause());
                    break;
                }
            }
            match reader.fill(&self.lane) {
                Ok(true) => {}
                Ok(false) => {
                    self.lose("the executor closed the connection");
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.lose(&format!("the connection was lost: {error}"));
                    break;
                }
            }
        }
        drop(reader);
        self.receiver.hand_over();
    }

    /// Handles the events that are here already; true once `done`.
    fn handle_buffered(&self, reader: &mut FrameReader, done: impl Fn() -> bool) -> Result<bool> {
        while !done() {
            let Some(frame) = reader.take::<Event>()? else { return Ok(false) };
            LinkStats::add(&self.stats.command_received, frame.length as u64);
            self.handle(frame.record, frame.payload)?;
        }
        Ok(true)
    }

    /// Handles what has come, without waiting, if nobody else is about to. Whether anything had.
    pub(super) fn look(&self) -> bool {
        if !self.receiver.try_read() {
            return true;
        }
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut came = false;
        loop {
            if let Err(error) = self.handle_buffered(&mut reader.frames, || false) {
                self.lose(error.cause());
                break;
            }
            match reader.frames.fill(&mut WithoutWaiting(&self.lane)) {
                Ok(true) => came = true,
                Ok(false) => {
                    self.lose("the executor closed the connection");
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.lose(&format!("the connection was lost: {error}"));
                    break;
                }
            }
        }
        drop(reader);
        self.receiver.hand_over();
        came
    }

    fn handle(&self, event: Event, payload: &[u8]) -> Result<()> {
        match event {
            Event::Reply { ticket, value, extra } => {
                self.receiver.reply(ticket, Ok(Reply { value, extra, payload: payload.to_vec() }));
            }
            Event::ReplyFailed { ticket, failure } => {
                self.receiver.reply(ticket, Err(wire::decode_error(failure, payload)));
            }
            Event::Failed { device, queue, failure } => {
                let error = wire::decode_error(failure, payload);
                if device == ALL {
                    return Err(error);
                }
                self.failed(device, (queue != ALL).then_some(QueueId(queue)), &error);
            }
            Event::Credit { bytes } => {
                self.core().give_credit(bytes);
                self.receiver.credit();
            }
            Event::Data { transfer } => self.landings.data(TransferId(transfer), payload)?,
            Event::Output { descriptor } => output(descriptor, payload),
            Event::Spans => self.spans(payload)?,
        }
        Ok(())
    }

    fn spans(&self, payload: &[u8]) -> Result<()> {
        let Some(sink) = &self.spec.trace else { return Ok(()) };
        for span in wire::decode_spans(payload)? {
            sink.span(Span {
                device: DeviceId { node: self.spec.node, ordinal: span.device },
                queue: span.queue,
                kind: span.kind,
                name: span.name,
                bytes: span.bytes,
                start_ns: span.start_ns.saturating_add_signed(self.clock_offset),
                end_ns: span.end_ns.saturating_add_signed(self.clock_offset),
            });
        }
        Ok(())
    }
}

/// Writes a worker's output to the program's own.
fn output(descriptor: u32, mut bytes: &[u8]) {
    let to = if descriptor == 2 { rustix::stdio::stderr() } else { rustix::stdio::stdout() };
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            // The program has closed it.
            Err(_) => return,
        }
    }
}

struct WithoutWaiting<'a>(&'a TcpStream);

impl Read for WithoutWaiting<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        Ok(recv(self.0, buf, RecvFlags::DONTWAIT)?.1)
    }
}

/// A word for errors of the link itself.
pub(super) fn unavailable(cause: String) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}
