//! A list that only grows and is read without locks.

use accord_types::turn_lock::TurnLock;
use std::sync::OnceLock;

const SEGMENT: usize = 256;
const SEGMENTS: usize = 256;

type Segment<T> = OnceLock<Box<[OnceLock<T>]>>;

pub(crate) struct Table<T> {
    segments: Box<[Segment<T>]>,
    len: TurnLock<usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect(), len: TurnLock::new(0) }
    }
}

impl<T> Table<T> {
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        self.segments.get(index / SEGMENT)?.get()?[index % SEGMENT].get()
    }

    /// Adds the value that `make` returns for the new index. Returns `None` if the table is full.
    pub(crate) fn add<E>(&self, make: impl FnOnce(u32) -> Result<T, E>) -> Option<Result<u32, E>> {
        let mut len = self.len.take();
        let segment = self.segments.get(*len / SEGMENT)?;
        let segment = segment.get_or_init(|| (0..SEGMENT).map(|_| OnceLock::new()).collect());
        let index = *len as u32;
        Some(make(index).map(|value| {
            // Only this thread adds entries, and the cell is new.
            let _ = segment[*len % SEGMENT].set(value);
            *len += 1;
            index
        }))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..).map_while(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_insertions_use_no_table_slot() {
        let table = Table::default();
        for n in 0..600u32 {
            assert_eq!(table.add(|_| Err::<u32, _>("no")), Some(Err("no")));
            assert_eq!(table.add(|index| Ok::<_, ()>(index * 2)), Some(Ok(n)));
        }
        assert_eq!(table.get(599), Some(&1198));
        assert_eq!(table.get(600), None);
        assert_eq!(table.get(u32::MAX), None);
        assert_eq!(table.iter().count(), 600);
    }
}
