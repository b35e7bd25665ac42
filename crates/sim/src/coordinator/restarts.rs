//! Kills and restarts coordinators, half of which have a state file.

use super::world::{Event, TICK, World};
use accord_cluster::{Cluster, Limits, Millis, Restart};

/// Most by which a clock is set back: a day.
const CLOCK_SET_BACK_MAX: u64 = 86_400_000;
/// Unix time at the beginning of a simulation, in milliseconds.
const UNIX_MS_AT_BEGIN: u64 = 1_700_000_000_000;
/// Silence after which a node is lost. It is shorter than the real limit, to speed the simulation up.
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
        // The machine's clock may have been set back in between. Agents send no time of day.
        let set_back = if self.random.chance(30) { self.random.within(1..CLOCK_SET_BACK_MAX) } else { 0 };
        let unix_ms = UNIX_MS_AT_BEGIN + now - set_back;
        let restart = Restart { now: Millis(now), committed: Millis(now), unix_ms, epoch: self.life };
        self.cluster = Some(match &self.file {
            // The restored coordinator's clock continues.
            Some(file) => Cluster::restore(limits, file, restart)?,
            None => {
                self.started = now;
                Cluster::new(limits, unix_ms)
            }
        });
        self.write_file();
        self.queue.add(now + TICK, Event::Tick { life: self.life });
        Ok(())
    }

    /// Applies the coordinator's changed records to its state file.
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
        // Most coordinators restart soon.
        let longest = if self.random.chance(70) { 3_000 } else { self.plan.outage };
        let pause = self.random.within(0..longest);
        self.queue.add(self.queue.now() + pause, Event::StartCoordinator);
    }
}
