//! Data directives and clauses whose meaning is more than one table entry.

use super::world::kind::*;
use super::world::{NO_TAGS, SYNC, World, call};
use accord_types::ErrorCode;

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
const C: usize = 0x30_0000;
const REGION: usize = 0x40_1000;

/// `struct { int n; float *p; double q; float *r; }` at B, with p -> A and r -> C.
fn object(w: &World) {
    w.put_u64(B, 10);
    w.put_u64(B + 8, A as u64);
    w.put_u64(B + 16, 0x4000);
    w.put_u64(B + 24, C as u64);
    w.put(A, &[1; 40]);
    w.put(C, &[2; 40]);
}

#[test]
fn members_share_one_block_at_their_distances() {
    let mut w = World::new();
    object(&w);
    // data copy(s.n, s.p[0:s.n], s.r[2:4])
    let members = [
        (STRUCT, 3, B),
        (TOFROM, 4, B),
        (ALLOC, 8, B + 8),
        (ALLOC, 8, B + 24),
        (TOFROM, 40, A),
        (ATTACH, 0, B + 8),
        (TOFROM, 16, C + 8),
        (ATTACH, 8, B + 24),
    ];
    w.data_start(&members).unwrap();
    assert!(!w.present(B, 32), "what no clause names is not present");
    assert!(w.present(B + 8, 8) && !w.present(B + 16, 8));
    w.run_observed(&members, |k| {
        let object = k.slots[0];
        assert_eq!((k.slots[1], k.slots[2], k.slots[3]), (object, object, object));
        assert_eq!(k.read(object, 4), 10u32.to_ne_bytes());
        assert_eq!(k.read_u64(object + 8), k.slots[4]);
        // Rebased: r points where r[0] would be.
        assert_eq!(k.read_u64(object + 24) + 8, k.slots[6]);
        let (p, n) = (k.slots[4], object);
        k.write(p, &[7; 40]);
        k.write(n, &11u32.to_ne_bytes());
    });
    w.data_end();
    assert_eq!((w.get(A, 40), w.get(B, 4)), (vec![7; 40], 11u32.to_ne_bytes().to_vec()));
    assert_eq!(w.get(B + 8, 8), (A as u64).to_ne_bytes(), "the program's pointer is its own");
    w.assert_empty();
}

#[test]
fn members_of_a_present_object_count_one_by_one() {
    let mut w = World::new();
    object(&w);
    w.enter(&[(TO, 32, B)]).unwrap();
    w.enter(&[(STRUCT, 1, B), (ALLOC, 8, B + 8), (TO, 40, A), (ATTACH, 0, B + 8)]).unwrap();
    assert_eq!(w.counters(B), (0, 2));
    w.run_observed(&[(FORCE_PRESENT, 32, B)], |k| {
        assert_eq!(k.read_u64(k.slots[0] + 16), 0x4000);
        assert_eq!(k.read(k.read_u64(k.slots[0] + 8), 40), [1; 40]);
    });
    w.exit(&[(RELEASE, 8, B + 8), (FROM, 40, A), (DETACH, 0, B + 8)]).unwrap();
    w.run_observed(&[(FORCE_PRESENT, 32, B)], |k| {
        assert_eq!(k.read_u64(k.slots[0] + 8), A as u64, "detached");
    });
    w.exit(&[(RELEASE, 32, B)]).unwrap();
    w.assert_empty();
}

#[test]
fn an_object_takes_the_place_of_pointers_that_came_before_it() {
    let mut w = World::new();
    object(&w);
    let members = [
        (STRUCT, 2, B),
        (ALLOC, 8, B + 8),
        (ALLOC, 8, B + 24),
        (TO, 40, A),
        (ATTACH, 0, B + 8),
        (TO, 40, C),
        (ATTACH, 0, B + 24),
    ];
    w.enter(&members).unwrap();
    // A construct that fails leaves them as they were.
    let error = w.enter(&[(TO, 32, B), (FORCE_PRESENT, 8, 0x99_0000)]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotPresent);
    assert!(w.present(B + 8, 8) && !w.present(B + 16, 8) && w.counters(B + 24) == (0, 1));
    w.run_observed(&members, |k| assert_eq!(k.read(k.read_u64(k.slots[0] + 8), 40), [1; 40]));
    // A region holds them where they are.
    w.data_start(&members).unwrap();
    assert_eq!(w.enter(&[(TO, 32, B)]).unwrap_err().code(), ErrorCode::PartlyPresent);
    w.data_end();
    w.enter(&[(TO, 32, B)]).unwrap();
    assert_eq!(w.counters(B), (0, 3));
    w.run_observed(&[(FORCE_PRESENT, 32, B)], |k| {
        assert_eq!(k.read_u64(k.slots[0] + 16), 0x4000);
        assert_eq!(k.read(k.read_u64(k.slots[0] + 8), 40), [1; 40]);
        assert_eq!(k.read(k.read_u64(k.slots[0] + 24), 40), [2; 40]);
        k.write(k.slots[0] + 16, &9u64.to_ne_bytes());
    });
    w.exit(&[
        (RELEASE, 8, B + 8),
        (RELEASE, 8, B + 24),
        (FROM, 40, A),
        (DETACH, 0, B + 8),
        (RELEASE, 40, C),
        (DETACH, 0, B + 24),
    ])
    .unwrap();
    assert_eq!(w.counters(B), (0, 1));
    assert_eq!(w.on_device(B + 24, 8), (C as u64).to_ne_bytes(), "detached");
    w.exit(&[(FROM, 32, B)]).unwrap();
    assert_eq!(w.get(B, 32), [10u64, A as u64, 9, C as u64].map(u64::to_ne_bytes).concat());
    // Other members are not removed.
    w.enter(&[(STRUCT, 1, B), (TO, 8, B + 16)]).unwrap();
    assert_eq!(w.enter(&[(TO, 32, B)]).unwrap_err().code(), ErrorCode::PartlyPresent);
    w.exit(&[(RELEASE, 8, B + 16)]).unwrap();
    w.assert_empty();
}

#[test]
fn members_in_different_places_are_an_error() {
    let mut w = World::new();
    object(&w);
    w.enter(&[(STRUCT, 1, B), (ALLOC, 8, B + 8)]).unwrap();
    w.enter(&[(STRUCT, 1, B), (ALLOC, 8, B + 24)]).unwrap();
    let both = [(STRUCT, 2, B), (ALLOC, 8, B + 8), (ALLOC, 8, B + 24)];
    let error = w.parallel(REGION, &both, NO_TAGS).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PartlyPresent);
    w.exit(&[(RELEASE, 8, B + 24)]).unwrap();
    assert_eq!(w.data_start(&both).unwrap_err().code(), ErrorCode::PartlyPresent);
    assert!(w.data_start(&[(STRUCT, 9, B), (ALLOC, 8, B + 8)]).is_err());
    w.exit(&[(RELEASE, 8, B + 8)]).unwrap();
    let error = w.parallel(REGION, &[(STRUCT, 1, B), (FORCE_PRESENT, 8, B + 8)], NO_TAGS).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotPresent);
    w.assert_empty();
}

#[test]
fn attachments_are_counted_and_follow_a_new_target() {
    let mut w = World::new();
    object(&w);
    w.enter(&[(TO, 32, B), (TO, 40, A), (TO, 40, C)]).unwrap();
    let pointer = |w: &mut World| u64::from_ne_bytes(w.on_device(B + 8, 8).try_into().unwrap());
    let of = |w: &mut World, host| w.runtime.deviceptr(&mut w.t, host).unwrap() as u64;
    let (on_a, on_c) = (of(&mut w, A), of(&mut w, C));
    w.runtime.attach(&mut w.t, B + 8, SYNC).unwrap();
    w.enter(&[(ATTACH, 0, B + 8)]).unwrap();
    assert_eq!(pointer(&mut w), on_a);
    w.runtime.detach(&mut w.t, B + 8, SYNC, false).unwrap();
    assert_eq!(pointer(&mut w), on_a, "one is left");
    w.exit(&[(DETACH, 0, B + 8)]).unwrap();
    assert_eq!(pointer(&mut w), A as u64);
    w.exit(&[(DETACH, 0, B + 8)]).unwrap();
    w.runtime.detach(&mut w.t, B + 8, SYNC, false).unwrap();
    assert_eq!(pointer(&mut w), A as u64, "nothing happens at zero");
    w.runtime.attach(&mut w.t, B + 8, SYNC).unwrap();
    w.runtime.attach(&mut w.t, B + 8, SYNC).unwrap();
    w.put_u64(B + 8, C as u64);
    w.runtime.attach(&mut w.t, B + 8, SYNC).unwrap();
    assert_eq!(pointer(&mut w), on_c, "a new target counts from one");
    w.runtime.attach(&mut w.t, B + 8, SYNC).unwrap();
    w.exit(&[(FORCE_DETACH, 0, B + 8)]).unwrap();
    assert_eq!(pointer(&mut w), C as u64);
    // A target or a pointer that is not present, and null.
    w.put_u64(B + 8, 0x66_0000);
    w.runtime.attach(&mut w.t, B + 8, SYNC).unwrap();
    w.runtime.attach(&mut w.t, 0x77_0000, SYNC).unwrap();
    assert_eq!(pointer(&mut w), C as u64);
    w.put_u64(B + 8, 0);
    w.runtime.attach(&mut w.t, B + 8, SYNC).unwrap();
    assert_eq!(pointer(&mut w), 0, "null is null on the device");
    assert_eq!(w.runtime.attach(&mut w.t, 0, SYNC).unwrap_err().code(), ErrorCode::InvalidNullPointer);
}

#[test]
fn copies_of_an_object_leave_attached_pointers_alone_on_both_sides() {
    let mut w = World::new();
    object(&w);
    w.enter(&[(TO, 32, B), (TO, 40, A)]).unwrap();
    w.enter(&[(ATTACH, 0, B + 8)]).unwrap();
    let on_a = w.runtime.deviceptr(&mut w.t, A).unwrap() as u64;
    w.kernel(REGION, |k| {
        let at = k.slots[0];
        k.write(at, &77u64.to_ne_bytes());
        k.write(at + 24, &78u64.to_ne_bytes());
    });
    w.parallel(REGION, &[(FORCE_PRESENT, 32, B)], NO_TAGS).unwrap();
    w.update(&[(FORCE_FROM, 32, B)]).unwrap();
    assert_eq!((w.get(B, 8), w.get(B + 24, 8)), (77u64.to_ne_bytes().to_vec(), 78u64.to_ne_bytes().to_vec()));
    assert_eq!(w.get(B + 8, 8), (A as u64).to_ne_bytes());
    w.put_u64(B, 5);
    w.runtime.update_device(&mut w.t, B, 32, SYNC).unwrap();
    assert_eq!(w.on_device(B, 8), 5u64.to_ne_bytes());
    assert_eq!(w.on_device(B + 8, 8), on_a.to_ne_bytes());
    w.runtime.copyout(&mut w.t, B, 32, SYNC, true).unwrap();
    assert_eq!(w.get(B + 8, 8), (A as u64).to_ne_bytes());
}

#[test]
fn update_follows_a_members_pointer() {
    let mut w = World::new();
    object(&w);
    w.enter(&[(TO, 32, B), (TO, 40, A)]).unwrap();
    // update device(t->p[0:5])
    w.put(A, &[9; 20]);
    w.update(&[(FORCE_TO, 20, A), (ALWAYS_POINTER, 0, B + 8)]).unwrap();
    let on_a = w.runtime.deviceptr(&mut w.t, A).unwrap() as u64;
    assert_eq!(w.on_device(B + 8, 8), on_a.to_ne_bytes());
    assert_eq!(w.on_device(A, 21)[19..], [9, 1]);
    w.update(&[(FORCE_FROM, 20, A), (ALWAYS_POINTER, 0, B + 8)]).unwrap();
    assert_eq!(w.get(B + 8, 8), (A as u64).to_ne_bytes());
}

#[test]
fn no_create_uses_what_is_there() {
    let mut w = World::new();
    w.put_u64(C, A as u64);
    w.run_observed(&[(IF_PRESENT, 40, A), (POINTER, 0, C)], |k| {
        assert_eq!(k.slots[0], A as u64, "the program's address");
        assert_eq!(k.read_u64(k.slots[1]), A as u64);
    });
    assert!(!w.present(A, 40));
    w.data_start(&[(IF_PRESENT, 40, A), (TO, 40, B)]).unwrap();
    w.data_start(&[(IF_PRESENT, 40, B)]).unwrap();
    assert_eq!(w.counters(B), (2, 0));
    w.data_end();
    w.data_end();
    w.assert_empty();
}

#[test]
fn update_of_absent_data_is_an_error_unless_if_present() {
    let mut w = World::new();
    for kind in [FORCE_TO, FORCE_FROM] {
        let error = w.update(&[(kind, 40, A)]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotPresent);
        assert!(error.to_string().starts_with("update on dev0 (node h0): 40 bytes at 0x100000"), "{error}");
    }
    w.update(&[(TO, 40, A), (FROM, 40, A)]).unwrap();
    w.enter(&[(TO, 20, A)]).unwrap();
    assert_eq!(w.update(&[(TO, 20, A - 10)]).unwrap_err().code(), ErrorCode::PartlyPresent);
}

#[test]
fn declare_enters_each_variable_and_releases_it_at_the_end() {
    let mut w = World::new();
    w.put(A, &[4; 40]);
    // declare create(loc) copyin(v)
    w.declare(&[(TO, 40, A), (ALLOC, 128, B), (FORCE_DEVICEPTR, 8, C)]).unwrap();
    assert_eq!(w.on_device(A, 40), [4; 40]);
    w.declare(&[(ALLOC, 128, B)]).unwrap();
    assert_eq!(w.counters(B), (0, 1), "only if absent");
    w.declare(&[(FORCE_PRESENT, 40, A)]).unwrap();
    assert_eq!(w.declare(&[(FORCE_PRESENT, 40, C)]).unwrap_err().code(), ErrorCode::NotPresent);
    w.declare(&[(RELEASE, 128, B)]).unwrap();
    assert!(!w.present(B, 128));
}

#[test]
fn old_compilers_calls_are_told_apart_by_their_entries() {
    let mut w = World::new();
    w.put_u64(C, A as u64);
    let both = |w: &mut World, list: &[super::world::One]| {
        call(list, |entries| w.runtime.enter_exit_data(&mut w.t, -1, entries, SYNC, &[])).0.unwrap();
    };
    both(&mut w, &[(FORCE_TO, 40, A), (POINTER, 0, C)]);
    assert!(w.present(A, 40));
    both(&mut w, &[(FORCE_FROM, 40, A), (POINTER, 0, C)]);
    assert!(!w.present(A, 40));
    both(&mut w, &[(TO_PSET, 64, C), (FORCE_ALLOC, 40, B)]);
    both(&mut w, &[(DELETE, 40, B)]);
    w.assert_empty();
}

#[test]
fn regions_nest_and_copy_out_what_their_own_clause_says() {
    let mut w = World::new();
    w.put(A, &[1; 40]);
    w.data_start(&[(TO, 40, A)]).unwrap();
    w.data_start(&[(FROM, 20, A)]).unwrap();
    w.kernel(REGION, |k| k.write(k.slots[0], &[2; 40]));
    w.parallel(REGION, &[(TOFROM, 40, A)], NO_TAGS).unwrap();
    w.data_end();
    assert_eq!(w.get(A, 40), [1; 40]);
    w.data_end();
    assert_eq!(w.get(A, 40), [1; 40], "the outer clause was copyin");
    // The clause's own section, which may be a part of what is present.
    w.enter(&[(TO, 40, A)]).unwrap();
    w.parallel(REGION, &[(FORCE_PRESENT, 40, A)], NO_TAGS).unwrap();
    w.exit(&[(FROM, 20, A + 10)]).unwrap();
    assert_eq!(w.get(A, 40), [[1; 10], [2; 10], [2; 10], [1; 10]].concat());
    assert_eq!(w.runtime.data_end(&mut w.t).unwrap_err().code(), ErrorCode::InvalidArgument);
    w.assert_empty();
}

#[test]
fn the_same_data_twice_in_one_construct_is_one_copy() {
    let mut w = World::new();
    w.put(A, &[1; 4000]);
    let list = [(TOFROM, 4000, A), (TO, 400, A + 400), (TOFROM, 8, A + 16)];
    w.run_observed(&list, |k| assert_eq!((k.slots[1], k.slots[2]), (k.slots[0] + 400, k.slots[0] + 16)));
    w.data_start(&list).unwrap();
    assert_eq!(w.counters(A), (3, 0));
    w.data_end();
    let error = w.parallel(REGION, &[(TO, 400, A), (TO, 4000, A)], NO_TAGS).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PartlyPresent);
    w.assert_empty();
}

#[test]
fn copy_out_happens_at_the_last_clause_of_a_repeated_variable() {
    let mut w = World::new();
    // One entry by three clauses, of which the last copies nothing out. By a region, and by a data construct.
    let list = [(TOFROM, 400, 0x1000), (TOFROM, 40, 0x1010), (TO, 8, 0x1040)];
    let filled = |w: &World| (w.get(0x1000, 0x10), w.get(0x1010, 40), w.get(0x1040, 8));
    w.put(0x1000, &[1; 400]);
    w.run_observed(&list, |k| k.write(k.slots[0], &[2; 400]));
    assert_eq!(filled(&w), (vec![2; 0x10], vec![2; 40], vec![2; 8]));
    w.data_start(&list).unwrap();
    w.run_observed(&[(FORCE_PRESENT, 400, 0x1000)], |k| k.write(k.slots[0], &[3; 400]));
    assert_eq!(w.get(0x1000, 1), [2]);
    w.data_end();
    assert_eq!(filled(&w), (vec![3; 0x10], vec![3; 40], vec![3; 8]));
    // Bytes that no clause copies out stay the program's.
    w.run_observed(&[(TO, 400, 0x1000), (FROM, 40, 0x1010), (TO, 8, 0x1040)], |k| k.write(k.slots[0], &[4; 400]));
    assert_eq!(filled(&w), (vec![3; 0x10], vec![4; 40], vec![3; 8]));
    w.assert_empty();
}
