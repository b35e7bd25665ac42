//! Small variables that an asynchronous compute construct copies both ways.
//!
//! GCC maps every scalar that is declared inside a data construct `copy`, including a loop's own index. The program
//! continues changing it while the region is queued, and a copy that wrote the old value back would change the
//! program's loop. So such a value is sent with the call, and copied
//! back only if the region has changed it. Its place on the device stays until the queue was waited for. A
//! later region of the queue that copies the same, unchanged variable finds the earlier one's result, as the queue's
//! order requires (OpenACC 3.3, 2.16). So does a region of another queue that was made to wait for it. All that ends when a later
//! command copies something else to the variable, or the program has waited for the region: then the program's memory counts.

use super::map::{Mapping, Mode, Stop};
use super::region::Use;
use crate::memory::Purpose;
use crate::plan::Step;
use crate::ports::Part;
use crate::write_back::{Counts, Value, WRITE_BACK_BYTES_MAX, WriteBack};
use accord_types::{DevicePtr, HostRange, QueueId};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Mapping<'_, '_> {
    /// Whether an absent variable that is copied both ways is written back.
    pub(super) fn is_written_back(&self, len: usize) -> bool {
        self.mode == Mode::Launch && self.queue != QueueId::SYNC && len <= WRITE_BACK_BYTES_MAX
    }

    /// Maps entry `i` as a write-back.
    pub(super) fn write_back(&mut self, i: usize, range: HostRange) -> Result<(), Stop> {
        self.before_reading(range)?;
        let changes = self.device.changes();
        let mut value = Value::default();
        self.host.read(range.start, &mut value[..range.len]);
        self.after_write_backs_around(range, value)?;
        let known =
            self.state.write_backs.0.iter().find(|e| e.queue == self.queue && e.range == range).map(|e| e.device);
        let device = match known {
            Some(device) => device,
            // It belongs to the queue until that is idle: no construct frees it.
            None => self.allocate_unobserved(range.len, Purpose::Arguments)?,
        };
        self.region.write_backs.push(Use { entry: i, range, device, value, changes, fresh: known.is_none() });
        self.slot(i, device.0);
        Ok(())
    }

    /// Waits for results of queued regions for variables that overlap this one without being the same: such have places of
    /// their own.
    fn after_write_backs_around(&self, range: HostRange, value: Value) -> Result<(), Stop> {
        match self
            .write_backs_of(range, Some(value))
            .find(|(write_back, certain)| write_back.range != range || !certain)
        {
            Some((write_back, _)) => Err(Stop::Wait(vec![write_back.queue])),
            None => Ok(()),
        }
    }

    /// Returns results of queued regions that come first for variables in a range, if the program has not set those since. That is
    /// certain if they hold their earlier value; otherwise that may have come from a region before the last one. `value` is what
    /// the range itself held when it was read before; it may differ by now.
    fn write_backs_of(&self, range: HostRange, value: Option<Value>) -> impl Iterator<Item = (&WriteBack, bool)> {
        let end = range.start.saturating_add(range.len);
        let comes_first = |e: &&WriteBack| {
            e.counts != Counts::Elsewhere && (e.queue == self.queue || e.followers.contains(&self.queue))
        };
        let overlaps = move |e: &&WriteBack| e.range.start < end && range.start < e.range.start + e.range.len;
        // The program has to order what other threads have queued since.
        let waited = |e: &&WriteBack| self.tried.waited.contains(&e.queue);
        self.state.write_backs.0.iter().filter(overlaps).filter(comes_first).filter(move |e| !waited(e)).filter_map(
            move |write_back| {
                let value = value.filter(|_| write_back.range == range).unwrap_or_else(|| {
                    let mut value = Value::default();
                    self.host.read(write_back.range.start, &mut value[..write_back.range.len]);
                    value
                });
                let same = write_back.holds(&value);
                let unsure =
                    write_back.counts == Counts::PartlyHere || self.device.changes().any_since(write_back.changes);
                (same || unsure).then_some((write_back, same))
            },
        )
    }

    /// Returns the device's address of the result of queued regions for a variable that is copied in now. None if the
    /// program has set it since. The program's own memory may only get the result later.
    #[inline]
    pub(super) fn value_on_device(&self, range: HostRange) -> Result<Option<DevicePtr>, Stop> {
        if self.queue == QueueId::SYNC || self.state.write_backs.0.is_empty() {
            return Ok(None);
        }
        match self.write_backs_of(range, None).next() {
            None => Ok(None),
            Some((write_back, true)) if write_back.range == range && write_back.queue == self.queue => {
                Ok(Some(write_back.device))
            }
            // A part of something else, or another queue's: rare enough to wait for.
            Some((write_back, _)) => Err(Stop::Wait(vec![write_back.queue])),
        }
    }

    /// The construct is certain: sends the values and keeps the places.
    pub(super) fn send_write_backs(&mut self) {
        for k in 0..self.region.write_backs.len() {
            let Use { entry, range, device, value, changes, fresh } = self.region.write_backs[k];
            let effect = self.state.effects.of(self.region.function, entry);
            let write_backs = &mut self.state.write_backs;
            let stays = |write_back: &WriteBack| write_back.device == device && write_back.holds(&value);
            // This region has to find what the queue's last region left there. That does not hold if the program has set it since, or
            // another queue's region has come in between.
            let stays = write_backs.0.iter().any(stays);
            let passed_on = if stays { None } else { write_backs.pass_on(self.queue, range, &value) };
            let new =
                if stays { None } else { Some(passed_on.as_ref().map_or_else(Arc::default, |e| e.chain.clone())) };
            if fresh {
                self.device.has_write_backs.store(true, Ordering::Release);
                write_backs.0.push(WriteBack::new(self.queue, range, device));
            }
            let write_back = write_backs.0.iter_mut().find(|write_back| write_back.device == device);
            let chain = write_back.map(|write_back| write_back.send(value, changes, new, effect));
            if let Some(WriteBack { device: src, .. }) = passed_on {
                self.plan.before.push(Step::Copy { dst: device, src, len: range.len as u64 });
                self.plan.releases.blocks.push(src);
            } else if !stays {
                self.plan.bytes(device, &value[..range.len]);
            }
            let at = self.plan.bytes.len();
            self.plan.bytes.extend_from_slice(&value[..range.len]);
            self.plan.parts.push(Part { at: 0, dst: range });
            self.plan.brings_back(device, at, 1, chain);
        }
    }
}
