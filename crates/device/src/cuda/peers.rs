//! GPUs of one process that reach each other's memory.

use super::context::Context;
use super::memory::Memory;
use accord_types::Result;
use accord_types::turn_lock::TurnLock;
use std::sync::Arc;

/// A device as other devices of the process know it.
pub(crate) struct Registered {
    context: Arc<Context>,
    memory: Arc<Memory>,
    /// Devices that were connected to this one, whether they can reach it or not.
    asked: TurnLock<Vec<i32>>,
}

pub(crate) fn register(context: &Arc<Context>, memory: &Arc<Memory>) -> Registered {
    Registered { context: Arc::clone(context), memory: Arc::clone(memory), asked: TurnLock::default() }
}

/// Lets two devices read and write each other's memory, if the machine can. Where it can't the driver copies through
/// the host.
pub(crate) fn connect(one: &Registered, other: &Registered) -> Result<()> {
    let peer = other.context.device;
    if peer == one.context.device {
        return Ok(());
    }
    let mut asked = one.asked.take();
    if asked.contains(&peer) {
        return Ok(());
    }
    asked.push(peer);
    let can = |from: &Context, to: &Context| {
        let mut can = 0;
        // SAFETY: the value is valid for writing.
        let asked = unsafe { from.driver.cuDeviceCanAccessPeer(&raw mut can, from.device, to.device) };
        asked.is_ok() && can != 0
    };
    if can(&other.context, &one.context) {
        one.memory.share_with(&other.context)?;
    }
    if can(&one.context, &other.context) {
        other.memory.share_with(&one.context)?;
    }
    Ok(())
}
