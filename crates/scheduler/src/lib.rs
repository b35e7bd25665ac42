//! The scheduler's core: which jobs get which devices, when, and why.
//!
//! Times and inputs go in, effects come out. There is no socket, clock, thread or floating point, so that two
//! coordinators with the same inputs decide alike. The coordinator drives the scheduler like its own core:
//!
//! ```text
//! scheduler.apply(now, input, &mut effects);   // then carry the effects out, in order
//! scheduler.next_deadline()                    // and come back with Input::Tick by then
//! ```
//!
//! # How a driver uses it
//!
//! * Nodes: [`Input::NodeJoined`] at a registration, with the agent's incarnation; with a new incarnation no earlier
//!   lease holds the node's devices. [`Input::NodeLost`] after silence, [`Input::NodeLeft`] after a goodbye.
//! * Requests: [`Input::Ask`] with the attested user and the name of an account in the policy. The same call answers
//!   with [`Effect::Queued`] or [`Effect::Refused`]; [`Effect::Started`] follows then or later. [`Input::Connected`]
//!   tells whether the requester is connected, and [`Input::Cancel`] withdraws the request.
//! * Ends: [`Input::Ended`] when the job's command or last session has ended; the scheduler itself ends a job at its
//!   limit. In both cases [`Effect::Ended`] gives the reason, and [`Effect::Release`] goes to the agent of each of its
//!   nodes. Until the agents confirm with [`Input::Released`], the devices are *releasing*: charged, and not granted
//!   again.
//! * The devices of a job are in [`Effect::Started`] and [`Scheduler::job`]. [`Effect::LeaseEnds`] moves the end of its
//!   lease, and [`Effect::Warning`] precedes the end by the policy's grace time.
//! * Queries: [`Scheduler::jobs`] and [`Scheduler::explain`] read the scheduler. [`Scheduler::forecast`] and
//!   [`Scheduler::what_if`] consume a clone of a [`follower`], so that they run outside of the driver's lock.
//!   [`Scheduler::usage`] reads an account, [`Scheduler::device_states`] all devices.
//! * History and usage by user and day are in the [`ledger`], which gets the same inputs and effects. The scheduler
//!   drops a job when its devices are free.
//!
//! # How it decides
//!
//! After each input, jobs that can start are started in order. Jobs that an administrator put first precede all others.
//! Then accounts are ordered at each level of their tree. Accounts whose first job is within a guarantee come first.
//! Then the level of the first job counts: its priority, and one more for each ageing time for which it has been first.
//! Then the dominant share over the weight counts. Within an account jobs are ordered by priority, which counts as an
//! earlier request, and by number. Usage changes the order when a job of the account starts or ends, and every
//! [`SETTLE_MS`].
//!
//! The first jobs that can't start have reserved starts on certain devices. Other jobs are placed there only if they
//! end before. A reserved start is kept until the job starts, or until devices, leases, the policy or the order change
//! ([`SlipCause`]). Reserved starts yield to those of jobs within a guarantee, and those beyond guarantees to that of
//! the first of them.
//!
//! Jobs with limits longer than the quantum leave to others all that is guaranteed, whether it is free or held by
//! shorter jobs. Shorter jobs, and jobs without a limit, use idle guarantees until their quantum ends.
//!
//! | module | contents |
//! | --- | --- |
//! | [`request`], [`policy`], [`node`], [`class`], [`amount`] | parsed data: requests, rules, devices |
//! | [`model`], [`units`], [`text_error`] | models from product names; texts of sizes and times; errors that mark a word |
//! | [`input`], [`effect`] | the interface to the driver |
//! | [`placement`] | the node and devices of a task by fragmentation, and the nodes of a gang by racks and switches |
//! | [`ledger`] | ended jobs, and usage by user and account |
//! | [`follower`] | a copy of the scheduler for queries, which follows its inputs |
//! | [`saved`] | the saved state of the scheduler and its ledger |
//! | `scheduler` | the state and its entry point |
#![forbid(unsafe_code)]

mod accounts;
pub mod amount;
pub mod arithmetic;
mod bitset;
mod charge;
pub mod class;
mod class_sums;
mod demand;
pub mod effect;
pub mod follower;
mod guarantees;
pub mod ids;
pub mod input;
mod job;
pub mod ledger;
mod merged;
pub mod model;
pub mod node;
mod noting;
pub mod path_class;
mod phase;
pub mod placement;
mod places;
mod plan;
pub mod policy;
mod pool;
pub mod request;
pub mod saved;
mod scheduler;
mod search;
mod shapes;
mod suspension;
pub mod text_error;
pub mod time;
pub mod units;

pub use charge::{Rate, Usage};
pub use noting::NotingMap;
pub use phase::Phase;

pub use effect::{DevicesOnNode, Effect, EndCause, LeasedDevice, Refusal, SlipCause};
pub use ids::{AccountId, ClassId, JobId, ReservationId};
pub use input::{DrainTarget, EarlierJob, Input, Members, Reservation, ReservedDevices};
pub use policy::Policy;
pub use pool::HostResources;
pub use request::Request;
pub use suspension::{SuspensionCause, SuspensionStage, SuspensionView};

pub use scheduler::{
    ANSWER_MS, AccountOrder, DISPLACED_DEVICES_MAX, DeviceState, Explanation, FORECAST_EVENTS_MAX, Forecast, JobView,
    Lack, NodesOfJobs, OWNER_AGAIN_MS, PREEMPT_INTERVAL_MS, PREEMPTABLE_MAX, Quarantine, RESUME_AGAIN_MS, RETRY_MS,
    Reservable, ReservationState, SETTLE_MS, Scheduler, TooFew, WaitReason, WaitingPlace,
};
pub use text_error::TextError;
pub use time::{Millis, RELEASE_EXPECTED_MS};
