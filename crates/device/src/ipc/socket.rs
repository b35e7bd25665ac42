//! The messages between an exporter and an importer: of fixed size, on a socket that keeps their boundaries, some with a descriptor.

use super::PieceKey;
use accord_types::short_lock::assert_none_held;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, recvmsg, sendmsg, shutdown, sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The longest time that a message waits for space, as both sides always read at once.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);
const MESSAGE_LEN: usize = 24;
/// The length of messages that carry the driver's name for an allocation.
const LONG_LEN: usize = MESSAGE_LEN + PieceKey::ALLOCATION;

/// A message.
#[derive(Debug)]
pub(super) enum Message {
    /// Importer: send this piece of this range.
    Ask { range: u64, piece: u64 },
    /// Exporter: the key of the piece; `None` if it is gone or can't be exported.
    Piece { piece: u64, key: Option<PieceKey> },
    /// Exporter: the owner no longer uses the piece.
    Dropped { piece: u64 },
    /// Importer: the piece is no longer mapped.
    Released { piece: u64 },
}

/// One end. Any thread may send messages, but only one may receive.
pub(super) struct Socket(OwnedFd);

impl Socket {
    pub(super) fn new(socket: OwnedFd) -> Self {
        // The limit may fail to be set, which is harmless as the peer reads at once.
        let _ = sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(SEND_TIMEOUT));
        let _ = sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, None);
        Self(socket)
    }

    /// Sends a message. A failure ends the connection, which the reader notices.
    pub(super) fn send(&self, message: Message) {
        let (kind, first, second, key) = match message {
            Message::Ask { range, piece } => (1, piece, range, None),
            Message::Piece { piece, key: Some(key @ PieceKey::Allocation(_)) } => (5, piece, 0, Some(key)),
            Message::Piece { piece, key } => (2, piece, 0, key),
            Message::Dropped { piece } => (3, piece, 0, None),
            Message::Released { piece } => (4, piece, 0, None),
        };
        let (descriptor, name) = match key {
            None => (None, None),
            Some(PieceKey::Descriptor(descriptor)) => (Some(descriptor), None),
            Some(PieceKey::Allocation(name)) => (None, Some(name)),
        };
        let mut bytes = [0; LONG_LEN];
        let len = name.map_or(MESSAGE_LEN, |name| {
            bytes[MESSAGE_LEN..].copy_from_slice(&name);
            LONG_LEN
        });
        for (to, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([kind, first, second]) {
            *to = u64::to_le_bytes(number);
        }
        assert_none_held();
        let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        loop {
            match sendmsg(&self.0, &[IoSlice::new(&bytes[..len])], &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(_) => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return self.close(),
            }
        }
    }

    /// Returns the next message, or `None` when the connection has ended or the message is malformed.
    pub(super) fn receive(&self) -> Option<Message> {
        let mut bytes = [0; LONG_LEN];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(message) => break message,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        };
        let descriptor = ancillary.drain().find_map(|received| match received {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        // A truncated descriptor means that the piece can't be imported.
        if message.flags.contains(ReturnFlags::TRUNC) {
            return None;
        }
        let numbers = bytes.as_chunks::<8>().0;
        let number = |index: usize| u64::from_le_bytes(numbers[index]);
        let piece = number(1);
        let expected = if number(0) == 5 { LONG_LEN } else { MESSAGE_LEN };
        if message.bytes != expected {
            return None;
        }
        Some(match number(0) {
            1 => Message::Ask { range: number(2), piece },
            2 => Message::Piece { piece, key: descriptor.map(PieceKey::Descriptor) },
            3 => Message::Dropped { piece },
            4 => Message::Released { piece },
            5 => {
                let name = *bytes.last_chunk::<{ PieceKey::ALLOCATION }>()?;
                Message::Piece { piece, key: Some(PieceKey::Allocation(name)) }
            }
            _ => return None,
        })
    }

    /// Ends the connection, for both sides.
    pub(super) fn close(&self) {
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}
