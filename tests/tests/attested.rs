//! Users without certificates: their programs are attested by the system on the coordinator's machine, and by MUNGE
//! where a site runs it. Programs never identify themselves.

use accord_cluster::Limits;
use accord_coordinator::Background;
use accord_coordinator::service::Attestation;
use accord_fabric::session_endpoint;
use accord_fabric::transport::{PeerAddress, SharedLane, adopt, connect_tls};
use accord_tests::{Cluster, Finished, Job, Munged, Tool, gcc, repository_file, test_program, tool};
use accord_trust::attest::{NONCE_LEN, TAKEN, encode_credential, payload, words, words_len};
use accord_trust::attester::Attester;
use accord_trust::issue::Authority;
use accord_trust::munge::{CREDENTIAL_MAX, Munge};
use accord_trust::{Identity, Role};
use accord_types::{OrderPolicy, SessionRequest};
use nix::unistd::geteuid;
use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Users without a name.
const ALICE: u32 = 60_001;
const BOB: u32 = 60_002;
/// The exit code of `accord` for its own failures.
const OWN_FAILURE: i32 = 125;
const SOON: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);

fn is_root() -> bool {
    let root = geteuid().is_root();
    if !root {
        println!("skipped: only root can be several users");
    }
    root
}

/// Creates a program that every user may run, and that prints the owner of a region's process.
fn owner_program() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("who_am_i");
    let output = Command::new(gcc("gcc"))
        .args(["-O1", "-fopenacc", "-foffload=disable"])
        .arg(repository_file("tests/programs/cluster/who_am_i.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, program)
}

fn run(cluster: &Cluster, program: &Path, user: u32) -> Finished {
    // A program's claims about its user.
    let job = cluster.job(0, program).unwrap().env("USER", "root").env("LOGNAME", "root").env("HOME", "/root");
    job.user(user).run().unwrap()
}

/// Runs `accord info` as this user.
fn info(cluster: &Cluster, user: u32, displayed: &[(&str, PathBuf)]) -> Finished {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(["info"]).env("ACCORD_COORDINATOR", cluster.address());
    let job = displayed.iter().fold(job, |job, (name, value)| job.env(name, value));
    job.env("ACCORD_NODE", cluster.host(0)).user(user).run().unwrap()
}

/// Asserts that each user's regions run as that user, and that a refused user gets the reason.
fn assert_everybody_is_themselves(cluster: &Cluster, displayed: &[(&str, PathBuf)]) {
    let (_folder, program) = owner_program();
    for user in [ALICE, BOB] {
        let finished = run(cluster, &program, user);
        assert_eq!(finished.code(), 0, "{}", finished.report());
        assert!(finished.stdout.contains(&format!("uid={user} euid={user}")), "{}", finished.report());
        let finished = info(cluster, user, displayed);
        assert!(finished.code() == 0 && finished.stdout.contains("cpu"), "{}", finished.report());
    }
    let mallory = BOB + 1;
    for (finished, code) in [(run(cluster, &program, mallory), 1), (info(cluster, mallory, displayed), OWN_FAILURE)] {
        assert_eq!(finished.code(), code, "{}", finished.report());
        assert!(finished.stderr.contains(&format!("does not take user {mallory}")), "{}", finished.report());
    }
    let refused = format!("refused: this coordinator does not take user {mallory}");
    cluster.await_messages(|messages| messages.contains(&refused)).unwrap();
    assert_eq!(cluster.processes_of(&program, Duration::from_secs(5)), Vec::<String>::new());
}

/// Returns the rules of coordinator and agents; they map one user to another account.
fn rules() -> (String, String) {
    (format!("!{},*", BOB + 1), format!("{ALICE}={ALICE}:{ALICE},{BOB}={BOB}:{BOB},root"))
}

#[test]
fn one_machine_needs_no_certificates() {
    if !is_root() {
        return;
    }
    let (taken, users) = rules();
    let cluster =
        Cluster::builder().hosts(2).devices(1).memory("64M").known_by_system().taken(&taken).users(&users).start();
    let cluster = cluster.unwrap();
    assert_everybody_is_themselves(&cluster, &[]);

    // An ordinary user's agent would learn other users' keys.
    let agent = Job::new(tool(Tool::NodeAgent).unwrap()).args(["--coordinator", cluster.address(), "--node", "h9"]);
    let finished = agent.args(["--listen", "127.0.0.9:0", "--gpus", "off"]).user(ALICE).run().unwrap();
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stderr.contains(&format!("tenant {ALICE} may not register a node")), "{}", finished.report());
}

#[test]
fn a_socket_whose_place_others_can_take_is_refused() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (socket, address) =
        (folder.path().join("coordinator"), format!("unix:{}/coordinator", folder.path().display()));
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let coordinator = Job::new(tool(Tool::Coordinator).unwrap()).arg("--socket").arg(&socket).run().unwrap();
    assert!(coordinator.code() == 1 && coordinator.stderr.contains("chmod go-w"), "{}", coordinator.report());
    // Another server listens there nevertheless.
    let _impostor = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let info = Job::new(tool(Tool::Accord).unwrap()).arg("info").env("ACCORD_COORDINATOR", &address).run().unwrap();
    assert!(info.code() == OWN_FAILURE && info.stderr.contains("others than user"), "{}", info.report());
    let error = session_endpoint::open(&PeerAddress::new(&address), &Identity::of_system(), SOON, &request());
    assert!(error.unwrap_err().cause().contains("others than user"));

    // A running coordinator keeps its socket, in any folder.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let second = Job::new(tool(Tool::Coordinator).unwrap()).arg("--socket").arg(&socket).run().unwrap();
    assert!(second.code() == 1 && second.stderr.contains("listens at"), "{}", second.report());
    // Root's coordinator refuses a user's own folder, where that user could replace the socket.
    std::os::unix::fs::chown(folder.path(), Some(ALICE), Some(ALICE)).unwrap();
    let socket = folder.path().join("other");
    let third = Job::new(tool(Tool::Coordinator).unwrap()).arg("--socket").arg(&socket).run().unwrap();
    assert!(third.code() == 1 && third.stderr.contains(&format!("is user {ALICE}'s")), "{}", third.report());
}

#[test]
fn a_coordinator_that_was_killed_listens_at_its_socket_again() {
    if !is_root() {
        return;
    }
    let mut cluster = Cluster::builder().hosts(1).devices(2).memory("64M").known_by_system().start().unwrap();
    let (input, output) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/phases.c").unwrap()).unwrap().arg("launch").stdin(input);
    let running = job.start().unwrap();
    running.await_output("working").unwrap();
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    cluster
        .await_info("the program to be back", |info| {
            info["sessions"].as_array().is_some_and(|all| all.len() == 1) && info["nodes"][0]["state"] == "up"
        })
        .unwrap();
    drop(output);
    let finished = running.finish().unwrap();
    assert!(finished.code() == 0 && finished.stdout.contains("PASS"), "{}", finished.report());
}

#[test]
fn where_a_site_runs_munge_its_word_counts() {
    let Some(munged) = Munged::start().unwrap().filter(|_| is_root()) else { return };
    let (taken, users) = rules();
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").known_by_munge(&munged.socket());
    let cluster = cluster.taken(&taken).users(&users).start().unwrap();
    let folder = cluster.tls_of("everybody");
    assert_everybody_is_themselves(&cluster, &[("ACCORD_TLS", folder.clone()), ("ACCORD_MUNGE", munged.socket())]);

    // Without the daemon there is no attestation.
    let finished = info(&cluster, ALICE, &[("ACCORD_TLS", folder), ("ACCORD_MUNGE", "/nowhere".into())]);
    assert!(finished.code() == OWN_FAILURE && finished.stderr.contains("munged at /nowhere"), "{}", finished.report());
}

fn request() -> SessionRequest {
    SessionRequest {
        node_name: "h1".into(),
        pid: 1,
        program: "app".into(),
        rank: None,
        kind: None,
        order: OrderPolicy::Local,
        devices: None,
        job: None,
    }
}

/// A coordinator that accepts MUNGE's attestation, and its public parts.
struct Hostile {
    munged: Munged,
    coordinator: Background,
    own: Identity,
    _folder: tempfile::TempDir,
}

impl Hostile {
    fn start() -> Option<Self> {
        let munged = Munged::start().unwrap()?;
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("c1", HOUR).unwrap());
        authority.issue_into(&folder.path().join("tls"), Role::Coordinator, HOUR).unwrap();
        let everybody = folder.path().join("everybody");
        fs::create_dir(&everybody).unwrap();
        fs::copy(folder.path().join("tls/ca.crt"), everybody.join("ca.crt")).unwrap();
        let own = Identity::of_user(&everybody, &Attester::of_settings(munged.socket().to_str(), None)).unwrap();
        let attestation = Attestation { munge: Some(munged.socket()), ..Attestation::default() };
        let coordinators = authority.identity(Role::Coordinator, HOUR).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let coordinator = Background::start_with(any, coordinators, Limits::default(), attestation).unwrap();
        Some(Self { munged, coordinator, own, _folder: folder })
    }

    /// Opens a connection, and returns the nonce for its credential.
    fn connect(&self) -> (SharedLane, [u8; NONCE_LEN]) {
        let tcp = adopt(TcpStream::connect(self.coordinator.address()).unwrap().into()).unwrap();
        let config = self.own.to_coordinator(session_endpoint::PROTOCOL.as_bytes()).unwrap();
        let lane = connect_tls(tcp, config, SOON).unwrap();
        lane.limit(Some(SOON)).unwrap();
        let mut nonce = [0; NONCE_LEN];
        lane.read_exact(&mut nonce).unwrap();
        (lane, nonce)
    }

    /// Sends bytes as a credential, and returns the outcome.
    fn printed(lane: &SharedLane, bytes: &[u8]) -> Result<(), String> {
        lane.send(bytes).unwrap();
        let mut verdict = [0];
        lane.read_exact(&mut verdict).map_err(|error| error.to_string())?;
        if verdict == [TAKEN] {
            return Ok(());
        }
        let mut len = [0; 2];
        lane.read_exact(&mut len).unwrap();
        let mut text = vec![0; words_len(len)];
        lane.read_exact(&mut text).unwrap();
        Err(words(&text))
    }

    /// Sends a credential that MUNGE's own program makes, with the payload for the nonce, and returns the outcome.
    fn tried(&self, options: &[&str], payload_of: impl Fn(&[u8; NONCE_LEN]) -> Vec<u8>) -> Result<(), String> {
        let (lane, nonce) = self.connect();
        Self::printed(&lane, &encode_credential(&self.munged.credential(&payload_of(&nonce), options).unwrap()))
    }
}

#[test]
fn credentials_that_are_not_for_this_connection_are_refused() {
    let Some(hostile) = Hostile::start() else { return };
    assert_eq!(hostile.tried(&[], payload), Ok(()));
    // Accepted, and then refused for lack of devices.
    let address = PeerAddress::new(hostile.coordinator.address());
    let error = session_endpoint::open(&address, &hostile.own, SOON, &request()).unwrap_err();
    assert!(error.cause().contains("no node"), "{error}");

    let refused = |tried: Result<(), String>, why: &str| {
        let error = tried.expect_err(why);
        assert!(error.contains(why), "{why}: {error}");
    };
    // The payload is not this connection's, or contains more.
    for payload_of in [
        |_: &[u8; NONCE_LEN]| b"accord coordinator".to_vec(),
        |_: &[u8; NONCE_LEN]| payload(&[7; NONCE_LEN]),
        |nonce: &[u8; NONCE_LEN]| [&payload(nonce)[..], b" user root"].concat(),
        |nonce: &[u8; NONCE_LEN]| nonce.to_vec(),
        |_: &[u8; NONCE_LEN]| Vec::new(),
    ] {
        refused(hostile.tried(&[], payload_of), "made for something else");
    }

    // A credential from another connection: it is bound to that one, and MUNGE accepts it once.
    let (first, nonce) = hostile.connect();
    let (second, _) = hostile.connect();
    let credential = encode_credential(&hostile.munged.credential(&payload(&nonce), &[]).unwrap());
    refused(Hostile::printed(&second, &credential), "made for something else");
    refused(Hostile::printed(&first, &credential), "Replayed credential");

    // A credential that only another user may decode.
    if geteuid().is_root() {
        refused(hostile.tried(&[&format!("--restrict-uid={BOB}")], payload), "Unauthorized credential");
    }
    // A credential of another site, with another key.
    let other = Munged::start().unwrap().unwrap();
    let (lane, nonce) = hostile.connect();
    let credential = other.credential(&payload(&nonce), &[]).unwrap();
    refused(Hostile::printed(&lane, &encode_credential(&credential)), "Invalid credential");
    // No credential.
    for bytes in [encode_credential(b""), encode_credential(b"MUNGE:AwQF:"), encode_credential(&[0xff; 300])] {
        let (lane, _) = hostile.connect();
        assert!(Hostile::printed(&lane, &bytes).unwrap_err().contains("munged says"));
    }
    let (lane, _) = hostile.connect();
    refused(Hostile::printed(&lane, &encode_credential(&vec![b'x'; CREDENTIAL_MAX + 1])), "too long");

    // An expired credential.
    let (lane, nonce) = hostile.connect();
    let credential = hostile.munged.credential(&payload(&nonce), &["--ttl=1"]).unwrap();
    std::thread::sleep(Duration::from_millis(2_100));
    refused(Hostile::printed(&lane, &encode_credential(&credential)), "Expired credential");
    assert_eq!(hostile.tried(&[], payload), Ok(()));
}

#[test]
fn munge_is_asked_as_its_own_programs_ask_it() {
    let Some(munged) = Munged::start().unwrap() else { return };
    let munge = Munge::at(&munged.socket());
    let believed = munge.decode(&munge.encode(b"said\0with a zero").unwrap()).unwrap();
    assert_eq!((believed.uid, &believed.payload[..]), (geteuid().as_raw(), &b"said\0with a zero"[..]));
    let believed = munge.decode(&munged.credential(b"by its own program", &[]).unwrap()).unwrap();
    assert_eq!(believed.payload, b"by its own program");
}
