//! Coordinators that are killed and started again, half of them with a state file.

use super::world::{Event, TICK, World};
use accord_coordinator::cluster::{Cluster, Limits, Millis, Restart};

/// By how much a clock is set back at most: a day.
const CLOCK_SET_BACK_MAX: u64 = 86_400_000;
/// The time of day when a simulation begins.
const UNIX_MS_AT_BEGIN: u64 = 1_700_000_000_000;
/// Silence after which a node is lost: shorter than a coordinator's own, for the simulation's speed.
const LOST_AFTER: u64 = 2_500;

impl World {
    pub(super) fn start_coordinator(&mut self) -> Result<(), String> {
        if self.cluster.is_some() {
            return Ok(());
        }
        self.life += 1;
        self.joined.clear();
        let now = self.queue.now();
        self.version = 0;
        let session_ms = self.plan.session_time;
        let limits = Limits { lost_after_ms: LOST_AFTER, session_ms, ..Limits::default() };
        // The machine's clock may have been set back meanwhile. Agents tell no time of day.
        let set_back = if self.random.chance(30) { self.random.within(1..CLOCK_SET_BACK_MAX) } else { 0 };
        let unix_ms = UNIX_MS_AT_BEGIN + now - set_back;
        self.cluster = Some(match &self.file {
            // Its time goes on.
            Some(file) => Cluster::restore(limits, file, Restart { now: Millis(now), unix_ms, epoch: self.life })?,
            None => {
                self.started = now;
                Cluster::new(limits, unix_ms)
            }
        });
        self.write_file();
        self.queue.add(now + TICK, Event::Tick { life: self.life });
        Ok(())
    }

    /// Makes what the coordinator has decided durable.
    pub(super) fn write_file(&mut self) {
        let (Some(cluster), Some(file)) = (&mut self.cluster, &mut self.file) else { return };
        for record in cluster.take_step().records {
            record.apply(file);
        }
    }

    pub(super) fn kill_coordinator(&mut self) {
        if self.cluster.take().is_none() {
            return;
        }
        for link in self.links.keys().copied().collect::<Vec<_>>() {
            self.break_link(link, None, 200);
        }
        for (client, program) in std::mem::take(&mut self.clients) {
            let delay = self.random.within(0..200);
            self.queue.add(self.queue.now() + delay, Event::ClientGone { program, client });
        }
        // Most are back soon.
        let longest = if self.random.chance(70) { 3_000 } else { self.plan.outage };
        let pause = self.random.within(0..longest);
        self.queue.add(self.queue.now() + pause, Event::StartCoordinator);
    }
}
