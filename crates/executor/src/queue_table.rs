//! Assigns a program's queues to a device's streams, and tracks how many operations each queue has. Without I/O or clock.

use accord_types::{Error, ErrorCode, QueueId, Result, Seq, StreamId, streams_max};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Most queues that a program may have on a device.
pub const QUEUES_MAX: usize = 1 << 16;

/// The queues of one program on one device.
pub struct QueueTable {
    queues: HashMap<QueueId, Arc<Queue>, ByNumber>,
    /// Streams of the program's queues, which further queues share. Includes streams that could not be created, so that the program can derive which
    /// queues share one.
    shared: Vec<Result<StreamId>>,
    /// Most such streams.
    streams_max: usize,
}

/// One queue of a program.
#[derive(Debug)]
pub struct Queue {
    stream: StreamId,
    /// Number of counted operations of the queue.
    count: AtomicU64,
    /// Position of the last one in the stream.
    last: AtomicU64,
    /// The error of an operation that could not be enqueued. The queue accepts no more.
    failed: OnceLock<Error>,
}

/// The stream for a queue's operations.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// The stream that the queue has.
    Known(Arc<Queue>),
    /// A stream that the caller must create, see [`QueueTable::add`].
    New,
    /// Another queue's stream, which only adds ordering.
    Shared(StreamId),
    /// None: the shared stream could not be created.
    Failed(Error),
}

impl QueueTable {
    /// Creates a table without queues, with the lease's quota of streams as in [`streams_max`].
    pub fn new(stream_quota: u32) -> Self {
        Self { queues: HashMap::default(), shared: Vec::new(), streams_max: streams_max(stream_quota) }
    }

    /// A queue that was used before.
    pub fn find(&self, queue: QueueId) -> Option<&Arc<Queue>> {
        self.queues.get(&queue)
    }

    /// Returns the stream for a queue's operations.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if there are too many queues.
    pub fn carrier(&self, queue: QueueId) -> Result<Carrier> {
        if let Some(known) = self.find(queue) {
            return Ok(Carrier::Known(known.clone()));
        }
        if self.is_full() {
            let cause = format!("a program has more than {QUEUES_MAX} queues on a device");
            return Err(Error::new(ErrorCode::InvalidArgument, cause));
        }
        if is_accords(queue) || self.shared.len() < self.streams_max {
            return Ok(Carrier::New);
        }
        Ok(match &self.shared[queue.0 as usize % self.shared.len()] {
            Ok(stream) => Carrier::Shared(*stream),
            Err(error) => Carrier::Failed(error.clone()),
        })
    }

    /// Assigns a stream to a queue. No operation of the queue was enqueued yet.
    pub fn add(&mut self, queue: QueueId, stream: StreamId) -> Arc<Queue> {
        if !is_accords(queue) && self.shared.len() < self.streams_max && !self.queues.contains_key(&queue) {
            self.shared.push(Ok(stream));
        }
        let state = Arc::new(Queue::new(stream));
        self.queues.insert(queue, state.clone());
        state
    }

    /// Removes an internal queue.
    pub(crate) fn remove(&mut self, queue: QueueId) {
        self.queues.remove(&queue);
    }

    /// Whether there are as many queues as allowed.
    pub(crate) fn is_full(&self) -> bool {
        self.queues.len() >= QUEUES_MAX
    }

    /// A queue that can't be used, for want of a stream.
    pub fn add_failed(&mut self, queue: QueueId, error: Error) -> Arc<Queue> {
        if !is_accords(queue) && self.shared.len() < self.streams_max {
            self.shared.push(Err(error.clone()));
        }
        let state = Arc::new(Queue::new(StreamId(u32::MAX)));
        state.fail(error);
        self.queues.insert(queue, state.clone());
        state
    }

    /// Returns the stream and position of a queue, if `seq` is a count of its operations; `None` if it has none.
    ///
    /// # Errors
    /// Returns an error if the queue has failed, or never had so many operations.
    pub fn position(&self, queue: QueueId, seq: Seq) -> Result<Option<(StreamId, Seq)>> {
        let unknown = || Error::new(ErrorCode::ImplementationDefined, "a program waits for what it never put in");
        let Some(state) = self.find(queue) else {
            return if seq.0 == 0 { Ok(None) } else { Err(unknown()) };
        };
        state.check()?;
        if seq.0 > state.count() {
            return Err(unknown());
        }
        Ok(Some((state.stream, state.last())))
    }
}

/// Whether a queue is internal: such queues never share a stream.
fn is_accords(queue: QueueId) -> bool {
    queue.0 >= QueueId::INCOMING.0
}

impl Queue {
    fn new(stream: StreamId) -> Self {
        Self { stream, count: AtomicU64::new(0), last: AtomicU64::new(0), failed: OnceLock::new() }
    }

    /// Returns the stream that carries the queue.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the position in the stream of the last operation.
    pub fn last(&self) -> Seq {
        Seq(self.last.load(Ordering::Acquire))
    }

    /// Records an operation at this position of the stream.
    pub fn advance(&self, seq: Seq) {
        self.last.fetch_max(seq.0, Ordering::AcqRel);
    }

    /// Records an enqueued operation.
    pub fn count_one(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of recorded operations.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Makes the queue refuse operations. The first error stays.
    pub fn fail(&self, error: Error) {
        let _ = self.failed.set(error);
    }

    /// Checks that the queue accepts operations.
    ///
    /// # Errors
    /// Returns the error of [`Queue::fail`].
    pub fn check(&self) -> Result<()> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// A hasher for keys that are a program's own numbers. Badly chosen ones slow down only that program.
pub type ByNumber = BuildHasherDefault<NumberHasher>;

/// The hasher of [`ByNumber`].
#[derive(Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // Spreads close numbers over all bits (Fibonacci hashing).
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Returns a queue, as a driver does.
    fn queue(table: &mut QueueTable, queue: QueueId, made: &mut u32) -> Result<Arc<Queue>> {
        Ok(match table.carrier(queue)? {
            Carrier::Known(queue) => queue,
            Carrier::New => {
                *made += 1;
                table.add(queue, StreamId(*made))
            }
            Carrier::Shared(stream) => table.add(queue, stream),
            Carrier::Failed(error) => table.add_failed(queue, error),
        })
    }

    #[test]
    fn number_of_queues_is_bounded() {
        let (mut table, mut made) = (QueueTable::new(2), 0);
        for number in 0..QUEUES_MAX as u32 {
            queue(&mut table, QueueId(number), &mut made).unwrap();
        }
        assert!(queue(&mut table, QueueId(u32::MAX >> 1), &mut made).is_err());
        assert!(queue(&mut table, QueueId(0), &mut made).is_ok());
        assert_eq!(made, 2);
    }

    #[test]
    fn a_failed_queue_stays_failed_and_leaves_others_alone() {
        let (mut table, mut made) = (QueueTable::new(0), 0);
        let [first, other] = [1, 2].map(|number| queue(&mut table, QueueId(number), &mut made).unwrap());
        for cause in ["first", "second"] {
            first.fail(Error::new(ErrorCode::Execution, cause));
        }
        assert_eq!(table.position(QueueId(1), Seq(0)).unwrap_err().cause(), "first");
        assert!(other.check().is_ok());
        table.add_failed(QueueId(3), Error::new(ErrorCode::Execution, "no stream"));
        assert!(table.position(QueueId(3), Seq(0)).is_err());
        // A failed stream counts, here as in the program.
        let mut table = QueueTable::new(2);
        table.add_failed(QueueId(1), Error::new(ErrorCode::Execution, "no stream"));
        assert!(matches!(table.carrier(QueueId(2)).unwrap(), Carrier::New));
        table.add(QueueId(2), StreamId(1));
        assert!(matches!(table.carrier(QueueId(4)).unwrap(), Carrier::Failed(_)));
        assert!(matches!(table.carrier(QueueId(5)).unwrap(), Carrier::Shared(StreamId(1))));
    }

    proptest! {
        #[test]
        fn queues_keep_their_streams_and_share_them_beyond_the_quota(
            quota in 1..8u32,
            uses in prop::collection::vec((0..40u32, 0..3u64), 1..200),
        ) {
            let (mut table, mut made) = (QueueTable::new(quota), 0);
            let mut counts = HashMap::<u32, (StreamId, u64)>::new();
            for (number, put) in uses {
                let id = if number == 39 { QueueId::SYNC } else { QueueId(number) };
                let state = queue(&mut table, id, &mut made).unwrap();
                let (stream, count) = counts.entry(id.0).or_insert((state.stream(), 0));
                prop_assert_eq!(*stream, state.stream());
                for _ in 0..put {
                    *count += 1;
                    state.count_one();
                    state.advance(Seq(*count));
                }
                prop_assert_eq!(state.count(), *count);
                prop_assert!(table.position(id, Seq(*count + 1)).is_err());
                prop_assert_eq!(table.position(id, Seq(*count)).unwrap(), Some((state.stream(), Seq(*count))));
            }
            let own: BTreeSet<_> = counts.iter().filter(|(id, _)| **id != QueueId::SYNC.0).map(|(_, (s, _))| *s).collect();
            prop_assert!(own.len() <= quota as usize);
            let synchronous = counts.get(&QueueId::SYNC.0).map(|(stream, _)| *stream);
            prop_assert!(synchronous.is_none_or(|stream| !own.contains(&stream)));
            prop_assert!(table.position(QueueId(77), Seq(0)).unwrap().is_none());
            prop_assert!(table.position(QueueId(77), Seq(1)).is_err());
        }
    }
}
