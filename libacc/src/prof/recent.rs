//! A cache, without a lock, of a thread's last look-ups.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts unloaded objects, which invalidate earlier look-ups.
static GONE: AtomicU64 = AtomicU64::new(0);

/// The last look-ups, in sets of two. A thread-local without a destructor, so that it is usable in exit handlers.
pub(super) struct Recent<K, V, const SETS: usize>([[Slot<K, V>; 2]; SETS]);

/// A value, with the value of [`GONE`] when it was found.
type Slot<K, V> = Cell<Option<(u64, K, V)>>;

impl<K: Copy + Eq, V: Copy, const SETS: usize> Recent<K, V, SETS> {
    pub(super) const fn new() -> Self {
        Self([const { [const { Cell::new(None) }; 2] }; SETS])
    }

    /// Returns the value of `key`, which `find` looks up unless it is cached. Keys with the same `hash` share a set.
    pub(super) fn get_or(&self, key: K, hash: usize, find: impl FnOnce() -> V) -> V {
        let gone = GONE.load(Ordering::Acquire);
        // Addresses of code and data do not differ in their lowest bits.
        let [newer, older] = &self.0[(hash ^ (hash >> 4) ^ (hash >> 12)) % SETS];
        for slot in [newer, older] {
            if let Some((since, known, value)) = slot.get()
                && since == gone
                && known == key
            {
                return value;
            }
        }
        let value = find();
        older.set(newer.replace(Some((gone, key, value))));
        value
    }
}

/// Invalidates all threads' look-ups.
pub(super) fn forget() {
    GONE.fetch_add(1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_looked_up_once_until_an_object_is_gone() {
        let recent = Recent::<usize, i32, 4>::new();
        let looks = Cell::new(0);
        let get = |key| {
            recent.get_or(key, key, || {
                looks.set(looks.get() + 1);
                i32::try_from(key).unwrap() * 10
            })
        };
        assert_eq!((get(1), get(2), get(1), get(2)), (10, 20, 10, 20));
        assert_eq!(looks.get(), 2);
        // Two keys share a set, and a third one replaces the older.
        assert_eq!((get(5), get(1), looks.get()), (50, 10, 3));
        assert_eq!((get(9), get(5), looks.get()), (90, 50, 4));
        assert_eq!((get(1), looks.get()), (10, 5));
        forget();
        assert_eq!((get(1), looks.get()), (10, 6));
    }
}
