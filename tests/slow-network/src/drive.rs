//! Runs the switch between packet sockets.

use crate::{Counts, PacketSocket, Result, Switch};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Frames read from one socket before the next socket is read.
const TURN: usize = 32;

/// Totals of a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The switch's counts.
    pub counts: Counts,
    /// Frames that did not fit into the links to the hosts.
    pub refused: u64,
    /// Frames that the kernel dropped because they arrived faster than they were read.
    pub missed: u64,
    /// The longest time between a frame's due time and its departure.
    pub late: Duration,
}

/// Forwards frames until `stop` is readable or its other end is closed. Port n is the nth socket.
///
/// # Errors
/// Returns any error of a socket.
pub fn run(mut switch: Switch, sockets: &mut [PacketSocket], stop: BorrowedFd<'_>) -> Result<Carried> {
    let begin = Instant::now();
    let (mut refused, mut late) = (0, Duration::ZERO);
    loop {
        let mut waiting = false;
        for (port, socket) in sockets.iter_mut().enumerate() {
            let mut taken = 0;
            while taken < TURN
                && let Some(frame) = socket.receive()?
            {
                switch.take(begin.elapsed(), port, frame);
                taken += 1;
            }
            waiting |= taken == TURN;
        }
        let mut now = begin.elapsed();
        while let Some(due) = switch.due()
            && let Some(leaving) = switch.leave(now)
        {
            for &port in &leaving.to {
                refused += u64::from(!sockets[port].send(&leaving.frame)?);
            }
            late = late.max(now - due);
            now = begin.elapsed();
        }
        let pause = if waiting { Some(Duration::ZERO) } else { switch.due().map(|due| due.saturating_sub(now)) };
        if wait(sockets, stop, pause)? {
            break;
        }
    }
    let missed = sockets.iter().map(PacketSocket::missed).sum::<Result<u64>>()?;
    Ok(Carried { counts: switch.counts(), refused, missed, late })
}

/// Blocks until a frame arrives or the time is over. Returns whether to stop.
fn wait(sockets: &[PacketSocket], stop: BorrowedFd<'_>, pause: Option<Duration>) -> Result<bool> {
    let polled = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut polled: Vec<_> =
        std::iter::once(polled(stop)).chain(sockets.iter().map(|socket| polled(socket.as_fd()))).collect();
    match ppoll(&mut polled, pause.map(TimeSpec::from_duration), None) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(polled[0].any().unwrap_or_default()),
        Err(error) => Err(format!("poll: {error}")),
    }
}
