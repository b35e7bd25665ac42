//! Turns on devices that sessions share, where neither the kernel nor the driver divides the device by the sessions'
//! weights.

mod device_turns;
mod kept_room;
mod reserving;
mod service;
mod suspend_room;
mod suspending;
mod weights;

pub(crate) use service::{ProcessTurns, TurnService};
pub(crate) use suspend_room::SuspendRoom;
pub(crate) use weights::{Weights, weights};
