//! The records of events on one device that may be in flight: the queue that each has, and the places for their times. Without I/O.

/// Queues of events of a device. Further records in flight share them.
const QUEUES: usize = 16;

/// The records of one device.
#[derive(Default)]
pub(crate) struct EventRecords {
    queues: [EventQueue; QUEUES],
    /// Unused places for times.
    places: Vec<usize>,
    /// Number of the latest record.
    last: u64,
}

/// A queue of events.
#[derive(Default)]
struct EventQueue {
    /// Records that are not enqueued yet.
    starting: usize,
    /// Records that may be in flight, oldest first.
    records: Vec<InFlight>,
}

/// A record that may be in flight.
struct InFlight {
    number: u64,
    /// Queue of the stream that it is recorded in.
    stream: i32,
    place: usize,
    /// Whether no event refers to it any more.
    is_forgotten: bool,
}

impl EventQueue {
    fn is_idle(&self) -> bool {
        self.starting == 0 && self.records.is_empty()
    }

    /// Returns the latest record, if all are of this stream.
    fn latest_of(&self, stream: i32) -> Option<u64> {
        let is_its = self.starting == 0 && self.records.iter().all(|record| record.stream == stream);
        self.records.last().filter(|_| is_its).map(|record| record.number)
    }
}

impl EventRecords {
    /// Number of the latest record.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Whether a record gets a queue of its own, and an unused place if it `has_time`.
    pub(crate) fn has_room(&self, has_time: bool) -> bool {
        self.queues.iter().any(EventQueue::is_idle) && !(has_time && self.places.is_empty())
    }

    /// Returns the queue for a record that is about to be enqueued. If all are in use, it is one of records of the same stream, which are
    /// ordered anyway, or else the one with the oldest record.
    pub(crate) fn begin(&mut self, stream: i32) -> usize {
        let queues = &self.queues;
        let idle = queues.iter().position(EventQueue::is_idle);
        let numbered = || queues.iter().enumerate();
        let of_stream = || {
            let latest = numbered().filter_map(|(queue, state)| state.latest_of(stream).map(|number| (number, queue)));
            latest.max().map(|(_, queue)| queue)
        };
        let oldest = || {
            let first = numbered().filter_map(|(queue, state)| state.records.first().map(|one| (one.number, queue)));
            first.min().map(|(_, queue)| queue)
        };
        let queue = idle.or_else(of_stream).or_else(oldest).unwrap_or(0);
        self.queues[queue].starting += 1;
        queue
    }

    /// Adds the record of [`EventRecords::begin`], which is enqueued now. Returns its number.
    pub(crate) fn enqueued(&mut self, queue: usize, stream: i32, place: usize) -> u64 {
        self.last += 1;
        let state = &mut self.queues[queue];
        state.starting -= 1;
        state.records.push(InFlight { number: self.last, stream, place, is_forgotten: false });
        self.last
    }

    /// Whether a record may be in flight.
    pub(crate) fn is_in_flight(&self, queue: usize, number: u64) -> bool {
        self.queues[queue].records.iter().any(|record| record.number == number)
    }

    /// Returns the queues with records, oldest first, each with the stream of its oldest record.
    pub(crate) fn pending(&self) -> Vec<(usize, i32)> {
        let mut all: Vec<_> = self
            .queues
            .iter()
            .enumerate()
            .filter_map(|(queue, state)| state.records.first().map(|record| (record.number, queue, record.stream)))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, queue, stream)| (queue, stream)).collect()
    }

    /// Removes the records of a queue up to this number, which are complete.
    pub(crate) fn complete(&mut self, queue: usize, until: u64) {
        let places = &mut self.places;
        self.queues[queue].records.retain(|record| {
            let is_complete = record.number <= until;
            if is_complete && record.is_forgotten && record.place != 0 {
                places.push(record.place);
            }
            !is_complete
        });
    }

    /// Gives back the place of a record that no event refers to any more, once the record is complete.
    pub(crate) fn forget(&mut self, queue: usize, number: u64, place: usize) {
        match self.queues[queue].records.iter_mut().find(|record| record.number == number) {
            Some(record) => record.is_forgotten = true,
            None if place != 0 => self.places.push(place),
            None => {}
        }
    }

    /// Returns an unused place for a time.
    pub(crate) fn take_place(&mut self) -> Option<usize> {
        self.places.pop()
    }

    pub(crate) fn add_places(&mut self, places: impl Iterator<Item = usize>) {
        self.places.extend(places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(records: &mut EventRecords, stream: i32, place: usize) -> (usize, u64) {
        let queue = records.begin(stream);
        (queue, records.enqueued(queue, stream, place))
    }

    #[test]
    fn records_in_flight_have_queues_of_their_own() {
        let mut records = EventRecords::default();
        let queues: Vec<usize> = (0..QUEUES).map(|_| record(&mut records, 1, 0).0).collect();
        assert_eq!(queues, (0..QUEUES).collect::<Vec<_>>());
        assert!(!records.has_room(false));
        records.complete(5, records.last());
        assert!(records.has_room(false));
        assert_eq!(record(&mut records, 2, 0).0, 5);
    }

    #[test]
    fn a_queue_is_shared_within_a_stream_if_possible() {
        let mut records = EventRecords::default();
        for _ in 0..QUEUES - 1 {
            record(&mut records, 1, 0);
        }
        assert_eq!(record(&mut records, 2, 0).0, QUEUES - 1);
        assert_eq!(record(&mut records, 2, 0).0, QUEUES - 1);
        assert_eq!(record(&mut records, 1, 0).0, QUEUES - 2);
        assert_eq!(record(&mut records, 3, 0).0, 0);
        assert_eq!(records.pending()[0], (0, 1));
        assert_eq!(records.pending().len(), QUEUES);
    }

    #[test]
    fn a_queue_is_taken_before_its_record_is_enqueued() {
        let mut records = EventRecords::default();
        let first = records.begin(1);
        let second = records.begin(2);
        assert_ne!(first, second);
        let until = records.last();
        let number = records.enqueued(first, 1, 0);
        records.complete(first, until);
        assert!(records.is_in_flight(first, number));
        records.complete(first, number);
        assert!(!records.is_in_flight(first, number));
    }

    #[test]
    fn places_return_when_their_records_are_complete_and_forgotten() {
        let mut records = EventRecords::default();
        let (early, first) = record(&mut records, 1, 8);
        records.forget(early, first, 8);
        assert_eq!(records.take_place(), None);
        records.complete(early, first);
        assert_eq!(records.take_place(), Some(8));
        let (late, second) = record(&mut records, 1, 16);
        records.complete(late, second);
        assert_eq!(records.take_place(), None);
        records.forget(late, second, 16);
        assert!(records.has_room(true));
        assert_eq!((records.take_place(), records.take_place()), (Some(16), None));
        let (untimed, third) = record(&mut records, 1, 0);
        records.complete(untimed, third);
        records.forget(untimed, third, 0);
        assert_eq!(records.take_place(), None);
    }
}
