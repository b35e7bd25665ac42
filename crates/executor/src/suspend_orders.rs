//! The agent's orders to suspend a process's work and to resume it, carried out one after the other.

use accord_fabric::turn_messages::MemoryBound;
use accord_types::short_lock::ShortLock;
use std::collections::VecDeque;

/// Most orders that wait. The agent awaits each answer for minutes before it sends the next order.
const ORDERS_MAX: usize = 16;

/// An order of the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SuspendOrder {
    Suspend(MemoryBound),
    Resume,
}

/// The orders of a lane, in their order. One thread at a time carries them out, as long as there are some.
#[derive(Debug, Default)]
pub(crate) struct SuspendOrders(ShortLock<OrderQueue>);

#[derive(Debug, Default)]
struct OrderQueue {
    waiting: VecDeque<SuspendOrder>,
    /// Whether a thread carries orders out, or is being started.
    has_thread: bool,
}

impl SuspendOrders {
    /// Adds an order. Returns `false` if too many wait.
    pub(crate) fn put(&self, order: SuspendOrder) -> bool {
        let mut queue = self.0.lock();
        let has_space = queue.waiting.len() < ORDERS_MAX;
        if has_space {
            queue.waiting.push_back(order);
        }
        has_space
    }

    /// Whether the caller must start the thread that takes the orders.
    pub(crate) fn needs_thread(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().has_thread, true)
    }

    /// Takes the next order, for the thread; `None` if the thread ends.
    pub(crate) fn next(&self) -> Option<SuspendOrder> {
        let mut queue = self.0.lock();
        let next = queue.waiting.pop_front();
        queue.has_thread = next.is_some();
        next
    }

    /// Drops the orders, for which the system has no thread.
    pub(crate) fn no_thread(&self) {
        *self.0.lock() = OrderQueue::default();
    }

    /// Drops the orders that have not begun.
    pub(crate) fn clear(&self) {
        self.0.lock().waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUSPEND: SuspendOrder = SuspendOrder::Suspend(MemoryBound::OfAgent);

    #[test]
    fn orders_are_taken_in_their_order_by_one_thread() {
        let orders = SuspendOrders::default();
        assert!(orders.put(SUSPEND) && orders.needs_thread());
        assert_eq!(orders.next(), Some(SUSPEND));
        assert!(orders.put(SuspendOrder::Resume) && !orders.needs_thread(), "a second thread would overtake the first");
        assert!(orders.put(SUSPEND));
        assert_eq!([orders.next(), orders.next(), orders.next()], [Some(SuspendOrder::Resume), Some(SUSPEND), None]);
        assert!(orders.put(SuspendOrder::Resume) && orders.needs_thread());
        orders.no_thread();
        assert!(orders.put(SUSPEND) && orders.needs_thread(), "the next order is lost");
        assert!((1..ORDERS_MAX).all(|_| orders.put(SUSPEND)) && !orders.put(SUSPEND));
        orders.clear();
        assert_eq!(orders.next(), None);
    }
}
