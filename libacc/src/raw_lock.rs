//! A lock that survives `fork`.

use std::cell::UnsafeCell;

/// A plain POSIX mutex. Unlike the standard library's, it can be locked before `fork` and unlocked after it, and a child can
/// reset it.
pub(crate) struct RawLock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a POSIX mutex is made for use by several threads through a shared address.
unsafe impl Sync for RawLock {}

impl RawLock {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Locks the mutex. Not recursive.
    pub(crate) fn lock(&self) {
        // SAFETY: the mutex is initialised and never moves: all are statics.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// Unlocks the mutex; only its holder may.
    pub(crate) fn unlock(&self) {
        // SAFETY: as for lock.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    /// Unlocks a forked child's copy, whichever thread held it in the parent.
    ///
    /// # Safety
    /// Must be called only in a `pthread_atfork` child handler, where no other thread exists.
    pub(crate) unsafe fn reset(&self) {
        // SAFETY: the caller is the only thread.
        unsafe { *self.0.get() = libc::PTHREAD_MUTEX_INITIALIZER };
    }
}

/// A value behind a [`RawLock`].
pub(crate) struct Locked<T> {
    lock: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only with the lock held.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: RawLock::new(), value: UnsafeCell::new(value) }
    }

    /// Runs `body` under the lock. `body` must not use the same lock.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        struct Release<'a>(&'a RawLock);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.unlock();
            }
        }
        self.lock.lock();
        let _release = Release(&self.lock);
        // SAFETY: the lock is held and not recursive, so that this is the only reference.
        body(unsafe { &mut *self.value.get() })
    }

    /// The lock itself, for the handlers around `fork`.
    pub(crate) fn raw(&self) -> &RawLock {
        &self.lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_the_body_releases_the_lock() {
        static VALUE: Locked<u32> = Locked::new(1);
        let outcome = std::panic::catch_unwind(|| VALUE.with(|_| panic!("as intended")));
        assert!(outcome.is_err());
        assert_eq!(VALUE.with(|value| *value), 1);
    }
}
