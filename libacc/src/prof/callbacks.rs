//! Who listens to what (OpenACC 3.3, 5.3 and 5.4).

use super::info::{ApiInfo, Event, EventInfo, ProfInfo};
use crate::raw_lock::Locked;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A tool's routine, as an address: comparing is all that is done with it besides calling.
type Callback = usize;
type Routine = unsafe extern "C" fn(*mut ProfInfo, *mut EventInfo, *mut ApiInfo);

/// What a registration is meant to do (`acc_register_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Add or remove a callback.
    Register,
    /// Enable or disable one that is there.
    Toggle,
    /// Enable or disable all of the calling thread.
    TogglePerThread,
}

impl Kind {
    /// With GCC's numbers.
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
}

struct Listeners {
    /// By event number.
    events: [Vec<Entry>; Event::COUNT as usize],
    enabled: [bool; Event::COUNT as usize],
}

static LISTENERS: Locked<Listeners> = Locked::new(Listeners {
    events: [const { Vec::new() }; Event::COUNT as usize],
    enabled: [true; Event::COUNT as usize],
});

/// Whether anybody listens to anything: all that a program without a tool pays for.
static ACTIVE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static THREAD_ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Whether events have to be raised.
pub(crate) fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed) && THREAD_ENABLED.get()
}

/// `acc_prof_register`. What has no meaning is ignored, as GCC's runtime does.
pub(crate) fn register(event: i32, callback: Callback, kind: Kind) {
    match kind {
        Kind::TogglePerThread if event == 0 && callback == 0 => THREAD_ENABLED.set(true),
        Kind::TogglePerThread => {}
        Kind::Toggle => toggle(event, callback, true),
        Kind::Register => {
            let Some(event) = index(event).filter(|_| callback != 0) else { return };
            LISTENERS.with(|listeners| {
                let entries = &mut listeners.events[event];
                match entries.iter_mut().find(|entry| entry.callback == callback) {
                    Some(entry) => entry.registrations += 1,
                    None => entries.push(Entry { callback, registrations: 1, enabled: true }),
                }
            });
            ACTIVE.store(true, Ordering::Relaxed);
        }
    }
}

/// `acc_prof_unregister`.
pub(crate) fn unregister(event: i32, callback: Callback, kind: Kind) {
    match kind {
        Kind::TogglePerThread if event == 0 && callback == 0 => THREAD_ENABLED.set(false),
        Kind::TogglePerThread => {}
        Kind::Toggle => toggle(event, callback, false),
        Kind::Register => {
            let Some(event) = index(event) else { return };
            let left = LISTENERS.with(|listeners| {
                let entries = &mut listeners.events[event];
                if let Some(at) = entries.iter().position(|entry| entry.callback == callback) {
                    entries[at].registrations -= 1;
                    if entries[at].registrations == 0 {
                        entries.remove(at);
                    }
                }
                listeners.events.iter().any(|entries| !entries.is_empty())
            });
            ACTIVE.store(left, Ordering::Relaxed);
        }
    }
}

/// One callback of an event; without a callback the event; without an event everything.
fn toggle(event: i32, callback: Callback, enabled: bool) {
    LISTENERS.with(|listeners| match (event, callback) {
        (0, 0) => listeners.enabled = [enabled; Event::COUNT as usize],
        (_, 0) => {
            if let Some(event) = index(event) {
                listeners.enabled[event] = enabled;
            }
        }
        _ => {
            let Some(event) = index(event) else { return };
            for entry in &mut listeners.events[event] {
                if entry.callback == callback {
                    entry.enabled = enabled;
                }
            }
        }
    });
}

fn index(event: i32) -> Option<usize> {
    (1..Event::COUNT).contains(&event).then_some(event as usize)
}

/// Calls an event's callbacks, outside of the lock: they may register others.
pub(super) fn call(event: Event, prof: &mut ProfInfo, info: &mut EventInfo, api: &mut ApiInfo) {
    if !active() {
        return;
    }
    for callback in listening(event) {
        // SAFETY: a tool registered this address as a routine of this type.
        let routine: Routine = unsafe { std::mem::transmute::<usize, Routine>(callback) };
        // SAFETY: the records are valid during the call.
        unsafe { routine(prof, info, api) };
    }
}

fn listening(event: Event) -> Vec<Callback> {
    LISTENERS.with(|listeners| {
        let number = event as usize;
        if !listeners.enabled[number] {
            return Vec::new();
        }
        let enabled = listeners.events[number].iter().filter(|entry| entry.enabled);
        let mut callbacks: Vec<_> = enabled.map(|entry| entry.callback).collect();
        if event.is_end() {
            callbacks.reverse();
        }
        callbacks
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: the list is the process's.
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
        for callback in [1, 1, 2] {
            unregister(end as i32, callback, Kind::Register);
        }
        assert!(!active());
    }
}
