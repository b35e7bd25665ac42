//! Tries whether a message passing library reaches devices' own memory, in a process that nobody misses.

use super::lent::{LentBytes, LentRoom};
use super::loan::TAG_FIRST;
use super::world::{Came, World};
use accord_types::NativeRange;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Has this rank send itself what is in `from` to `to`, which has as much room. A library that does not reach that memory ends the process, or says
/// an error, or leaves other bytes there.
///
/// # Errors
/// Those of the world. [`ErrorKind::TimedOut`]; then the library still has the memory, and the process is to end.
pub fn try_native(world: &mut dyn World, from: NativeRange, to: NativeRange, limit: Duration) -> io::Result<()> {
    let end = Instant::now() + limit;
    world.send_lent(world.rank(), TAG_FIRST, LentBytes::native(from), 0)?;
    let (mut sent, mut filled) = (false, false);
    while !(sent && filled) {
        match world.receive(&mut |_, _, _| Ok(LentRoom::native(to)))? {
            Some(Came::Sent(_)) => sent = true,
            Some(Came::Filled(_)) => filled = true,
            Some(Came::Message(..)) => {}
            None if Instant::now() >= end => return Err(ErrorKind::TimedOut.into()),
            None => std::thread::yield_now(),
        }
    }
    Ok(())
}
