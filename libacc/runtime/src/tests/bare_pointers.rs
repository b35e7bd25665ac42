//! The error of a crashed region about pointers that were copied without their targets.

use super::world::World;
use super::world::kind::*;
use accord_types::{DeviceNum, Error, ErrorCode};

const ARRAY: usize = 0x5600_0000_1000;
const OTHER: usize = 0x5600_0010_0000;
const POINTER: usize = 0x7ffe_0000_0100;
const LARGE: usize = 0x7ffe_0000_0400;
const STRUCTURE: usize = 0x7ffe_0000_0200;

fn crashed(at: Option<usize>) -> Error {
    let at = at.map_or_else(String::new, |at| format!(" at address {at:#x}"));
    Error::new(ErrorCode::Execution, format!("region scale ended with SIGSEGV{at}"))
}

/// Creates a world with a pointer variable that is present, and a structure with another pointer in its third word.
fn world() -> World {
    let mut w = World::new();
    w.put_u64(POINTER, ARRAY as u64);
    for (word, value) in [0, 7, OTHER as u64, 0].into_iter().enumerate() {
        w.put_u64(STRUCTURE + 8 * word, value);
    }
    w.data_start(&[(TO, 8, POINTER), (TO, 32, STRUCTURE)]).unwrap();
    w
}

#[test]
fn the_pointer_that_leads_to_the_address_is_named() {
    let w = world();
    let printed = |at| w.runtime.explain(crashed(Some(at))).to_string();
    let (near, far) = (printed(ARRAY + 800), printed(OTHER + 16));
    assert!(near.contains("0x7ffe00000100 was copied as an address") && near.contains("copy(p[0:n])"), "{near}");
    assert!(
        far.contains("0x7ffe00000210 was copied as an address") && far.contains("enter data copyin(s.p[0:n])"),
        "{far}"
    );
    assert_eq!(w.runtime.explain(crashed(Some(4096))), crashed(Some(4096)), "below all of them");
    assert_eq!(
        w.runtime.explain(crashed(Some(ARRAY + (8 << 30)))),
        crashed(Some(ARRAY + (8 << 30))),
        "far behind all of them"
    );
}

#[test]
fn without_an_address_those_in_variables_and_structures_are_named() {
    let mut w = world();
    w.put_u64(LARGE, OTHER as u64);
    w.data_start(&[(TO, 1024, LARGE)]).unwrap();
    let printed = w.runtime.explain(crashed(None)).to_string();
    assert!(printed.contains("0x7ffe00000100, 0x7ffe00000210 were copied as addresses"), "{printed}");
    assert!(
        w.runtime.explain(crashed(Some(OTHER))).to_string().contains("0x7ffe0000"),
        "where it is known all is searched"
    );
}

#[test]
fn attached_pointers_and_other_devices_data_are_not_bare_pointers() {
    let mut w = world();
    let elsewhere = crashed(Some(ARRAY)).device(DeviceNum(7));
    assert_eq!(w.runtime.explain(elsewhere.clone()), elsewhere);
    w.enter(&[(TO, 64, ARRAY), (ATTACH, 0, POINTER)]).unwrap();
    assert_eq!(w.runtime.explain(crashed(Some(ARRAY))), crashed(Some(ARRAY)));
    let error = Error::new(ErrorCode::OutOfMemory, "none at address 0x560000100000");
    assert_eq!(w.runtime.explain(error.clone()), error, "no region has crashed");
}
