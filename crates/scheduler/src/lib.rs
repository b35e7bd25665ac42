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
//! * The driver tells of nodes ([`Input::NodeJoined`]), attested requests ([`Input::Ask`]) and ends. `Ask` is answered at once by
//!   [`Effect::Queued`] or [`Effect::Refused`], and by [`Effect::Started`] then or later.
//! * At a job's end its devices are *releasing*. [`Effect::Release`] goes to each node's agent; its confirmation comes back as
//!   [`Input::Released`]. Until then nothing else is placed there.
//! * Questions (`explain`, `what_if`) change nothing.
//!
//! | module | what |
//! | --- | --- |
//! | [`request`], [`policy`], [`node`], [`class`], [`amount`] | what is asked for, what is allowed, what there is: parsed data |
//! | [`model`], [`units`], [`text_error`] | models by product names; sizes and times as they are written; errors that mark a word |
//! | [`input`], [`effect`] | the interface to the driver |
//! | [`placement`] | the node and devices of a task by what it would fragment, and nodes of a gang by racks and switches |
//! | `scheduler` | the state and the one way in |
#![forbid(unsafe_code)]

mod accounts;
pub mod amount;
pub mod arithmetic;
mod bitset;
pub mod class;
pub mod effect;
pub mod ids;
pub mod input;
mod job;
pub mod model;
pub mod node;
pub mod placement;
mod plan;
pub mod policy;
mod pool;
pub mod request;
mod scheduler;
mod search;
mod shapes;
pub mod text_error;
pub mod time;
pub mod units;

pub use accounts::Usage;
pub use job::Phase;

pub use effect::{Effect, EndCause, LeasedDevice, Refusal, SlipCause};
pub use ids::{AccountId, ClassId, JobId, ReservationId};
pub use input::{DrainTarget, Input, Reservation};
pub use policy::Policy;
pub use request::Request;
pub use scheduler::{Explanation, JobView, RELEASE_EXPECTED_MS, SETTLE_MS, Scheduler, WaitReason};
pub use text_error::TextError;
pub use time::Millis;
