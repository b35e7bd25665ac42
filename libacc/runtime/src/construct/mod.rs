//! The directives, as GCC's code calls them.

mod block;
mod by_pointer;
mod by_value;
mod component;
mod data;
mod declare;
mod declared_pointer;
mod descriptor;
mod enter;
mod entries;
mod exit_data;
mod firstprivate;
mod frame;
mod kind;
mod leave;
mod map;
mod missing;
mod names;
mod object;
mod owned;
mod parallel;
mod pointee;
mod pointer;
mod pointer_member;
mod private;
mod reading;
mod reference;
mod region;
mod tags;
mod together;
mod unmapped;
mod update;
mod wait;
mod write_back;

pub(crate) use descriptor::Spaced;
pub(crate) use enter::ConstructEnter;
pub(crate) use kind::{Absent, Data};
pub(crate) use leave::ConstructExit;
pub(crate) use map::{Mode, Stop};
pub(crate) use missing::{ONE_ELEMENT, not_present, partly_present};
pub(crate) use region::{Region, Scratch};
pub(crate) use update::Direction;

pub use entries::Entries;
pub use tags::Tags;

/// The side where a compute construct ran, or has to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// On the device: launched, and for a synchronous construct finished.
    Device,
    /// The caller runs the host version itself, between
    /// [`crate::LocalThread::begin_host_region`] and [`crate::LocalThread::end_host_region`].
    Host,
}

/// The `dev` word of a call holds flags with all bits turned around: an `if` clause that is false,
/// or a `self` clause that is true, mean the host.
pub fn on_host(dev: i32) -> bool {
    !dev & 3 != 0
}
