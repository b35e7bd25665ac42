//! A job, from its request until its devices are free.

use crate::accounts::{Holding, JobOrder};
use crate::amount::Amount;
use crate::effect::{EndCause, SlipCause};
use crate::ids::{ClassId, JobId};
use crate::path_class::ChosenPaths;
use crate::phase::{Hold, Phase, Rank};
use crate::pool::Spot;
use crate::request::Request;
use crate::search::PartDemand;
use crate::suspension::Suspension;
use crate::time::Millis;
use accord_types::DeviceId;
use std::sync::Arc;

/// A device of a job.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) device: DeviceId,
    pub(crate) spot: Spot,
    pub(crate) class: ClassId,
    pub(crate) amount: Amount,
    pub(crate) exclusive: bool,
    /// The part that counts for maxima and guarantees, in thousandths of a device.
    pub(crate) milli: u64,
    /// The charge, in thousandths of a device.
    pub(crate) charged: u64,
    pub(crate) cores: u64,
    pub(crate) host_memory: u64,
    pub(crate) hold: Hold,
}

impl Grant {
    /// Returns what the job's account holds by this. `long` marks a job with a limit longer than the quantum.
    pub(crate) fn holding(&self, long: bool) -> Holding {
        Holding { class: self.class, milli: self.milli, charged: self.charged, long }
    }
}

/// A reserved start.
#[derive(Clone, Debug)]
pub(crate) struct ReservedStart {
    pub(crate) starts: Millis,
    pub(crate) spots: Vec<Spot>,
    /// The choice of classes that the start is for.
    pub(crate) choice: Vec<PartDemand>,
    pub(crate) rank: Rank,
    /// Its demand, in thousandths by class.
    pub(crate) demand: Vec<(ClassId, u64)>,
    /// The time first planned, before late releases of devices moved it.
    pub(crate) planned: Millis,
}

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) user: String,
    pub(crate) account: u32,
    pub(crate) request: Arc<Request>,
    pub(crate) shape: usize,
    pub(crate) origin: Option<u32>,
    pub(crate) submitted: Millis,
    pub(crate) phase: Phase,
    pub(crate) turn: JobOrder,
    /// Its order among the jobs that administrators have put first.
    pub(crate) front: Option<u64>,
    pub(crate) on_hold: bool,
    /// The time at which its longest wait ends.
    pub(crate) waits_until: Option<Millis>,
    /// The time until which it keeps its place without a connection.
    pub(crate) kept_until: Option<Millis>,
    /// Its time limit; `None` if its lease is renewed by quantum.
    pub(crate) limit_ms: Option<u64>,
    pub(crate) started: Millis,
    pub(crate) ends: Millis,
    /// The time of the warning before that, or of the lease's renewal.
    pub(crate) warned: Millis,
    /// The reason for its end, once it is certain that the lease will not be renewed.
    pub(crate) ending: Option<EndCause>,
    pub(crate) grants: Vec<Grant>,
    /// The paths by which its nodes were chosen; `None` if paths did not matter, or after a restart.
    pub(crate) paths: Option<ChosenPaths>,
    pub(crate) reserved_start: Option<ReservedStart>,
    /// The reserved start that it has lost, with the reason.
    pub(crate) slipped: Option<(Millis, SlipCause)>,
    /// The reserved start that was last announced.
    pub(crate) announced: Option<Millis>,
    /// The pool's stamp when no start could be planned, for each [`Rank`].
    pub(crate) unplanned: [Option<u64>; 3],
    /// Jobs without a limit whose assumed ends did not make a start possible then.
    pub(crate) beyond_guarantees: Vec<JobId>,
    /// Whether it runs with a limit longer than the quantum.
    pub(crate) long: bool,
    /// The end of its lease for planning; [`Millis::NEVER`] without a limit.
    pub(crate) planned_end: Millis,
    pub(crate) sessions: u32,
    pub(crate) suspension: Option<Suspension>,
    /// The reason for which the last suspension or resumption has failed.
    pub(crate) suspension_refused: Option<String>,
    /// The time of earlier suspensions, which does not count for the limit.
    pub(crate) stood_still_ms: u64,
    /// The end of its last suspension, also of one that was refused.
    pub(crate) went_on: Option<Millis>,
}

impl Job {
    /// Returns the duration of its first lease, in milliseconds.
    pub(crate) fn lease_ms(&self, quantum_ms: u64) -> u64 {
        self.limit_ms.unwrap_or(quantum_ms)
    }

    /// Whether its limit is longer than the quantum, so that it can't return devices in time.
    pub(crate) fn is_long(&self, quantum_ms: u64) -> bool {
        self.limit_ms.is_some_and(|limit| limit > quantum_ms)
    }
}
