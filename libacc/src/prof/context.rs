//! The construct or routine that a thread is in, to which events of devices belong.

use super::info::Construct;
use super::site::Spot;
use accord_types::QueueId;
use std::cell::Cell;

/// The construct that a thread is in, for events of devices.
#[derive(Clone, Copy)]
pub(super) struct CurrentConstruct {
    pub(super) spot: Option<Spot>,
    /// The construct's async-argument, and the queue that it means.
    pub(super) async_: i32,
    pub(super) queue: QueueId,
}

thread_local! {
    /// The construct that this thread is in: the parent of events on devices.
    static PARENT: Cell<Construct> = const { Cell::new(Construct::RuntimeApi) };
    /// Details of that construct, if it has events.
    static WITHIN: Cell<Option<CurrentConstruct>> = const { Cell::new(None) };
    /// Whether this thread is in a routine for starting or ending devices.
    static ASKED_FOR: Cell<bool> = const { Cell::new(false) };
}

/// The construct that this thread is in.
pub(super) fn parent() -> Construct {
    PARENT.get()
}

/// Returns the construct's details, or `None` outside of constructs with events.
pub(super) fn construct() -> Option<CurrentConstruct> {
    WITHIN.get()
}

/// Whether the program requested the start or end of a device.
pub(super) fn asked_for() -> bool {
    ASKED_FOR.get()
}

/// Runs a routine for starting or ending devices, whose events are not implicit.
pub(crate) fn asking<R>(body: impl FnOnce() -> R) -> R {
    let before = ASKED_FOR.replace(true);
    let result = body();
    ASKED_FOR.set(before);
    result
}

/// Runs `body` as a part of `construct`, which has no events of its own.
pub(crate) fn within<R>(construct: Construct, body: impl FnOnce() -> R) -> R {
    let outer = PARENT.replace(construct);
    let result = body();
    PARENT.set(outer);
    result
}

/// Enters a construct on this thread. Returns the surrounding one.
pub(super) fn enter(construct: Construct, within: CurrentConstruct) -> Outer {
    (PARENT.replace(construct), WITHIN.replace(Some(within)))
}

/// The thread is in `outer` again.
pub(super) fn leave(outer: Outer) {
    PARENT.set(outer.0);
    WITHIN.set(outer.1);
}

/// The surroundings of a construct.
pub(super) type Outer = (Construct, Option<CurrentConstruct>);
