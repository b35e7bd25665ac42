//! A cluster of hosts that are network namespaces, its users, and their views of it.

use accord_tests::{Cluster, Finished, Job, Result, SeparateHosts, Tool, libacc, test_program, tool};
use nix::unistd::{Gid, Uid, chown};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

pub(crate) const HOSTS: usize = 3;
pub(crate) const DEVICES: u32 = 2;
/// Users without names, each with its own certificates.
pub(crate) const USERS: [u32; 12] =
    [60_001, 60_002, 60_003, 60_004, 60_005, 60_006, 60_007, 60_008, 60_009, 60_010, 60_011, 60_012];
/// The first users are in an account of their own, the others in `default`.
const PHYSICISTS: usize = 5;
/// The time after which a silent agent is lost.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(3);
/// The time limit of a job, with its wait.
pub(crate) const JOB_MAX: Duration = Duration::from_secs(180);

pub(crate) struct Site {
    folder: tempfile::TempDir,
    hosts: Arc<SeparateHosts>,
    pub(crate) cluster: RwLock<Cluster>,
    /// Periods in which a node or an agent was lost, so that programs that use it may fail.
    outages: Mutex<Vec<(Instant, Option<Instant>)>>,
    faults: Mutex<Vec<String>>,
    pub(crate) with_mpi: bool,
}

/// Returns the policy. `others-jobs` keeps its default: users see their own jobs.
pub(crate) fn policy(weight: u32) -> String {
    let physicists: Vec<String> = USERS[..PHYSICISTS].iter().map(|user| format!("\"{user}\"")).collect();
    format!(
        "[site]\nlongest = \"1h\"\ndefault-limit = \"10m\"\npriorities = [-10, 10]\n\n[account.physics]\nweight = {weight}\n\
         guaranteed = {{ cpu = 2 }}\nusers = [{}]\n\n[account.default]\neach-user = {{ waiting-jobs = 100 }}\n",
        physicists.join(", ")
    )
}

impl Site {
    /// Returns `None`, and prints why, if this machine can't have it.
    pub(crate) fn new() -> Option<Self> {
        let hosts = match SeparateHosts::new(HOSTS) {
            Ok(hosts) => Arc::new(hosts),
            Err(why) => {
                println!("skipped: {why}");
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        open(folder.path(), 0o755);
        for (name, mode) in [("bin", 0o755), ("records", 0o1777), ("tokens", 0o1777)] {
            fs::create_dir(folder.path().join(name)).unwrap();
            open(&folder.path().join(name), mode);
        }
        let program = folder.path().join("bin/beats");
        fs::copy(test_program("cluster/beats.c").unwrap(), &program).unwrap();
        open(&program, 0o755);
        fs::write(folder.path().join("policy.toml"), policy(1)).unwrap();
        let rules = USERS.map(|user| format!("{user}={user}:{user}")).join(",") + ",*";
        let cluster =
            Cluster::builder().hosts(HOSTS as u32).devices(DEVICES).memory(&format!("{}M", crate::MEMORY_MIB));
        let cluster = cluster.users(&rules).other_tenants(&USERS).on_hosts(&hosts);
        let cluster = cluster.env("ACCORD_LOST_AFTER", format!("{}s", LOST_AFTER.as_secs()));
        let cluster = cluster.env("ACCORD_POLICY", folder.path().join("policy.toml")).start().unwrap();
        let site = Self {
            folder,
            hosts,
            cluster: RwLock::new(cluster),
            outages: Mutex::default(),
            faults: Mutex::default(),
            with_mpi: ["mpirun", "mpicc"].iter().all(|name| Path::new("/usr/bin").join(name).exists()),
        };
        for user in USERS {
            site.settle(user);
        }
        Some(site)
    }

    /// Creates a user's home and certificates.
    fn settle(&self, user: u32) {
        let (home, own) = (self.home(user), self.cluster.read().unwrap().tls_of(&format!("program-{user}")));
        fs::create_dir_all(home.join("tls")).unwrap();
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            fs::copy(own.join(name), home.join("tls").join(name)).unwrap();
            fs::set_permissions(home.join("tls").join(name), Permissions::from_mode(0o600)).unwrap();
        }
        let files = ["tls/ca.crt", "tls/tls.crt", "tls/tls.key", "tls", "."].map(|name| home.join(name));
        for file in files {
            chown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(user))).unwrap();
        }
        fs::set_permissions(&home, Permissions::from_mode(0o700)).unwrap();
    }

    pub(crate) fn home(&self, user: u32) -> PathBuf {
        self.folder.path().join(format!("home-{user}"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a program with this name. A script runs the program in sequence and in parallel, and publishes its job's
    /// token.
    pub(crate) fn program(&self, name: &str, is_script: bool) -> PathBuf {
        let (program, beats) = (self.path("bin").join(name), self.path("bin/beats"));
        if is_script {
            let own = program.with_extension("beats");
            fs::hard_link(beats, &own).unwrap();
            let tokens = self.path("tokens");
            let text = format!(
                "#!/bin/sh\necho \"$ACCORD_JOB\" > {0}/.{name} && mv {0}/.{name} {0}/{name}\n\
                 $0.beats $1 20 && $0.beats $1 20 || exit\n$0.beats $1 $2 & first=$!\n$0.beats $1 $2 & second=$!\n\
                 wait $first && wait $second\n",
                tokens.display()
            );
            fs::write(&program, text).unwrap();
            fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        } else {
            fs::hard_link(beats, &program).unwrap();
        }
        program
    }

    /// Returns a command of a user on a host.
    pub(crate) fn job(&self, user: u32, host: usize, command: &[OsString]) -> Job {
        let job = self.cluster.read().unwrap().job_of(host, Some(user), command).unwrap();
        let home = self.home(user);
        let job = job.env("ACCORD_TLS", home.join("tls")).env("TMPDIR", &home).env("HOME", &home);
        job.env("OMPI_MCA_rmaps_base_oversubscribe", "1").timeout(JOB_MAX)
    }

    /// Returns a command with Accord's library in its processes.
    pub(crate) fn preloaded(&self, user: u32, host: usize, command: &[OsString]) -> Job {
        let mut preload = OsString::from("LD_PRELOAD=");
        preload.push(libacc().unwrap());
        self.job(user, host, &[&["env".into(), preload], command].concat())
    }

    /// Runs `accord` as a user.
    pub(crate) fn accord(&self, user: u32, arguments: &[&str]) -> Finished {
        let accord = tool(Tool::Accord).unwrap().into_os_string();
        let command: Vec<OsString> = [accord].into_iter().chain(arguments.iter().map(Into::into)).collect();
        self.job(user, 0, &command).run().unwrap()
    }

    /// Runs `accord` as an administrator.
    pub(crate) fn administer(&self, arguments: &[&str]) -> Finished {
        let job = self.cluster.read().unwrap().accord_as("admin").unwrap();
        job.args(arguments.iter().copied()).run().unwrap()
    }

    /// Returns the `--json` output of such a command.
    pub(crate) fn seen(&self, arguments: &[&str]) -> Result<Value> {
        let finished = self.administer(&[arguments, &["--json"]].concat()).success()?;
        serde_json::from_str(&finished.stdout).map_err(|error| format!("{error}: {}", finished.stdout))
    }

    /// Returns the number of a waiting or running job, by its program.
    pub(crate) fn number_of(&self, program: &str) -> Option<u64> {
        let queue = self.seen(&["queue"]).ok()?;
        let job = queue["jobs"].as_array()?.iter().find(|job| job["program"] == program)?;
        job["job"].as_u64()
    }

    /// Unplugs a host's cable, or plugs it in.
    pub(crate) fn plug(&self, host: usize, is_in: bool) -> Result<()> {
        self.hosts.plug(host, is_in)
    }

    pub(crate) fn outage_begins(&self) {
        self.outages.lock().unwrap().push((Instant::now(), None));
    }

    pub(crate) fn outage_ends(&self) {
        if let Some(last) = self.outages.lock().unwrap().last_mut() {
            last.1 = Some(Instant::now());
        }
    }

    /// Whether a node was lost at some time since then, or shortly before.
    pub(crate) fn had_outage_since(&self, since: Instant) -> bool {
        let outages = self.outages.lock().unwrap();
        outages.iter().any(|(_, end)| end.is_none_or(|end| end + 2 * LOST_AFTER >= since))
    }

    pub(crate) fn fault(&self, text: String) {
        eprintln!("FAULT {text}");
        self.faults.lock().unwrap().push(text);
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap().clone()
    }

    /// Waits until no process of the site's folder, and no executor, is left on any host. Returns the remaining ones.
    pub(crate) fn left(&self) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let mut left = self.cluster.read().unwrap().processes_of(Path::new(""), Duration::ZERO);
            for process in fs::read_dir("/proc").unwrap().flatten() {
                let program = fs::read_link(process.path().join("exe")).unwrap_or_default();
                if program.starts_with(self.folder.path()) {
                    left.push(format!("{} {}", process.file_name().display(), program.display()));
                }
            }
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
