//! The longest interval between TCP's retransmissions.

use super::socket_option;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Longest interval. By default each interval doubles the previous one. So a program may stall after an outage for as long
/// again, and far longer on a busy machine that has lost track of acknowledgements. Linux accepts no shorter limit.
const LONGEST: Duration = Duration::from_secs(1);

/// `TCP_RTO_MAX_MS` of Linux 6.15, which is not in `libc` yet.
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// Makes `socket` retransmit at least once a second. Returns whether the system supports it.
///
/// # Errors
/// Returns the system's error if the socket does not use TCP.
pub(super) fn at_least_once_a_second(socket: impl AsFd) -> io::Result<bool> {
    let longest = LONGEST.as_millis() as libc::c_int;
    match socket_option::set(socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, longest) {
        Ok(()) => Ok(true),
        Err(unknown) if unknown.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether [`at_least_once_a_second`] has taken effect.
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
    fn the_limit_is_set_where_the_system_supports_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        if !at_least_once_a_second(&socket).unwrap() {
            return println!("skipped: this Linux is older than 6.15");
        }
        assert_eq!(socket_option::get(&socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS).unwrap(), 1_000);
        assert!(is_at_least_once_a_second(&socket) && !is_at_least_once_a_second(listener.accept().unwrap().0));
    }

    #[test]
    fn a_socket_that_is_not_tcp_is_refused() {
        let (socket, _other) = UnixStream::pair().unwrap();
        at_least_once_a_second(&socket).unwrap_err();
    }
}
