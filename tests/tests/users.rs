//! The user that regions run as under agents of root: the session's user, whatever the program claims.

use accord_tests::{Cluster, Finished, gcc, repository_file, test_program};
use nix::unistd::{Gid, Uid, chown, geteuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Users without a name.
const ALICE: u32 = 60_001;
const BOB: u32 = 60_002;

/// How long a program's processes may take to end after it.
const END: Duration = Duration::from_secs(5);

/// A folder that all users may enter, with the program and a file of root.
struct Site {
    folder: tempfile::TempDir,
    program: PathBuf,
    secret: PathBuf,
}

impl Site {
    /// Returns `None`, and prints so, if this machine can't have it.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            println!("skipped: only root can be several users");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let (program, secret) = (folder.path().join("who_am_i"), folder.path().join("secret"));
        let output = Command::new(gcc("gcc"))
            .args(["-O1", "-g", "-fopenacc", "-foffload=disable"])
            .arg(repository_file("tests/programs/cluster/who_am_i.c"))
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(&secret, "only for root").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        Some(Self { folder, program, secret })
    }

    /// Returns the certificates of programs, readable for this user alone.
    fn certificates(&self, cluster: &Cluster, user: u32) -> PathBuf {
        let folder = self.folder.path().join(format!("tls-{user}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            let file = folder.join(name);
            fs::copy(cluster.tls().join(name), &file).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            chown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(user))).unwrap();
        }
        folder
    }
}

/// Starts a cluster whose programs have `user`'s certificates.
fn cluster_of(user: u32, rules: &str) -> Cluster {
    Cluster::builder().hosts(2).devices(1).memory("64M").tenant(user).users(rules).start().unwrap()
}

fn run(cluster: &Cluster, site: &Site, user: u32, transport: &str) -> Finished {
    cluster
        .job(0, &site.program)
        .unwrap()
        .user(user)
        .env("ACCORD_TLS", site.certificates(cluster, user))
        .env("ACCORD_TRANSPORT", transport)
        .args([&site.secret])
        .run()
        .unwrap()
}

fn assert_runs_as(finished: &Finished, user: u32, opened: bool) {
    let printed = &finished.stdout;
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert!(printed.contains(&format!("uid={user} euid={user} opened={}", u8::from(opened))), "{}", finished.report());
    // Real, effective, saved and file system user: nothing of root is left.
    assert!(printed.contains(&format!("Uid:\t{user}\t{user}\t{user}\t{user}\n")), "{printed}");
    if user != 0 {
        assert!(printed.contains(&format!("Gid:\t{user}\t{user}\t{user}\t{user}\n")), "{printed}");
        assert!(printed.contains("Groups:\t \n") || printed.contains("Groups:\t\n"), "{printed}");
        assert!(printed.contains("CapEff:\t0000000000000000\n"), "{printed}");
    }
}

#[test]
fn a_region_runs_as_the_user_that_its_session_belongs_to() {
    let Some(site) = Site::new() else { return };
    let cluster = cluster_of(ALICE, &format!("{ALICE}={ALICE}:{ALICE},*"));
    for transport in ["tcp", "shm"] {
        assert_runs_as(&run(&cluster, &site, ALICE, transport), ALICE, false);
    }
    // A root program with those certificates counts as the user that they name: over TCP nothing distinguishes it, and
    // it gains nothing.
    assert_runs_as(&run(&cluster, &site, 0, "tcp"), ALICE, false);
    assert_eq!(cluster.processes_of(&site.program, END), Vec::<String>::new());
}

#[test]
fn a_user_that_the_machine_does_not_know_runs_by_a_number_of_a_range() {
    let Some(site) = Site::new() else { return };
    let cluster = cluster_of(ALICE, "*,*=61000-61001");
    for transport in ["tcp", "shm"] {
        assert_runs_as(&run(&cluster, &site, ALICE, transport), 61_000, false);
    }
}

/// The processes that other tests search for at the end exist while that user's program runs, and belong to that user.
#[test]
fn other_users_processes_on_a_node_are_detected() {
    let Some(site) = Site::new() else { return };
    let cluster = cluster_of(ALICE, &format!("{ALICE}={ALICE}:{ALICE},*"));
    let program = site.folder.path().join("phases");
    fs::copy(test_program("cluster/phases.c").unwrap(), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let (input, output) = std::io::pipe().unwrap();
    let job = cluster.job(0, &program).unwrap().user(ALICE).env("ACCORD_TLS", site.certificates(&cluster, ALICE));
    let running = job.arg("launch").stdin(input).start().unwrap();
    running.await_output("working").unwrap();
    let found = cluster.processes_of(&program, Duration::ZERO);
    let executors: Vec<_> = found.iter().filter(|line| line.ends_with(" executor")).collect();
    // The program, its own worker, and one of each executor.
    assert!(!executors.is_empty() && found.len() >= 2 + 2 * executors.len(), "{found:?}");
    let owner = |line: &String| {
        let id = line.split(' ').next().unwrap();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let user =
            status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap().split_whitespace().next().unwrap();
        user.parse::<u32>().unwrap()
    };
    assert!(found.iter().all(|line| owner(line) == ALICE), "{found:?}");
    // The marks in their environment do not reveal these.
    let marked = cluster.processes_besides_parts(Duration::ZERO);
    assert!(executors.iter().all(|line| !marked.iter().any(|other| other.split(' ').next() == line.split(' ').next())));
    drop(output);
    let finished = running.finish().unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert_eq!(cluster.processes_of(&program, END), Vec::<String>::new());
}

#[test]
fn on_one_machine_the_system_says_whose_program_it_is() {
    let Some(site) = Site::new() else { return };
    let cluster = cluster_of(ALICE, &format!("{ALICE}={ALICE}:{ALICE},*"));
    let finished = run(&cluster, &site, BOB, "shm");
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stderr.contains(&format!("a process of user {BOB} came with its key")), "{}", finished.report());
}

#[test]
fn root_and_unknown_users_are_refused_unless_a_rule_names_them() {
    let Some(site) = Site::new() else { return };
    for (user, rules, why) in [
        (0, "*", "this agent runs no programs as root"),
        (ALICE, "*", "is unknown on this machine"),
        (ALICE, &format!("!{ALICE},*"), "serves no sessions of user"),
    ] {
        let cluster = cluster_of(user, rules);
        let finished = run(&cluster, &site, user, "auto");
        assert_eq!(finished.code(), 1, "{}", finished.report());
        assert!(finished.stderr.contains(why), "{}", finished.report());
        cluster.await_messages(|messages| messages.contains("is refused")).unwrap();
    }
    let cluster = cluster_of(0, "root");
    assert_runs_as(&run(&cluster, &site, 0, "auto"), 0, true);
    let cluster = cluster_of(0, &format!("root={BOB}:{BOB}"));
    assert_runs_as(&run(&cluster, &site, 0, "auto"), BOB, false);
}

#[test]
fn an_agent_that_is_not_roots_serves_its_own_user() {
    let Some(site) = Site::new() else { return };
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").tenant(ALICE).agents_of(ALICE).start().unwrap();
    assert_runs_as(&run(&cluster, &site, ALICE, "auto"), ALICE, false);
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").tenant(BOB).agents_of(ALICE).start().unwrap();
    let finished = run(&cluster, &site, BOB, "auto");
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stderr.contains(&format!("serves user {ALICE} only")), "{}", finished.report());
}

/// A program that gives up root before its first region can't read root's certificates, and gets the remedy. A program
/// with a session goes on.
#[test]
fn a_program_that_changes_its_user_has_its_session_before() {
    if !geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").start().unwrap();
    let program = test_program("cluster/late_user.c").unwrap();
    let (device, user) = ("1", ALICE.to_string());
    let late = cluster.job(0, &program).unwrap().args([device, &user]).run().unwrap();
    assert_eq!(late.code(), 1, "{}", late.report());
    for words in ["user 60001, whom this process runs as, may not read", "ACCORD_TLS", "calls acc_init before"] {
        assert!(late.stderr.contains(words), "{words}: {}", late.report());
    }
    assert!(!late.stderr.contains("pki"), "{}", late.report());
    let early = cluster.job(0, &program).unwrap().args([device, &user, "init"]).run().unwrap();
    assert_eq!((early.code(), early.stdout.trim()), (0, "user 60001: 45"), "{}", early.report());
}
