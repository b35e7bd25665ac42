//! Tests whether a message passing library supports device memory, in a process that may crash without harm.

use super::exposed_buffers::TAG_FIRST;
use super::exposed_memory::{ReceiveBuffer, SendBuffer};
use super::world::{ReceivedItem, World};
use accord_types::NativeRange;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Makes this rank send the bytes of `from` to itself, to `to`, which has the same length. A library without support for
/// device memory crashes the process, reports an error, or leaves other bytes there.
///
/// # Errors
/// Returns the world's error, and [`ErrorKind::TimedOut`] after `limit`. The library may then still use the memory, and the
/// process must end.
pub fn try_native(world: &mut dyn World, from: NativeRange, to: NativeRange, limit: Duration) -> io::Result<()> {
    let end = Instant::now() + limit;
    world.send_exposed(world.rank(), TAG_FIRST, SendBuffer::native(from), 0)?;
    let (mut sent, mut filled) = (false, false);
    while !(sent && filled) {
        match world.receive(&mut |_, _, _| Ok(ReceiveBuffer::native(to)))? {
            Some(ReceivedItem::Sent(_)) => sent = true,
            Some(ReceivedItem::Filled(_)) => filled = true,
            Some(ReceivedItem::Message(..)) => {}
            None if Instant::now() >= end => return Err(ErrorKind::TimedOut.into()),
            None => std::thread::yield_now(),
        }
    }
    Ok(())
}
