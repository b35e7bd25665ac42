//! The fence of a device: the stream that all others are ordered after, so that copies from elsewhere land in order.

/// The fence. `S` names a stream.
pub struct FenceCore<S> {
    /// How often the fence was set. A stream that has followed the latest one need not follow again.
    count: u64,
    /// The last count that is known to be over.
    over: u64,
    /// The stream that the others are ordered after.
    behind: Option<S>,
}

impl<S> Default for FenceCore<S> {
    fn default() -> Self {
        Self { count: 0, over: 0, behind: None }
    }
}

impl<S: PartialEq + Clone> FenceCore<S> {
    /// Orders all later operations of other streams after those that the driver's stream of `stream` has now. Returns `false`
    /// if they are already ordered after another stream that is not known to be done.
    pub fn set(&mut self, stream: S) -> bool {
        if self.behind.as_ref() != Some(&stream) {
            if self.over != self.count {
                return false;
            }
            self.behind = Some(stream);
        }
        self.count += 1;
        true
    }

    /// Returns how often the fence was set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last count that is known to be over.
    pub fn over(&self) -> u64 {
        self.over
    }

    /// Returns the stream that another one must follow unless the driver's stream of it is empty, and the count that is over then.
    pub fn followed(&self) -> Option<(S, u64)> {
        self.behind.clone().filter(|_| self.over != self.count).map(|stream| (stream, self.count))
    }

    /// Records that the stream of the fence was empty after the fence was set for the `count`th time.
    pub fn passed(&mut self, count: u64) {
        self.over = self.over.max(count);
    }
}
