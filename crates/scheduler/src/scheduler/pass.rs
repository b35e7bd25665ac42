//! The pass after each input, which starts the jobs that can start, in order.

use super::Scheduler;
use crate::accounts::JobOrder;
use crate::amount::WHOLE;
use crate::effect::Effect;
use crate::ids::{ClassId, JobId};
use crate::job::Job;
use crate::request::Take;
use crate::search::{PartDemand, Pick};
use crate::shapes::{Shape, classes_of, each};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Number of nodes with gained capacity beyond which every shape is tested.
const GROWN_MAX: usize = 64;

/// Most shapes that are tested in each pass although no node has gained capacity.
const RETRIED_MAX: usize = 32;

/// Host cores that weigh as much as a device when nodes are compared, as in a node with 128 cores and 8 devices.
const CORES_OF_DEVICE: u64 = 16;

/// The reason why a job's account prevents its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// The account has its most running jobs.
    Running(u32),
    /// The account has spent its device-hours of the month.
    Spent(u32),
    /// The account would exceed its maximum.
    Most(u32),
    /// The job would take devices that are guaranteed to others for longer than a quantum.
    Guarantee,
    /// The job would take devices that the first job needs beside all guarantees, before the job's limit ends.
    First(JobId),
}

/// The choice of classes and the devices of a start.
pub(super) type Fit = (Vec<PartDemand>, Vec<Pick>);

impl Scheduler {
    pub(super) fn pass(&mut self, effects: &mut Vec<Effect>) {
        loop {
            self.check_reserved_starts();
            if self.paused {
                return;
            }
            if std::mem::take(&mut self.replans) {
                // Reserved starts must be planned before a job can take their devices.
                self.reserve_starts(effects);
                self.check_reserved_starts();
            }
            self.start_before_suspended(effects);
            self.resume_waiting(effects);
            self.start_all(effects);
            self.reserve_starts(effects);
            self.preempt(effects);
            let grown = self.pool.index.iter().any(|index| index.grown > self.passed);
            if self.pool.touched.is_empty() && !grown {
                return;
            }
        }
    }

    /// Starts the first job in order that can start, until there is none.
    fn start_all(&mut self, effects: &mut Vec<Effect>) {
        self.gather_candidates();
        let mut stopped: BTreeSet<(usize, u32)> = BTreeSet::new();
        // Jobs that failed on their own: for a reserved start, or for devices of a reservation.
        let mut unready: BTreeSet<JobId> = BTreeSet::new();
        let mut reserved = self.reserved_candidates();
        loop {
            while reserved.last().is_some_and(|id| unready.contains(id)) {
                reserved.pop();
            }
            let first = self.first_candidate(&stopped, &unready, reserved.last().copied());
            let Some(id) = first else { return };
            let Some(job) = self.jobs.get(&id) else { return };
            match self.fit(job) {
                Ok((choice, picks)) => {
                    let is_named = job.request.reservation.is_some();
                    self.start(id, &choice, &picks, effects);
                    self.check_reserved_starts();
                    if is_named {
                        // Reserved starts that have yielded are planned anew before jobs after them take the devices.
                        self.reserve_starts(effects);
                        self.check_reserved_starts();
                    }
                    self.gather_candidates();
                    (stopped, unready) = (BTreeSet::new(), BTreeSet::new());
                    reserved = self.reserved_candidates();
                }
                Err(_) => {
                    unready.insert(id);
                    stopped.insert((job.shape, job.account));
                }
            }
        }
    }

    /// Adds the shapes that may fit because nodes have gained capacity since the last pass, or have less, and tests all
    /// candidates.
    fn gather_candidates(&mut self) {
        self.candidates.append(&mut self.shapes.retried);
        let nodes: Vec<u32> = std::mem::take(&mut self.pool.grown_nodes).into_iter().collect();
        let mut fresh: Vec<usize> = Vec::new();
        for (class, index) in self.pool.index.iter().enumerate() {
            if index.grown > self.passed {
                let shapes = self.shapes.by_class.get(class).into_iter().flatten();
                fresh.extend(shapes.filter(|shape| !self.candidates.contains(shape)));
            }
        }
        for shape in fresh {
            if self.may_use(shape, &nodes) {
                self.candidates.insert(shape);
            } else {
                self.shapes.get_mut(shape).tested = Some(self.pool.stamp);
            }
        }
        self.passed = self.pool.stamp;
        let candidates: Vec<usize> = self.candidates.iter().copied().collect();
        for shape in candidates {
            let waits = !self.shapes.get(shape).waiting.is_empty();
            if waits && self.fits_somewhere(shape) {
                continue;
            }
            self.candidates.remove(&shape);
            self.shapes.get_mut(shape).tested = waits.then_some(self.pool.stamp);
            let may_retry = waits && self.shapes.retried.len() < RETRIED_MAX;
            if may_retry && self.shapes.get(shape).has_parts_in_each_others_way() {
                self.shapes.retried.insert(shape);
            }
        }
    }

    /// Whether nodes with gained capacity may let a shape fit that did not fit before.
    fn may_use(&self, shape: usize, nodes: &[u32]) -> bool {
        let shape = self.shapes.get(shape);
        if shape.tested.is_none() || nodes.len() > GROWN_MAX {
            return true;
        }
        let search = self.search(shape, shape.key.own);
        nodes.iter().any(|&node| shape.choices.iter().any(|choice| search.may_use(choice, node)))
    }

    /// Whether a shape fitted nowhere at its last test, and its classes have no more than then.
    fn is_known_not_to_fit(&self, at: usize) -> bool {
        let shape = self.shapes.get(at);
        let has_grown = |tested| classes_of(shape.classes).any(|class| self.pool.index[class].grown > tested);
        !self.candidates.contains(&at)
            && !self.shapes.retried.contains(&at)
            && shape.tested.is_some_and(|tested| !has_grown(tested))
    }

    fn fits_somewhere(&self, shape: usize) -> bool {
        let shape = self.shapes.get(shape);
        let search = self.search(shape, shape.key.own);
        // Jobs that name a reservation only use its devices.
        shape.key.request.reservation.is_none()
            && shape.choices.iter().any(|choice| {
                self.pool.step();
                search.may_fit(choice) && (search.fits_by_count(choice) || search.find(choice).is_some())
            })
    }

    /// Returns the first of these jobs in order: the first jobs of fitting shapes, the jobs whose reserved devices may
    /// be free, and the first job for devices of reservations.
    fn first_candidate(
        &self,
        stopped: &BTreeSet<(usize, u32)>,
        unready: &BTreeSet<JobId>,
        reserved: Option<JobId>,
    ) -> Option<JobId> {
        let fitting = self.first_fitting(stopped);
        let ready = self.ready.iter().copied().filter(|id| !unready.contains(id));
        let mut first: Option<&Job> = None;
        for id in fitting.into_iter().chain(ready).chain(reserved).chain(self.first_of_front(stopped)) {
            self.pool.step();
            let Some(job) = self.jobs.get(&id) else { continue };
            if first.is_none_or(|first| self.order(job, first) == Ordering::Less) {
                first = Some(job);
            }
        }
        first.map(|job| job.id)
    }

    /// Returns the first job in order of fitting shapes, ignoring jobs that administrators have put first and accounts
    /// whose jobs may not start.
    fn first_fitting(&self, stopped: &BTreeSet<(usize, u32)>) -> Option<JobId> {
        let mut first: Option<(u32, JobOrder)> = None;
        for &shape in &self.candidates {
            for (&account, turns) in &self.shapes.get(shape).waiting {
                self.pool.step();
                let may_start = |_: &&_| !stopped.contains(&(shape, account)) && self.stopped_at_all(account).is_none();
                let Some(&turn) = turns.first().filter(may_start) else { continue };
                let is_before = |(other, than): (u32, JobOrder)| {
                    self.accounts.compare(account, other).then_with(|| turn.cmp(&than)) == Ordering::Less
                };
                if first.is_none_or(is_before) {
                    first = Some((account, turn));
                }
            }
        }
        first.map(|(_, turn)| turn.job)
    }

    /// Returns jobs that administrators have put first and whose shapes fit. They may not be the first of their
    /// accounts.
    fn first_of_front<'a>(&'a self, stopped: &'a BTreeSet<(usize, u32)>) -> impl Iterator<Item = JobId> + 'a {
        self.front.values().copied().filter(move |id| {
            self.jobs
                .get(id)
                .is_some_and(|job| self.candidates.contains(&job.shape) && !stopped.contains(&(job.shape, job.account)))
        })
    }

    /// Compares the order of two waiting jobs.
    pub(super) fn order(&self, one: &Job, other: &Job) -> Ordering {
        match (one.front, other.front) {
            (Some(one), Some(other)) => one.cmp(&other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.accounts.compare(one.account, other.account).then_with(|| one.turn.cmp(&other.turn)),
        }
    }

    /// Returns the reason why a job's account prevents a start with its first choice, if any.
    pub(super) fn stopped_by(&self, account: u32, job: &Job) -> Option<Stop> {
        self.stopped_at_all(account).or_else(|| {
            let demand = &self.shapes.get(job.shape).first_demand;
            self.accounts.beyond_most(account, demand).map(Stop::Most)
        })
    }

    /// Returns the reason why an account's jobs may not start, whatever their devices.
    fn stopped_at_all(&self, account: u32) -> Option<Stop> {
        self.too_many_run(account).or_else(|| self.accounts.spent(self.now, account).map(Stop::Spent))
    }

    fn too_many_run(&self, account: u32) -> Option<Stop> {
        if !self.accounts.get(account).bounds_running {
            return None;
        }
        let mut path = self.accounts.get(account).path.iter().copied();
        let full = path.find(|&above| {
            let max = self.policy.accounts[above as usize].running_max;
            max.is_some_and(|max| self.accounts.get(above).running >= max)
        });
        full.map(Stop::Running)
    }

    /// Returns a start that is possible now, or the reason why the account prevents it; `Err(None)` if devices are
    /// missing.
    pub(super) fn fit(&self, job: &Job) -> Result<Fit, Option<Stop>> {
        if let Some(stop) = self.stopped_at_all(job.account) {
            return Err(Some(stop));
        }
        if let Some(picks) = self.reserved_picks(job)
            && let Some(reserved_start) = &job.reserved_start
        {
            let choice = &reserved_start.choice;
            match self.allowed(job, choice, &picks) {
                Ok(()) => return Ok((choice.clone(), picks)),
                Err(stop) => return Err(Some(stop)),
            }
        }
        self.fit_anywhere(job)
    }

    /// Returns a start that is possible now on other devices than those of the job's reserved start, or the reason as [`Self::fit`] does.
    pub(super) fn fit_anywhere(&self, job: &Job) -> Result<Fit, Option<Stop>> {
        if let Some((choice, picks)) = self.reserved_fit(job) {
            match self.allowed(job, &choice, &picks) {
                Ok(()) => return Ok((choice, picks)),
                Err(stop) => return Err(Some(stop)),
            }
        }
        if job.request.reservation.is_some() {
            return Err(None);
        }
        let shape = self.shapes.get(job.shape);
        let (mut stop, mut choices) = (None, &shape.choices[..]);
        for &count in &shape.of_alternative {
            let (of_alternative, others) = choices.split_at(count);
            choices = others;
            let mut best: Option<((usize, u64, u64), Fit)> = None;
            for choice in of_alternative {
                match self.fit_choice(job, shape, choice) {
                    // A single choice needs no comparison.
                    Ok(fit) if count == 1 => return Ok(fit),
                    Ok(fit) => {
                        let cost = self.cost(&fit.1);
                        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                            best = Some((cost, fit));
                        }
                    }
                    Err(why) => stop = stop.or(why),
                }
            }
            if let Some((_, fit)) = best {
                return Ok(fit);
            }
        }
        Err(stop)
    }

    fn fit_choice(&self, job: &Job, shape: &Shape, choice: &[PartDemand]) -> Result<Fit, Option<Stop>> {
        let search = self.search(shape, job.origin);
        let capped = self.capped(job, choice)?;
        if self.is_known_not_to_fit(job.shape) || !search.may_fit(&capped) {
            return Err(None);
        }
        let picks = search.find(&capped).ok_or(None)?;
        match self.allowed(job, &capped, &picks) {
            Ok(()) => Ok((capped, picks)),
            Err(stop) => {
                let least = at_least(&capped);
                let picks = search.find(&least).ok_or(None)?;
                self.allowed(job, &least, &picks).map_err(|_| Some(stop))?;
                Ok((least, picks))
            }
        }
    }

    /// Returns the cost by which choices of classes are compared: the numbers of nodes and of free devices taken, then
    /// what these nodes have free for other jobs, in devices and host cores.
    fn cost(&self, picks: &[Pick]) -> (usize, u64, u64) {
        let taken = picks.iter().filter(|pick| !self.pool.is_held(pick.spot)).count() as u64;
        let there: BTreeSet<(u32, ClassId)> =
            picks.iter().map(|pick| (pick.spot.node, self.pool.device(pick.spot).class)).collect();
        let free: u64 = there.iter().map(|&(node, class)| self.pool.free_on(node, class)).sum();
        let nodes: BTreeSet<u32> = there.iter().map(|(node, _)| *node).collect();
        let cores: u64 = nodes.iter().map(|&node| self.pool.node(node).cores_free()).sum();
        (nodes.len(), taken, free * CORES_OF_DEVICE * 1_000 + cores)
    }

    /// Returns a choice whose ranges are limited to the account's quotas, or the account whose quota is too small.
    fn capped(&self, job: &Job, choice: &[PartDemand]) -> Result<Vec<PartDemand>, Option<Stop>> {
        let shape = self.shapes.get(job.shape);
        let demand = shape.demand(choice, &self.pool.classes);
        if let Some(account) = self.accounts.beyond_most(job.account, &demand) {
            return Err(Some(Stop::Most(account)));
        }
        if choice.iter().all(|part| part.count.least == part.count.most) {
            return Ok(choice.to_vec());
        }
        let [part] = choice else {
            let most: Vec<(ClassId, u64)> = choice
                .iter()
                .map(|part| (part.class, u64::from(part.count.most) * each(part, &self.pool.classes)))
                .collect();
            let beyond = self.accounts.beyond_most(job.account, &most).is_some();
            return Ok(if beyond { at_least(choice) } else { choice.to_vec() });
        };
        let each = each(part, &self.pool.classes);
        let left = self.accounts.left_of_most(job.account, part.class) / each.max(1);
        let mut part = part.clone();
        part.count.most = part.count.most.min(u32::try_from(left).unwrap_or(u32::MAX)).max(part.count.least);
        Ok(vec![part])
    }

    /// Refuses devices that exceed the job's quotas or the guarantees of other accounts.
    fn allowed(&self, job: &Job, choice: &[PartDemand], picks: &[Pick]) -> Result<(), Stop> {
        let mut demand: Vec<(ClassId, u64)> = Vec::new();
        for (at, part) in choice.iter().enumerate() {
            let count = picks.iter().filter(|pick| pick.part == at).count() as u64;
            demand.push((part.class, count * each(part, &self.pool.classes)));
        }
        if let Some(account) = self.accounts.beyond_most(job.account, &demand) {
            return Err(Stop::Most(account));
        }
        if !job.is_long(self.policy.quantum()) || self.accounts.is_entitled(job.account, &demand) {
            return Ok(());
        }
        let mut taken: Vec<(ClassId, u64)> = Vec::new();
        for pick in picks.iter().filter(|pick| !self.pool.is_held(pick.spot)) {
            let class = self.pool.device(pick.spot).class;
            match taken.iter_mut().find(|(of, _)| *of == class) {
                Some((_, milli)) => *milli += u64::from(WHOLE),
                None => taken.push((class, u64::from(WHOLE))),
            }
        }
        self.leaves_guarantees(job, &taken)
    }

    /// Whether guarantees of other accounts prevent a start with the minimum of a job's first choice, if that is of
    /// whole devices.
    pub(super) fn is_stopped_by_guarantees(&self, job: &Job) -> bool {
        let shape = self.shapes.get(job.shape);
        let demand = &shape.first_demand;
        if self.accounts.guaranteed_sets.is_empty()
            || !job.is_long(self.policy.quantum())
            || self.accounts.is_entitled(job.account, demand)
        {
            return false;
        }
        let whole = shape.choices.first().is_some_and(|parts| parts.iter().all(|part| part.take == Take::Exclusive));
        whole && self.leaves_guarantees(job, demand).is_err()
    }
}

fn at_least(choice: &[PartDemand]) -> Vec<PartDemand> {
    let mut choice = choice.to_vec();
    for part in &mut choice {
        part.count.most = part.count.least;
    }
    choice
}
