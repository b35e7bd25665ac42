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

/// Longest frame: TCP segments that are sent as one, and their headers.
const FRAME_MAX: usize = OFFLOAD_LEN + (64 << 10) + 64;
/// The kernel's receive buffer of one socket.
const BUFFER: usize = 8 << 20;

/// Enables the kernel's header ahead of frames, see [`OFFLOAD_LEN`].
#[derive(Clone, Copy)]
struct WithNotes;
nix::setsockopt_impl!(WithNotes, libc::SOL_PACKET, libc::PACKET_VNET_HDR, bool, SetBool);

/// Excludes frames that this machine itself sends on the interface.
#[derive(Clone, Copy)]
struct IgnoreOutgoing;
nix::setsockopt_impl!(IgnoreOutgoing, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, bool, SetBool);

#[derive(Clone, Copy)]
struct Received;
nix::getsockopt_impl!(
    Received,
    libc::SOL_PACKET,
    libc::PACKET_STATISTICS,
    libc::tpacket_stats,
    GetStruct<libc::tpacket_stats>
);

/// A packet socket that is bound to one interface.
pub struct PacketSocket {
    name: String,
    socket: OwnedFd,
    space: Vec<u8>,
}

impl PacketSocket {
    /// Opens the interface of this name in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an error if there is no such interface, or this user may not open it.
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
        setsockopt(&socket, IgnoreOutgoing, &true).map_err(failed("PACKET_IGNORE_OUTGOING"))?;
        setsockopt(&socket, RcvBufForce, &BUFFER).map_err(failed("SO_RCVBUFFORCE"))?;
        setsockopt(&socket, SndBufForce, &BUFFER).map_err(failed("SO_SNDBUFFORCE"))?;
        bind(socket.as_raw_fd(), &address).map_err(failed("bind"))?;
        let mut this = Self { name: name.to_owned(), socket, space: vec![0; FRAME_MAX] };
        // Until then the socket received frames of all interfaces.
        while this.receive()?.is_some() {}
        Ok(this)
    }

    /// Returns the next frame, if there is one.
    ///
    /// # Errors
    /// Returns an error if the interface no longer exists.
    pub fn receive(&mut self) -> Result<Option<Frame>> {
        loop {
            match recv(self.socket.as_raw_fd(), &mut self.space, MsgFlags::MSG_TRUNC) {
                // An oversized frame can't be forwarded; no host sends one.
                Ok(len) if len > self.space.len() => return Err(format!("{}: a frame of {len} B", self.name)),
                Ok(len) => {
                    let frame = Frame::new(self.space[..len].to_vec());
                    if frame.is_some() {
                        return Ok(frame);
                    }
                }
                Err(Errno::EAGAIN) => return Ok(None),
                // The kernel reports once that the interface went down, and it may come up again.
                Err(Errno::ENETDOWN | Errno::EINTR) => {}
                Err(error) => return Err(format!("{}: receive: {error}", self.name)),
            }
        }
    }

    /// Sends a frame. Returns whether it fitted into the interface's queue.
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

    /// Returns the number of frames that the kernel dropped since the last call.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report it.
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
