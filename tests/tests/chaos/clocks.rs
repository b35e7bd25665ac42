//! Setting back the clocks of single processes, by an object that all of them preload
//! (`tests/programs/support/clocks.c`): the system's own clock is the whole machine's.

use accord_tests::{Job, compile_support};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a newly started process may take to load the object.
const LOADED: Duration = Duration::from_secs(2);

/// The object, and the folder that controls it.
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

    /// Returns the path of the object to preload.
    pub(crate) fn object(&self) -> &Path {
        &self.object
    }

    fn file(&self, target: Pid) -> PathBuf {
        self.folder.path().join(target.to_string())
    }

    /// Sets the clock of a process back, unless it has ended.
    pub(crate) fn set_back(&self, target: Pid) {
        let deadline = Instant::now() + LOADED;
        loop {
            let Ok(maps) = std::fs::read_to_string(format!("/proc/{target}/maps")) else { return };
            if maps.contains(&*self.object.to_string_lossy()) {
                break;
            }
            // An ended process that was not waited for has no memory.
            if Instant::now() >= deadline {
                assert!(maps.is_empty(), "{target} has not loaded {}", self.object.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::write(self.file(target), "").unwrap();
    }

    /// Undoes it, because another process may get this number.
    pub(crate) fn forget(&self, target: Pid) {
        let _ = std::fs::remove_file(self.file(target));
    }
}

#[test]
fn clocks_are_set_back_one_by_one() {
    let clocks = Clocks::new();
    let folder = clocks.folder.path().display().to_string();
    // The second time is from a process with the same number and an empty environment, the third from another process.
    let script = "date +%s; touch \"$0/$$\"; exec env -i sh -c 'sh -c \"date +%s\"; exec date +%s'";
    let job = Job::new("sh").args(["-c", script, &folder]).env("LD_PRELOAD", clocks.object());
    let printed = job.run().unwrap().success().unwrap().stdout;
    let times: Vec<i64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    let [before, other, back] = times[..] else { panic!("{printed}") };
    assert!(other >= before && (other - 3_600..other - 3_500).contains(&back), "{times:?}");
}
