//! GPUs of one process that access each other's memory.

use super::context::Context;
use super::shared::Shared;
use accord_types::Result;
use accord_types::short_lock::ShortLock;
use accord_types::turn_lock::TurnLock;
use std::sync::{Arc, Weak};

/// A device as other devices of the process see it.
pub(crate) struct Registered {
    shared: Arc<Shared>,
    /// Devices that this one was connected to, whether accessible or not. A GPU that is started again is another device.
    asked: TurnLock<Vec<Weak<Shared>>>,
    /// Devices whose streams may copy into this one's memory.
    writers: ShortLock<Vec<Weak<Shared>>>,
}

pub(crate) fn register(shared: &Arc<Shared>) -> Registered {
    Registered { shared: Arc::clone(shared), asked: TurnLock::default(), writers: ShortLock::default() }
}

impl Registered {
    /// Waits for copies from other devices into this one's memory. No more are issued once its [`Shared::memory_uses`] have
    /// ended.
    pub(super) fn drain_writers(&self) {
        let writers = std::mem::take(&mut *self.writers.lock());
        for writer in writers.iter().filter_map(Weak::upgrade) {
            let Ok(_current) = writer.context.enter() else { continue };
            writer.all_streams().iter().for_each(|stream| stream.drain());
        }
    }
}

/// Lets two devices access each other's memory, if the machine supports it. Otherwise the driver copies through the
/// host.
pub(crate) fn connect(one: &Registered, other: &Registered) -> Result<()> {
    if other.shared.context.device == one.shared.context.device {
        return Ok(());
    }
    let mut asked = one.asked.take();
    if asked.iter().any(|known| std::ptr::eq(known.as_ptr(), &raw const *other.shared)) {
        return Ok(());
    }
    add(&mut asked, &other.shared);
    add(&mut other.writers.lock(), &one.shared);
    let can = |from: &Context, to: &Context| {
        let mut can = 0;
        // SAFETY: the value is valid for writing.
        let asked = unsafe { from.driver.cuDeviceCanAccessPeer(&raw mut can, from.device, to.device) };
        asked.is_ok() && can != 0
    };
    let (one, other) = (&one.shared, &other.shared);
    if can(&other.context, &one.context) {
        one.memory.share_with(&other.context)?;
    }
    if can(&one.context, &other.context) {
        other.memory.share_with(&one.context)?;
    }
    Ok(())
}

/// Adds a device and removes those that are gone, so that the list stays short.
fn add(known: &mut Vec<Weak<Shared>>, device: &Arc<Shared>) {
    known.retain(|known| known.strong_count() > 0);
    known.push(Arc::downgrade(device));
}
