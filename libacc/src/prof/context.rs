//! Which construct or routine a thread is in: what events of devices belong to.

use super::info::Construct;
use super::site::Spot;
use accord_types::QueueId;
use std::cell::Cell;

/// The construct that a thread is in, as events of devices tell it.
#[derive(Clone, Copy)]
pub(super) struct Within {
    pub(super) spot: Option<Spot>,
    /// Its async-argument, and the queue that this means.
    pub(super) async_: i32,
    pub(super) queue: QueueId,
}

thread_local! {
    /// The construct that this thread is in: the parent of what happens on devices.
    static PARENT: Cell<Construct> = const { Cell::new(Construct::RuntimeApi) };
    /// More of that construct, if it has events.
    static WITHIN: Cell<Option<Within>> = const { Cell::new(None) };
    /// This thread is in a routine that is there to start or end devices.
    static ASKED_FOR: Cell<bool> = const { Cell::new(false) };
}

/// The construct that this thread is in.
pub(super) fn parent() -> Construct {
    PARENT.get()
}

/// More of it; none outside of those that have events.
pub(super) fn construct() -> Option<Within> {
    WITHIN.get()
}

/// Whether the program asks for the start or end of a device.
pub(super) fn asked_for() -> bool {
    ASKED_FOR.get()
}

/// Runs a routine that is there to start or end devices: their events are not implicit.
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
pub(super) fn enter(construct: Construct, within: Within) -> Outer {
    (PARENT.replace(construct), WITHIN.replace(Some(within)))
}

/// The thread is in `outer` again.
pub(super) fn leave(outer: Outer) {
    PARENT.set(outer.0);
    WITHIN.set(outer.1);
}

/// The surroundings of a construct.
pub(super) type Outer = (Construct, Option<Within>);
