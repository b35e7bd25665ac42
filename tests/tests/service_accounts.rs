//! Pods without certificates: Kubernetes' API server attests a program as the service account of its token; the
//! program's own claims do not count.

use accord_cluster::Limits;
use accord_coordinator::Background;
use accord_coordinator::service::{ApiServer as Asked, Attestation};
use accord_fabric::session_endpoint;
use accord_fabric::transport::PeerAddress;
use accord_tests::{ApiServer, Cluster, Job, Tool, gcc, repository_file, tool};
use accord_trust::attester::Attester;
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role};
use accord_types::{Error, OrderPolicy, SessionRequest};
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The nodes' account for the service account's programs.
const ALICE: u32 = 60_001;
const TRAIN: &str = "system:serviceaccount:physics:train";
/// A port without a server.
const NOWHERE: &str = "127.0.0.1:1";
const SOON: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);
/// Number of programs with tokens that the API server does not answer: more than are reviewed at one time.
const CROWD: usize = 12;
/// Reviews at one time, each with a thread.
const REVIEWS: usize = 8;
/// The name of such a thread, as far as the kernel keeps it.
const READER: &str = "accord-api-serv";

/// A coordinator that accepts tokens, and its public parts.
struct Site {
    api: ApiServer,
    coordinator: Background,
    authority: Authority,
    folder: tempfile::TempDir,
}

impl Site {
    fn start(users: &str) -> Self {
        let api = ApiServer::start().unwrap();
        let address = api.address();
        Self::asking(api, &address, users)
    }

    /// Starts a coordinator that queries this address.
    fn asking(api: ApiServer, address: &str, users: &str) -> Self {
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("c1", HOUR).unwrap());
        authority.issue_into(&folder.path().join("tls"), Role::Coordinator, HOUR).unwrap();
        let everybody = folder.path().join("everybody");
        fs::create_dir(&everybody).unwrap();
        fs::copy(folder.path().join("tls/ca.crt"), everybody.join("ca.crt")).unwrap();
        let asked = Asked { address: address.to_owned(), account: api.account().to_owned() };
        let users = users.parse().unwrap();
        let attestation = Attestation { token_review: Some(asked), users, ..Attestation::default() };
        let coordinators = authority.identity(Role::Coordinator, HOUR).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let coordinator = Background::start_with(any, coordinators, Limits::default(), attestation).unwrap();
        Self { api, coordinator, authority, folder }
    }

    /// Opens a session with this token. There is no device, as the error of an accepted program says.
    fn open(&self, says: &str) -> Error {
        self.open_with(&Attester::of_settings(None, self.api.token(says).unwrap().to_str()))
    }

    fn open_with(&self, attester: &Attester) -> Error {
        self.open_as(&Identity::of_user(&self.folder.path().join("everybody"), attester).unwrap())
    }

    fn open_as(&self, identity: &Identity) -> Error {
        let address = PeerAddress::new(self.coordinator.address());
        session_endpoint::open(&address, identity, SOON, &request()).unwrap_err()
    }
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

fn assert_taken(error: &Error) {
    assert!(error.cause().contains("the cluster has no node"), "{error}");
}

#[test]
fn a_token_counts_by_the_api_servers_word_only() {
    let site = Site::start("*");
    assert_taken(&site.open("user-physics-train"));
    let remedy_of_pod = "serviceAccountToken of audience accord";
    for (says, cause, remedy) in [
        ("unknown", "refuses the program's token: [invalid bearer token]", remedy_of_pod),
        ("audience", "is for the audience \"https://kubernetes.default.svc\", not \"accord\"", remedy_of_pod),
        ("person", "is of \"admin\", which is no service account", remedy_of_pod),
        ("user-Physics-train", "which is no service account", remedy_of_pod),
        ("garbage", "answers with what is no TokenReview", "--token-review"),
        ("huge", "can't be asked whose a token is: length limit exceeded", "--token-review"),
        ("forbidden", "refuses the coordinator's own service account: 403 Forbidden", "system:auth-delegator"),
        ("broken", "it answers 500 Internal Server Error", "--token-review"),
    ] {
        let error = site.open(says);
        assert!(error.to_string().contains(cause), "{says}: {error}");
        assert!(error.to_string().contains(remedy), "{says}: {error}");
    }
    // Refusals are not cached.
    let asked = site.api.asked();
    assert!(site.open("unknown").cause().contains("invalid bearer token"));
    assert_eq!(site.api.asked(), asked + 1);
}

#[test]
fn an_answer_counts_for_the_programs_that_follow() {
    let site = Site::start("*");
    for _ in 0..3 {
        assert_taken(&site.open("user-physics-train"));
    }
    assert_eq!(site.api.asked(), 1);
    assert_taken(&site.open("user-physics-other"));
    assert_eq!(site.api.asked(), 2);
}

#[test]
fn rules_of_users_hold_for_service_accounts() {
    let site = Site::start(&format!("!{TRAIN},*"));
    let error = site.open("user-physics-train").to_string();
    assert!(error.contains(&format!("does not take user {TRAIN}")), "{error}");
    assert_taken(&site.open("user-physics-other"));
}

#[test]
fn an_api_server_that_is_away_is_named() {
    let gone = ApiServer::start().unwrap();
    let site = Site::asking(gone, NOWHERE, "*");
    let error = site.open("user-physics-train").to_string();
    assert!(error.contains(&format!("the Kubernetes API server at {NOWHERE} can't be asked")), "{error}");
    // A server with another authority does not count, and gets no token.
    let (api, other) = (ApiServer::start().unwrap(), ApiServer::start().unwrap());
    let site = Site::asking(api, &other.address(), "*");
    let error = site.open("user-physics-train").to_string();
    assert!(error.contains("can't be asked") && error.contains("certificate"), "{error}");
    assert_eq!(other.asked(), 0);
}

#[test]
fn an_api_server_that_hangs_keeps_out_only_programs_with_tokens() {
    let site = Site::start("*");
    let hang = Attester::of_settings(None, site.api.token("hang").unwrap().to_str());
    std::thread::scope(|scope| {
        let crowd: Vec<_> = (0..CROWD).map(|_| scope.spawn(|| site.open_with(&hang).to_string())).collect();
        // Other programs are served meanwhile.
        while site.api.asked() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_taken(&site.open_as(&site.authority.identity(Role::Tenant("eva".into()), HOUR).unwrap()));
        for program in crowd {
            let error = program.join().unwrap();
            assert!(error.contains("can't be asked whose a token is: no answer within 3s"), "{error}");
        }
    });
    assert_taken(&site.open("user-physics-train"));
}

/// How many threads of this process read the coordinator's service account.
fn readers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter(|task| fs::read_to_string(task.path().join("comm")).unwrap_or_default().starts_with(READER)).count()
}

#[test]
fn files_that_hang_keep_out_only_programs_with_tokens_and_hold_few_threads() {
    let site = Site::start("*");
    let (own, token) = (site.api.account().join("token"), site.api.token("user-physics-train").unwrap());
    let attester = Attester::of_settings(None, token.to_str());
    let kept = fs::read(&own).unwrap();
    fs::remove_file(&own).unwrap();
    mkfifo(&own, Mode::S_IRWXU).unwrap();
    std::thread::scope(|scope| {
        let crowd: Vec<_> = (0..CROWD).map(|_| scope.spawn(|| site.open_with(&attester).to_string())).collect();
        while readers() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_taken(&site.open_as(&site.authority.identity(Role::Tenant("eva".into()), HOUR).unwrap()));
        for program in crowd {
            let error = program.join().unwrap();
            assert!(error.contains("can't be asked whose a token is: no answer within 3s"), "{error}");
        }
    });
    // Reviews that gave up left their threads behind, whose turns are not free.
    assert_eq!(readers(), REVIEWS);
    assert!(site.open_with(&attester).cause().contains("no answer within 3s"));
    assert_eq!((readers(), site.api.asked()), (REVIEWS, 0));
    drop(fs::OpenOptions::new().write(true).open(&own).unwrap());
    fs::remove_file(&own).unwrap();
    fs::write(&own, kept).unwrap();
    assert_taken(&site.open_with(&attester));
}

#[test]
fn files_of_the_service_account_are_read_for_each_question() {
    let (site, other) = (Site::start("*"), ApiServer::start().unwrap());
    for (name, wrong, cause) in [
        ("token", b"old.own.token".to_vec(), "refuses the coordinator's own service account: 401 Unauthorized"),
        ("ca.crt", fs::read(other.account().join("ca.crt")).unwrap(), "certificate"),
    ] {
        let file = site.api.account().join(name);
        let right = fs::read(&file).unwrap();
        fs::write(&file, wrong).unwrap();
        let error = site.open(&format!("user-physics-{}", name.replace('.', "-"))).to_string();
        assert!(error.contains(cause), "{name}: {error}");
        fs::write(&file, right).unwrap();
        assert_taken(&site.open(&format!("user-physics-{}", name.replace('.', "-"))));
    }
}

#[test]
fn a_file_without_a_token_is_named_and_no_server_is_asked() {
    let site = Site::start("*");
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none");
    let error = site.open_with(&Attester::of_settings(None, none.to_str())).to_string();
    assert!(error.contains(&*none.to_string_lossy()) && error.contains("ACCORD_TOKEN_FILE"), "{error}");
    assert_eq!(site.api.asked(), 0);
}

/// Creates a program that every user may run, and that prints the owner of a region's process.
fn owner_program(folder: &Path) -> std::path::PathBuf {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("who_am_i");
    let output = Command::new(gcc("gcc"))
        .args(["-O1", "-fopenacc", "-foffload=disable"])
        .arg(repository_file("tests/programs/cluster/who_am_i.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn a_program_with_a_token_is_its_service_account() {
    if !geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    let api = ApiServer::start().unwrap();
    fs::set_permissions(api.account(), Permissions::from_mode(0o755)).unwrap();
    let token = api.token("user-physics-train").unwrap();
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").known_by_token(&api, &token);
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "[account.physics]\n[account.default]\n").unwrap();
    let cluster =
        cluster.users(&format!("{TRAIN}={ALICE}:{ALICE},root")).env("ACCORD_POLICY", &policy).start().unwrap();
    let finished = cluster.job(0, &owner_program(folder.path())).unwrap().user(ALICE).run().unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert!(finished.stdout.contains(&format!("uid={ALICE} euid={ALICE}")), "{}", finished.report());

    // The pod's tools are the same user.
    let accord = || {
        let job = Job::new(tool(Tool::Accord).unwrap()).env("ACCORD_COORDINATOR", cluster.address());
        job.env("ACCORD_TLS", cluster.tls_of("everybody")).env("ACCORD_TOKEN_FILE", &token)
    };
    let finished = accord().args(["what-if", "--devices", "1:cpu", "--json"]).user(ALICE).run().unwrap();
    let reported: serde_json::Value =
        serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{}", finished.report()));
    assert_eq!(reported["account"], "physics", "{}", finished.report());
    let finished = accord().args(["drain", "h0"]).user(ALICE).run().unwrap();
    assert!(
        finished.code() != 0 && finished.stderr.contains(&format!("tenant {TRAIN} may not")),
        "{}",
        finished.report()
    );
}
