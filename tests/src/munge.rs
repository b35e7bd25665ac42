//! A MUNGE daemon for tests, with a key and a socket of its own.

use crate::Result;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time limit for the daemon to listen.
const UP_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running daemon, ended on drop.
pub struct Munged {
    folder: TempDir,
    child: Child,
}

impl Munged {
    /// Starts a daemon with a new key. Returns `None`, and prints so, if MUNGE is not installed.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub fn start() -> Result<Option<Self>> {
        let failed = |error: std::io::Error| error.to_string();
        let folder = TempDir::new().map_err(failed)?;
        set_permissions(folder.path(), Permissions::from_mode(0o755)).map_err(failed)?;
        let at = |name: &str| folder.path().join(name);
        let key: Vec<u8> = std::fs::read("/proc/sys/kernel/random/uuid").map_err(failed)?.repeat(4);
        std::fs::write(at("key"), key).map_err(failed)?;
        set_permissions(at("key"), Permissions::from_mode(0o600)).map_err(failed)?;
        let mut command = Command::new("munged");
        command.args(["--foreground", "--force"]);
        for (option, name) in
            [("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]
        {
            command.arg(format!("--{option}={}", at(name).display()));
        }
        let child = match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => {
                println!("skipped: munged can't be started: {error}");
                return Ok(None);
            }
        };
        let munged = Self { folder, child };
        let deadline = Instant::now() + UP_TIMEOUT;
        while munged.credential(b"up", &[]).is_err() {
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(munged.folder.path().join("log")).unwrap_or_default();
                return Err(format!("munged does not come up: {log}"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(Some(munged))
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns a credential with `payload` from MUNGE's own program, with these options of the program.
    ///
    /// # Errors
    /// Returns the program's message.
    pub fn credential(&self, payload: &[u8], options: &[&str]) -> Result<Vec<u8>> {
        let file = self.folder.path().join("payload");
        std::fs::write(&file, payload).map_err(|error| error.to_string())?;
        self.ask("munge", &file, options)
    }

    fn ask(&self, program: &str, input: &Path, options: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new(program)
            .arg(format!("--socket={}", self.socket().display()))
            .arg(format!("--input={}", input.display()))
            .args(options)
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(output.stdout.trim_ascii().to_vec())
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
