//! Small variables that an asynchronous compute construct copies both ways.
//!
//! GCC maps every scalar that is declared inside a data construct `copy`, a loop's own index
//! included, and the program goes on changing it while the region is queued. A copy that wrote the old
//! value back would change the program's loop. So such a value goes out with the call, and comes
//! back only if the region has changed what it found. Its place on the device stays until the queue was waited for: a
//! later region of the queue that copies the same, unchanged variable finds what the earlier one made of it, as the queue's
//! order asks (OpenACC 3.3, 2.16). So does a region of another queue that was made to wait for it. All that ends when a later
//! command copies something else to the variable, or the program has waited for the region: then the program's memory counts.

use super::map::{Mapping, Mode, Stop};
use super::region::Use;
use crate::echo::{Counts, ECHO_BYTES_MAX, Echo, Value};
use crate::memory::Purpose;
use crate::plan::Step;
use crate::ports::Part;
use accord_types::{DevicePtr, HostRange, QueueId};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Mapping<'_, '_> {
    /// Whether an absent variable that is copied both ways is an echo.
    pub(super) fn echoes(&self, len: usize) -> bool {
        self.mode == Mode::Launch && self.queue != QueueId::SYNC && len <= ECHO_BYTES_MAX
    }

    /// Entry `i` is one.
    pub(super) fn echo(&mut self, i: usize, range: HostRange) -> Result<(), Stop> {
        self.before_reading(range)?;
        let changes = self.device.changes();
        let mut value = Value::default();
        self.host.read(range.start, &mut value[..range.len]);
        self.after_echoes_around(range, value)?;
        let known = self.state.echoes.0.iter().find(|e| e.queue == self.queue && e.range == range).map(|e| e.device);
        let device = match known {
            Some(device) => device,
            // It is the queue's until that has no work left: no construct gives it back.
            None => self.allocate_untold(range.len, Purpose::Arguments)?,
        };
        self.region.echoes.push(Use { entry: i, range, device, value, changes, fresh: known.is_none() });
        self.slot(i, device.0);
        Ok(())
    }

    /// Waits for what queued regions make of variables that this one has in part only, or that have it: such have places of
    /// their own.
    fn after_echoes_around(&self, range: HostRange, value: Value) -> Result<(), Stop> {
        match self.echoes_of(range, Some(value)).find(|(echo, certain)| echo.range != range || !certain) {
            Some((echo, _)) => Err(Stop::Wait(vec![echo.queue])),
            None => Ok(()),
        }
    }

    /// What queued regions that come first make of variables in a range, if the program has not set those since. That is
    /// certain where they hold what they did; else what they hold may have come from a region before the last one. `value` is what
    /// the range itself holds, if that was read before: it may be something else by now.
    fn echoes_of(&self, range: HostRange, value: Option<Value>) -> impl Iterator<Item = (&Echo, bool)> {
        let end = range.start.saturating_add(range.len);
        let comes_first =
            |e: &&Echo| e.counts != Counts::Elsewhere && (e.queue == self.queue || e.followers.contains(&self.queue));
        let overlaps = move |e: &&Echo| e.range.start < end && range.start < e.range.start + e.range.len;
        // What other threads queued since is theirs to order.
        let waited = |e: &&Echo| self.tried.waited.contains(&e.queue);
        self.state.echoes.0.iter().filter(overlaps).filter(comes_first).filter(move |e| !waited(e)).filter_map(
            move |echo| {
                let value = value.filter(|_| echo.range == range).unwrap_or_else(|| {
                    let mut value = Value::default();
                    self.host.read(echo.range.start, &mut value[..echo.range.len]);
                    value
                });
                let same = echo.holds(&value);
                let unsure = echo.counts == Counts::PartlyHere || self.device.changes().any_since(echo.changes);
                (same || unsure).then_some((echo, same))
            },
        )
    }

    /// Where the device has what queued regions make of a variable that is copied in now, if the program has not set
    /// it since: the program's own memory may only get it later.
    #[inline]
    pub(super) fn echoed(&self, range: HostRange) -> Result<Option<DevicePtr>, Stop> {
        if self.queue == QueueId::SYNC || self.state.echoes.0.is_empty() {
            return Ok(None);
        }
        match self.echoes_of(range, None).next() {
            None => Ok(None),
            Some((echo, true)) if echo.range == range && echo.queue == self.queue => Ok(Some(echo.device)),
            // A part of something else, or another queue's: rare enough to wait for.
            Some((echo, _)) => Err(Stop::Wait(vec![echo.queue])),
        }
    }

    /// The construct is certain: sends the values and keeps the places.
    pub(super) fn send_echoes(&mut self) {
        for k in 0..self.region.echoes.len() {
            let Use { entry, range, device, value, changes, fresh } = self.region.echoes[k];
            let habit = self.state.habits.of(self.region.function, entry);
            let echoes = &mut self.state.echoes;
            let stays = |echo: &Echo| echo.device == device && echo.holds(&value);
            // What the queue's last region left there is what this one has to find, unless the program has set it since, or
            // another queue's region has come in between.
            let stays = echoes.0.iter().any(stays);
            let passed_on = if stays { None } else { echoes.pass_on(self.queue, range, &value) };
            let new =
                if stays { None } else { Some(passed_on.as_ref().map_or_else(Arc::default, |e| e.chain.clone())) };
            if fresh {
                self.device.has_echoes.store(true, Ordering::Release);
                echoes.0.push(Echo::new(self.queue, range, device));
            }
            let echo = echoes.0.iter_mut().find(|echo| echo.device == device);
            let chain = echo.map(|echo| echo.send(value, changes, new, habit));
            if let Some(Echo { device: src, .. }) = passed_on {
                self.plan.before.push(Step::Copy { dst: device, src, len: range.len as u64 });
                self.plan.frees.push(src);
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
