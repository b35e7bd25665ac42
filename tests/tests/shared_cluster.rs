//! Several users' jobs on three hosts, with ranks, withdrawn and killed ones: no device is assigned twice. The programs
//! record what they hold in a file, which is summed up from outside.

use accord_tests::{Cluster, Job, Tool, test_program, tool};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, chown, geteuid};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Users without names, each with its own certificates.
const USERS: [u32; 4] = [60_001, 60_002, 60_003, 60_004];
const HOSTS: usize = 3;
const DEVICES: u32 = 2;
/// Jobs of each user, in sequence.
const JOBS: usize = 10;

/// A folder that every user may enter.
struct Site {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("counts_held");
        fs::copy(test_program("cluster/counts_held.c").unwrap(), &program).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        Self { folder, program }
    }

    /// Creates a file that every user may append to.
    fn file(&self, name: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        file
    }

    fn certificates(&self, cluster: &Cluster, user: u32) -> PathBuf {
        let folder = self.folder.path().join(format!("tls-{user}"));
        fs::create_dir(&folder).unwrap();
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            let file = folder.join(name);
            fs::copy(cluster.tls_of(&format!("program-{user}")).join(name), &file).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            chown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(user))).unwrap();
        }
        folder
    }
}

/// Returns the rules by which agents of root serve these users, who have no names, under their numbers.
fn rules() -> String {
    USERS.map(|user| format!("{user}={user}:{user}")).join(",") + ",*"
}

/// Starts a cluster for the users. Returns `None`, and prints so, if this process can't run several users.
fn site_of_users() -> Option<(Site, Cluster)> {
    if !geteuid().is_root() {
        println!("skipped: only root can be several users");
        return None;
    }
    let cluster = Cluster::builder().hosts(3).devices(DEVICES).memory("64M").users(&rules()).other_tenants(&USERS);
    Some((Site::new(), cluster.start().unwrap()))
}

/// One job of a user: its request, and its fate.
struct Plan {
    request: &'static str,
    /// Duration of the program in milliseconds.
    lasts: u32,
    fate: Fate,
}

#[derive(PartialEq)]
enum Fate {
    Ends,
    /// The program is interrupted, whether it waits or runs.
    Withdrawn,
    /// The program is killed once it runs.
    Killed,
}

/// Returns the plan, which differs between users and jobs, and is the same each time.
fn plan(user: usize, job: usize) -> Plan {
    const REQUESTS: [&str; 5] = ["1:cpu", "2:cpu", "3:cpu", "4:cpu", "6:cpu"];
    let number = user * 7 + job * 3;
    let fate = match number % 6 {
        0 => Fate::Withdrawn,
        3 => Fate::Killed,
        _ => Fate::Ends,
    };
    Plan { request: REQUESTS[number % REQUESTS.len()], lasts: 100 + 50 * u32::try_from(number % 5).unwrap(), fate }
}

fn program(cluster: &Cluster, site: &Site, user: u32, host: usize, certificates: &Path) -> Job {
    cluster.job(host, &site.program).unwrap().user(user).env("ACCORD_TLS", certificates)
}

/// Returns the highest sum in the programs' records. The killer writes the last line of a killed program.
fn most_at_once(file: &Path) -> i64 {
    let (mut now, mut most) = (0, 0);
    for line in fs::read_to_string(file).unwrap().lines() {
        let (change, _) = line.split_once(' ').unwrap();
        now += change.parse::<i64>().unwrap();
        most = most.max(now);
    }
    assert_eq!(now, 0, "not all have said that they are over");
    most
}

/// Records for a program that is about to be killed that it holds nothing, unless it has never recorded anything.
fn speak_for(file: &Path, process: u32) -> bool {
    let printed = fs::read_to_string(file).unwrap();
    let own: Vec<&str> = printed.lines().filter(|line| line.ends_with(&format!(" {process}"))).collect();
    let [only] = own[..] else { return false };
    let line = format!("{}\n", only.replacen('+', "-", 1));
    use std::io::Write;
    fs::OpenOptions::new().append(true).open(file).unwrap().write_all(line.as_bytes()).unwrap();
    true
}

#[test]
fn no_device_is_given_to_two_jobs_of_several_users() {
    let Some((site, cluster)) = site_of_users() else { return };
    let file = site.file("held");
    let folders: BTreeMap<u32, PathBuf> = USERS.map(|user| (user, site.certificates(&cluster, user))).into();
    let (ended, killed, withdrawn) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |at: usize, user: u32| {
        for job in 0..JOBS {
            let Plan { request, lasts, fate } = plan(at, job);
            // A program that is to be ended must not end by itself before.
            let lasts = if fate == Fate::Ends { lasts } else { 60_000 };
            let asked = program(&cluster, &site, user, (at + job) % HOSTS, &folders[&user]);
            let asked = asked.env("ACCORD_DEVICES", request).args([file.as_os_str()]).arg(lasts.to_string());
            let running = asked.timeout(Duration::from_secs(120)).start().unwrap();
            match fate {
                Fate::Ends => {
                    let finished = running.finish().unwrap().success().unwrap();
                    let count = request.split(':').next().unwrap();
                    assert!(finished.stdout.contains(&format!("holds {count}\n")), "{}", finished.report());
                    ended.fetch_add(1, Ordering::Relaxed);
                }
                Fate::Killed => {
                    running.await_output("holds").unwrap();
                    assert!(speak_for(&file, running.id()), "{}", running.output());
                    running.signal(Signal::SIGKILL).unwrap();
                    running.finish().unwrap();
                    killed.fetch_add(1, Ordering::Relaxed);
                }
                Fate::Withdrawn => {
                    std::thread::sleep(Duration::from_millis(150));
                    // Stopped, it writes nothing any more.
                    running.signal(Signal::SIGSTOP).unwrap();
                    speak_for(&file, running.id());
                    running.signal(Signal::SIGKILL).unwrap();
                    running.finish().unwrap();
                    withdrawn.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for (at, user) in USERS.into_iter().enumerate() {
            scope.spawn(move || work(at, user));
        }
    });
    let total = i64::try_from(HOSTS).unwrap() * i64::from(DEVICES);
    let most = most_at_once(&file);
    assert!(most <= total, "{most} devices were held at once, and there are {total}");
    // The jobs did wait for each other.
    assert!(most >= total - 2, "at most {most} of {total} devices were held at once");
    for (count, what) in [(&ended, "ended"), (&killed, "were killed"), (&withdrawn, "were withdrawn")] {
        assert!(count.load(Ordering::Relaxed) > 0, "no jobs {what}");
    }
    // All devices are free again.
    let last = program(&cluster, &site, USERS[0], 0, &folders[&USERS[0]]).env("ACCORD_DEVICES", "6:cpu wait=30s");
    last.args([file.as_os_str()]).arg("1").run().unwrap().success().unwrap();
}

#[test]
fn ranks_of_several_users_have_devices_of_their_own_and_a_token_is_of_no_use_to_another_user() {
    let Some((site, cluster)) = site_of_users() else { return };
    let file = site.file("held");
    let folders: BTreeMap<u32, PathBuf> = USERS.map(|user| (user, site.certificates(&cluster, user))).into();
    std::thread::scope(|scope| {
        for user in USERS.into_iter().take(2) {
            let (cluster, site, file, folders) = (&cluster, &site, &file, &folders);
            scope.spawn(move || {
                // Ranks of a launcher that names its job, each with one device.
                let ranks = |rank: u32| {
                    program(cluster, site, user, usize::try_from(rank).unwrap() % HOSTS, &folders[&user])
                        .env("ACCORD_DEVICES", "1:cpu per-rank")
                        .envs(
                            [("SLURM_PROCID", rank), ("SLURM_NODEID", rank), ("SLURM_NTASKS", 3), ("SLURM_LOCALID", 0)]
                                .map(|(name, value)| (name.to_owned(), value.to_string().into())),
                        )
                        .env("SLURM_STEP_TASKS_PER_NODE", "1(x3)")
                        .env("SLURM_JOB_ID", user.to_string())
                        .env("SLURM_STEP_ID", "0")
                        .args([file.as_os_str()])
                        .arg("200")
                        .timeout(Duration::from_secs(200))
                        .start()
                        .unwrap()
                };
                let running: Vec<_> = (0..3).map(ranks).collect();
                for rank in running {
                    let finished = rank.finish().unwrap().success().unwrap();
                    assert!(finished.stdout.contains("holds 1\n"), "{}", finished.report());
                }
            });
        }
    });
    let total = i64::try_from(HOSTS).unwrap() * i64::from(DEVICES);
    assert!(most_at_once(&file) <= total);

    let own = Job::new(tool(Tool::Accord).unwrap()).args(["run", "--devices", "1:cpu", "--", "sh", "-c"]);
    let own = own.arg("echo token=$ACCORD_JOB; sleep 60").env("ACCORD_COORDINATOR", cluster.address());
    let own =
        own.env("ACCORD_TLS", &folders[&USERS[0]]).user(USERS[0]).timeout(Duration::from_secs(120)).start().unwrap();
    own.await_output("token=").unwrap();
    let printed = own.output();
    let token = printed.lines().find_map(|line| line.strip_prefix("token=")).unwrap().to_owned();
    let unauthenticated = program(&cluster, &site, USERS[1], 0, &folders[&USERS[1]]).env("ACCORD_JOB", token);
    let finished = unauthenticated.args([file.as_os_str()]).arg("1").run().unwrap();
    assert!(finished.code() == 1 && finished.stderr.contains("or is another user's"), "{}", finished.report());
}
