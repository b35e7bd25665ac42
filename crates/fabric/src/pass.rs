//! Hands an accepted connection to another process of the same machine, with its hello.

use crate::handshake::{HELLO_LEN, Hello};
use accord_types::{Error, ErrorCode, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Hands `stream` over. The caller's copy should be dropped then.
///
/// # Errors
/// `acc_error_system` if the other process is gone.
pub fn send(socket: &UnixStream, stream: &TcpStream, hello: &Hello) -> Result<()> {
    let bytes = hello.encode(&[0; 32]);
    let descriptors = [stream.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let mut sent = loop {
        match sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(sent) => break sent,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(broken(&error)),
        }
    };
    let mut socket = socket;
    while sent < bytes.len() {
        sent += socket.write(&bytes[sent..]).map_err(|error| broken(&error))?;
    }
    Ok(())
}

/// Takes the next connection; none when the other process has closed the socket.
///
/// # Errors
/// `acc_error_system` if the socket fails or the message is not one of [`send`].
pub fn receive(mut socket: &UnixStream) -> Result<Option<(TcpStream, Hello)>> {
    let mut bytes = [0; HELLO_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(broken(&error)),
        }
    };
    if message.bytes == 0 {
        return Ok(None);
    }
    let mut stream = None;
    for received in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = received {
            stream = descriptors.last().map(TcpStream::from);
        }
    }
    socket.read_exact(&mut bytes[message.bytes..]).map_err(|error| broken(&error))?;
    let hello = Hello::decode(&bytes)?;
    match stream {
        Some(stream) if !message.flags.contains(ReturnFlags::CTRUNC) => Ok(Some((stream, hello))),
        _ => Err(Error::new(ErrorCode::System, "a connection was announced but did not come")
            .remedy("raise the limit on open files (ulimit -n)")),
    }
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::System, format!("the socket between agent and executor: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::Lane;
    use accord_types::SessionId;
    use std::net::TcpListener;

    #[test]
    fn connections_arrive_with_their_hello_in_order() {
        let (here, there) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut clients = Vec::new();
        for index in 0..3 {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            send(&here, &stream, &Hello::new(Lane::Command, SessionId(5), index, 2)).unwrap();
            client.write_all(&[index.try_into().unwrap()]).unwrap();
            clients.push(client);
        }
        drop(here);
        for index in 0..3 {
            let (mut stream, hello) = receive(&there).unwrap().unwrap();
            assert_eq!((hello.index, hello.session), (index, SessionId(5)));
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            assert_eq!(u16::from(byte[0]), index);
        }
        assert!(receive(&there).unwrap().is_none());
    }

    #[test]
    fn a_message_without_a_connection_is_an_error() {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(&Hello::new(Lane::Command, SessionId(5), 0, 2).encode(&[0; 32])).unwrap();
        assert!(receive(&there).is_err());
        here.write_all(&[7; HELLO_LEN]).unwrap();
        assert!(receive(&there).is_err());
    }
}
