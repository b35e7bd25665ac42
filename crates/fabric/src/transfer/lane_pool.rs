//! Tracks which lanes to a peer are in use. Decisions without I/O.

use accord_types::{Error, Result};

/// The lanes to one peer by number, each used by one transfer at a time.
#[derive(Debug, Default)]
pub struct LanePool {
    acquired: Vec<bool>,
    closed: Option<Error>,
}

impl LanePool {
    /// Adds a lane, with the next number.
    pub fn add(&mut self) {
        self.acquired.push(false);
    }

    /// Takes a free lane. Returns `None` if none is free.
    ///
    /// # Errors
    /// Returns the error of [`LanePool::close`].
    pub fn acquire(&mut self) -> Result<Option<usize>> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        let free = self.acquired.iter().position(|acquired| !acquired);
        if let Some(lane) = free {
            self.acquired[lane] = true;
        }
        Ok(free)
    }

    /// Takes this lane if it is free. Returns whether it was.
    ///
    /// # Errors
    /// Returns the errors of [`LanePool::acquire`].
    pub fn acquire_lane(&mut self, lane: usize) -> Result<bool> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        Ok(!std::mem::replace(&mut self.acquired[lane], true))
    }

    /// Releases a lane.
    pub fn give_back(&mut self, lane: usize) {
        self.acquired[lane] = false;
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
        self.acquired.is_empty()
    }
}
