//! `GOACC_enter_data`, `GOACC_exit_data` and the older `GOACC_enter_exit_data`: `enter data` and `exit data`
//! (OpenACC 3.3, 2.6.6); and `GOACC_update` (2.14.4): all have the same arguments.

use super::{dropped, entries, list};
use crate::abi_boundary;
use crate::prof::{self, Construct, EventFacts, Extent, Pair};
use accord_runtime::{Entries, LocalThread, Runtime};
use accord_types::Result;

/// The runtime's part of one of these calls.
type Rule = fn(&Runtime, &mut LocalThread, i32, &mut Entries<'_>, i32, &[i32]) -> Result<()>;

/// Returns the events and the construct of a call by the kinds of its entries.
type Events = fn(&[u16]) -> (Pair, Construct);

/// The arguments, with the waits that the shim has gathered.
struct Arguments {
    dev: i32,
    n: usize,
    hosts: *mut usize,
    sizes: *const usize,
    kinds: *const u16,
    async_: i32,
    wait_count: usize,
    waits: *const i32,
}

impl Arguments {
    fn apply(self, call: &'static str, events: Events, rule: Rule) {
        abi_boundary::enter(call, |runtime, local| {
            // SAFETY: GCC passes n elements of each array, and the shim a list of that length.
            let (mut entries, waits) =
                unsafe { (entries(self.n, self.hosts, self.sizes, self.kinds), list(self.wait_count, self.waits)) };
            let about = |kinds: &[u16], local: &mut LocalThread| {
                let (pair, construct) = events(kinds);
                let subject = prof::subject(runtime, local, self.dev, self.async_);
                EventFacts { pair, construct, async_: self.async_, subject, extent: Extent::Call }
            };
            let kinds = entries.kinds;
            prof::around(
                local,
                |local| about(kinds, local),
                |local| rule(runtime, local, self.dev, &mut entries, self.async_, waits),
            )
        });
    }
}

macro_rules! called_by_shim {
    ($($(#[$doc:meta])* $name:ident, $call:literal, $events:expr, $rule:path;)*) => {
        $(
            $(#[$doc])*
            pub(super) extern "C" fn $name(
                dev: i32,
                n: usize,
                hosts: *mut usize,
                sizes: *const usize,
                kinds: *const u16,
                async_: i32,
                wait_count: usize,
                waits: *const i32,
            ) {
                Arguments { dev, n, hosts, sizes, kinds, async_, wait_count, waits }
                    .apply($call, $events, $rule);
            }
        )*
    };
}

/// An `update` that arrives without variables has named some.
fn update_entries(
    runtime: &Runtime,
    local: &mut LocalThread,
    dev: i32,
    entries: &mut Entries<'_>,
    async_: i32,
    waits: &[i32],
) -> Result<()> {
    runtime.update(local, dev, entries, async_, waits)?;
    if entries.hosts.is_empty() && runtime.is_for_device(local, dev)? {
        return dropped::update();
    }
    Ok(())
}

called_by_shim! {
    /// `enter data`.
    enter_data, "enter data", |_| (prof::ENTER_DATA, Construct::EnterData), Runtime::enter_data;
    /// `exit data`.
    exit_data, "exit data", |_| (prof::EXIT_DATA, Construct::ExitData), Runtime::exit_data;
    /// Either of the two, from compilers before GCC 12.
    enter_exit_data, "enter or exit data", prof::enter_or_exit, Runtime::enter_exit_data;
    /// `update`.
    update, "update", |_| (prof::UPDATE, Construct::Update), update_entries;
}
