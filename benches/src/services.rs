//! Services of a cluster as processes, with certificates of their own.

use crate::report::text;
use accord_trust::Identity;
use accord_trust::issue::Authority;
use accord_trust::name::Role;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Services and other processes. They end with this value, and their folder is removed.
pub(crate) struct Services {
    folder: PathBuf,
    authority: Authority,
    children: Vec<Child>,
}

/// A service that listens.
pub(crate) struct Listening {
    pub(crate) process: u32,
    pub(crate) address: String,
}

impl Services {
    /// Creates the folder of `question`, with certificates for a coordinator and the agent of node `h0`.
    pub(crate) fn new(question: &str) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("accord-{question}-{}", std::process::id()));
        let this = Self { folder, authority: Authority::new("bench", LIFETIME).map_err(text)?, children: Vec::new() };
        this.issue("coordinator", Role::Coordinator)?;
        this.issue("agent", Role::Agent("h0".to_owned()))?;
        Ok(this)
    }

    /// Writes certificates of `role` into the folder `name` of [`Services::file`].
    pub(crate) fn issue(&self, name: &str, role: Role) -> Result<(), String> {
        self.authority.issue_into(&self.folder.join(name), role, LIFETIME).map_err(text)
    }

    /// Returns credentials that are not written.
    pub(crate) fn identity(&self, role: Role) -> Result<Identity, String> {
        self.authority.identity(role, LIFETIME).map_err(text)
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a service by `command`, the begin of its command line, and waits until it listens.
    pub(crate) fn start(
        &mut self,
        mut command: Command,
        certificates: &str,
        arguments: &[&str],
    ) -> Result<Listening, String> {
        command.args(arguments).arg("--stop-on-stdin-eof");
        command.env("ACCORD_TLS", self.file(certificates)).env("ACCORD_MEASURE", "off");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{command:?}: {error}; run `make build` first"))?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (mut line, process) = (String::new(), child.id());
        self.keep(child);
        BufReader::new(stdout).read_line(&mut line).map_err(text)?;
        match line.trim_end().split_once("listening on ") {
            Some((_, address)) => Ok(Listening { process, address: address.to_owned() }),
            None => Err(format!("{command:?} does not start: {line}")),
        }
    }

    /// Ends a process with this value.
    pub(crate) fn keep(&mut self, child: Child) {
        self.children.push(child);
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill().and_then(|()| child.wait());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the command that starts an agent without access to control groups, as in many containers: the agent divides
/// CPU devices by turns then. Takes root.
pub(crate) fn agent_without_cgroups() -> Command {
    const HIDDEN: &str = "[ -z \"$0\" ] || mount -t tmpfs none \"$0\"; exec \"$@\"";
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = table.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", HIDDEN, mount.unwrap_or_default()]).arg(release("accord-node-agent"));
    command
}

/// Returns the path of a program or library of the release build.
pub(crate) fn release(name: &str) -> PathBuf {
    let profile = std::env::current_exe().ok().and_then(|own| own.parent().map(Path::to_path_buf));
    profile.unwrap_or_else(|| crate::root().join("target/release")).join(name)
}
