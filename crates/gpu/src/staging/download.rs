//! Slots that the device fills, by stream, and which of them are known to be filled.

use super::progress::Tracker;
use super::slot_pool::{Probe, Slot};
use crate::driver::DriverError;
use std::collections::VecDeque;
use std::sync::Arc;

/// Slots of a stream that are queried at a time. If the device is ahead, threads that have emptied one find the next
/// without a query.
const AHEAD: usize = 4;

/// A slot that the device uploads, then to the program.
pub(crate) struct Download {
    pub(crate) slot: Slot,
    pub(crate) to: usize,
    pub(crate) len: usize,
    pub(crate) tracker: Arc<Tracker>,
}

/// All slots in flight.
#[derive(Default)]
pub(crate) struct Downloads {
    streams: Vec<StreamDownloads>,
}

struct StreamDownloads {
    stream: usize,
    /// Slots in the order in which the device fills them. Never empty.
    slots: VecDeque<Download>,
    /// For the first slots: that the device has filled them, or its failure.
    filled: VecDeque<Result<(), DriverError>>,
}

/// Whether the device has filled a slot of a stream.
pub(crate) struct Question {
    stream: usize,
    probe: Probe,
}

/// The driver's answer about a stream's next slot.
pub(crate) type Answer = (usize, Result<(), DriverError>);

impl Downloads {
    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The device will fill a slot. `stream` is any number that keeps slots of different streams apart.
    pub(crate) fn push(&mut self, stream: usize, download: Download) {
        match self.streams.iter_mut().find(|known| known.stream == stream) {
            Some(known) => known.slots.push_back(download),
            None => self.streams.push(StreamDownloads {
                stream,
                slots: VecDeque::from([download]),
                filled: VecDeque::new(),
            }),
        }
    }

    /// Returns the questions for the driver.
    pub(crate) fn questions(&self) -> Vec<Question> {
        let of_stream = |known: &StreamDownloads| {
            let (stream, asked) = (known.stream, known.filled.len());
            let unknown = known.slots.iter().take(AHEAD).skip(asked);
            unknown.map(|download| Question { stream, probe: download.slot.probe() }).collect::<Vec<_>>()
        };
        self.streams.iter().flat_map(of_stream).collect()
    }

    /// Records the answers to all queries. A slot leaves only once it is known to be filled, so that the slots are still the
    /// same.
    pub(crate) fn answer(&mut self, answers: &[Answer]) {
        for (stream, result) in answers {
            if let Some(known) = self.streams.iter_mut().find(|known| known.stream == *stream) {
                known.filled.push_back(*result);
            }
        }
    }

    /// A slot that is known to be filled.
    pub(crate) fn take(&mut self) -> Option<(Download, Result<(), DriverError>)> {
        let at = self.streams.iter().position(|known| !known.filled.is_empty())?;
        let known = &mut self.streams[at];
        let filled = known.filled.pop_front()?;
        let download = known.slots.pop_front()?;
        if known.slots.is_empty() {
            self.streams.swap_remove(at);
        }
        Some((download, filled))
    }

    /// All slots, filled or not.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Download> + use<> {
        std::mem::take(&mut self.streams).into_iter().flat_map(|known| known.slots)
    }
}

/// Queries the driver for a stream's slots in order, up to the first that is not filled.
pub(crate) fn ask(questions: Vec<Question>) -> Vec<Answer> {
    let (mut answers, mut behind) = (Vec::new(), None);
    for Question { stream, probe } in questions {
        if behind == Some(stream) {
            continue;
        }
        match probe.is_done() {
            Ok(true) => answers.push((stream, Ok(()))),
            Ok(false) => behind = Some(stream),
            Err(error) => answers.push((stream, Err(error))),
        }
    }
    answers
}
