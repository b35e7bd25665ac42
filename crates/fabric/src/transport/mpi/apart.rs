//! What is alone in its cache lines.

use std::ops::Deref;

/// In cache lines of its own: what one thread looks at again and again, and others change.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
