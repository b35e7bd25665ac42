//! Runs the site's prolog and epilog, as the agent's user.

use crate::config::Config;
use crate::executor_output::Lines;
use crate::process::{ORPHANS_END_MAX, Spawner, has_ended_within};
use accord_types::texts::{WORDS_MAX, cut};
use accord_types::{DeviceInfo, JobGrant, SiteScript};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The variables of the agent's environment that scripts get.
const ENVIRONMENT: [&str; 4] = ["PATH", "LANG", "LC_ALL", "TZ"];
/// Most reads of a script's output after its end, since another process may go on writing to it.
const READS_AFTER_END_MAX: u32 = 16;

/// The site's scripts.
pub(crate) struct SiteScripts {
    prolog: Option<PathBuf>,
    epilog: Option<PathBuf>,
    limit: Duration,
    node_name: String,
    devices: Vec<DeviceInfo>,
    spawner: Spawner,
}

/// Returns the path if this process is not root's, or if only root can replace or change the script.
///
/// # Errors
/// Returns `PermissionDenied` if another user can.
fn checked(path: PathBuf) -> io::Result<PathBuf> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    if !geteuid().is_root() {
        return Ok(path);
    }
    for part in path.ancestors() {
        let found = part.metadata()?;
        let is_root_only = found.mode() & OTHERS_WRITE == 0 || found.is_dir() && found.mode() & STICKY != 0;
        if found.uid() != 0 || !is_root_only {
            let why = format!("users other than root can change {}", part.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    Ok(path)
}

impl SiteScripts {
    /// Returns the configured scripts; `None` if there are none. Agents whose executors are no processes have no `spawner`.
    ///
    /// # Errors
    /// Returns an error if a script can't be found, or there is no spawner.
    pub(crate) fn new(
        config: &Config,
        node_name: &str,
        devices: &[DeviceInfo],
        spawner: Option<&Spawner>,
    ) -> Result<Option<Self>, String> {
        let find = |script: SiteScript, path: Option<&Path>| {
            let failed =
                |error, path: &Path| format!("cannot find the {} at {}: {error}", script.name(), path.display());
            let found = |path: &Path| path.canonicalize().and_then(checked).map_err(|error| failed(error, path));
            path.map(found).transpose()
        };
        let prolog = find(SiteScript::Prolog, config.prolog.as_deref())?;
        let epilog = find(SiteScript::Epilog, config.epilog.as_deref())?;
        if prolog.is_none() && epilog.is_none() {
            return Ok(None);
        }
        let spawner =
            spawner.cloned().ok_or("agents of an MPI job run no prolog and no epilog: leave these options out")?;
        let (node_name, devices) = (node_name.to_owned(), devices.to_vec());
        Ok(Some(Self { prolog, epilog, limit: config.script_time, node_name, devices, spawner }))
    }

    /// Runs a script for a job, if the site has it, and logs its output.
    ///
    /// # Errors
    /// Returns why the script has failed.
    pub(crate) fn run(&self, script: SiteScript, job: &JobGrant) -> Result<(), String> {
        let path = match script {
            SiteScript::Prolog => &self.prolog,
            SiteScript::Epilog => &self.epilog,
        };
        let Some(path) = path else { return Ok(()) };
        let subject = format!("the {} of job {}", script.name(), job.token.job);
        let outcome = self.execute(path, &subject, self.environment(script, job));
        if let Err(why) = &outcome {
            tracing::warn!("{subject} has failed: {why}");
        }
        outcome.map_err(|why| cut(&why, WORDS_MAX).to_owned())
    }

    fn environment(&self, script: SiteScript, job: &JobGrant) -> [(&'static str, String); 7] {
        let held = |device: &&DeviceInfo| job.devices.iter().any(|held| held.ordinal == device.id.ordinal);
        let devices: Vec<&DeviceInfo> = self.devices.iter().filter(held).collect();
        let ordinals: Vec<String> = devices.iter().map(|device| device.id.ordinal.to_string()).collect();
        let uuids: Vec<&str> = devices.iter().map(|device| &*device.uuid).filter(|uuid| !uuid.is_empty()).collect();
        [
            ("ACCORD_JOB_ID", job.token.job.to_string()),
            ("ACCORD_JOB_USER", job.user.clone()),
            ("ACCORD_JOB_ACCOUNT", job.account.clone()),
            ("ACCORD_JOB_NODE", self.node_name.clone()),
            ("ACCORD_JOB_DEVICES", ordinals.join(",")),
            ("ACCORD_JOB_GPUS", uuids.join(",")),
            ("ACCORD_JOB_SCRIPT", script.name().to_owned()),
        ]
    }

    fn execute(
        &self,
        path: &Path,
        subject: &str,
        environment: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("{} can't be run: {error}", path.display());
        let (output, theirs) = io::pipe().map_err(failed)?;
        let again = theirs.try_clone().map_err(failed)?;
        let inherited = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut command = Command::new(path);
        command.env_clear().envs(inherited).envs(environment).current_dir("/");
        // A group of its own, so that the time limit ends all that the script has started.
        command.stdin(Stdio::null()).stdout(theirs).stderr(again).process_group(0);
        let (mut child, process) = self.spawner.spawn(command).map_err(failed)?;
        let last = self.follow(subject, output, &process).map_err(failed)?;
        if last.is_none()
            && let Some(group) = Pid::from_raw(child.id().cast_signed())
        {
            let _ = kill_process_group(group, Signal::KILL);
            if !has_ended_within(&process, ORPHANS_END_MAX) {
                let limit = self.limit;
                return Err(format!("it took longer than {limit:?} (--script-time), and the kernel has not ended it"));
            }
        }
        let status = child.wait().map_err(failed)?;
        // Background processes of a script would count as left by sessions.
        self.spawner.end_orphans();
        match last {
            None => Err(format!("it took longer than {:?}, its time limit (--script-time)", self.limit)),
            Some(_) if status.success() => Ok(()),
            Some(last) if last.is_empty() => Err(status.to_string()),
            Some(last) => Err(format!("{status}: {last}")),
        }
    }

    /// Logs a script's output until its process has ended. Returns the last line, or `None` if the time limit has passed before.
    fn follow(&self, subject: &str, mut output: PipeReader, process: &OwnedFd) -> io::Result<Option<String>> {
        let by = Instant::now() + self.limit;
        let (mut lines, mut last) = (Lines::default(), String::new());
        let (mut open, mut left) = (true, READS_AFTER_END_MAX);
        let mut log = |printed: Vec<String>| {
            for line in printed {
                tracing::warn!("{subject} says: {line}");
                last = line;
            }
        };
        loop {
            let mut handles = vec![PollFd::new(process, PollFlags::IN)];
            handles.extend(open.then(|| PollFd::new(&output, PollFlags::IN)));
            let timeout = Timespec::try_from(by.saturating_duration_since(Instant::now())).ok();
            match poll(&mut handles, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready = |which: usize| handles.get(which).is_some_and(|handle| !handle.revents().is_empty());
            let (has_ended, has_said) = (is_ready(0), open && is_ready(1));
            if has_ended && (!has_said || left == 0) {
                break;
            }
            if !has_ended && Instant::now() >= by {
                return Ok(None);
            }
            left -= u32::from(has_ended);
            if has_said {
                let mut bytes = [0; 4096];
                match output.read(&mut bytes) {
                    Ok(0) => open = false,
                    Ok(len) => log(lines.add(&bytes[..len])),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        log(lines.last().into_iter().collect());
        if lines.dropped > 0 {
            tracing::warn!("{subject} has said {} more lines", lines.dropped);
        }
        Ok(Some(last))
    }
}
