//! Reserved starts.

use super::*;

impl Naive {
    pub(super) fn lose(&mut self, id: JobId, cause: SlipCause) {
        let job = self.jobs.get_mut(&id).unwrap();
        if let Some(promise) = job.promise.take() {
            let first = job.slipped.map_or(promise.starts, |(before, _)| before.min(promise.starts));
            job.slipped = Some((first, cause));
        }
    }

    pub(super) fn check_promises(&mut self) {
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            let Some(promise) = self.jobs[&id].promise.clone() else { continue };
            let cause = promise.places.iter().find_map(|&at| {
                let device = self.device_id(at);
                let deadline = self.deadline(device);
                let set_aside = !self.is_sound(at)
                    || deadline != Millis::NEVER && promise.ends > deadline
                    || self.reservations.values().any(|reservation| {
                        Self::is_reserved(reservation, device)
                            && reservation.starts < promise.ends
                            && promise.starts < reservation.ends
                    });
                let held =
                    self.holders_of(at).any(|(job, _)| job.planned_end > promise.starts.plus(RELEASE_EXPECTED_MS));
                match (set_aside, held) {
                    (true, _) => Some(SlipCause::Devices),
                    (false, true) => Some(SlipCause::Leases),
                    (false, false) => None,
                }
            });
            if let Some(cause) = cause {
                self.lose(id, cause);
            }
        }
    }

    pub(super) fn reserve_starts(&mut self, effects: &mut Vec<Effect>) -> bool {
        let depth = self.policy.backfill_depth;
        let mut first = Vec::new();
        for id in self.waiting_in_order().into_iter().take(2 * depth) {
            let job = &self.jobs[&id];
            if !self.too_many_run(job.account)
                && !self.beyond_most(job.account, &self.first_demand(job))
                && first.len() < depth
            {
                first.push(id);
            }
        }
        let mut changed = false;
        for id in first {
            let promised = self.jobs.values().filter(|job| job.promise.is_some()).count();
            if promised >= depth || self.jobs[&id].promise.is_some() {
                continue;
            }
            let Some((mut starts, places, choice)) = self.plan(&self.jobs[&id]) else { continue };
            if starts <= self.now {
                starts = self.now.plus(RELEASE_EXPECTED_MS);
            }
            let job = self.jobs.get_mut(&id).unwrap();
            let ends = job.limit.map_or(Millis::NEVER, |limit| starts.plus(limit));
            let slipped = job.slipped.take().filter(|&(before, _)| before < starts).map(|(_, cause)| cause);
            job.promise = Some(NPromise { starts, ends, places, choice });
            effects.push(Effect::Reserved { job: id, starts, slipped });
            changed = true;
        }
        changed
    }

    /// From when on nothing that is known of is on a device.
    pub(super) fn available(&self, at: At) -> Millis {
        let device = self.device_id(at);
        if !self.is_sound(at) || self.deadline(device) != Millis::NEVER {
            return Millis::NEVER;
        }
        let holders = self.holders_of(at).map(|(job, _)| job.planned_end);
        let promises = self.jobs.values().filter_map(|job| job.promise.as_ref());
        let claims = promises.filter(|promise| promise.places.contains(&at)).map(|promise| promise.ends);
        let windows = self.reservations.values().filter(|reservation| Self::is_reserved(reservation, device));
        holders.chain(claims).chain(windows.map(|reservation| reservation.ends)).max().unwrap_or(Millis(0))
    }

    pub(super) fn plan(&self, job: &NJob) -> Option<Planned> {
        let mut best: Option<Planned> = None;
        for choice in self.choices(job) {
            let times: BTreeMap<At, Millis> = self
                .places()
                .into_iter()
                .filter(|at| self.is_allowed(job, at.0))
                .map(|at| (at, self.available(at)))
                .filter(|(_, time)| *time != Millis::NEVER)
                .collect();
            let found = crate::naive_place::plan(&self.nodes, &times, &choice, &job.request, job.origin);
            if let Some((starts, places)) = found
                && best.as_ref().is_none_or(|best| starts < best.0)
            {
                best = Some((starts, places, choice));
            }
        }
        best
    }
}
