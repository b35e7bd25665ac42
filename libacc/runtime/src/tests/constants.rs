//! Copies to read-only memory of the program, and to and from memory that it does not have.

use super::fake::{NO_MEMORY, object};
use super::world::kind::*;
use super::world::{SYNC, World};
use crate::ports::TargetAccess;
use crate::{Global, GlobalKind, Settings};
use accord_types::{DeviceType, ErrorCode, GlobalSpec, HostRange};

const A: usize = 0x10_0000;
const REGION: usize = 0x40_1000;
const SYNC_TAGS: &[u32] = &[0];
const ASYNC_1: &[u32] = &[0x2000_0001, 0];

fn constant(w: &World, len: usize, access: TargetAccess) {
    w.put(A, &vec![5; len]);
    w.ram.constants.lock().unwrap().push((HostRange { start: A, len }, access));
}

#[test]
fn a_constant_is_compared_and_a_large_one_not_even_that() {
    for (len, access, compares) in
        [(40, TargetAccess::Constant, 2), (1 << 20, TargetAccess::Constant, 0), (1 << 20, TargetAccess::ReadOnly, 2)]
    {
        let mut w = World::new();
        constant(&w, len, access);
        w.data_start(&[(TOFROM, len, A)]).unwrap();
        w.update(&[(FORCE_FROM, len, A)]).unwrap();
        w.data_end();
        let counts = w.fake().counts();
        assert_eq!((counts.copies_in, counts.copies_out, counts.compares), (usize::from(len > 4096), 0, compares));
        w.assert_empty();
    }
}

#[test]
fn a_constant_that_a_region_changes_is_an_error() {
    for tags in [SYNC_TAGS, ASYNC_1] {
        let mut w = World::new();
        constant(&w, 400, TargetAccess::Constant);
        w.kernel(REGION, |k| k.write(k.slots[0] + 399, &[6]));
        let launched = w.parallel(REGION, &[(TOFROM, 400, A)], tags).map(drop);
        let error = launched.and_then(|()| w.runtime.wait_all(&mut w.t)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert_eq!(w.ram.get(A, 400), [5; 400]);
    }
}

#[test]
fn write_back_skips_unchanged_read_only_memory() {
    for tags in [SYNC_TAGS, ASYNC_1] {
        for (changed, wanted) in [(8, Ok(())), (9, Err(ErrorCode::InvalidArgument))] {
            let mut w = World::new();
            constant(&w, 8, TargetAccess::ReadOnly);
            w.put(A - 8, &[5; 300]);
            w.kernel(REGION, move |k| {
                k.write(k.slots[0], &vec![6; changed]);
                k.write(k.slots[0] + 16, &[6; 284]);
            });
            let launched = w.parallel(REGION, &[(TOFROM, 300, A - 8)], tags).map(drop);
            let done = launched.and_then(|()| w.runtime.wait_all(&mut w.t)).map_err(|error| error.code());
            assert_eq!(done, wanted);
            assert_eq!(w.ram.get(A, 8), [5; 8]);
            if done.is_ok() {
                assert_eq!([w.ram.get(A - 8, 8), w.ram.get(A + 8, 284)].concat(), [6; 292]);
            }
        }
    }
}

#[test]
fn memory_that_is_not_there_is_an_error_before_anything_touches_it() {
    let mut w = World::new();
    for kind in [TO, TOFROM] {
        let error = w.enter(&[(kind, 40, NO_MEMORY)]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(!w.present(NO_MEMORY, 40), "what could not be filled is not present");
    }
    w.enter(&[(ALLOC, 40, NO_MEMORY)]).unwrap();
    let error = w.update(&[(FORCE_FROM, 40, NO_MEMORY)]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    w.exit(&[(RELEASE, 40, NO_MEMORY)]).unwrap();
    w.assert_empty();
}

fn global(host: usize, bytes: usize, kind: GlobalKind) -> Global {
    let spec = GlobalSpec { object: object(), offset: host as u64, len: bytes as u64, variable: None };
    Global { host, bytes, kind, spec }
}

#[test]
fn constants_with_addresses_are_the_devices_own_and_never_copied() {
    let mut w = World::new();
    w.put(A, &[3; 400]);
    let declared = global(A + 64, 8, GlobalKind::Variable);
    w.runtime.register_globals(1, vec![global(A, 400, GlobalKind::Constants), declared]);
    let own = w.runtime.deviceptr(&mut w.t, A).unwrap() as u64;
    let before = w.fake().counts();
    // Each way by which a program maps a table, a part of one, or two that overlap.
    w.enter(&[(TO, 40, A)]).unwrap();
    w.enter(&[(TO, 80, A + 8)]).unwrap();
    w.data_start(&[(TOFROM, 40, A + 200)]).unwrap();
    w.runtime.copyin(&mut w.t, A + 300, 40, SYNC).unwrap();
    w.update(&[(FORCE_TO, 40, A), (FORCE_FROM, 40, A + 8)]).unwrap();
    w.runtime.update_device(&mut w.t, A, 400, SYNC).unwrap();
    w.runtime.update_self(&mut w.t, A, 400, SYNC).unwrap();
    for region in 0..200 {
        let function = REGION + 16 * region;
        w.kernel(function, move |k| assert_eq!(k.slots, [own, own + 64, own + 200]));
        let args = [(FORCE_TOFROM, 40, A), (TO, 8, A + 64), (FORCE_TOFROM, 100, A + 200)];
        w.parallel(function, &args, SYNC_TAGS).unwrap();
    }
    w.data_end();
    w.exit(&[(FORCE_FROM, 40, A)]).unwrap();
    w.runtime.copyout(&mut w.t, A + 300, 40, SYNC, true).unwrap();
    let after = w.fake().counts();
    assert_eq!(
        (after.copies_in, after.copies_out, after.compares),
        (before.copies_in, before.copies_out, before.compares)
    );
    assert!(w.present(A, 400));
    w.runtime.unregister_globals(1, 0..0);
    assert!(!w.present(A, 400));
    w.assert_empty();
}

#[test]
fn a_device_that_sees_named_memory_only_has_no_constants_of_objects() {
    let mut w = World::with(&[DeviceType::Nvidia], 1 << 30, Settings::default());
    w.put(A, &[3; 400]);
    w.runtime.register_globals(1, vec![global(A, 400, GlobalKind::Constants)]);
    assert!(!w.present(A, 400));
    w.enter(&[(TO, 40, A)]).unwrap();
    assert_eq!(w.on_device(A, 40), [3; 40]);
}

#[test]
fn a_variable_over_an_objects_constants_replaces_them() {
    let mut w = World::new();
    w.put(A, &[3; 400]);
    w.runtime.register_globals(1, vec![global(A + 100, 50, GlobalKind::Constants)]);
    let error = w.runtime.copyin(&mut w.t, A, 1 << 46, SYNC).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    w.enter(&[(TO, 400, A)]).unwrap();
    assert_eq!(w.on_device(A, 400), [3; 400]);
    w.exit(&[(FORCE_FROM, 400, A)]).unwrap();
    w.runtime.unregister_globals(1, 0..0);
    w.assert_empty();
}
