//! Crowds without certificates, at the coordinator's UNIX socket and by TCP with MUNGE. They cost the coordinator
//! little, and do not delay honest programs.

use crate::crowd::{CROWD, has_space, unauthenticated};
use crate::munged::Munged;
use crate::watched::Coordinator;
use accord_fabric::session_endpoint::PROTOCOL;
use accord_fabric::transport::{PeerAddress, SharedLane, adopt, connect_tls};
use accord_trust::Identity;
use accord_trust::attest::{NONCE_LEN, encode_credential};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const MEMORY_MAX_KIB: u64 = 64 << 10;
/// Most descriptors with connections of one user or address: half of the 1,024 unauthenticated connections, and a few
/// others.
const DESCRIPTORS_OF_ONE_MAX: usize = 512 + 60;
/// Most descriptors with all unauthenticated connections.
const DESCRIPTORS_MAX: usize = 1_024 + 60;
/// Most additional threads: those that the runtime starts on demand, and none per connection.
const THREADS_MORE_MAX: u64 = 16;
/// Most concurrent queries about users to the system or MUNGE, each of which has a thread.
const QUESTIONS_MAX: usize = 8;
const HONEST: usize = 10;
const SOON: Duration = Duration::from_secs(10);

/// Requests `HONEST` sessions, each of which must be answered, and checks the coordinator's resources meanwhile.
fn assert_honest_are_answered(
    coordinator: &Coordinator,
    before: crate::crowd::Cost,
    descriptors: usize,
    ask: impl Fn(),
) {
    for _ in 0..HONEST {
        ask();
        let cost = coordinator.cost();
        assert!(cost.descriptors < descriptors, "{} descriptors", cost.descriptors);
        assert!(
            cost.threads <= before.threads + THREADS_MORE_MAX,
            "{} threads, {} before",
            cost.threads,
            before.threads
        );
        let grown = cost.memory_kib.saturating_sub(before.memory_kib);
        assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more");
    }
}

/// Opens `many` connections of this user that send `words`. The oldest are closed before the last is opened.
fn gather_here(socket: &Path, many: u64, words: &[u8]) -> Vec<UnixStream> {
    let one = || {
        let mut stream = UnixStream::connect(socket).ok()?;
        // The connection may be closed already.
        let _ = stream.write_all(words);
        Some(stream)
    };
    let crowd: Vec<_> = (0..many).filter_map(|_| one()).collect();
    assert!(crowd.len() as u64 > many * 9 / 10, "only {} of {many} have connected", crowd.len());
    crowd
}

fn assert_survives_connections(limit: Option<u64>, descriptors: usize, many: u64, words: &[u8]) {
    if !has_space() {
        return;
    }
    let coordinator = Coordinator::start_with_socket(limit);
    let address = PeerAddress::new(format!("unix:{}", coordinator.socket().display()));
    let ask = || Coordinator::ask_as(&address, &Identity::of_system());
    ask();
    let before = coordinator.cost();
    let _crowd = gather_here(&coordinator.socket(), many, words);
    assert_honest_are_answered(&coordinator, before, descriptors, ask);
    // Nor does the crowd affect the other listener.
    coordinator.ask();
}

#[test]
fn thousands_of_silent_connections_to_the_socket_keep_no_user_out() {
    assert_survives_connections(None, DESCRIPTORS_OF_ONE_MAX, CROWD, b"");
}

#[test]
fn thousands_of_connections_that_stop_in_their_first_word_keep_no_user_out() {
    assert_survives_connections(None, DESCRIPTORS_OF_ONE_MAX, CROWD, b"\x20accord");
}

#[test]
fn a_crowd_at_the_socket_keeps_no_user_out_with_few_descriptors() {
    // Half of half of the descriptors.
    assert_survives_connections(Some(256), 64 + 60, 2_000, b"");
}

#[test]
fn a_silent_connection_to_the_socket_is_closed() {
    let coordinator = Coordinator::start_with_socket(None);
    let before = coordinator.cost();
    let crowd = gather_here(&coordinator.socket(), 20, b"\x20");
    for mut stream in crowd {
        stream.set_read_timeout(Some(2 * SOON)).unwrap();
        assert_eq!(std::io::Read::read(&mut stream, &mut [0]).unwrap(), 0);
    }
    let deadline = Instant::now() + SOON;
    while coordinator.cost().descriptors > before.descriptors && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(coordinator.cost().descriptors <= before.descriptors);
}

#[test]
fn unknown_protocol_name_at_the_socket_gets_no_thread() {
    assert_survives_connections(None, DESCRIPTORS_OF_ONE_MAX, 2_000, b"\x05other");
}

/// A coordinator that accepts MUNGE credentials, the test's daemon, and a user's identity.
struct Site {
    munged: Munged,
    coordinator: Coordinator,
    user: Identity,
}

impl Site {
    fn start(descriptors: Option<u64>, pause: Duration) -> Self {
        let munged = Munged::start(pause);
        let option = || vec!["--munge".into(), munged.socket().into()];
        let coordinator = Coordinator::start_with(descriptors, |_| option());
        let user = coordinator.of_user(munged.socket());
        Self { munged, coordinator, user }
    }

    fn ask(&self) {
        Coordinator::ask_as(&PeerAddress::new(self.coordinator.address), &self.user);
    }

    /// Opens a connection that has completed TLS and owes a credential.
    fn debtor(&self, from: u64) -> Option<SharedLane> {
        let tcp = adopt(unauthenticated(self.coordinator.address, from, b"")?).ok()?;
        let lane = connect_tls(tcp, self.user.to_coordinator(PROTOCOL.as_bytes()).unwrap(), SOON).ok()?;
        lane.limit(Some(SOON)).ok()?;
        lane.read_exact(&mut [0; NONCE_LEN]).ok()?;
        Some(lane)
    }

    /// Opens `many` of these. Returns them with the most descriptors that the coordinator had.
    fn gather(&self, many: u64, addresses: u64) -> (Vec<SharedLane>, usize) {
        /// Number of connections between two samples.
        const POLL_INTERVAL: u64 = 50;
        let (mut crowd, mut descriptors) = (Vec::new(), 0);
        for number in 0..many {
            crowd.extend(self.debtor(number % addresses));
            if number % POLL_INTERVAL == POLL_INTERVAL - 1 {
                descriptors = descriptors.max(self.coordinator.cost().descriptors);
            }
        }
        assert!(crowd.len() as u64 > many * 9 / 10, "only {} of {many} have got so far", crowd.len());
        (crowd, descriptors)
    }
}

#[test]
fn a_crowd_that_owes_its_credentials_keeps_no_user_out() {
    if !has_space() {
        return;
    }
    let site = Site::start(None, Duration::ZERO);
    site.ask();
    let before = site.coordinator.cost();
    let (crowd, descriptors) = site.gather(2_000, 50);
    println!("{} connections, {descriptors} descriptors at most", crowd.len());
    assert!(descriptors < DESCRIPTORS_MAX, "{descriptors} descriptors");
    assert_honest_are_answered(&site.coordinator, before, DESCRIPTORS_MAX, || site.ask());
    site.coordinator.ask();
    assert_eq!(site.munged.asked().0, 1 + HONEST, "MUNGE was asked about nothing");
}

#[test]
fn a_crowd_that_owes_its_credentials_keeps_no_user_out_with_few_descriptors() {
    /// Half of the descriptors, and a few of the coordinator's own.
    const DESCRIPTORS: usize = 128 + 60;
    let site = Site::start(Some(256), Duration::ZERO);
    site.ask();
    let before = site.coordinator.cost();
    let (crowd, descriptors) = site.gather(500, 50);
    println!("{} connections, {descriptors} descriptors at most", crowd.len());
    assert!(descriptors < DESCRIPTORS, "{descriptors} descriptors");
    assert_honest_are_answered(&site.coordinator, before, DESCRIPTORS, || site.ask());
}

#[test]
fn a_crowd_with_invalid_credentials_has_few_threads_and_keeps_no_user_out() {
    const MANY: u64 = 200;
    let site = Site::start(None, Duration::from_millis(10));
    site.ask();
    let before = site.coordinator.cost();
    let (crowd, _) = site.gather(MANY, 50);
    for lane in &crowd {
        // A connection that waited for too long is closed already.
        let _ = lane.send(&encode_credential(b"none of MUNGE's"));
    }
    assert_honest_are_answered(&site.coordinator, before, DESCRIPTORS_MAX, || site.ask());
    let (asked, at_once) = site.munged.asked();
    println!("{asked} credentials, {at_once} of them at one time");
    assert!(asked > 1 + HONEST, "no credential of the crowd was checked");
    assert!(at_once <= QUESTIONS_MAX, "{at_once} questions at one time");
}

#[test]
fn a_munge_that_does_not_answer_keeps_out_only_its_users() {
    const MANY: u64 = 100;
    let site = Site::start(None, Duration::from_secs(600));
    let before = site.coordinator.cost();
    let (crowd, _) = site.gather(MANY, 50);
    for lane in &crowd {
        let _ = lane.send(&encode_credential(b"MUNGE:x"));
    }
    // By certificate.
    assert_honest_are_answered(&site.coordinator, before, DESCRIPTORS_MAX, || site.coordinator.ask());
    assert!(site.munged.asked().1 <= QUESTIONS_MAX);
    // Once the daemon answers again, all users are accepted. Connections that waited for too long are closed.
    site.munged.take(Duration::ZERO);
    drop(crowd);
    site.ask();
}
