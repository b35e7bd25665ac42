//! A network interface, frame by frame.

use crate::Result;
use crate::frame::{Frame, OFFLOAD_LEN};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::sockopt::{GetStruct, RcvBufForce, SetBool, SndBufForce};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Longest frame: segments of TCP that go as one, and their headers.
const FRAME_MAX: usize = OFFLOAD_LEN + (64 << 10) + 64;
/// What the kernel keeps of frames for one socket.
const BUFFER: usize = 8 << 20;

/// Frames have the kernel's notes ahead of them, see [`OFFLOAD_LEN`].
#[derive(Clone, Copy)]
struct WithNotes;
nix::setsockopt_impl!(WithNotes, libc::SOL_PACKET, libc::PACKET_VNET_HDR, bool, SetBool);

/// What this machine itself sends by the interface is not received.
#[derive(Clone, Copy)]
struct OthersOnly;
nix::setsockopt_impl!(OthersOnly, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, bool, SetBool);

#[derive(Clone, Copy)]
struct Received;
nix::getsockopt_impl!(
    Received,
    libc::SOL_PACKET,
    libc::PACKET_STATISTICS,
    libc::tpacket_stats,
    GetStruct<libc::tpacket_stats>
);

/// The interface's own packets, as they are on the wire.
pub struct PacketSocket {
    name: String,
    socket: OwnedFd,
    room: Vec<u8>,
}

impl PacketSocket {
    /// The interface of this name in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an error if there is none, or this user may not open it.
    pub fn open(name: &str) -> Result<Self> {
        let failed = |what: &'static str| move |error: Errno| format!("{name}: {what}: {error}");
        let address = getifaddrs()
            .map_err(failed("getifaddrs"))?
            .filter(|interface| interface.interface_name == name)
            .find_map(|interface| interface.address?.as_link_addr().copied())
            .ok_or_else(|| format!("there is no interface {name}"))?;
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .map_err(failed("a packet socket"))?;
        setsockopt(&socket, WithNotes, &true).map_err(failed("PACKET_VNET_HDR"))?;
        setsockopt(&socket, OthersOnly, &true).map_err(failed("PACKET_IGNORE_OUTGOING"))?;
        setsockopt(&socket, RcvBufForce, &BUFFER).map_err(failed("SO_RCVBUFFORCE"))?;
        setsockopt(&socket, SndBufForce, &BUFFER).map_err(failed("SO_SNDBUFFORCE"))?;
        bind(socket.as_raw_fd(), &address).map_err(failed("bind"))?;
        let mut this = Self { name: name.to_owned(), socket, room: vec![0; FRAME_MAX] };
        // Until then it had frames of all interfaces.
        while this.receive()?.is_some() {}
        Ok(this)
    }

    /// The next frame, if there is one.
    ///
    /// # Errors
    /// Returns an error if the interface is gone.
    pub fn receive(&mut self) -> Result<Option<Frame>> {
        loop {
            match recv(self.socket.as_raw_fd(), &mut self.room, MsgFlags::MSG_TRUNC) {
                // What does not fit can't be forwarded; no host sends that.
                Ok(len) if len > self.room.len() => return Err(format!("{}: a frame of {len} B", self.name)),
                Ok(len) => {
                    let frame = Frame::new(self.room[..len].to_vec());
                    if frame.is_some() {
                        return Ok(frame);
                    }
                }
                Err(Errno::EAGAIN) => return Ok(None),
                // It is said once that the interface went down, and it may come up again.
                Err(Errno::ENETDOWN | Errno::EINTR) => {}
                Err(error) => return Err(format!("{}: receive: {error}", self.name)),
            }
        }
    }

    /// Whether there was room for it on the interface.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the frame.
    pub fn send(&self, frame: &Frame) -> Result<bool> {
        match send(self.socket.as_raw_fd(), frame.bytes(), MsgFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENETDOWN | Errno::EINTR) => Ok(false),
            Err(error) => Err(format!("{}: send {} B: {error}", self.name, frame.bytes().len())),
        }
    }

    /// How many frames the kernel had no room for since it was asked last.
    ///
    /// # Errors
    /// Returns an error if the kernel does not tell.
    pub fn missed(&self) -> Result<u64> {
        let statistics = nix::sys::socket::getsockopt(&self.socket, Received);
        statistics.map(|found| u64::from(found.tp_drops)).map_err(|error| format!("{}: {error}", self.name))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
