//! How long TCP waits before it sends lost bytes once more.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
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
    // SAFETY: the descriptor is open while it is borrowed, and the option is read from an integer of the length that is said.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const longest).cast(),
            size_of_val(&longest) as libc::socklen_t,
        )
    };
    if status == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        unknown if unknown.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
        error => Err(error),
    }
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
        let (mut value, mut len) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the descriptor is open, and the option is written to an integer of the length that is said.
        let status = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                TCP_RTO_MAX_MS,
                (&raw mut value).cast(),
                &raw mut len,
            )
        };
        assert_eq!((status, value), (0, 1_000));
    }

    #[test]
    fn what_is_none_of_tcp_is_refused() {
        let (socket, _other) = UnixStream::pair().unwrap();
        at_least_once_a_second(&socket).unwrap_err();
    }
}
