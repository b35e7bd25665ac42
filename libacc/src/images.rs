//! The images that GCC's start-up code has registered.
//!
//! Constructors register images, possibly before this library's own initialisation, and destructors unregister them, possibly
//! after its end. So both only change a list.

use crate::raw_lock::{Locked, RawLock};
use std::sync::atomic::{AtomicU64, Ordering};

/// One call of `GOMP_offload_register_ver`: one object's code for one target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Image {
    /// Library version in the upper half, device version in the lower.
    pub(crate) version: u32,
    /// Address of the host table, the same for all targets of one object.
    pub(crate) table: usize,
    /// GCC's number of the target: 5 is nvptx.
    pub(crate) target: i32,
    /// The target's own description of the code.
    pub(crate) data: usize,
}

struct Images {
    registered: Vec<Image>,
    /// Host tables unregistered since [`take_unregistered`].
    unregistered: Vec<usize>,
}

static IMAGES: Locked<Images> = Locked::new(Images { registered: Vec::new(), unregistered: Vec::new() });
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Adds an image.
pub(crate) fn register(image: Image) {
    IMAGES.with(|images| images.registered.push(image));
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Removes an image; an unknown one is ignored.
pub(crate) fn unregister(image: Image) {
    IMAGES.with(|images| {
        if let Some(at) = images.registered.iter().position(|known| *known == image) {
            images.registered.remove(at);
            if !images.unregistered.contains(&image.table) {
                images.unregistered.push(image.table);
            }
        }
    });
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Returns how often the list has changed.
pub(crate) fn changes() -> u64 {
    CHANGES.load(Ordering::Acquire)
}

/// Returns the registered images. They stay registered until the program unloads their objects.
pub(crate) fn registered() -> Vec<Image> {
    IMAGES.with(|images| images.registered.clone())
}

/// Returns the host tables of objects unloaded since the last call.
pub(crate) fn take_unregistered() -> Vec<usize> {
    IMAGES.with(|images| std::mem::take(&mut images.unregistered))
}

/// Returns the lock, which is held around `fork` so that the child's copy is consistent and unlocked.
pub(crate) fn lock() -> &'static RawLock {
    IMAGES.raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_two_targets_goes_once() {
        let image = |target| Image { version: 0x10001, table: 0x7000, target, data: 0x8000 };
        register(image(5));
        register(image(8));
        let count = || registered().iter().filter(|image| image.table == 0x7000).count();
        assert_eq!(count(), 2);
        unregister(image(5));
        unregister(image(8));
        unregister(image(8));
        assert_eq!(count(), 0);
        assert_eq!(take_unregistered(), [0x7000]);
        assert!(take_unregistered().is_empty());
    }
}
