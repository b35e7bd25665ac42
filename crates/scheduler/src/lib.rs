//! The scheduler's core: who gets which devices, when, and why.
//!
//! Pure: time and an input in, effects out. No socket, no clock, no thread, no floating point: two coordinators with the
//! same inputs decide alike. The coordinator drives it as it drives its own core:
//!
//! ```text
//! scheduler.apply(now, input, &mut effects);   // then carry the effects out, in order
//! scheduler.next_deadline()                    // and come back with Input::Tick by then
//! ```
//!
//! # How a driver uses it
//!
//! * Nodes: [`Input::NodeJoined`] at a registration, with the agent's incarnation: another one than before holds nothing of earlier leases.
//!   [`Input::NodeLost`] after silence, [`Input::NodeLeft`] after a goodbye.
//! * Requests: [`Input::Ask`] with the attested user and the account's name in the policy. In the same call it is answered by
//!   [`Effect::Queued`] or [`Effect::Refused`], and by [`Effect::Started`] then or later. [`Input::Connected`] says whether the
//!   requester can still hear; [`Input::Cancel`] withdraws.
//! * Ends: [`Input::Ended`] when the job's command or last session has ended; the scheduler ends it itself at its
//!   limit. Either way [`Effect::Ended`] says why, and [`Effect::Release`] goes to the agent of each of its nodes. The
//!   devices are *releasing*, charged and not granted again, until the agent confirms: [`Input::Released`].
//! * What a job holds for its sessions is in [`Effect::Started`] and [`Scheduler::job`]; [`Effect::LeaseEnds`] moves its end,
//!   [`Effect::Warning`] precedes it by the policy's grace.
//! * Seeing: [`Scheduler::jobs`] and [`Scheduler::explain`] in place; [`Scheduler::forecast`] and [`Scheduler::what_if`] consume a clone of
//!   a [`follower`], so that they run outside of the driver's lock; [`Scheduler::usage`] by account, [`Scheduler::device_states`].
//! * History and usage by user and day are in the [`ledger`], which takes the same inputs and effects. The scheduler forgets a job when its
//!   devices are free.
//!
//! # How it decides
//!
//! After each input the first job in order that can start is started, until none can. The order: jobs that an administrator put first; then
//! accounts, level by level of their tree: first those whose first job is within a guarantee, then by the level of the first job (its
//! priority, and one more for each ageing time for which it has been first), then by dominant share over weight; within an account by
//! priority, which counts as an earlier request, and number. Usage enters the order when a job of the account starts or ends, and each [`SETTLE_MS`].
//!
//! The first jobs that can't start have reserved starts on given devices. Others are placed there only if they end before. A reserved start is
//! kept until the job starts, or devices, leases, the policy or the order change ([`SlipCause`]). Reserved starts give way to those of jobs
//! within a guarantee, and those beyond guarantees to that of the first of them.
//!
//! Jobs with limits longer than the quantum leave all that is guaranteed to others, free or held by shorter jobs. Those, and jobs without a
//! limit, use idle guarantees until their quantum ends.
//!
//! | module | what |
//! | --- | --- |
//! | [`request`], [`policy`], [`node`], [`class`], [`amount`] | what is asked for, what is allowed, what there is: parsed data |
//! | [`model`], [`units`], [`text_error`] | models by product names; sizes and times as they are written; errors that mark a word |
//! | [`input`], [`effect`] | the interface to the driver |
//! | [`placement`] | the node and devices of a task by what it would fragment, and nodes of a gang by racks and switches |
//! | [`ledger`] | ended jobs, and what users and accounts used |
//! | [`follower`] | a copy of the scheduler for questions, which takes its inputs later |
//! | [`saved`] | what the scheduler and its ledger keep over a restart |
//! | `scheduler` | the state and the one way in |
#![forbid(unsafe_code)]

mod accounts;
pub mod amount;
pub mod arithmetic;
mod bitset;
mod charge;
pub mod class;
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
pub use request::Request;
pub use scheduler::{
    DeviceState, Explanation, FORECAST_EVENTS_MAX, Forecast, JobView, Quarantine, Reservable, ReservationState,
    SETTLE_MS, Scheduler, TooFew, WaitReason,
};
pub use text_error::TextError;
pub use time::{Millis, RELEASE_EXPECTED_MS};
