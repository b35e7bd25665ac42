//! Requests, which are refused at once, or numbered and queued.

use super::{Scheduler, Timer};
use crate::amount::WHOLE;
use crate::arithmetic::charge;
use crate::effect::{Effect, EndCause, Refusal};
use crate::ids::JobId;
use crate::job::Job;
use crate::phase::Phase;
use crate::policy::{Quota, WAITING_MAX};
use crate::request::{Locality, Part, Request, Take};
use crate::shapes::{ShapeKey, fits_by_own_node};
use crate::time::Millis;
use accord_types::NodeId;
use std::sync::Arc;

/// Most alternatives of a request.
const ALTERNATIVES_MAX: usize = 8;

/// Most parts of an alternative.
const PARTS_MAX: usize = 8;

/// Most devices of a part.
const DEVICES_MAX: u32 = 65_536;

impl Scheduler {
    pub(super) fn ask(
        &mut self,
        user: String,
        account: &str,
        origin: Option<NodeId>,
        request: Request,
        effects: &mut Vec<Effect>,
    ) {
        match self.check(&user, account, origin, &request) {
            Ok(leaf) => self.admit(user, leaf, origin, request, effects),
            Err(refusal) => {
                effects.push(Effect::Audit(format!("request of user {user:?} is refused: {refusal}")));
                effects.push(Effect::Refused(refusal));
            }
        }
    }

    /// Returns the index of the account, or the reason for refusing the request.
    fn check(&self, user: &str, account: &str, origin: Option<NodeId>, request: &Request) -> Result<u32, Refusal> {
        well_formed(request).map_err(Refusal::Malformed)?;
        if request.locality == Locality::Local && origin.and_then(|own| self.pool.node_at(own)).is_none() {
            return Err(Refusal::Malformed("`local` is for a program on a node of the cluster"));
        }
        let leaf = self.accounts.named(account).ok_or_else(|| Refusal::NoAccount(account.to_owned()))?;
        if !self.accounts.get(leaf).is_leaf {
            return Err(Refusal::HasAccounts(account.to_owned()));
        }
        if self.waiting >= WAITING_MAX {
            return Err(Refusal::Waiting { account: None, max: WAITING_MAX });
        }
        for &above in &self.accounts.get(leaf).path {
            let described = &self.policy.accounts[above as usize];
            let name = || described.name.clone();
            if described.waiting_max.is_some_and(|max| self.accounts.get(above).waiting >= max) {
                let max = described.waiting_max.unwrap_or_default() as usize;
                return Err(Refusal::Waiting { account: Some(name()), max });
            }
            let limit = request.limit_ms.or(self.policy.default_limit_ms);
            if let Some(longest_ms) = described.longest_ms
                && limit.is_none_or(|limit| limit > longest_ms)
            {
                return Err(Refusal::TooLong { account: name(), longest_ms });
            }
        }
        if let Some(account) = self.accounts.spent(self.now, leaf) {
            return Err(Refusal::Spent { account: self.policy.accounts[account as usize].name.clone() });
        }
        let allowed = self.policy.accounts[leaf as usize].priorities;
        if request.priority < allowed.0 || request.priority > allowed.1 {
            return Err(Refusal::Priority { account: account.to_owned(), allowed });
        }
        if let Some(name) = &request.reservation {
            self.check_reservation(name, user, leaf)?;
        }
        self.check_most(leaf, request)?;
        Ok(leaf)
    }

    /// Refuses a request whose alternatives all exceed the account's quotas, whatever the account holds.
    fn check_most(&self, leaf: u32, request: &Request) -> Result<(), Refusal> {
        let mut refusal = None;
        for alternative in &request.alternatives {
            match self.beyond_ever(leaf, &alternative.parts, if request.per_rank { request.ranks } else { 1 }) {
                Some((account, devices)) => {
                    let account = self.policy.accounts[account as usize].name.clone();
                    refusal = Some(Refusal::MoreThanMost { account, devices });
                }
                None => return Ok(()),
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Returns an account whose quota is less than the minimum of the parts that count for it, with the quota.
    fn beyond_ever(&self, leaf: u32, parts: &[Part], chunks: u32) -> Option<(u32, u32)> {
        self.accounts.get(leaf).path.iter().copied().find_map(|account| {
            let quotas = &self.policy.accounts[account as usize].most;
            let beyond = quotas.iter().find(|quota| {
                let least: u64 = parts.iter().map(|part| self.least_of(part, quota)).sum();
                least * u64::from(chunks) > u64::from(quota.devices) * u64::from(WHOLE)
            });
            beyond.map(|quota| (account, quota.devices))
        })
    }

    /// Returns the least thousandths of devices that a part holds of a quota; 0 if devices beyond the quota's classes
    /// suffice.
    fn least_of(&self, part: &Part, quota: &Quota) -> u64 {
        let classes = self.pool.classes.iter().filter(|class| part.class.matches(class));
        if !classes.clone().all(|class| quota.class.matches(class)) {
            return 0;
        }
        let each = match part.take {
            Take::Exclusive => WHOLE,
            Take::Shared(amount) => classes.map(|class| charge(amount, false, class)).min().unwrap_or(amount.milli),
        };
        u64::from(part.count.least) * u64::from(each)
    }

    /// Numbers a request. It starts at once if it can and no other job waits, otherwise it is queued.
    fn admit(
        &mut self,
        user: String,
        account: u32,
        origin: Option<NodeId>,
        request: Request,
        effects: &mut Vec<Effect>,
    ) {
        self.last_job += 1;
        let id = JobId(self.last_job);
        let origin = origin.and_then(|own| self.pool.node_at(own));
        let wait = request.wait_ms.into_iter().chain(self.policy.longest_wait_ms).min();
        let waits_until = wait.map(|wait| self.now.plus(wait));
        let limit_ms = request.limit_ms.or(self.policy.default_limit_ms);
        let key = self.shape_key(account, origin, &request, limit_ms);
        let shape = self.shapes.of(&key, &self.pool);
        let turn = self.accounts.turn(id, self.now, request.priority);
        let job = Job {
            id,
            user,
            account,
            request: Arc::new(request),
            shape,
            origin,
            submitted: self.now,
            phase: Phase::Waiting,
            turn,
            front: None,
            on_hold: false,
            waits_until,
            kept_until: None,
            limit_ms,
            started: Millis::NEVER,
            ends: Millis::NEVER,
            warned: Millis::NEVER,
            ending: None,
            grants: Vec::new(),
            paths: None,
            reserved_start: None,
            slipped: None,
            announced: None,
            unplanned: [None; 3],
            beyond_guarantees: Vec::new(),
            long: false,
            planned_end: Millis::NEVER,
            sessions: 0,
            suspension: None,
            suspension_refused: None,
            stood_still_ms: 0,
            went_on: None,
        };
        effects.push(Effect::Queued { job: id });
        if self.waiting == 0
            && !self.paused
            && let Ok((choice, picks)) = self.fit(&job)
        {
            self.give(job, &choice, &picks, true, effects);
            return;
        }
        if let Some(until) = waits_until {
            self.timers.insert((until, Timer::Wait(id)));
        }
        self.jobs.insert(id, job);
        self.waiting += 1;
        self.accounts.count(account, 0, 1);
        self.enqueue(id);
    }

    pub(super) fn shape_key(
        &self,
        account: u32,
        origin: Option<u32>,
        request: &Request,
        limit_ms: Option<u64>,
    ) -> ShapeKey {
        let path = self.accounts.get(account).path.iter();
        let labels = path.flat_map(|&above| self.policy.accounts[above as usize].labels.iter().cloned()).collect();
        let own = origin.filter(|_| fits_by_own_node(request));
        let request = Request { limit_ms: None, wait_ms: None, priority: 0, account: None, ..request.clone() };
        ShapeKey { request: Arc::new(request), limit_ms, labels, own }
    }

    /// Ends a waiting job, which has no devices.
    pub(super) fn withdraw(&mut self, id: JobId, cause: EndCause, effects: &mut Vec<Effect>) {
        self.dequeue(id);
        let Some(job) = self.jobs.remove(&id) else { return };
        self.forget_waiting(&job);
        self.shapes.leave(job.shape);
        self.accounts.count(job.account, 0, -1);
        self.touch(job.account);
        effects.push(Effect::Ended { job: id, cause });
    }

    /// Removes a job's timers for waiting, and its count as a waiting job.
    pub(super) fn forget_waiting(&mut self, job: &Job) {
        if let Some(until) = job.waits_until {
            self.timers.remove(&(until, Timer::Wait(job.id)));
        }
        if let Some(until) = job.kept_until {
            self.timers.remove(&(until, Timer::Keep(job.id)));
        }
        self.waiting -= 1;
    }

    pub(super) fn hold(&mut self, id: JobId, held: bool, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.phase == Phase::Waiting && job.on_hold != held) else {
            return;
        };
        job.on_hold = held;
        if held {
            self.dequeue(id);
        } else {
            self.enqueue(id);
        }
        effects.push(Effect::Changed { job: id });
    }

    pub(super) fn put_first(&mut self, id: JobId, by: &str, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.phase == Phase::Waiting && job.front.is_none()) else {
            return;
        };
        self.last_front += 1;
        job.front = Some(self.last_front);
        if !job.on_hold {
            self.front.insert(self.last_front, id);
            self.accounts.put_first(job.account, job.turn);
        }
        effects.push(Effect::Audit(format!("{by} puts job {id} first")));
        effects.push(Effect::Changed { job: id });
    }

    pub(super) fn connected(&mut self, id: JobId, connected: bool) {
        let keep = self.now.plus(self.policy.keep_ms);
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.phase == Phase::Waiting) else { return };
        if let Some(until) = job.kept_until.take() {
            self.timers.remove(&(until, Timer::Keep(id)));
        }
        if !connected {
            job.kept_until = Some(keep);
            self.timers.insert((keep, Timer::Keep(id)));
        }
    }
}

/// Refuses a request that is malformed in itself.
fn well_formed(request: &Request) -> Result<(), &'static str> {
    let parts = || request.alternatives.iter().flat_map(|alternative| &alternative.parts);
    let few = |len: usize, max: usize| len >= 1 && len <= max;
    if !few(request.alternatives.len(), ALTERNATIVES_MAX) {
        return Err("a request has 1 to 8 alternatives");
    }
    if !request.alternatives.iter().all(|alternative| few(alternative.parts.len(), PARTS_MAX)) {
        return Err("an alternative has 1 to 8 parts");
    }
    if parts().any(|part| part.count.least == 0 || part.count.most > DEVICES_MAX) {
        return Err("a part has 1 to 65,536 devices");
    }
    if parts().any(|part| part.count.least > part.count.most) {
        return Err("a range begins with its least number");
    }
    if request.ranks == 0 || request.ranks > DEVICES_MAX || request.nodes == Some(0) {
        return Err("ranks and nodes are at least 1");
    }
    if request.ranks > 1 && parts().any(|part| part.count.least != part.count.most) {
        return Err("a range is for one process, not for a gang");
    }
    if request.nodes.is_some() && (request.per_rank || request.locality == Locality::Local) {
        return Err("`nodes` does not go with `local` and with devices for each rank");
    }
    if request.per_rank && request.locality == Locality::Local {
        return Err("`local` does not go with devices for each rank");
    }
    let divisible = |nodes: u32| parts().all(|part| part.count.least % nodes == 0 && part.count.most % nodes == 0);
    if request.nodes.is_some_and(|nodes| !divisible(nodes)) {
        return Err("devices are a multiple of `nodes`");
    }
    let shares = parts().filter_map(|part| if let Take::Shared(amount) = part.take { Some(amount) } else { None });
    if shares.clone().any(|amount| amount.milli > WHOLE || (amount.milli == 0 && amount.memory == 0)) {
        return Err("a share is between 0.001 and 1 of a device");
    }
    Ok(())
}
