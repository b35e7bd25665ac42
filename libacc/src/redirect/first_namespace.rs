//! Finds the objects of the process's first namespace from a namespace that `dlmopen` has created: the dynamic linker's list for debuggers.

use std::ffi::{CStr, c_char, c_int};

/// Kinds of entries of a dynamic section (ELF, `DT_*`).
const NULL: u64 = 0;
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
const DEBUG: u64 = 21;

/// The record with the list's start (link.h, `struct r_debug`).
#[repr(C)]
struct Debug {
    _version: c_int,
    first: *const LinkMap,
}

/// A member of the list (link.h, `struct link_map`).
#[repr(C)]
struct LinkMap {
    base: usize,
    _name: *const c_char,
    dynamic: *const [u64; 2],
    next: *const Self,
}

/// Whether an object of the first namespace is linked with the library of this name. For constructors, during which the list does not change.
pub(super) fn needs(soname: &CStr) -> bool {
    let Some(debug) = executables_dynamic().and_then(|dynamic| entries(dynamic).find(|[kind, _]| *kind == DEBUG))
    else {
        return false;
    };
    let debug = debug[1] as *const Debug;
    if debug.is_null() {
        return false;
    }
    // SAFETY: the dynamic linker has stored the address of its record, which lives as long as the process.
    let mut at = unsafe { (*debug).first };
    while !at.is_null() {
        // SAFETY: the list's members are valid while the dynamic linker holds its lock, as it does when it runs constructors.
        let map = unsafe { &*at };
        if needed(map).any(|name| name == soname) {
            return true;
        }
        at = map.next;
    }
    false
}

/// Returns the dynamic section of the executable, or `None` if it has no dynamic linker.
fn executables_dynamic() -> Option<*const [u64; 2]> {
    // SAFETY: has no preconditions.
    let (headers, count) = unsafe { (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM)) };
    if headers == 0 {
        return None;
    }
    // SAFETY: the kernel has mapped so many headers of the executable at this address.
    let all = unsafe { std::slice::from_raw_parts(headers as *const libc::Elf64_Phdr, count as usize) };
    let of_kind = |kind| all.iter().find(|header| header.p_type == kind);
    let base = headers.wrapping_sub(of_kind(libc::PT_PHDR)?.p_vaddr);
    Some(base.wrapping_add(of_kind(libc::PT_DYNAMIC)?.p_vaddr) as *const [u64; 2])
}

/// Returns the entries of a dynamic section.
fn entries(dynamic: *const [u64; 2]) -> impl Iterator<Item = [u64; 2]> {
    let mut at = dynamic;
    std::iter::from_fn(move || {
        // SAFETY: a loaded object's dynamic section ends with an entry of kind 0, which was not passed yet.
        let entry = unsafe { *at };
        if entry[0] == NULL {
            return None;
        }
        // SAFETY: the entry was not the last.
        at = unsafe { at.add(1) };
        Some(entry)
    })
}

/// Returns the names of the libraries that an object is linked with.
fn needed(map: &LinkMap) -> impl Iterator<Item = &CStr> {
    let dynamic = map.dynamic;
    let of_kind = move |kind| entries(dynamic).filter(move |entry| entry[0] == kind).map(|entry| entry[1] as usize);
    let strings = of_kind(STRINGS).next();
    // The GNU C library relocates the entry, others do not.
    let strings = strings.map(|at| if at < map.base { at + map.base } else { at });
    // SAFETY: names are terminated strings in the object's string table.
    let name = move |at: usize| strings.map(|table| unsafe { CStr::from_ptr((table + at) as *const c_char) });
    of_kind(NEEDED).filter_map(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_needed_and_libgomp_is_not() {
        assert!(needs(c"libc.so.6"));
        assert!(!needs(c"libgomp.so.1") && !needs(c""));
    }
}
