//! The `wait` directive and clauses (OpenACC 3.3, 2.16).

use crate::device::Device;
use crate::queues::QueueList;
use crate::{LocalThread, Runtime};
use accord_types::{AsyncArg, QueueId, Result};

impl Runtime {
    /// Implements `wait` (2.16.3). No `waits` means all queues. With an `async` clause the host does not
    /// block: that queue waits.
    ///
    /// # Errors
    /// Returns the first failure of what was waited for.
    pub fn wait(&self, t: &mut LocalThread, async_: i32, waits: &[i32]) -> Result<()> {
        self.wait_or_queue(t, async_, waits).map_err(|error| error.call("wait"))
    }

    fn wait_or_queue(&self, t: &mut LocalThread, async_: i32, waits: &[i32]) -> Result<()> {
        let arg = AsyncArg::from_raw(async_)?;
        let Some(device) = self.target(t)? else { return Ok(()) };
        let queue = t.queue(arg);
        if waits.is_empty() {
            return device.wait_for_all(queue);
        }
        device.wait_clause(t, queue, waits.iter().copied())
    }
}

impl Device {
    /// Makes `queue` wait for the queues that a clause lists; the host does if it is the synchronous one.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async`, or the first failure of the queues that were waited for.
    pub(crate) fn wait_clause(&self, t: &LocalThread, queue: QueueId, waits: impl Iterator<Item = i32>) -> Result<()> {
        let mut listed = QueueList::new();
        for raw in waits {
            match AsyncArg::from_raw(raw).map_err(|error| self.place(error))? {
                AsyncArg::NoVal => return self.wait_for_all(queue),
                AsyncArg::Sync => {}
                arg @ AsyncArg::Queue(_) => listed.push(t.queue(arg)),
            }
        }
        if listed.is_empty() {
            return Ok(());
        }
        self.queue_waits(queue, &listed)
    }

    /// Makes `queue` wait for `others`; the host does if it is the synchronous one.
    ///
    /// # Errors
    /// Returns the first failure of what was waited for.
    pub(crate) fn queue_waits(&self, queue: QueueId, others: &[QueueId]) -> Result<()> {
        let queues = self.queues();
        let busy = others.iter().copied().filter(|other| *other != queue && queues.busy(*other)).collect();
        drop(queues);
        self.wait_for(queue, busy)
    }

    /// Makes `queue` wait for all queues; the host waits if it is the synchronous one. The host then also gets failures of synchronous
    /// operations that returned before they were done.
    ///
    /// # Errors
    /// Returns the first failure of what was waited for.
    pub(crate) fn wait_for_all(&self, queue: QueueId) -> Result<()> {
        let queues = self.queues();
        let mut busy: QueueList = queues.all_busy().filter(|other| *other != queue).collect();
        if queue == QueueId::SYNC && queues.busy(QueueId::SYNC) {
            busy.push(QueueId::SYNC);
        }
        drop(queues);
        self.wait_for(queue, busy)
    }

    fn wait_for(&self, queue: QueueId, others: QueueList) -> Result<()> {
        if queue == QueueId::SYNC {
            return self.wait_asked(&others);
        }
        for other in &others {
            self.queue_follows(queue, *other, false).map_err(|error| error.queue(queue))?;
        }
        self.lock().write_backs.follow(queue, &others);
        Ok(())
    }
}
