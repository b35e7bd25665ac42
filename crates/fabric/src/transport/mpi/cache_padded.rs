//! Values on cache lines of their own.

use std::ops::Deref;

/// A value that one thread polls, on cache lines that it shares with no other variable.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct CachePadded<T>(T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
