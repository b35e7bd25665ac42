//! Descriptors that pass between processes of one machine, with a byte each message.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most descriptors of a message.
pub const DESCRIPTORS_MAX: usize = 64;

/// Sends up to [`DESCRIPTORS_MAX`] descriptors over a socket, without blocking.
///
/// # Errors
/// Returns the system's error, and `WouldBlock` if the peer does not read.
pub(super) fn send(socket: impl AsFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if descriptors.is_empty() || !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::io::retry_on_intr(|| sendmsg(socket.as_fd(), &[IoSlice::new(&[1])], &mut ancillary, flags))?;
    Ok(())
}

/// Blocks until descriptors have arrived. Skips bytes without any, which wake waiters.
///
/// # Errors
/// Returns the system's error, also if this process may have no more descriptors, and `UnexpectedEof` once the peer has gone.
pub(super) fn receive(socket: impl AsFd) -> io::Result<Vec<OwnedFd>> {
    loop {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = rustix::io::retry_on_intr(|| {
            recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        match message.bytes {
            _ if message.flags.contains(ReturnFlags::CTRUNC) => return Err(Errno::MFILE.into()),
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            _ if !descriptors.is_empty() => return Ok(descriptors),
            _ => {}
        }
    }
}
