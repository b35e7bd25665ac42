//! Names of regions for events and reports: terminated, and found fast.

use super::recent::Recent;
use crate::raw_lock::Locked;
use accord_runtime::ports::HostMemory;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::OnceLock;

/// Names by the address of the host version. Never freed, because tools keep them.
static NAMES: Locked<BTreeMap<usize, &'static CStr>> = Locked::new(BTreeMap::new());

/// The source of names.
static HOST: OnceLock<Box<dyn HostMemory>> = OnceLock::new();

/// Reads names from `host` from now on. The first host stays: a forked child has the same regions as its parent.
pub(super) fn take_from(host: Box<dyn HostMemory>) {
    let _ = HOST.set(host);
}

/// The name of the region at this address.
pub(super) fn name(function: usize) -> &'static CStr {
    thread_local! {
        static RECENT: Recent<usize, &'static CStr, 8> = const { Recent::new() };
    }
    RECENT.with(|recent| recent.get_or(function, function, || look_up(function)))
}

fn look_up(function: usize) -> &'static CStr {
    if let Some(name) = NAMES.with(|names| names.get(&function).copied()) {
        return name;
    }
    let found = HOST.get().and_then(|host| host.function(function).ok()).map(|spec| spec.name);
    let name = CString::new(found.unwrap_or_else(|| format!("region at {function:#x}"))).unwrap_or_default();
    let name: &'static CStr = Box::leak(name.into_boxed_c_str());
    NAMES.with(|names| *names.entry(function).or_insert(name))
}

/// Whether the region of this name has a loop, and was compiled for one thread of a GPU. `false` if several regions have the name.
pub(super) fn is_for_one_thread(name: &str) -> bool {
    let named = NAMES.with(|names| {
        let mut regions =
            names.iter().filter(|(_, known)| known.to_bytes() == name.as_bytes()).map(|(function, _)| *function);
        regions.next().filter(|_| regions.next().is_none())
    });
    named.zip(HOST.get()).is_some_and(|(function, host)| host.is_for_one_thread(function))
}

/// Removes the names of an unloaded object with these addresses.
pub(super) fn forget(span: &Range<usize>) {
    NAMES.with(|names| names.retain(|function, _| !span.contains(function)));
}
