use super::*;
use std::ptr::null_mut;

fn map(pages: usize, access: i32) -> usize {
    // SAFETY: new memory.
    unsafe { libc::mmap(null_mut(), pages * PAGE, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) }
        .expose_provenance()
}

fn protect(start: usize, pages: usize, access: i32) {
    // SAFETY: memory of this test.
    let done = unsafe { libc::mprotect(std::ptr::with_exposed_provenance_mut(start), pages * PAGE, access) };
    assert_eq!(done, 0);
}

fn unmap(start: usize, pages: usize) {
    // SAFETY: memory of this test.
    assert_eq!(unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(start), pages * PAGE) }, 0);
}

const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps `part` pages each with all access, read-only, without access, and unmapped.
fn mixture(part: usize) -> [HostRange; 4] {
    let start = map(4 * part, BOTH);
    protect(start + part * PAGE, part, libc::PROT_READ);
    protect(start + 2 * part * PAGE, part, libc::PROT_NONE);
    unmap(start + 3 * part * PAGE, part);
    std::array::from_fn(|nth| HostRange { start: start + nth * part * PAGE, len: part * PAGE })
}

#[test]
fn small_and_large_ranges_are_judged_alike() {
    for part in [1, 20, 300, 1000] {
        let [all, read_only, none, absent] = mixture(part);
        let from_all_to =
            |range: HostRange, len: usize| HostRange { start: all.start, len: range.start - all.start + len };
        assert_eq!(check(all, Access::Write), Ok(()));
        assert_eq!(check(from_all_to(read_only, 1), Access::Read), Ok(()));
        assert_eq!(check(from_all_to(read_only, 0), Access::Write), Ok(()), "up to the last byte");
        assert_eq!(check(from_all_to(read_only, 1), Access::Write), Err(Refusal::ReadOnly(read_only.start)));
        assert_eq!(check(from_all_to(none, 5), Access::Read), Err(Refusal::NoAccess(none.start)));
        assert_eq!(check(none, Access::Write), Err(Refusal::NoAccess(none.start)));
        assert_eq!(check(from_all_to(absent, 5), Access::Read), Err(Refusal::NoAccess(none.start)));
        assert_eq!(check(absent, Access::Read), Err(Refusal::NotMapped(absent.start)));
        assert_eq!(check_writable(read_only), Ok(Writable::No));
        assert!(check_writable(absent).is_err() && check_readable(absent).is_err());
        let (both, last) = (from_all_to(read_only, 5), HostRange { len: 5, ..read_only });
        assert_eq!(check_writable(both), Ok(Writable::Partly));
        let parts = [PageRun { range: all, writable: true }, PageRun { range: last, writable: false }];
        assert_eq!(stretches(both).unwrap(), parts);
        assert!(stretches(from_all_to(none, 1)).is_err() && check_writable(from_all_to(none, 1)).is_err());
        unmap(all.start, 3 * part);
    }
}

#[test]
fn a_kernel_without_the_advice_is_asked_page_by_page() {
    use kernel::{Ready, touch};
    let [all, read_only, none, absent] = mixture(3);
    for access in [Access::Read, Access::Write] {
        assert_eq!(touch(all, access), Ready::Yes);
        assert_eq!(touch(none, access), Ready::No(Some(none.start)));
        assert_eq!(touch(absent, access), Ready::No(Some(absent.start)));
    }
    assert_eq!(touch(read_only, Access::Read), Ready::Yes);
    let both = HostRange { start: all.start + 100, len: all.len };
    assert_eq!(touch(both, Access::Write), Ready::No(Some(read_only.start)));
    unmap(all.start, 9);
}

#[test]
fn touching_changes_nothing() {
    let words = vec![0x1234_5678_u32; 5000];
    let range = HostRange { start: words.as_ptr().expose_provenance(), len: 4 * words.len() };
    assert_eq!(kernel::touch(range, Access::Write), Ready::Yes);
    assert_eq!(kernel::make_ready(range, Access::Write), Ready::Yes);
    assert!(words.iter().all(|word| *word == 0x1234_5678));
}

#[test]
fn pages_that_their_file_has_lost_are_missing() {
    for pages in [4usize, 600] {
        // SAFETY: the name is terminated, and the memory is this test's.
        let start = unsafe {
            let file = libc::memfd_create(c"pages".as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 0 && libc::ftruncate(file, (2 * PAGE) as libc::off_t) == 0);
            libc::mmap(null_mut(), pages * PAGE, BOTH, libc::MAP_SHARED, file, 0)
        }
        .expose_provenance();
        let range = |len| HostRange { start, len };
        assert_eq!(check(range(2 * PAGE), Access::Write), Ok(()));
        assert_eq!(check(range(pages * PAGE), Access::Read), Err(Refusal::Gone(start + 2 * PAGE)));
        unmap(start, pages);
    }
}

#[test]
fn lines_of_the_list_of_mappings() {
    let line = b"7f1f6d000000-7f1f7d000000 r--p 00000000 fe:00 812                  /usr/lib/a b.so";
    let mapping =
        Mapping { start: 0x7f1f_6d00_0000, end: 0x7f1f_7d00_0000, readable: true, writable: false, file: true };
    assert_eq!(kernel::parse(line), Some(mapping));
    let anonymous = kernel::parse(b"1000-2000 rw-p 00000000 00:00 0 ");
    assert_eq!(anonymous, Some(Mapping { start: 4096, end: 8192, readable: true, writable: true, file: false }));
    assert_eq!(kernel::parse(b""), None);
}

#[test]
fn the_walk_stops_where_the_kernel_has_no_answer() {
    let range = HostRange { start: 10, len: 10 };
    assert_eq!(walk(range, Access::Read, &mut |_| None, None), None);
    assert_eq!(walk(range, Access::Read, &mut |_| Some(None), None), Some(Err(Refusal::NotMapped(10))));
    let first = Mapping { start: 0, end: 15, readable: true, ..Mapping::default() };
    let mut next = |at: usize| Some((at < 15).then_some(first));
    assert_eq!(walk(range, Access::Read, &mut next, None), Some(Err(Refusal::NotMapped(15))));
}
