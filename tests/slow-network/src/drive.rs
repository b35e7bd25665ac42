//! The switch between packet sockets.

use crate::{Counts, PacketSocket, Result, Switch};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Frames that are taken from one socket before the others have their turn.
const TURN: usize = 32;

/// What a network has carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The switch's own count.
    pub counts: Counts,
    /// Frames that the links to the hosts had no room for.
    pub refused: u64,
    /// Frames that came faster than they were taken.
    pub missed: u64,
    /// The longest that a frame left after it was due.
    pub late: Duration,
}

/// Hands frames on until `stop` can be read, or its other end is closed. Port n is the nth socket.
///
/// # Errors
/// Returns the error of a socket.
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

/// Until a frame comes, or the time is over. Whether it is to stop.
fn wait(sockets: &[PacketSocket], stop: BorrowedFd<'_>, pause: Option<Duration>) -> Result<bool> {
    let polled = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut polled: Vec<_> =
        std::iter::once(polled(stop)).chain(sockets.iter().map(|socket| polled(socket.as_fd()))).collect();
    match ppoll(&mut polled, pause.map(TimeSpec::from_duration), None) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(polled[0].any().unwrap_or_default()),
        Err(error) => Err(format!("poll: {error}")),
    }
}
