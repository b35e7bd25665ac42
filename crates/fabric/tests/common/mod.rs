//! Lanes over every transport.
#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod gateways;
pub(crate) mod transfers;
pub(crate) mod worlds;

use accord_fabric::transport::{Lane, SharedLane, Transport, accept_tls, connect_tls, inproc_pair, pair, shm_pair};
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role};
use std::sync::OnceLock;
use std::time::Duration;

/// Longer than any step of these tests takes, on a busy machine too.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Less than a test may wait, but more than an operation takes that must not block.
pub(crate) const SHORT: Duration = Duration::from_millis(50);

/// Returns the transports to test: all, or only MPI within an MPI job.
pub(crate) fn all() -> Vec<Transport> {
    if worlds::is_job() {
        return vec![Transport::Mpi];
    }
    vec![Transport::Inproc, Transport::Shm, Transport::Tcp, Transport::Tls, Transport::Mpi]
}

/// Returns both ends of a lane.
pub(crate) fn ends(transport: Transport) -> (SharedLane, SharedLane) {
    let (near, far) = match transport {
        Transport::Inproc => inproc_pair(),
        Transport::Shm => shm_pair().unwrap(),
        Transport::Tcp => pair().unwrap(),
        Transport::Tls => secure(pair().unwrap()),
        Transport::Mpi => worlds::ends(),
    };
    assert_eq!(near.transport(), transport);
    for lane in [&near, &far] {
        // Makes a test fail that would otherwise wait for ever.
        lane.limit(Some(SOON)).unwrap();
    }
    (near, far)
}

/// The protocol in the certificates.
pub(crate) const PROTOCOL: &[u8] = b"accord-test/1";

/// Returns the identities of the connecting and the accepting process.
pub(crate) fn identities() -> &'static (Identity, Identity) {
    static BOTH: OnceLock<(Identity, Identity)> = OnceLock::new();
    BOTH.get_or_init(|| {
        let hour = Duration::from_secs(3600);
        let authority = Authority::new("tests", hour).unwrap();
        let of = |role| authority.identity(role, hour).unwrap();
        (of(Role::Tenant("eva".into())), of(Role::Coordinator))
    })
}

/// Returns both ends of a TLS lane.
pub(crate) fn secure((near, far): (SharedLane, SharedLane)) -> (SharedLane, SharedLane) {
    let (client, server) = identities();
    let server = server.server(&[PROTOCOL]).unwrap();
    let far = std::thread::spawn(move || accept_tls(far, server, SOON).unwrap());
    let near = connect_tls(near, client.to_coordinator(PROTOCOL).unwrap(), SOON).unwrap();
    (near, far.join().unwrap())
}

/// Returns bytes in which a missing or moved byte is noticed.
pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + seed) as u8).collect()
}

/// Reads `n` bytes in pieces of up to `piece`.
pub(crate) fn read(lane: &dyn Lane, n: usize, piece: usize) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; piece]);
    while all.len() < n {
        let received = lane.read(&mut buffer[..piece.min(n - all.len())]).unwrap();
        assert!(received > 0, "the end came after {} bytes of {n}", all.len());
        all.extend_from_slice(&buffer[..received]);
    }
    all
}
