//! Which of the lanes to a peer are lent: decisions without I/O.

use accord_types::{Error, Result};

/// The lanes to one peer by number, each lent to one transfer at a time.
#[derive(Debug, Default)]
pub struct LanePool {
    lent: Vec<bool>,
    closed: Option<Error>,
}

impl LanePool {
    /// One more lane, which has the next number.
    pub fn add(&mut self) {
        self.lent.push(false);
    }

    /// Lends a lane; none if all are lent, or there is none yet.
    ///
    /// # Errors
    /// That of [`LanePool::close`].
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

    /// Lends this lane, unless it is lent.
    ///
    /// # Errors
    /// As for [`LanePool::lend`].
    pub fn lend_this(&mut self, lane: usize) -> Result<bool> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        Ok(!std::mem::replace(&mut self.lent[lane], true))
    }

    /// A transfer needs its lane no more.
    pub fn give_back(&mut self, lane: usize) {
        self.lent[lane] = false;
    }

    /// Lends nothing more, and says why: the first reason that is given.
    pub fn close(&mut self, error: &Error) {
        self.closed.get_or_insert_with(|| error.clone());
    }

    /// Why nothing is lent any more, if that is so.
    pub fn closed(&self) -> Option<&Error> {
        self.closed.as_ref()
    }

    /// Whether there is no lane yet.
    pub fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }
}
