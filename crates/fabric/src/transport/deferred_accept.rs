//! Takes connections and keeps those that say nothing, without a thread for each, until they do or have to go.

use super::listener::{Listener, Visitor};
use crate::waiting_room::{Ticket, WaitingRoom};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Connections that have said nothing yet.
const SILENT_MAX: usize = 512;
/// The same of one address.
const SILENT_OF_ONE_ADDRESS_MAX: usize = 128;
/// How long a connection may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Connections that are taken before the others are looked at again.
const BATCH_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct DeferredAccept {
    listener: Listener,
    room: WaitingRoom,
    silent: BTreeMap<Ticket, Silent>,
    /// Those that have spoken.
    ready: VecDeque<Visitor>,
}

#[derive(Debug)]
struct Silent {
    visitor: Visitor,
    since: Instant,
}

impl DeferredAccept {
    /// In front of `listener`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(listener: Listener) -> io::Result<Self> {
        listener.take_without_waiting()?;
        let room = WaitingRoom::new(SILENT_MAX, SILENT_OF_ONE_ADDRESS_MAX);
        Ok(Self { listener, room, silent: BTreeMap::new(), ready: VecDeque::new() })
    }

    /// Waits for the next connection that has said something.
    ///
    /// # Errors
    /// If the system can't give connections; this remains of use.
    pub fn await_visitor(&mut self) -> io::Result<Visitor> {
        loop {
            if let Some(visitor) = self.ready.pop_front() {
                return Ok(visitor);
            }
            self.look()?;
        }
    }

    /// Waits until somebody comes, speaks, or has been silent for too long.
    fn look(&mut self) -> io::Result<()> {
        let oldest = self.silent.values().next().map(|silent| silent.since + SILENCE_MAX);
        let wait = oldest.map(|end| end.saturating_duration_since(Instant::now()));
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let sockets: Vec<_> = self.silent.values().map(|silent| silent.visitor.lane.descriptors()).collect();
        let mut polled: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
        polled.extend(
            sockets.iter().filter_map(|socket| Some(PollFd::from_borrowed_fd(*socket.first()?, PollFlags::IN))),
        );
        match poll(&mut polled, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let somebody_comes = !polled[0].revents().is_empty();
        let spoke: Vec<Ticket> = self
            .silent
            .keys()
            .zip(&polled[1..])
            .filter_map(|(ticket, polled)| (!polled.revents().is_empty()).then_some(*ticket))
            .collect();
        for ticket in spoke {
            self.room.leave(ticket);
            self.ready.extend(self.silent.remove(&ticket).map(|silent| silent.visitor));
        }
        let now = Instant::now();
        while let Some((ticket, silent)) = self.silent.first_key_value()
            && now.duration_since(silent.since) >= SILENCE_MAX
        {
            let ticket = *ticket;
            self.dismiss(ticket);
        }
        if somebody_comes { self.take() } else { Ok(()) }
    }

    fn take(&mut self) -> io::Result<()> {
        for _ in 0..BATCH_MAX {
            match self.listener.try_accept() {
                Ok(visitor) => {
                    let (ticket, leaves) = self.room.enter(&visitor.address);
                    if let Some(leaves) = leaves {
                        self.silent.remove(&leaves);
                    }
                    self.silent.insert(ticket, Silent { visitor, since: Instant::now() });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // One that is gone already, or may not be here.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::PermissionDenied) => {}
                // Out of descriptors, most likely: who says nothing gives one back.
                Err(error) => match self.room.oldest() {
                    Some(oldest) => self.dismiss(oldest),
                    None => return Err(error),
                },
            }
        }
        Ok(())
    }

    fn dismiss(&mut self, ticket: Ticket) {
        self.room.leave(ticket);
        self.silent.remove(&ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;

    #[test]
    fn who_speaks_comes_through_a_crowd_that_does_not() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap().to_string();
        let mut visitors = DeferredAccept::new(listener).unwrap();
        let comes = std::thread::spawn(move || {
            let silent: Vec<TcpStream> =
                (0..2 * SILENT_OF_ONE_ADDRESS_MAX).map(|_| TcpStream::connect(&address).unwrap()).collect();
            let mut speaks = TcpStream::connect(&address).unwrap();
            speaks.write_all(b"hello").unwrap();
            (silent, speaks)
        });
        // Those that had to go were closed here, and do not count as speaking.
        let visitor = visitors.await_visitor().unwrap();
        let (silent, speaks) = comes.join().unwrap();
        assert_eq!(visitor.name, speaks.local_addr().unwrap().to_string());
        let mut word = [0; 5];
        visitor.lane.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"hello");
        assert!(visitors.silent.len() <= SILENT_OF_ONE_ADDRESS_MAX && visitors.silent.len() == visitors.room.len());
        drop(silent);
    }
}
