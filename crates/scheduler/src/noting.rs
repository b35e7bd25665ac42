//! A map that notes its changed entries.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

/// A map that notes changed entries after [`NotingMap::note_changes`]. It dereferences to a [`BTreeMap`].
#[derive(Clone, Debug)]
pub struct NotingMap<K, V> {
    entries: BTreeMap<K, V>,
    changed: Option<BTreeSet<K>>,
}

impl<K, V> Default for NotingMap<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), changed: None }
    }
}

impl<K: Copy + Ord, V> NotingMap<K, V> {
    /// Begins to note changes.
    pub fn note_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// Stops noting changes.
    pub fn forget_changes(&mut self) {
        self.changed = None;
    }

    /// Returns the keys of entries that were inserted, removed or mutably borrowed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<K> {
        self.changed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Inserts an entry.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.note(key);
        self.entries.insert(key, value)
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.entries.remove(key);
        if removed.is_some() {
            self.note(*key);
        }
        removed
    }

    /// Borrows an entry mutably and notes it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        if let Some(changed) = &mut self.changed {
            changed.insert(*key);
        }
        Some(entry)
    }

    /// Borrows an entry mutably for a change of parts that are not saved.
    pub fn get_mut_unnoted(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    fn note(&mut self, key: K) {
        if let Some(changed) = &mut self.changed {
            changed.insert(key);
        }
    }
}

impl<K, V> Deref for NotingMap<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_entries_that_change_and_no_others() {
        let mut map = NotingMap::default();
        map.insert(1, "a");
        assert!(map.take_changed().is_empty());
        map.note_changes();
        map.insert(2, "b");
        map.remove(&3);
        assert_eq!(map.get(&1), Some(&"a"));
        assert!(map.get_mut(&4).is_none());
        assert_eq!(map.take_changed(), BTreeSet::from([2]));
        if let Some(value) = map.get_mut(&1) {
            *value = "c";
        }
        assert_eq!(map.take_changed(), BTreeSet::from([1]));
        if let Some(value) = map.get_mut_unnoted(&1) {
            *value = "d";
        }
        assert!(map.take_changed().is_empty());
        map.remove(&2);
        assert_eq!((map.take_changed(), map.len()), (BTreeSet::from([2]), 1));
        assert!(map.take_changed().is_empty());
    }
}
