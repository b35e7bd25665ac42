//! The file of state that outlives an agent: jobs that hold devices, and programs that drive these themselves. It is
//! valid for this boot of the machine, this node and this coordinator.

use crate::node::{Driver, ProcessId, SavedNode};
use accord_proto::v1;
use accord_types::turn_lock::TurnLock;
use accord_types::{NodeId, SessionId, SessionKey};
use nix::unistd::geteuid;
use prost::Message;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most bytes to read: more than the rules' bounds allow.
const BYTES_MAX: u64 = 16 << 20;
/// Name of the file's format.
const FORM: &str = "accord grants 1";

/// The file of kept grants.
pub(crate) struct SavedGrants {
    file: PathBuf,
    head: String,
    /// The number of the last written change.
    written: TurnLock<Option<u64>>,
}

/// Returns the default folder, private to this user and in memory where possible.
pub(crate) fn default_folder() -> PathBuf {
    const NAME: &str = "accord-node-agent";
    match (geteuid(), std::env::var_os("XDG_RUNTIME_DIR")) {
        (user, _) if user.is_root() => Path::new("/run").join(NAME),
        (_, Some(folder)) => Path::new(&folder).join(NAME),
        (user, None) => std::env::temp_dir().join(format!("{NAME}-{user}")),
    }
}

impl SavedGrants {
    /// Returns the file in `folder`, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns the error of creating the folder, or `PermissionDenied` if other users can write to it.
    pub(crate) fn new(folder: &Path, boot: &str, coordinator: &str, node: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let found = fs::symlink_metadata(folder)?;
        if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is no folder that only this user can write to",
            ));
        }
        let mut hasher = DefaultHasher::new();
        (coordinator, node).hash(&mut hasher);
        let file = folder.join(format!("{:016x}.grants", hasher.finish()));
        let head = format!("{FORM}\nboot {:?}\ncoordinator {coordinator:?}\nnode {node:?}\n", boot.trim());
        Ok(Self { file, head, written: TurnLock::new(None) })
    }

    /// Reads the kept grants with the time that they have left at `since_boot`. They are empty if the file is of
    /// another boot, node or coordinator.
    pub(crate) fn read(&self, since_boot: Duration) -> SavedNode {
        let mut bytes = Vec::new();
        let read = File::open(&self.file).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
        let kept = read.ok().and_then(|_| decode(bytes.strip_prefix(self.head.as_bytes())?, since_boot));
        kept.unwrap_or_default()
    }

    /// Replaces the file atomically, unless `change` is written already. Removes it if there is nothing to keep.
    pub(crate) fn write(&self, change: u64, kept: impl FnOnce() -> SavedNode, since_boot: Duration) {
        let mut written = self.written.take();
        if *written == Some(change) {
            return;
        }
        match self.put(&kept(), since_boot) {
            Ok(()) => *written = Some(change),
            Err(error) => tracing::warn!("grants cannot be kept in {}: {error}", self.file.display()),
        }
    }

    fn put(&self, kept: &SavedNode, since_boot: Duration) -> io::Result<()> {
        if kept.jobs.is_empty() && kept.drivers.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let new = self.file.with_extension("new");
        let whole = [self.head.as_bytes(), &encode(kept, since_boot)].concat();
        let replaced = write_to(&new, &whole).and_then(|()| fs::rename(&new, &self.file));
        // A write to a full disk leaves a partial file.
        replaced.inspect_err(|_| drop(fs::remove_file(&new)))
    }
}

fn write_to(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Encodes lines of text, an empty line, and a registration.
fn encode(kept: &SavedNode, since_boot: Duration) -> Vec<u8> {
    let mut text = format!("written {}\n", since_boot.as_millis());
    for Driver { session, job, process, .. } in &kept.drivers {
        let ProcessId { pid, started } = process.unwrap_or(ProcessId { pid: 0, started: 0 });
        let job: String = job.iter().flat_map(|key| key.0).map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "driver {} {pid} {started} {job}", session.0);
    }
    text.push('\n');
    let grants = v1::Register {
        previous_node: kept.node.map(|node| node.0),
        sessions: kept.sessions.iter().cloned().map(Into::into).collect(),
        jobs: kept.jobs.iter().cloned().map(Into::into).collect(),
        ..v1::Register::default()
    };
    [text.into_bytes(), grants.encode_to_vec()].concat()
}

fn decode(bytes: &[u8], since_boot: Duration) -> Option<SavedNode> {
    let end = bytes.windows(2).position(|two| two == b"\n\n")?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let grants = v1::Register::decode(&bytes[end + 2..]).ok()?;
    let mut kept = SavedNode { node: grants.previous_node.map(NodeId), ..SavedNode::default() };
    let mut lines = text.lines();
    let written: u64 = lines.next()?.strip_prefix("written ")?.parse().ok()?;
    let passed = u64::try_from(since_boot.as_millis()).ok()?.saturating_sub(written);
    for line in lines {
        kept.drivers.push(driver(line)?);
    }
    let left = |ends: Option<u64>| ends.map(|ends| ends.saturating_sub(passed));
    for mut session in grants.sessions {
        session.ends_in_ms = left(session.ends_in_ms);
        kept.sessions.push(session.try_into().ok()?);
    }
    for mut job in grants.jobs {
        job.ends_in_ms = left(job.ends_in_ms);
        kept.jobs.push(job.try_into().ok()?);
    }
    Some(kept)
}

fn driver(line: &str) -> Option<Driver> {
    let mut words = line.strip_prefix("driver ")?.split(' ');
    let session = SessionId(words.next()?.parse().ok()?);
    let process = ProcessId { pid: words.next()?.parse().ok()?, started: words.next()?.parse().ok()? };
    let job = words.next()?;
    let byte = |at: usize| u8::from_str_radix(job.get(at..at + 2)?, 16).ok();
    let key: Option<Vec<u8>> = (0..job.len()).step_by(2).map(byte).collect();
    let job = match job {
        "" => None,
        _ => Some(SessionKey::from_bytes(&key?)?),
    };
    let process = Some(process).filter(|process| process.pid > 0);
    Some(Driver { session, job, process, has_lane: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{HeldDevice, JobGrant, JobToken, SessionGrant};

    fn kept() -> SavedNode {
        let key = SessionKey(std::array::from_fn(|at| (at * at * 7 + 3) as u8));
        let job = JobGrant {
            token: JobToken { job: 4, key },
            user: "alice".to_owned(),
            account: "site/alice".to_owned(),
            ends_in_ms: Some(5_000),
            devices: vec![HeldDevice {
                ordinal: 1,
                milli: 1_000,
                memory: 0,
                exclusive: true,
                milli_cores: 0,
                host_memory: 0,
            }],
            sessions: vec![SessionId(9)],
            is_suspended: true,
        };
        let session = SessionGrant { key, job: Some(key), ..crate::device_memory::tests::grant(9, &[1], 0) };
        let driver = |session, pid, job| Driver {
            session: SessionId(session),
            job,
            process: (pid > 0).then_some(ProcessId { pid, started: 77 }),
            has_lane: false,
        };
        let drivers = vec![driver(9, 12, Some(key)), driver(10, 0, None)];
        SavedNode { node: Some(NodeId(3)), jobs: vec![job], sessions: vec![session], drivers }
    }

    #[test]
    fn saved_grants_are_restored_only_on_the_same_boot_and_node() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("grants");
        let grants = |boot: &str, node: &str| SavedGrants::new(&folder, boot, "c:1", node).unwrap();
        let second = Duration::from_secs(1);
        grants("a", "h1").write(1, kept, second);
        let found = grants("a", "h1").read(second * 3);
        let mut expected = kept();
        expected.jobs[0].ends_in_ms = Some(3_000);
        assert_eq!(found, expected);
        assert_eq!(grants("b", "h1").read(second), SavedNode::default());
        assert_eq!(grants("a", "h2").read(second), SavedNode::default());
    }

    #[test]
    fn a_change_is_written_once_and_nothing_to_keep_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let grants = SavedGrants::new(&folder.path().join("grants"), "a", "c:1", "h1").unwrap();
        grants.write(1, kept, Duration::ZERO);
        grants.write(1, || unreachable!("that change was written"), Duration::ZERO);
        grants.write(2, SavedNode::default, Duration::ZERO);
        assert!(!grants.file.exists());
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(SavedGrants::new(folder.path(), "a", "c:1", "h1").is_err());
    }
}
