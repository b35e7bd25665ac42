//! The registered callbacks of tools (OpenACC 3.3, 5.4).

use super::info::{Event, Records, is_data};
use super::place;
use crate::raw_lock::Locked;
use accord_gpu::current_context;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A tool's routine, as an address, which is only compared and called.
type Callback = usize;
type Routine = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void);

/// The action of a registration (`acc_register_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Adds or removes a callback.
    Register,
    /// Enables or disables a registered callback.
    Toggle,
    /// Enables or disables all callbacks on the calling thread.
    TogglePerThread,
}

impl Kind {
    /// Converts GCC's number.
    pub(crate) fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            0 => Self::Register,
            1 => Self::Toggle,
            2 => Self::TogglePerThread,
            _ => return None,
        })
    }
}

struct Entry {
    callback: Callback,
    registrations: u32,
    enabled: bool,
    /// See [`WANTS_VARIABLES`].
    wants_variables: bool,
    /// Later entries of one event have higher numbers, which stay while other entries come and go.
    serial: u64,
}

struct Listeners {
    /// Entries by event number, in the order of their serials.
    events: [Vec<Entry>; Event::COUNT as usize],
    enabled: [bool; Event::COUNT as usize],
    serials: u64,
}

static LISTENERS: Locked<Listeners> = Locked::new(Listeners {
    events: [const { Vec::new() }; Event::COUNT as usize],
    enabled: [true; Event::COUNT as usize],
    serials: 0,
});

/// Whether any callback is registered: the only cost for a program without a tool.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether a tool listens to events of data and may want the names of variables, which cost time to find.
static WANTS_VARIABLES: AtomicBool = AtomicBool::new(false);

/// Counts changes of the list, under its lock.
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD_ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Whether events must be raised.
pub(crate) fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed) && THREAD_ENABLED.get()
}

/// Returns [`ACTIVE`].
pub(super) fn wanted() -> &'static AtomicBool {
    &ACTIVE
}

/// Returns [`WANTS_VARIABLES`].
pub(super) fn wants_variables() -> bool {
    WANTS_VARIABLES.load(Ordering::Relaxed)
}

impl Listeners {
    /// Publishes a change, after it.
    fn note(&self) {
        CHANGES.fetch_add(1, Ordering::Release);
        let any = self.events.iter().any(|entries| !entries.is_empty());
        ACTIVE.store(any, Ordering::Relaxed);
        let data = (1..).zip(self.events.iter().skip(1)).filter(|(number, _)| is_data(*number));
        let wants = data.flat_map(|(_, entries)| entries).any(|entry| entry.wants_variables);
        WANTS_VARIABLES.store(wants, Ordering::Relaxed);
    }
}

/// Implements `acc_prof_register`. Ignores invalid arguments, as GCC's runtime does.
pub(crate) fn register(event: i32, callback: Callback, kind: Kind) {
    match kind {
        Kind::TogglePerThread if event == 0 && callback == 0 => THREAD_ENABLED.set(true),
        Kind::TogglePerThread => {}
        Kind::Toggle => toggle(event, callback, true),
        Kind::Register => add(event, callback, true),
    }
}

/// Registers a callback of one of Accord's own tools that needs no variable names.
pub(super) fn register_without_names(event: Event, callback: Callback) {
    add(event as i32, callback, false);
}

fn add(event: i32, callback: Callback, wants_variables: bool) {
    let Some(event) = index(event).filter(|_| callback != 0) else { return };
    LISTENERS.with(|listeners| {
        listeners.serials += 1;
        let serial = listeners.serials;
        let entries = &mut listeners.events[event];
        match entries.iter_mut().find(|entry| entry.callback == callback) {
            Some(entry) => entry.registrations += 1,
            None => entries.push(Entry { callback, registrations: 1, enabled: true, wants_variables, serial }),
        }
        listeners.note();
    });
}

/// Implements `acc_prof_unregister`.
pub(crate) fn unregister(event: i32, callback: Callback, kind: Kind) {
    match kind {
        Kind::TogglePerThread if event == 0 && callback == 0 => THREAD_ENABLED.set(false),
        Kind::TogglePerThread => {}
        Kind::Toggle => toggle(event, callback, false),
        Kind::Register => {
            let Some(event) = index(event) else { return };
            LISTENERS.with(|listeners| {
                let entries = &mut listeners.events[event];
                if let Some(at) = entries.iter().position(|entry| entry.callback == callback) {
                    entries[at].registrations -= 1;
                    if entries[at].registrations == 0 {
                        entries.remove(at);
                    }
                }
                listeners.note();
            });
        }
    }
}

/// Enables or disables one callback of an event; without a callback the event; without an event all events.
fn toggle(event: i32, callback: Callback, enabled: bool) {
    LISTENERS.with(|listeners| {
        match (event, callback, index(event)) {
            (0, 0, _) => listeners.enabled = [enabled; Event::COUNT as usize],
            (_, 0, Some(event)) => listeners.enabled[event] = enabled,
            (_, _, Some(event)) => {
                let entries = listeners.events[event].iter_mut();
                entries.filter(|entry| entry.callback == callback).for_each(|entry| entry.enabled = enabled);
            }
            (_, _, None) => {}
        }
        listeners.note();
    });
}

fn index(event: i32) -> Option<usize> {
    (1..Event::COUNT).contains(&event).then_some(event as usize)
}

/// Calls an event's callbacks, without the lock: they may register and remove others, with immediate effect (5.5.1). End
/// events call theirs in reverse, so that one added meanwhile is not among them.
pub(super) fn call(event: Event, records: &mut Records) {
    records.point();
    if let Some(context) = records.api.context() {
        current_context::settle(context);
    }
    let Records { prof, event: info, api, place } = records;
    let mut last = None;
    while let Some(next) = next(event, last) {
        // SAFETY: a tool registered this address as a routine of this type.
        let routine: Routine = unsafe { std::mem::transmute::<usize, Routine>(next.callback) };
        let _here = place::enter(place);
        // SAFETY: the records are valid during the call, in the layouts of acc_prof.h.
        unsafe { routine((&raw mut *prof).cast(), (&raw mut *info).cast(), (&raw mut *api).cast()) };
        if next.is_final() {
            return;
        }
        last = Some(next.serial);
    }
}

/// A callback of an event.
struct Next {
    serial: u64,
    callback: Callback,
    /// Whether no other callback follows.
    is_last: bool,
    /// The value of [`CHANGES`] at the time.
    changes: u64,
}

impl Next {
    /// Whether no other callback follows because nothing has changed since. So an event with one callback needs one check and
    /// one lock.
    fn is_final(&self) -> bool {
        self.is_last && CHANGES.load(Ordering::Acquire) == self.changes
    }
}

/// Returns the enabled callback after the one with serial `last`, or the first one without it.
fn next(event: Event, last: Option<u64>) -> Option<Next> {
    if !active() {
        return None;
    }
    LISTENERS.with(|listeners| {
        let number = event as usize;
        if !listeners.enabled[number] {
            return None;
        }
        let enabled = || listeners.events[number].iter().filter(|entry| entry.enabled);
        let (found, end) = if event.is_end() {
            (enabled().rfind(|entry| last.is_none_or(|last| entry.serial < last)), enabled().next())
        } else {
            (enabled().find(|entry| last.is_none_or(|last| entry.serial > last)), enabled().next_back())
        };
        found.map(|entry| Next {
            serial: entry.serial,
            callback: entry.callback,
            is_last: end.is_some_and(|end| end.serial == entry.serial),
            changes: CHANGES.load(Ordering::Relaxed),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(event: Event) -> Vec<Callback> {
        let mut last = None;
        std::iter::from_fn(|| {
            let next = next(event, last)?;
            last = Some(next.serial);
            Some(next.callback)
        })
        .collect()
    }

    /// A single test, because the list is the process's.
    #[test]
    fn callbacks_are_counted_ordered_and_toggled() {
        let (start, end) = (Event::UpdateStart, Event::UpdateEnd);
        for event in [start, end] {
            for callback in [1, 2, 1] {
                register(event as i32, callback, Kind::Register);
            }
        }
        assert!(active());
        assert_eq!(listening(start), [1, 2]);
        assert_eq!(listening(end), [2, 1]);

        unregister(start as i32, 1, Kind::Register);
        assert_eq!(listening(start), [1, 2], "it was registered twice");
        unregister(start as i32, 1, Kind::Register);
        unregister(start as i32, 1, Kind::Register);
        assert_eq!(listening(start), [2]);

        // During an event: a callback added at its start is called last, one added at its end not at all.
        let after = |event, first: &Next| next(event, Some(first.serial)).map(|next| next.callback);
        let first = next(start, None).unwrap();
        assert!(first.is_final());
        register(start as i32, 7, Kind::Register);
        assert!(!first.is_final(), "another one has come");
        assert_eq!(after(start, &first), Some(7));
        assert!(!next(start, None).unwrap().is_final());
        unregister(start as i32, 7, Kind::Register);
        assert_eq!(after(start, &first), None);
        let first = next(end, None).unwrap();
        assert!(!first.is_final());
        register(end as i32, 7, Kind::Register);
        assert_eq!(after(end, &first), Some(1));
        assert!(next(end, Some(first.serial)).unwrap().is_final());
        unregister(end as i32, 1, Kind::Register);
        unregister(end as i32, 1, Kind::Register);
        assert_eq!(after(end, &first), None, "it was removed before its turn");
        unregister(end as i32, 7, Kind::Register);
        register(end as i32, 1, Kind::Register);

        unregister(end as i32, 2, Kind::Toggle);
        assert_eq!(listening(end), [1]);
        unregister(end as i32, 0, Kind::Toggle);
        assert!(listening(end).is_empty());
        register(0, 0, Kind::Toggle);
        assert_eq!(listening(end), [1]);

        unregister(0, 0, Kind::TogglePerThread);
        assert!(!active());
        register(0, 0, Kind::TogglePerThread);
        assert!(active());

        register(-1, 3, Kind::Register);
        register(Event::COUNT, 3, Kind::Register);
        unregister(start as i32, 2, Kind::Register);
        for callback in [1, 2] {
            unregister(end as i32, callback, Kind::Register);
        }
        assert!(!active());
    }
}
