use super::*;
use crate::transport::{inproc_pair, pair};
use accord_trust::Role;
use accord_trust::issue::Authority;

const HOUR: Duration = Duration::from_secs(3600);
const PROTOCOL: &[u8] = b"accord-test/1";

/// Returns both ends of a lane that changes its keys after `records_max` records.
fn ends((near, far): (SharedLane, SharedLane), records_max: u64) -> (SharedLane, SharedLane) {
    let authority = Authority::new("c1", HOUR).unwrap();
    let client = authority.identity(Role::Tenant("eva".into()), HOUR).unwrap().to_coordinator(PROTOCOL).unwrap();
    let server = authority.identity(Role::Coordinator, HOUR).unwrap().server(&[PROTOCOL]).unwrap();
    std::thread::scope(|scope| {
        let far =
            scope.spawn(|| shake::accept(&*far, server, Deadline::after(HOUR)).map(|shaken| (far.clone(), shaken)));
        let shaken = shake::connect(&*near, client, Deadline::after(HOUR)).unwrap();
        let (far, server) = far.join().unwrap().unwrap();
        (Tls::begin(near, shaken, records_max).unwrap(), Tls::begin(far, server, records_max).unwrap())
    })
}

#[test]
fn keys_change_in_both_directions_and_no_byte_is_lost() {
    let bytes: Vec<u8> = (0..300_000).map(|i| (i * 7 + i / 251) as u8).collect();
    // Shorter than a batch, and not a divisor of it.
    for records_max in [1, 3, 64] {
        let (near, far) = ends(inproc_pair(), records_max);
        std::thread::scope(|scope| {
            for (from, to) in [(&near, &far), (&far, &near)] {
                let bytes = &bytes;
                scope.spawn(move || bytes.chunks(20_011).for_each(|piece| from.send(piece).unwrap()));
                scope.spawn(move || {
                    let mut all = vec![0; bytes.len()];
                    to.read_exact(&mut all).unwrap();
                    assert!(all == *bytes, "keys for {records_max} records");
                });
            }
        });
    }
}

#[test]
fn an_incomplete_write_continues_only_with_the_same_bytes() {
    let (near, far) = ends(pair().unwrap(), RECORDS_MAX);
    let piece = vec![5; BATCH_MAX];
    let mut written = 0;
    while let Ok(n) = near.try_write(&[IoSlice::new(&piece)]) {
        written += n;
    }
    let error = near.try_write(&[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    std::thread::scope(|scope| {
        scope.spawn(|| near.send(&piece).unwrap());
        let mut all = vec![0; written + piece.len()];
        far.read_exact(&mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 5));
    });
    near.finish().unwrap();
    assert_eq!(far.read(&mut [0; 4]).unwrap(), 0);
    assert_eq!(near.send(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}
