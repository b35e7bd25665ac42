//! Forecasts on a copy of the scheduler, which runs on as if every job lasted until its limit.

use super::Scheduler;
use super::explain::WaitReason;
use crate::effect::{Effect, LeasedDevice, Refusal};
use crate::ids::JobId;
use crate::input::Input;
use crate::phase::Phase;
use crate::policy::PreemptMode;
use crate::request::{Locality, Request};
use crate::suspension::{Suspension, SuspensionStage};
use crate::time::Millis;
use accord_types::{DeviceId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Most events of a forecast.
pub const FORECAST_EVENTS_MAX: usize = 20_000;

/// The predicted start of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forecast {
    /// The request is refused.
    Refused(Refusal),
    /// The job starts at once with these devices.
    Now(Vec<LeasedDevice>),
    /// The job starts at this time if every job lasts until its limit.
    At {
        /// The time.
        starts: Millis,
        /// Whether the start is reserved.
        reserved: bool,
        /// The reason why it waits until then.
        reason: WaitReason,
        /// The number of jobs before it.
        position: usize,
    },
    /// No known event lets the job start.
    Unknown {
        /// The reason why it waits.
        reason: WaitReason,
        /// The number of jobs before it.
        position: usize,
    },
}

impl Scheduler {
    /// Predicts what happens to a request. The scheduler is a clone, which the driver makes outside of its lock.
    #[must_use]
    pub fn what_if(mut self, user: &str, account: &str, origin: Option<NodeId>, request: Request) -> Forecast {
        let mut effects = Vec::new();
        let input = Input::Ask { user: user.to_owned(), account: account.to_owned(), origin, request };
        self.apply(self.now, input, &mut effects);
        let mut asked = None;
        for effect in &effects {
            match effect {
                Effect::Refused(refusal) => return Forecast::Refused(refusal.clone()),
                Effect::Queued { job } => asked = Some(*job),
                _ => {}
            }
        }
        let Some(asked) = asked else {
            return Forecast::Unknown { reason: WaitReason::NoSuchDevices, position: 0 };
        };
        if let Some(devices) = started(&effects, asked) {
            return Forecast::Now(devices);
        }
        self.forecast(asked).unwrap_or(Forecast::Unknown { reason: WaitReason::NoSuchDevices, position: 0 })
    }

    /// Predicts when a waiting job starts; `None` if it does not wait. The scheduler is a clone, as for
    /// [`Scheduler::what_if`].
    #[must_use]
    pub fn forecast(mut self, job: JobId) -> Option<Forecast> {
        self.forecast_here(job)
    }

    /// Returns when a waiting job starts, and runs this snapshot on for it.
    pub(super) fn forecast_here(&mut self, job: JobId) -> Option<Forecast> {
        let explained = self.explain(job)?;
        let (reason, position) = (explained.reason?, explained.position.unwrap_or(0));
        if !self.may_ever_start(job) {
            let reason = self.lack(job).map_or(reason, WaitReason::Never);
            return Some(Forecast::Unknown { reason, position });
        }
        if let Some(starts) = explained.starts {
            return Some(Forecast::At { starts, reserved: true, reason, position });
        }
        let mut start = None;
        self.run_on(&mut |at, effects| {
            start = started(effects, job).map(|_| at);
            start.is_none()
        });
        if let Some(starts) = start {
            return Some(Forecast::At { starts, reserved: false, reason, position });
        }
        Some(Forecast::Unknown { reason, position })
    }

    /// Predicts when and with which devices a waiting job starts, on a clone; `None` if no start is known.
    #[must_use]
    pub fn start_of(mut self, job: JobId) -> Option<(Millis, Vec<DeviceId>)> {
        if !self.may_ever_start(job) {
            return None;
        }
        if let Some(reserved) = self.reserved_start(job) {
            return Some(reserved);
        }
        let mut found = None;
        self.run_on(&mut |at, effects| {
            let devices = started(effects, job);
            found = devices.map(|devices| (at, devices.iter().map(|leased| leased.device).collect()));
            found.is_none()
        });
        found
    }

    /// Predicts when a suspended job that waits for its devices resumes, on a clone; `None` if that is not known.
    #[must_use]
    pub fn resumption_of(mut self, job: JobId) -> Option<Millis> {
        if self.stage_of(job) != Some(SuspensionStage::Waiting) || self.paused {
            return None;
        }
        let mut found = None;
        self.run_on(&mut |at, effects| {
            found = effects.contains(&Effect::DevicesHeldAgain { job }).then_some(at);
            found.is_none()
        });
        found
    }

    /// Returns the known starts of waiting jobs, and the resumptions of suspended jobs that wait for their devices: reserved starts, or else
    /// predictions on a clone as for [`Scheduler::what_if`].
    #[must_use]
    pub fn starts(mut self) -> BTreeMap<JobId, Millis> {
        let waiting = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.phase == Phase::Waiting && !job.on_hold);
        let mut open: BTreeSet<JobId> = self.jobs.keys().copied().filter(waiting).collect();
        let mut starts = BTreeMap::new();
        for &id in &self.with_reserved_start {
            if let Some((at, _)) = self.reserved_start(id) {
                open.remove(&id);
                starts.insert(id, at);
            }
        }
        let mut known: BTreeMap<(usize, Option<u32>), bool> = BTreeMap::new();
        open.retain(|id| {
            self.jobs.get(id).is_some_and(|job| {
                let origin = job.origin.filter(|_| job.request.locality == Locality::Local);
                *known
                    .entry((job.shape, origin))
                    .or_insert_with(|| self.may_ever_fit(self.shapes.get(job.shape), origin))
            })
        });
        open.extend(&self.resuming);
        if !open.is_empty() && !self.paused {
            self.run_on(&mut |at, effects| {
                let begun = effects.iter().filter_map(|effect| match effect {
                    Effect::Started { job, .. } | Effect::DevicesHeldAgain { job } => Some(*job),
                    _ => None,
                });
                starts.extend(begun.filter(|job| open.remove(job)).map(|job| (job, at)));
                !open.is_empty()
            });
        }
        starts
    }

    /// Runs a snapshot on as if every job lasted until its limit, its devices were released at once, and no further job gave way to others. Visits
    /// the effects of each event, until `visit` says that it has enough, or until nothing more starts, which is looked at after 1, 2, 4 ... events,
    /// or for [`FORECAST_EVENTS_MAX`] events.
    fn run_on(&mut self, visit: &mut impl FnMut(Millis, &[Effect]) -> bool) {
        self.policy.preempt_mode = PreemptMode::Off;
        let mut effects = self.open_orders();
        for event in 1..=FORECAST_EVENTS_MAX {
            let mut at = 0;
            while let Some(effect) = effects.get(at) {
                if let Some(answer) = answer_of(effect) {
                    self.apply(self.now, answer, &mut effects);
                }
                at += 1;
            }
            if !visit(self.now, &effects) || event.is_power_of_two() && self.is_at_rest() {
                return;
            }
            let Some(next) = self.next_deadline() else { return };
            effects = Vec::new();
            self.apply(next, Input::Tick, &mut effects);
        }
    }

    /// Returns the orders to suspend and to resume jobs that agents have not answered yet.
    fn open_orders(&self) -> Vec<Effect> {
        let suspensions = self.jobs.values().filter_map(|job| Some((job.id, job.suspension.as_ref()?)));
        let orders = suspensions.flat_map(|(job, Suspension { stage, awaited, .. })| {
            awaited.iter().map(move |&node| match stage {
                SuspensionStage::Suspending => Effect::Suspend { job, node },
                _ => Effect::Resume { job, node },
            })
        });
        orders.collect()
    }
}

/// Returns the answer of an agent that carries an order out at once.
fn answer_of(order: &Effect) -> Option<Input> {
    match *order {
        Effect::Release { job, node } => Some(Input::Released { job, node }),
        Effect::Suspend { job, node } => Some(Input::Suspended { job, node, outcome: Ok(()) }),
        Effect::Resume { job, node } => Some(Input::Resumed { job, node, outcome: Ok(()) }),
        _ => None,
    }
}

fn started(effects: &[Effect], asked: JobId) -> Option<Vec<LeasedDevice>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Started { job, devices, .. } if *job == asked => Some(devices.clone()),
        _ => None,
    })
}
