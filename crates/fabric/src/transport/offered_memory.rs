//! The memory of a lane as its client sends it after the handshake: the memory and a second doorbell.

use super::lane::LocalClient;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// The byte sent with the memory.
pub(super) const OFFER: &[u8] = &[1];

/// The memory of an accepted lane, once it has arrived.
#[derive(Debug)]
pub(super) struct OfferedMemory {
    client: LocalClient,
    /// The second doorbell and the memory.
    received: OnceLock<[OwnedFd; 2]>,
}

impl OfferedMemory {
    pub(super) fn new(client: LocalClient) -> Self {
        Self { client, received: OnceLock::new() }
    }

    /// Returns the process that has connected.
    pub(super) fn client(&self) -> LocalClient {
        self.client
    }

    /// Receives the memory. Blocks for at most the socket's limit.
    pub(super) fn receive(&self, socket: impl AsFd) -> io::Result<()> {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = rustix::io::retry_on_intr(|| {
            recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        if message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Errno::MFILE.into());
        }
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let is_offer = message.bytes == OFFER.len() && byte == OFFER;
        let received = <[OwnedFd; 2]>::try_from(descriptors).ok().filter(|_| is_offer);
        let none = || io::Error::new(ErrorKind::InvalidData, "no shared memory came with the lane");
        let _ = self.received.set(received.ok_or_else(none)?);
        Ok(())
    }

    /// Returns the descriptors that have arrived.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.received.get().into_iter().flatten().map(AsFd::as_fd)
    }

    /// Returns the second doorbell and the memory, if they have arrived.
    pub(super) fn into_received(self) -> Option<[OwnedFd; 2]> {
        self.received.into_inner()
    }
}
