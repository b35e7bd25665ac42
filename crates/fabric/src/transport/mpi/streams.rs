//! The lanes of one rank as a state machine. Inputs are written bytes and received messages. Outputs are messages to
//! send, bytes to read, and the lanes whose waiters must be woken. No I/O, threads or clocks, so that worlds of many ranks
//! can be simulated.

mod exposing;
mod forwarding;
mod handing;
mod posted;
mod writing;

use super::credit::{Credits, Outflow, cost};
use super::exposed_buffers::{ExposedBuffer, ExposedBuffers, ReaderBuffer};
use super::forwarding::Forwarding;
use super::message::{HEADER_LEN, Header, LANDED, LaneKey, MessageKind};
use super::posted_receives::{Completions, PostedReceives};
use super::send_queue::SendQueue;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind};

/// Most lanes of a rank.
pub(super) const LANES_MAX: usize = 16 << 10;
/// Most lanes opened by other ranks and not accepted yet.
pub(super) const OPENED_MAX: usize = 1 << 10;
/// Most queued notes: for each lane its opening, end, grant, returned credit and request, and also outcomes of posted
/// receives, and refusals.
const NOTES_MAX: usize = 8 * LANES_MAX;
/// Messages between two sweeps for unused credit.
const SWEEP: u32 = 1 << 10;

/// A complete message to send.
#[derive(Debug)]
pub struct Outgoing {
    /// The receiving rank.
    pub to: u32,
    /// The bytes, with the header.
    pub message: Vec<u8>,
}

/// All lanes of one rank, see the module.
#[derive(Debug)]
pub struct Streams {
    lanes: BTreeMap<LaneKey, Stream>,
    credits: Credits<LaneKey>,
    /// Messages without a lane's bytes. They precede all others, except for the ends of lanes.
    notes: VecDeque<(u32, Header)>,
    /// Lanes that may have messages to send, in turn, each once.
    turns: VecDeque<LaneKey>,
    /// Lanes opened by other ranks.
    opened: VecDeque<LaneKey>,
    /// Lanes whose reader or writer must be woken.
    woken: BTreeSet<LaneKey>,
    shortcuts: Shortcuts,
    exposures: ExposedBuffers,
    posted: PostedReceives,
    completions: Completions,
    numbers: u32,
    until_sweep: u32,
}

/// The lanes whose messages were just received and may bypass their inboxes.
#[derive(Debug, Default)]
struct Shortcuts {
    /// The message may be forwarded to another lane.
    forward: Option<LaneKey>,
    /// The message may move to the reader's mailbox.
    hand_over: Option<LaneKey>,
}

/// The next item for a reader.
#[derive(Debug)]
pub enum Next {
    /// A message with its header.
    Message(Vec<u8>),
    /// So many offered bytes, which [`Streams::ask`] requests.
    Offered(u64),
    /// Nothing to read yet.
    Nothing,
    /// The end of the stream.
    End,
}

#[derive(Debug, Default)]
struct Stream {
    outflow: Outflow,
    queue: SendQueue,
    in_turn: bool,
    finish: Finish,
    /// Whether the peer reads no more.
    unread: bool,
    /// Received messages to read.
    inbox: VecDeque<Vec<u8>>,
    exposed: ExposedBuffer,
    reader: ReaderBuffer,
    /// Sends to posted receives that were not passed to MPI yet.
    posting: u32,
    passing: Forwarding,
    /// Whether the peer sends no more.
    finished: bool,
    /// Whether this side neither reads nor sends any more.
    closed: bool,
}

/// The state of ending the outgoing stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Finish {
    #[default]
    Open,
    /// The stream ends after the queued bytes.
    Asked,
    /// The end was sent.
    Said,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            lanes: BTreeMap::new(),
            credits: Credits::new(),
            notes: VecDeque::new(),
            turns: VecDeque::new(),
            opened: VecDeque::new(),
            woken: BTreeSet::new(),
            shortcuts: Shortcuts::default(),
            exposures: ExposedBuffers::default(),
            posted: PostedReceives::default(),
            completions: Completions::default(),
            numbers: 0,
            until_sweep: SWEEP,
        }
    }
}

impl Streams {
    /// Opens a lane to another rank, or to this one.
    ///
    /// # Errors
    /// Returns `OutOfMemory` if there are too many lanes.
    pub fn open(&mut self, peer: u32) -> io::Result<LaneKey> {
        if self.lanes.len() >= LANES_MAX {
            return Err(io::Error::new(ErrorKind::OutOfMemory, format!("there are {LANES_MAX} lanes over MPI")));
        }
        let key = loop {
            self.numbers = self.numbers.wrapping_add(1);
            let key = LaneKey { peer, opened_here: true, number: self.numbers };
            if !self.lanes.contains_key(&key) {
                break key;
            }
        };
        self.add(key);
        self.note(key, MessageKind::Open, 0);
        Ok(key)
    }

    /// Whether other ranks have opened lanes that were not accepted yet.
    pub fn has_opened(&self) -> bool {
        !self.opened.is_empty()
    }

    /// Returns the next lane that another rank has opened.
    pub fn next_opened(&mut self) -> Option<LaneKey> {
        self.opened.pop_front()
    }

    /// Announces this rank's node to another rank.
    pub fn notify_node(&mut self, rank: u32, node: u32) {
        let header = Header { kind: MessageKind::Node, by_opener: false, number: 0, value: node.into(), tag: 0 };
        self.notes.push_back((rank, header));
    }

    /// Returns the next item for the reader of a lane. A returned message counts as read.
    pub fn next(&mut self, key: LaneKey) -> Next {
        let Some(lane) = self.lanes.get_mut(&key) else { return Next::End };
        if lane.closed {
            return Next::End;
        }
        if lane.passing.reader_comes() {
            return Next::Nothing;
        }
        if let Some(message) = lane.inbox.pop_front() {
            lane.passing.reader_takes();
            self.credits.take(key, cost(message.len() - HEADER_LEN));
            return Next::Message(message);
        }
        match (lane.finished, lane.reader.offered) {
            (true, _) => Next::End,
            (false, 0) => Next::Nothing,
            (false, offered) => {
                lane.passing.reader_takes();
                Next::Offered(offered)
            }
        }
    }

    /// Whether [`Streams::next`] would return an item or the end.
    pub fn is_readable(&self, key: LaneKey) -> bool {
        let finds = |lane: &Stream| lane.closed || lane.finished || !lane.inbox.is_empty() || lane.reader.is_offered();
        self.lanes.get(&key).is_none_or(finds)
    }

    /// Ends the outgoing stream after the written bytes.
    pub fn finish(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get_mut(&key)
            && lane.finish == Finish::Open
        {
            lane.finish = Finish::Asked;
            self.take_turn(key);
        }
    }

    /// Ends both directions. Bytes already written are still sent.
    pub fn close(&mut self, key: LaneKey) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        if std::mem::replace(&mut lane.closed, true) {
            return;
        }
        lane.inbox.clear();
        lane.exposed.withdraw();
        self.credits.remove(key);
        // Closing does not wait for a peer, which may be stopped.
        self.completions.end(Some(key));
        // `Close` must follow even if `Finish` was sent.
        lane.finish = Finish::Asked;
        self.woken.insert(key);
        self.take_turn(key);
    }

    /// Handles a received message. Returns the node that the rank announces, if any.
    ///
    /// # Errors
    /// Returns `InvalidData` if the message breaks the protocol. The rank can't be trusted any more then.
    pub fn receive(&mut self, from: u32, message: Vec<u8>) -> io::Result<Option<u32>> {
        let header = Header::decode(&message)?;
        // Each note answers a message. A rank that sends without receiving would make the queue grow without bound.
        if self.notes.len() >= NOTES_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank does not take what it is told"));
        }
        let key = LaneKey { peer: from, opened_here: !header.by_opener, number: header.number };
        match header.kind {
            MessageKind::Node => return Ok(u32::try_from(header.value).ok()),
            MessageKind::Open => self.take_opened(key)?,
            MessageKind::Return => self.credits.take_back(key, header.value)?,
            MessageKind::Want => self.credits.ask(key),
            MessageKind::Offer => self.receive_offer(key, header.value)?,
            MessageKind::Take => self.receive_take(key, header.value, header.tag)?,
            MessageKind::Landed => self.completions.come(key, header.tag, header.value == LANDED),
            MessageKind::Data | MessageKind::Credit | MessageKind::Finish | MessageKind::Close => {
                self.receive_on(key, header, message)?;
            }
        }
        Ok(None)
    }

    fn take_opened(&mut self, key: LaneKey) -> io::Result<()> {
        if key.opened_here || self.lanes.contains_key(&key) {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank opens a lane that there is"));
        }
        if self.lanes.len() >= LANES_MAX || self.opened.len() >= OPENED_MAX {
            self.note(key, MessageKind::Close, 0);
            return Ok(());
        }
        self.add(key);
        self.opened.push_back(key);
        Ok(())
    }

    /// Handles a message of a lane, if the lane still exists.
    fn receive_on(&mut self, key: LaneKey, header: Header, message: Vec<u8>) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Ok(()) };
        match header.kind {
            MessageKind::Data => {
                if lane.finished || !lane.reader.allows_later_messages() {
                    return Err(io::Error::new(ErrorKind::InvalidData, "bytes came after the last ones"));
                }
                if !lane.closed {
                    let bytes = message.len() - HEADER_LEN;
                    self.credits.receive(key, cost(bytes))?;
                    lane.inbox.push_back(message);
                    let (is_next, passes) = (lane.inbox.len() == 1, lane.passing.comes(bytes));
                    if is_next && passes {
                        self.shortcuts.forward = Some(key);
                        return Ok(());
                    }
                    if is_next && self.may_hand_over(key, bytes) {
                        self.woken.extend(self.shortcuts.hand_over.replace(key));
                        return Ok(());
                    }
                }
            }
            MessageKind::Credit => {
                lane.outflow.grant(header.value);
                self.take_turn(key);
                return Ok(());
            }
            kind => {
                lane.finished = true;
                let is_written = lane.reader.is_written();
                if kind == MessageKind::Close {
                    lane.unread = true;
                    lane.queue.clear();
                    self.take_turn(key);
                }
                // Requested bytes were sent before the end, but MPI may still be writing them.
                if !is_written {
                    self.end_receive(key, false);
                }
                self.posted.lane_finished(key);
                self.completions.end(Some(key));
                self.forget(key);
            }
        }
        self.woken.insert(key);
        Ok(())
    }

    /// Returns the next message to send: notes first, then the lanes in turn.
    pub fn next_message(&mut self) -> Option<Outgoing> {
        if let Some((key, total)) = self.credits.next_grant() {
            self.note(key, MessageKind::Credit, total);
        }
        if let Some((to, header)) = self.notes.pop_front() {
            return Some(Outgoing { to, message: header.encode().to_vec() });
        }
        while let Some(key) = self.turns.pop_front() {
            if let Some(message) = self.next_of(key) {
                return Some(Outgoing { to: key.peer, message });
            }
        }
        None
    }

    /// Returns the next message of a lane that has its turn.
    fn next_of(&mut self, key: LaneKey) -> Option<Vec<u8>> {
        let lane = self.lanes.get_mut(&key)?;
        lane.in_turn = false;
        let header = |kind, value| Header { kind, by_opener: key.opened_here, number: key.number, value, tag: 0 };
        if let Some(bytes) = lane.queue.next_bytes() {
            if lane.outflow.asks(lane.queue.bytes() as u64 + cost(0) * lane.queue.len() as u64) {
                lane.in_turn = true;
                self.turns.push_back(key);
                return Some(header(MessageKind::Want, 0).encode().to_vec());
            }
            if !lane.outflow.may_send(cost(bytes)) {
                return None;
            }
            lane.outflow.send(cost(bytes));
            let had_space = lane.queue.has_space();
            let mut message = lane.queue.pop()?;
            if !had_space && lane.queue.has_space() {
                self.woken.insert(key);
            }
            message[..HEADER_LEN].copy_from_slice(&header(MessageKind::Data, bytes as u64).encode());
            self.take_turn(key);
            self.count_to_sweep();
            return Some(message);
        }
        if let Some(len) = lane.exposed.say() {
            return Some(header(MessageKind::Offer, len).encode().to_vec());
        }
        // Requested bytes precede the end.
        if lane.finish != Finish::Asked || lane.has_bytes_to_go() {
            return None;
        }
        lane.finish = Finish::Said;
        let kind = if lane.closed { MessageKind::Close } else { MessageKind::Finish };
        let message = header(kind, 0).encode().to_vec();
        self.forget(key);
        Some(message)
    }

    fn count_to_sweep(&mut self) {
        self.until_sweep -= 1;
        if self.until_sweep == 0 {
            self.sweep();
        }
    }

    /// Returns the unused credit of idle lanes. Called before the rank's thread sleeps.
    pub fn sweep(&mut self) {
        self.until_sweep = SWEEP;
        let lanes = self.lanes.iter_mut().filter(|(_, lane)| lane.queue.is_empty());
        for (key, lane) in lanes {
            if let Some(known) = lane.outflow.give_back() {
                let (by_opener, number) = (key.opened_here, key.number);
                let header = Header { kind: MessageKind::Return, by_opener, number, value: known, tag: 0 };
                self.notes.push_back((key.peer, header));
            }
        }
    }

    /// Ends all lanes, because no more messages are exchanged.
    pub fn end(&mut self) {
        for (key, lane) in &mut self.lanes {
            lane.finished = true;
            lane.unread = true;
            lane.queue.clear();
            self.woken.insert(*key);
        }
        self.notes.clear();
        self.turns.clear();
        self.end_exposed();
    }

    /// Returns the lanes whose waiters must be woken, since the last call.
    pub fn take_woken(&mut self) -> BTreeSet<LaneKey> {
        self.woken.extend(self.shortcuts.hand_over.take());
        std::mem::take(&mut self.woken)
    }

    fn add(&mut self, key: LaneKey) {
        self.lanes.insert(key, Stream::default());
        self.credits.add(key);
    }

    /// Removes a lane that has ended on both sides. Later messages of it are ignored.
    fn forget(&mut self, key: LaneKey) {
        let over =
            |lane: &Stream| lane.closed && lane.finish == Finish::Said && lane.finished && lane.uses_no_mpi_memory();
        if self.lanes.get(&key).is_some_and(over) {
            self.lanes.remove(&key);
            self.credits.remove(key);
        }
    }

    fn take_turn(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get_mut(&key)
            && (!lane.queue.is_empty() || lane.finish == Finish::Asked || lane.exposed.is_unsaid())
            && !std::mem::replace(&mut lane.in_turn, true)
        {
            self.turns.push_back(key);
        }
    }

    fn note(&mut self, key: LaneKey, kind: MessageKind, value: u64) {
        let header = Header { kind, by_opener: key.opened_here, number: key.number, value, tag: 0 };
        self.notes.push_back((key.peer, header));
    }
}

#[cfg(test)]
mod tests;
