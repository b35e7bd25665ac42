//! How long TCP waits before it sends lost bytes once more.

use super::socket_option;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Longest wait. Without it each is twice as long as the one before, so that a program may stand still as long again as its link was cut, and far
/// longer where a busy machine lost track of its acknowledgements. The system takes nothing shorter.
const LONGEST: Duration = Duration::from_secs(1);

/// `TCP_RTO_MAX_MS` of Linux 6.15, which is not in `libc` yet.
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// Lets `socket` try at least once a second, where the system can be told: true if it can.
///
/// # Errors
/// If the socket is none of TCP.
pub(super) fn at_least_once_a_second(socket: impl AsFd) -> io::Result<bool> {
    let longest = LONGEST.as_millis() as libc::c_int;
    match socket_option::set(socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, longest) {
        Ok(()) => Ok(true),
        Err(unknown) if unknown.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether [`at_least_once_a_second`] was done.
pub(super) fn is_at_least_once_a_second(socket: impl AsFd) -> bool {
    socket_option::get(socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS)
        .is_ok_and(|longest| longest == LONGEST.as_millis() as libc::c_int)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn it_is_set_where_the_system_knows_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        if !at_least_once_a_second(&socket).unwrap() {
            return println!("skipped: this Linux is older than 6.15");
        }
        assert_eq!(socket_option::get(&socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS).unwrap(), 1_000);
        assert!(is_at_least_once_a_second(&socket) && !is_at_least_once_a_second(listener.accept().unwrap().0));
    }

    #[test]
    fn what_is_none_of_tcp_is_refused() {
        let (socket, _other) = UnixStream::pair().unwrap();
        at_least_once_a_second(&socket).unwrap_err();
    }
}
