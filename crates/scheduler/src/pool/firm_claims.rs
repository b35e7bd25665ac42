//! Claims on the cores and the host memory of nodes: those of reserved starts to which other jobs yield.
//!
//! A claim on a device keeps other jobs from the device. Cores and host memory belong to no device, so without a claim of their own a job that
//! needs many cores would wait behind small jobs that take each core as it becomes free.

use super::{HostResources, Node, Pool};
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
}

impl FirmClaim {
    /// Whether the job's reserved start precedes another one on the same cores: by rank, then by time.
    pub(crate) fn precedes(&self, rank: Rank, starts: Millis, job: JobId) -> bool {
        (std::cmp::Reverse(self.rank), self.starts, self.job) < (std::cmp::Reverse(rank), starts, job)
    }
}

impl Node {
    /// Returns what a job from now until a time may take beside devices: what is free now, and not claimed from a later time on.
    pub(crate) fn host_resources_for(
        &self,
        (now, until): (Millis, Millis),
        counts: impl Fn(&FirmClaim) -> bool,
    ) -> HostResources {
        let free = HostResources { memory: self.host_memory_free(), cores: self.cores_free() };
        let claims = self.firm_claims.iter().filter(|claim| counts(claim) && claim.starts < until);
        claims.fold(free, |least, claim| {
            let taken = self.taken_at(now, claim.starts.max(now), &counts);
            least.least(self.host_resources().less(taken))
        })
    }

    /// Whether jobs hold so much beyond a time that a claim can't be met.
    fn is_short_for_claims(&self, now: Millis, until: Millis) -> bool {
        let mut claims = self.firm_claims.iter().filter(|claim| claim.starts < until);
        claims.any(|claim| !self.host_resources().covers(self.taken_at(now, claim.starts.max(now), |_| true)))
    }

    /// Returns what jobs and claims take at a time beside devices. All jobs that are there count as such now.
    fn taken_at(&self, now: Millis, at: Millis, counts: impl Fn(&FirmClaim) -> bool) -> HostResources {
        let holders = self.devices.iter().flat_map(|device| &device.holders);
        let holders = holders.filter(|holder| at == now || holder.ends > at).map(|holder| holder.host_resources);
        let claims = self.firm_claims.iter().filter(|claim| counts(claim) && claim.starts <= at);
        let claims = claims.filter(|claim| at == now || claim.ends > at).map(|claim| claim.host_resources);
        holders.chain(claims).fold(HostResources::default(), |sum, of| sum.plus(of, 1))
    }
}

impl Pool {
    /// Replaces the claim of a job on a node, or removes it.
    pub(crate) fn set_firm_claim(&mut self, node: u32, job: JobId, claim: Option<FirmClaim>) {
        let claims = &mut self.nodes[node as usize].firm_claims;
        let before = claims.len();
        claims.retain(|known| known.job != job);
        let had_claim = claims.len() < before;
        claims.extend(claim);
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

    /// Whether a claim on a node before a time can't be met because of the jobs there.
    pub(crate) fn is_short_for_claims(&self, node: u32, now: Millis, until: Millis) -> bool {
        self.node(node).is_short_for_claims(now, until)
    }
}
