use super::*;
use accord_runtime::ports::Part;
use std::sync::atomic::AtomicUsize;

fn range(bytes: &mut [u8], from: usize, len: usize) -> HostRange {
    HostRange { start: bytes[from..from + len].as_mut_ptr().expose_provenance(), len }
}

fn t(id: u64) -> TransferId {
    TransferId(id)
}

#[test]
fn a_copy_is_cut_into_what_it_writes_and_what_later_ones_do() {
    let dst = HostRange { start: 100, len: 50 };
    let r = |start, len| HostRange { start, len };
    let cut = |leave: &[HostRange]| -> Vec<_> {
        pieces(dst, leave).iter().map(|piece| (piece.range.start, piece.range.len, piece.write)).collect()
    };
    assert_eq!(cut(&[]), [(100, 50, true)]);
    assert_eq!(cut(&[r(0, 1000)]), [(100, 50, false)]);
    assert_eq!(cut(&[r(140, 20), r(90, 20)]), [(100, 10, false), (110, 30, true), (140, 10, false)]);
    assert_eq!(
        cut(&[r(110, 20), r(120, 5), r(125, 10)]),
        [(100, 10, true), (110, 20, false), (130, 5, false), (135, 15, true)]
    );
    assert_eq!(cut(&[r(10, 20), r(160, 5)]), [(100, 50, true)], "those beside it are none of its business");
    assert!(cut(&[r(110, 20), r(120, 5)]).iter().map(|piece| piece.1).sum::<usize>() == 50);
}

#[test]
fn of_two_small_copies_the_later_one_stays_whichever_lands_first() {
    for first in [1, 2] {
        let landings = Landings::default();
        let mut bytes = [0; 8];
        let (all, part) = (range(&mut bytes, 0, 8), range(&mut bytes, 2, 3));
        assert!(landings.small(t(1), all, &[]).is_empty());
        assert!(landings.small(t(2), part, &[t(1)]).is_empty(), "the first still writes the rest");
        let land = |id| match id {
            1 => landings.data(t(1), &[1; 8]),
            _ => landings.data(t(2), &[2; 3]),
        };
        land(first).unwrap();
        land(3 - first).unwrap();
        assert_eq!(bytes, [1, 1, 2, 2, 2, 1, 1, 1]);
    }
}

#[test]
fn a_copy_that_writes_nothing_any_more_is_over_for_those_after_it() {
    let landings = Landings::default();
    let mut bytes = [0; 8];
    let all = range(&mut bytes, 0, 8);
    landings.small(t(1), all, &[]);
    assert_eq!(landings.small(t(2), all, &[t(1)]), [t(1)]);
    assert_eq!(landings.small(t(3), all, &[t(1), t(2)]), [t(1), t(2)]);
    landings.data(t(3), &[3; 8]).unwrap();
    landings.data(t(1), &[1; 8]).unwrap();
    landings.data(t(2), &[2; 8]).unwrap();
    assert_eq!(bytes, [3; 8]);
    assert!(landings.wait(&[t(1), t(2), t(3)]).is_ok());
}

#[test]
fn what_waits_for_copies_happens_when_the_last_has_landed_or_was_cancelled() {
    let landings = Landings::default();
    let mut bytes = [0; 8];
    let all = range(&mut bytes, 0, 8);
    let done = Arc::new(AtomicUsize::new(0));
    let then = || -> Then {
        let done = done.clone();
        Box::new(move || {
            done.fetch_add(1, Ordering::SeqCst);
        })
    };
    assert!(landings.when_landed(vec![t(9)], then()), "it has landed long ago");
    landings.small(t(1), all, &[]);
    landings.small(t(2), all, &[]);
    assert!(!landings.when_landed(vec![t(1), t(2)], then()) && landings.is_holding());
    landings.data(t(1), &[1; 8]).unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 1);
    landings.cancel(&[t(2)], &Inbox::new(Arc::default(), false));
    assert_eq!(done.load(Ordering::SeqCst), 2);
    assert!(!landings.is_holding());
    landings.small(t(3), all, &[]);
    landings.when_landed(vec![t(3)], then());
    landings.lose(&Error::new(ErrorCode::DeviceUnavailable, "gone"));
    assert_eq!(done.load(Ordering::SeqCst), 3, "nobody may wait for ever");
    assert!(landings.wait(&[t(3)]).is_err());
}

#[test]
fn variables_that_come_together_are_left_to_later_copies_each_for_itself() {
    let mut bytes = [0; 64];
    let (first, last) = (range(&mut bytes, 0, 4), range(&mut bytes, 60, 4));
    let between = range(&mut bytes, 20, 8);
    let parts = [Part { at: 0, dst: first }, Part { at: 16, dst: last }];
    let landings = Landings::default();
    let changed = Changed::new(&[0; 20], &parts, None);
    let all = changed.range();
    landings.changed(t(1), all, changed);
    landings.small(t(2), between, &[t(1)]);
    assert!(landings.data(t(1), &[7; 20]).is_ok());
    assert!(landings.data(t(2), &[8; 8]).is_ok());
    assert!(landings.wait(&[t(1), t(2)]).is_ok());
    assert_eq!((bytes[..4].to_vec(), bytes[60..].to_vec()), (vec![7; 4], vec![7; 4]));
    assert_eq!((bytes[20..28].to_vec(), bytes[4]), (vec![8; 8], 0));
}
