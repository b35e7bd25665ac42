//! Takes connections and keeps those that say nothing, or stop in the middle of their hello, without a thread for each, until they go on or have
//! to go.

use super::listener::{Listener, Visitor};
use super::low_water::{self, peek, readable_from};
use crate::handshake::{HELLO_BEGINNING_LEN, HELLO_LEN, Hello};
use crate::waiting_room::{Ticket, WaitingRoom};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Connections that have not said who they are yet.
const SILENT_MAX: usize = 512;
/// The same of one address.
const SILENT_OF_ONE_ADDRESS_MAX: usize = 128;
/// How long a connection may take for that.
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

    /// Waits for the next connection whose hello is there, or something else; of processes of this machine, whose sockets can't tell how much there
    /// is, for the first byte.
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
        let speaks = PollFlags::IN | PollFlags::RDHUP;
        polled.extend(sockets.iter().filter_map(|socket| Some(PollFd::from_borrowed_fd(*socket.first()?, speaks))));
        match poll(&mut polled, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let somebody_comes = !polled[0].revents().is_empty();
        let spoke: Vec<(Ticket, PollFlags)> =
            self.silent.keys().copied().zip(polled[1..].iter().map(PollFd::revents)).collect();
        for (ticket, what) in spoke.into_iter().filter(|(_, what)| !what.is_empty()) {
            let has_more_to_say = |silent: &Silent| what == PollFlags::IN && awaits_rest(&silent.visitor);
            if self.silent.get(&ticket).is_some_and(has_more_to_say) {
                continue;
            }
            self.room.leave(ticket);
            let spoke = self.silent.remove(&ticket).map(|silent| silent.visitor);
            self.ready.extend(spoke.filter(|visitor| wakes_from(visitor, low_water::ANY)));
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
                    if !wakes_from(&visitor, HELLO_BEGINNING_LEN) {
                        continue;
                    }
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

/// Whether the system took it: from so many bytes on, or the end, there is something to read.
fn wakes_from(visitor: &Visitor, bytes: usize) -> bool {
    !visitor.is_tcp() || visitor.lane.descriptors().first().is_some_and(|socket| readable_from(socket, bytes).is_ok())
}

/// Its hello has begun: it counts as speaking when the rest is there.
fn awaits_rest(visitor: &Visitor) -> bool {
    let is_begun = |socket: &BorrowedFd<'_>| Hello::is_begun(peek(socket, &mut [0; HELLO_LEN]));
    visitor.is_tcp() && visitor.lane.descriptors().first().is_some_and(is_begun) && wakes_from(visitor, HELLO_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::Purpose;
    use crate::peer::PeerId;
    use accord_types::SessionId;
    use std::io::Write;
    use std::net::TcpStream;

    const SOON: Duration = Duration::from_secs(10);

    fn listen() -> (DeferredAccept, String) {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap().to_string();
        (DeferredAccept::new(listener).unwrap(), address)
    }

    fn hello() -> [u8; HELLO_LEN] {
        Hello::new(Purpose::Bulk, SessionId(7), 0, PeerId::PROGRAM).encode(&[3; 32])
    }

    #[test]
    fn who_speaks_comes_through_a_crowd_that_does_not() {
        let (mut visitors, address) = listen();
        let comes = std::thread::spawn(move || {
            let silent: Vec<TcpStream> =
                (0..2 * SILENT_OF_ONE_ADDRESS_MAX).map(|_| TcpStream::connect(&address).unwrap()).collect();
            let mut speaks = TcpStream::connect(&address).unwrap();
            speaks.write_all(&hello()).unwrap();
            (silent, speaks)
        });
        // Those that had to go were closed here, and do not count as speaking.
        let visitor = visitors.await_visitor().unwrap();
        let (silent, speaks) = comes.join().unwrap();
        assert_eq!(visitor.name, speaks.local_addr().unwrap().to_string());
        let mut word = [0; HELLO_LEN];
        visitor.lane.read_exact(&mut word).unwrap();
        assert_eq!(word, hello());
        assert!(visitors.silent.len() <= SILENT_OF_ONE_ADDRESS_MAX && visitors.silent.len() == visitors.room.len());
        drop(silent);
    }

    #[test]
    fn who_stops_in_the_middle_waits_with_the_silent_ones_and_wakes_nobody() {
        let (mut visitors, address) = listen();
        let came = |visitors: &mut DeferredAccept| visitors.await_visitor().unwrap();
        let connect = |words: &[u8]| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(words).unwrap();
            (stream.local_addr().unwrap().to_string(), stream)
        };
        let halves =
            [3, HELLO_BEGINNING_LEN - 1, HELLO_BEGINNING_LEN, HELLO_LEN - 1].map(|at| (at, connect(&hello()[..at])));
        let (whole, _whole) = connect(&hello());
        assert_eq!(came(&mut visitors).name, whole);
        while visitors.room.len() < halves.len() {
            visitors.look().unwrap();
        }
        // They are there, and nothing of them is to be read.
        let quiet = |visitors: &DeferredAccept| {
            let sockets: Vec<_> = visitors.silent.values().map(|silent| silent.visitor.lane.descriptors()).collect();
            let mut polled: Vec<_> =
                sockets.iter().map(|socket| PollFd::from_borrowed_fd(socket[0], PollFlags::IN)).collect();
            poll(&mut polled, Some(&Timespec::default())).unwrap() == 0
        };
        let begun = Instant::now();
        // The last two wake once: to be told to wait for the rest.
        while !quiet(&visitors) {
            assert!(begun.elapsed() < SOON, "a half hello counts as something to read");
            visitors.look().unwrap();
        }
        assert!(visitors.ready.is_empty());
        // The rest comes, in any order: the whole hello is read then, a byte at a time too.
        for (at, (name, mut stream)) in halves.into_iter().rev() {
            stream.write_all(&hello()[at..]).unwrap();
            let visitor = came(&mut visitors);
            assert_eq!(visitor.name, name);
            let mut word = [0; HELLO_LEN];
            visitor.lane.read_exact(&mut word).unwrap();
            assert_eq!(word, hello());
            stream.write_all(b"!").unwrap();
            let descriptors = visitor.lane.descriptors();
            let soon = Timespec::try_from(SOON).unwrap();
            assert_eq!(poll(&mut [PollFd::from_borrowed_fd(descriptors[0], PollFlags::IN)], Some(&soon)).unwrap(), 1);
        }
        // Who breaks off, and whoever speaks otherwise or in another version, is for those who answer.
        let (name, stream) = connect(&hello()[..20]);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(came(&mut visitors).name, name);
        for other in [&b"GET / HTTP/1.1"[..], b"ACCORD\r\n\xff\0\0\0", &[0xff; 40]] {
            let (name, _stream) = connect(other);
            assert_eq!(came(&mut visitors).name, name);
        }
    }
}
