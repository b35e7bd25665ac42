//! Claims on the cores and the host memory of nodes: those of reserved starts to which other jobs yield.
//!
//! A claim on a device keeps other jobs from the device. Cores and host memory belong to no device, so without a claim of their own a job that
//! needs many cores would wait behind small jobs that take each core as it becomes free.

use super::{Holder, HostResources, Node, Pool, Steps};
use crate::ids::JobId;
use crate::phase::Rank;
use crate::time::Millis;

/// The claim of a reserved start on the cores and the host memory of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FirmClaim {
    pub(crate) job: JobId,
    pub(crate) rank: Rank,
    pub(crate) starts: Millis,
    /// The end of the job's limit after that start.
    pub(crate) ends: Millis,
    pub(crate) host_resources: HostResources,
    /// The part of the node that jobs and all claims leave at the start, while the start is ahead. The pool sets it.
    pub(crate) left: HostResources,
}

impl FirmClaim {
    /// Whether the job's reserved start precedes another one on the same cores: by rank, then by time.
    pub(crate) fn precedes(&self, rank: Rank, starts: Millis, job: JobId) -> bool {
        (std::cmp::Reverse(self.rank), self.starts, self.job) < (std::cmp::Reverse(rank), starts, job)
    }
}

/// A time at which a node's cores and host memory are added up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The present: all jobs that are there count, even those that should have ended.
    Now(Millis),
    /// A later time: jobs count that end after it.
    Ahead(Millis),
}

impl Moment {
    /// Returns the moment of a claim's start, which may have passed.
    fn of(starts: Millis, now: Millis) -> Self {
        if starts <= now { Self::Now(now) } else { Self::Ahead(starts) }
    }
}

impl Node {
    /// Returns what is free of the node now beside its devices.
    pub(super) fn host_resources_free(&self) -> HostResources {
        self.host.less(self.host_held)
    }

    /// Determines what is left at the start of each claim.
    pub(super) fn settle_claims(&mut self, steps: &Steps) {
        for at in 0..self.firm_claims.len() {
            self.firm_claims[at].left = self.left_at(Moment::Ahead(self.firm_claims[at].starts), |_| true, steps);
        }
    }

    /// Returns what a job from now until a time may take beside devices: what is free now, and not claimed from a later time on.
    fn host_resources_for(&self, (now, until): (Millis, Millis)) -> HostResources {
        let claims = || self.firm_claims.iter().filter(|claim| claim.starts < until);
        let due = claims().filter(|claim| claim.starts <= now);
        let free = due.fold(self.host_resources_free(), |free, claim| free.less(claim.host_resources));
        claims().filter(|claim| claim.starts > now).fold(free, |least, claim| least.least(claim.left))
    }

    /// Returns the same if only some claims count.
    fn host_resources_beside(
        &self,
        (now, until): (Millis, Millis),
        counts: impl Fn(&FirmClaim) -> bool,
        steps: &Steps,
    ) -> HostResources {
        let claims = self.firm_claims.iter().filter(|claim| counts(claim) && claim.starts < until);
        claims.fold(self.host_resources_free(), |least, claim| {
            least.least(self.left_at(Moment::of(claim.starts, now), &counts, steps))
        })
    }

    /// Returns what jobs and claims leave beside devices.
    fn left_at(&self, moment: Moment, counts: impl Fn(&FirmClaim) -> bool, steps: &Steps) -> HostResources {
        self.host_resources().less(self.taken_at(moment, counts, |_| false, steps))
    }

    /// Returns what jobs and claims take beside devices. Jobs that `stays` names count at any time.
    fn taken_at(
        &self,
        moment: Moment,
        counts: impl Fn(&FirmClaim) -> bool,
        stays: impl Fn(&Holder) -> bool,
        steps: &Steps,
    ) -> HostResources {
        let lasts = |ends: Millis| match moment {
            Moment::Now(_) => true,
            Moment::Ahead(at) => ends > at,
        };
        let (Moment::Now(at) | Moment::Ahead(at)) = moment;
        let holders = self.devices.iter().flat_map(|device| &device.holders).inspect(|_| steps.count());
        let holders = holders.filter(|holder| lasts(holder.ends) || stays(holder)).map(|holder| holder.host_resources);
        let claims = self.firm_claims.iter().inspect(|_| steps.count());
        let claims = claims.filter(|claim| counts(claim) && claim.starts <= at && lasts(claim.ends));
        let claims = claims.map(|claim| claim.host_resources);
        holders.chain(claims).fold(HostResources::default(), |sum, of| sum.plus(of, 1))
    }
}

impl Pool {
    /// Replaces the claim of a job on a node, or removes it.
    pub(crate) fn set_firm_claim(&mut self, node: u32, job: JobId, claim: Option<FirmClaim>) {
        let of = &mut self.nodes[node as usize];
        let before = of.firm_claims.len();
        of.firm_claims.retain(|known| known.job != job);
        let had_claim = of.firm_claims.len() < before;
        of.firm_claims.extend(claim);
        of.settle_claims(&self.steps);
        if had_claim {
            self.has_grown(node);
            self.touch_claims(node);
        }
    }

    /// Notes that jobs leave a node's cores or host memory sooner than planned: other jobs may take what no claim needs any more.
    pub(crate) fn ends_are_sooner(&mut self, node: u32) {
        if self.node(node).firm_claims.is_empty() {
            self.beside_is_sooner(node);
        } else {
            self.has_grown(node);
        }
    }

    /// Returns what a job from now until a time may take of a node beside devices.
    pub(crate) fn host_resources_for(&self, node: u32, lease: (Millis, Millis)) -> HostResources {
        self.node(node).host_resources_for(lease)
    }

    /// Returns what a job from now until a time may take of a node beside devices, if only some claims count.
    pub(crate) fn host_resources_beside(
        &self,
        node: u32,
        lease: (Millis, Millis),
        counts: impl Fn(&FirmClaim) -> bool,
    ) -> HostResources {
        self.node(node).host_resources_beside(lease, counts, &self.steps)
    }

    /// Whether what is left at the starts of a node's claims is up to date.
    pub(crate) fn has_settled_claims(&self, node: u32) -> bool {
        let mut settled = self.node(node).clone();
        settled.settle_claims(&Steps::default());
        settled.firm_claims == self.node(node).firm_claims
    }

    /// Whether a claim on a node before a time can't be met because of the jobs there, if one of them runs on.
    pub(crate) fn is_short_for_claims(&self, node: u32, (now, until): (Millis, Millis), renewed: JobId) -> bool {
        let node = self.node(node);
        let mut claims = node.firm_claims.iter().filter(|claim| claim.starts < until);
        claims.any(|claim| {
            let moment = Moment::of(claim.starts, now);
            let taken = node.taken_at(moment, |_| true, |holder| holder.job == renewed, &self.steps);
            !node.host_resources().covers(taken)
        })
    }

    /// Returns the job with the first claim at whose start a node has less than a job needs which lasts until a time.
    pub(crate) fn claimed_by(
        &self,
        node: u32,
        (now, until): (Millis, Millis),
        job: JobId,
        needed: HostResources,
    ) -> Option<JobId> {
        let node = self.node(node);
        let counts = |claim: &FirmClaim| claim.job != job;
        let claims = node.firm_claims.iter().filter(|claim| counts(claim) && claim.starts < until);
        let short =
            claims.filter(|claim| !node.left_at(Moment::of(claim.starts, now), counts, &self.steps).covers(needed));
        short.min_by_key(|claim| (claim.starts, claim.job)).map(|claim| claim.job)
    }
}
