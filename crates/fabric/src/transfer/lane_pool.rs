//! Tracks which lanes to a peer are in use. Decisions without I/O.

use accord_types::{Error, Result};

/// The lanes to one peer by number, each used by one transfer at a time.
#[derive(Debug, Default)]
pub struct LanePool {
    lent: Vec<bool>,
    closed: Option<Error>,
}

impl LanePool {
    /// Adds a lane, with the next number.
    pub fn add(&mut self) {
        self.lent.push(false);
    }

    /// Takes a free lane. Returns `None` if none is free.
    ///
    /// # Errors
    /// Returns the error of [`LanePool::close`].
    pub fn lend(&mut self) -> Result<Option<usize>> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        let free = self.lent.iter().position(|lent| !lent);
        if let Some(lane) = free {
            self.lent[lane] = true;
        }
        Ok(free)
    }

    /// Takes this lane if it is free. Returns whether it was.
    ///
    /// # Errors
    /// Returns the errors of [`LanePool::lend`].
    pub fn lend_this(&mut self, lane: usize) -> Result<bool> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        Ok(!std::mem::replace(&mut self.lent[lane], true))
    }

    /// Releases a lane.
    pub fn give_back(&mut self, lane: usize) {
        self.lent[lane] = false;
    }

    /// Refuses further use of lanes, and keeps the first error.
    pub fn close(&mut self, error: &Error) {
        self.closed.get_or_insert_with(|| error.clone());
    }

    /// Returns the error of [`LanePool::close`], if it was called.
    pub fn closed(&self) -> Option<&Error> {
        self.closed.as_ref()
    }

    /// Whether there are no lanes yet.
    pub fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }
}
