//! Passes accepted lanes to another process of this machine, each with its client's introduction. The receiving process
//! does the TLS handshake, because the state of an encrypted lane can't be passed on. So the agent never sees the plaintext.

use super::lane::{Lane, SharedLane};
use super::{local_socket, socket};
use crate::ending::{ENDING_MAX, ExecutorEnding};
use crate::handshake::{HELLO_LEN, Introduced};
use crate::use_report::{self, UseReader};
use accord_types::{DeviceUse, Error, ErrorCode, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Most descriptors that one lane has.
const DESCRIPTORS_MAX: usize = 4;
/// Most devices in one write of use reports. The socket accepts such a write as a whole or not at all.
const REPORTS_MAX: usize = 64;
/// Start of a message with an ending, in place of a lane's hello. The ending's length follows.
const ENDING_MAGIC: [u8; 8] = *b"ENDING\r\n";

/// A message from an agent to an executor.
#[derive(Debug)]
pub enum HandoverMessage {
    /// A lane, and its client's introduction.
    Lane(SharedLane, Introduced),
    /// The reason why the executor has to end. No message follows.
    Ending(ExecutorEnding),
}

/// One end of the socket between an agent, which accepts connections, and an executor, which uses them. Its owner may
/// first exchange plain bytes over it, by [`Read`] and [`Write`].
#[derive(Debug)]
pub struct Handover(UnixStream);

impl Handover {
    /// Creates a connected pair.
    ///
    /// # Errors
    /// Returns the system's error if no socket pair can be created.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (near, far) = UnixStream::pair()?;
        Ok((Self(near), Self(far)))
    }

    /// Wraps the descriptor of an end.
    pub fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor.into())
    }

    /// Duplicates the handle of this end.
    ///
    /// # Errors
    /// Returns `acc_error_system` when out of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Limits how long a read or a write may block; `None` removes the limit.
    ///
    /// # Errors
    /// Returns the system's error if it refuses the limit.
    pub fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(time)?;
        self.0.set_write_timeout(time)
    }

    /// Ends the direction to the other process, from any thread: that reads the end of the stream. Its last report still arrives.
    pub fn shutdown_writes(&self) {
        // A failure means that the socket is closed already.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Ends the direction from the other process, from any thread. Messages to the other process still arrive.
    pub fn shutdown_reads(&self) {
        // A failure means that the direction has ended already.
        let _ = self.0.shutdown(Shutdown::Read);
    }

    /// Blocks for at most `time`. Returns whether a message or the end of the stream has arrived.
    ///
    /// # Errors
    /// Returns the error of `poll`.
    pub fn is_readable(&self, time: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(time).ok();
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reports to the agent a session's use of devices. A report is lost if the agent does not read; later reports include its
    /// figures.
    pub fn report_use(&self, uses: &[(u32, DeviceUse)]) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        for uses in uses.chunks(REPORTS_MAX) {
            let _ = rustix::net::send(&self.0, &use_report::encode(uses), flags);
        }
    }

    /// Returns the reports that have arrived. Does not block.
    ///
    /// # Errors
    /// Returns the system's error, and `UnexpectedEof` once the executor has ended.
    pub fn read_use(&self, reader: &mut UseReader) -> io::Result<Vec<(u32, DeviceUse)>> {
        let mut bytes = [0; 4096];
        match rustix::net::recv(&self.0, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, len)) => Ok(reader.take(&bytes[..len])),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes `lane` on, whose handshake must be the last thing read from it. The caller should then drop its own handle.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the other process has closed its end, or the lane has no descriptors to pass on.
    pub fn send(&self, lane: &dyn Lane, client: &Introduced) -> Result<()> {
        let bytes = client.encode();
        let descriptors = lane.descriptors().handed_over;
        if descriptors.is_empty() {
            return Err(broken(&"this lane can't be handed over"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let sent = loop {
            match sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(sent) => break sent,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(broken(&error)),
            }
        };
        (&self.0).write_all(&bytes[sent..]).map_err(|error| broken(&error))
    }

    /// Sends the reason why the other process has to end.
    ///
    /// # Errors
    /// Returns the system's error if the message can't be written.
    pub fn send_ending(&self, ending: &ExecutorEnding) -> io::Result<()> {
        let text = ending.encode();
        let len = u32::try_from(text.len()).unwrap_or(0);
        let mut bytes = [&ENDING_MAGIC[..], &len.to_le_bytes()].concat();
        bytes.resize(HELLO_LEN, 0);
        bytes.extend(text);
        (&self.0).write_all(&bytes)
    }

    /// Passes `lane` on within this process. The result has the same form as a lane received from another process.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the system refuses.
    pub fn within_process(lane: SharedLane, client: Introduced) -> Result<(SharedLane, Introduced)> {
        // A lane without descriptors has only one form.
        if lane.descriptors().handed_over.is_empty() {
            return Ok((lane, client));
        }
        let (here, there) = Self::pair().map_err(|error| broken(&error))?;
        here.send(&*lane, &client)?;
        there.receive()?.ok_or_else(|| broken(&"it has ended"))
    }

    /// Returns the next lane, or `None` once the other process has closed its end or sent an ending.
    ///
    /// # Errors
    /// Returns any error of [`Handover::receive_next`].
    pub fn receive(&self) -> Result<Option<(SharedLane, Introduced)>> {
        Ok(match self.receive_next()? {
            Some(HandoverMessage::Lane(lane, client)) => Some((lane, client)),
            Some(HandoverMessage::Ending(_)) | None => None,
        })
    }

    /// Returns the next message, or `None` once the other process has closed the connection.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the connection fails, or the message is not one of [`Handover::send`] or
    /// [`Handover::send_ending`].
    pub fn receive_next(&self) -> Result<Option<HandoverMessage>> {
        let mut bytes = [0; HELLO_LEN];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(message) => break message,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                Err(error) => return Err(broken(&error)),
            }
        };
        if message.bytes == 0 {
            return Ok(None);
        }
        let mut descriptors = Vec::new();
        for received in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = received {
                descriptors.extend(rights);
            }
        }
        (&self.0).read_exact(&mut bytes[message.bytes..]).map_err(|error| broken(&error))?;
        if let Some((&ENDING_MAGIC, rest)) = bytes.split_first_chunk() {
            return self.receive_ending(rest).map(Some);
        }
        let client = Introduced::decode(&bytes)?;
        if message.flags.contains(ReturnFlags::CTRUNC) {
            descriptors.clear();
        }
        let mut descriptors = descriptors.into_iter();
        let lane = match (descriptors.next(), descriptors.next(), descriptors.next(), descriptors.next()) {
            (Some(socket), None, ..) => socket::received(socket),
            (Some(socket), Some(doorbell), Some(memory), None) => {
                local_socket::received(socket, doorbell, memory).map_err(|error| broken(&error))?
            }
            _ => {
                return Err(Error::new(ErrorCode::System, "a connection was announced but did not come")
                    .remedy("raise the limit on open files (ulimit -n)"));
            }
        };
        Ok(Some(HandoverMessage::Lane(lane, client)))
    }

    fn receive_ending(&self, rest: &[u8]) -> Result<HandoverMessage> {
        let malformed = || broken(&"an ending is malformed");
        let len = rest.first_chunk().map(|len| u32::from_le_bytes(*len) as usize);
        let len = len.filter(|len| *len <= ENDING_MAX).ok_or_else(malformed)?;
        let mut text = vec![0; len];
        (&self.0).read_exact(&mut text).map_err(|error| broken(&error))?;
        ExecutorEnding::decode(&text).map(HandoverMessage::Ending).ok_or_else(malformed)
    }
}

impl From<Handover> for OwnedFd {
    fn from(handover: Handover) -> Self {
        handover.0.into()
    }
}

impl AsFd for Handover {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Read for &Handover {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(bytes)
    }
}

impl Write for &Handover {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::System, format!("the socket between agent and executor: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::{Hello, Purpose};
    use crate::peer::PeerId;
    use crate::transport::pair;
    use accord_types::SessionId;

    #[test]
    fn lanes_arrive_with_their_hello_in_order() {
        let (here, there) = Handover::pair().unwrap();
        let mut clients = Vec::new();
        for index in 0..3 {
            let (client, server) = pair().unwrap();
            let hello = Hello::new(Purpose::Command, SessionId(5), index, PeerId::from_raw(2));
            here.send(&*server, &hello.into()).unwrap();
            client.write_all(&mut [IoSlice::new(&[index.try_into().unwrap()])]).unwrap();
            clients.push(client);
        }
        drop(here);
        for index in 0..3 {
            let (lane, client) = there.receive().unwrap().unwrap();
            assert_eq!((client.hello.index, client.hello.session), (index, SessionId(5)));
            let mut byte = [0];
            lane.read_exact(&mut byte).unwrap();
            assert_eq!(u16::from(byte[0]), index);
        }
        assert!(there.receive().unwrap().is_none());
    }

    #[test]
    fn the_last_report_of_an_executor_arrives_that_the_agent_has_told_to_end() {
        let (agent, executor) = Handover::pair().unwrap();
        agent.shutdown_writes();
        assert!(executor.receive().unwrap().is_none());
        let report = [(3, DeviceUse { bytes_in: 7, ..DeviceUse::default() })];
        executor.report_use(&report);
        assert_eq!(agent.read_use(&mut UseReader::default()).unwrap(), report);
    }

    #[test]
    fn an_ending_arrives_also_when_the_way_is_shut_down_behind_it() {
        let (here, there) = Handover::pair().unwrap();
        let ending = ExecutorEnding::time_is_over(SessionId(5));
        here.send_ending(&ending).unwrap();
        here.shutdown_writes();
        assert!(matches!(there.receive_next().unwrap(), Some(HandoverMessage::Ending(reported)) if reported == ending));
        assert!(there.receive_next().unwrap().is_none());

        let (here, there) = Handover::pair().unwrap();
        let too_long = [&ENDING_MAGIC[..], &u32::MAX.to_le_bytes(), &[0; HELLO_LEN]].concat();
        (&here).write_all(&too_long).unwrap();
        assert!(there.receive_next().is_err());
    }

    #[test]
    fn a_message_without_a_lane_is_an_error() {
        let (here, there) = Handover::pair().unwrap();
        (&here)
            .write_all(&Hello::new(Purpose::Command, SessionId(5), 0, PeerId::from_raw(2)).encode(&[0; 32]))
            .unwrap();
        assert!(there.receive().is_err());
        (&here).write_all(&[7; HELLO_LEN]).unwrap();
        assert!(there.receive().is_err());
    }
}
