//! Clocks of single processes that are set back, by an object that all of them preload (`tests/programs/support/clocks.c`): a system's own clock is
//! the whole machine's.

use accord_tests::{Job, compile_support};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a process that was just started may take to load the object.
const LOADED: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct Clocks {
    folder: TempDir,
    object: PathBuf,
}

impl Clocks {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let object = compile_support("clocks", folder.path()).unwrap();
        Self { folder, object }
    }

    /// To be preloaded.
    pub(crate) fn object(&self) -> &Path {
        &self.object
    }

    fn file(&self, target: Pid) -> PathBuf {
        self.folder.path().join(target.to_string())
    }

    /// Sets a process's clock back. It may be gone.
    pub(crate) fn set_back(&self, target: Pid) {
        let deadline = Instant::now() + LOADED;
        loop {
            let Ok(maps) = std::fs::read_to_string(format!("/proc/{target}/maps")) else { return };
            if maps.contains(&*self.object.to_string_lossy()) {
                break;
            }
            // One that has ended, and was not waited for yet, has no memory.
            if Instant::now() >= deadline {
                assert!(maps.is_empty(), "{target} has not loaded {}", self.object.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::write(self.file(target), "").unwrap();
    }

    /// Another process may have its number later.
    pub(crate) fn forget(&self, target: Pid) {
        let _ = std::fs::remove_file(self.file(target));
    }
}

#[test]
fn clocks_are_set_back_one_by_one() {
    let clocks = Clocks::new();
    let folder = clocks.folder.path().display().to_string();
    // The second time is that of a process of the same number, whose environment is empty; the third that of another process.
    let script = "date +%s; touch \"$0/$$\"; exec env -i sh -c 'sh -c \"date +%s\"; exec date +%s'";
    let job = Job::new("sh").args(["-c", script, &folder]).env("LD_PRELOAD", clocks.object());
    let said = job.run().unwrap().success().unwrap().stdout;
    let times: Vec<i64> = said.lines().map(|line| line.parse().unwrap()).collect();
    let [before, other, back] = times[..] else { panic!("{said}") };
    assert!(other >= before && (other - 3_600..other - 3_500).contains(&back), "{times:?}");
}
