//! Runs sequences on two devices, local or remote.

use super::op::Op;
use crate::driver::driver;
use accord_tests::{
    Job, Language, Optimize, Program, Result, Tool, Variant, compile, compile_support, libacc, repository_file,
    test_plugin, tool,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The program that runs the sequences.
const DRIVER: &str = "model/driver.c";

/// The location of the two devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DevicePlace {
    InProcess,
    Remote,
    Mixed,
    /// Like [`DevicePlace::Remote`], over slow links.
    Slow,
}

/// The kind of the two devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Cpu,
    /// GPUs of the tests' own driver, or of this machine: [`gpus`].
    Gpu,
}

/// Returns the number of this machine's GPUs for the test (`ACCORD_TEST_GPU`); `None` if not set.
pub(crate) fn gpus() -> Option<usize> {
    std::env::var("ACCORD_TEST_GPU").ok().and_then(|value| value.parse().ok()).filter(|&count| count > 0)
}

pub(crate) struct Harness {
    pub(crate) place: DevicePlace,
    kind: Kind,
    program: PathBuf,
    folder: tempfile::TempDir,
    /// A replacement for the machine's driver.
    driver: Option<tempfile::TempDir>,
    /// A profiling library that observes.
    tool: Option<PathBuf>,
}

impl Harness {
    /// Compiles the test program.
    ///
    /// # Errors
    /// Returns the compiler's message.
    pub(crate) fn new(place: DevicePlace, kind: Kind) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let driver = (kind == Kind::Gpu && gpus().is_none()).then(driver);
        if let Some(driver) = &driver {
            compile_support("model_kernels", driver.path())?;
        }
        // A machine without a compiler gets the compiled program.
        let program = match std::env::var_os("ACCORD_TEST_MODEL") {
            Some(path) => path.into(),
            None => {
                let source = repository_file("tests/programs").join(DRIVER);
                let variant = Variant { optimize: Optimize::Yes, offload: kind == Kind::Gpu, linked: false };
                compile(&Program::read(source, Language::C)?, variant)?.program
            }
        };
        Ok(Self { place, kind, program, folder, driver, tool: None })
    }

    /// Adds the profiling library that checks the grammar of events.
    ///
    /// # Errors
    /// Returns the compiler's message.
    pub(crate) fn watched(mut self) -> Result<Self> {
        compile_support("prof_grammar", self.folder.path())?;
        self.tool = Some(self.folder.path().join("prof_grammar.so"));
        Ok(self)
    }

    /// Returns the number of devices.
    pub(crate) fn devices(&self) -> usize {
        match self.kind {
            Kind::Gpu => gpus().unwrap_or(2).min(2),
            Kind::Cpu => 2,
        }
    }

    fn job(&self, file: &Path, progress: &Path) -> Result<Job> {
        let devices = self.devices();
        let cluster = |options: &[&str]| -> Result<Job> {
            let job = Job::new(tool(Tool::Accord)?).args(["run", "--loopback", "--local-cluster"]);
            Ok(job.args(options.iter().copied()).arg("--").arg(&self.program))
        };
        let local = || -> Result<Job> { Ok(Job::new(&self.program).env("LD_PRELOAD", libacc()?)) };
        let (first, job) = match (self.kind, self.place) {
            (Kind::Cpu, DevicePlace::InProcess) => ("0", local()?.env("ACCORD_CPU_DEVICES", "2")),
            (Kind::Cpu, DevicePlace::Remote) => ("1", cluster(&["3x1"])?),
            (Kind::Cpu, DevicePlace::Slow) => ("1", cluster(&["3x1"])?.env("LD_PRELOAD", test_plugin(DRIVER)?)),
            (Kind::Cpu, DevicePlace::Mixed) => ("0", cluster(&["2x1"])?),
            (Kind::Gpu, DevicePlace::InProcess) => ("0", local()?),
            (Kind::Gpu, DevicePlace::Mixed) => ("0", cluster(&["2x1gpu"])?),
            (Kind::Gpu, DevicePlace::Remote | DevicePlace::Slow) => {
                ("0", cluster(&[if devices == 1 { "1x1gpu" } else { "2x1gpu" }, "--remote-only"])?)
            }
        };
        // Slowed links are sockets. Mixed devices try shared memory.
        let transport = if self.place == DevicePlace::Mixed { "auto" } else { "tcp" };
        let job =
            job.env("ACCORD_CPU_MEMORY", "512M").env("ACCORD_LIBACC", libacc()?).env("ACCORD_TRANSPORT", transport);
        let job = match &self.tool {
            Some(tool) => job.env("ACC_PROFLIB", tool),
            None => job,
        };
        let job = match &self.driver {
            Some(driver) => job
                .env("LD_LIBRARY_PATH", driver.path())
                .env("FAKE_CUDA_KERNELS", driver.path().join("model_kernels.so"))
                .env("ACCORD_CACHE", "off"),
            None => job,
        };
        Ok(job.arg(file).arg(first).arg(progress).timeout(Duration::from_secs(300)))
    }

    /// Runs sequences in one process. Returns the index of a failed one and its message.
    ///
    /// # Errors
    /// Returns an error if they can't be run.
    pub(crate) fn run<'a>(&self, sequences: impl Iterator<Item = &'a [Op]>) -> Result<Option<(usize, String)>> {
        let mut text = String::new();
        for (index, ops) in sequences.enumerate() {
            let _ = writeln!(text, "N {index}");
            ops.iter().for_each(|op| text += &(op.line() + "\n"));
        }
        let (file, progress) = (self.folder.path().join("ops"), self.folder.path().join("progress"));
        std::fs::write(&file, text).map_err(|error| error.to_string())?;
        let finished = self.job(&file, &progress)?.run()?;
        if finished.status.success() && finished.stdout.contains("PASS") {
            if self.tool.is_some() && !finished.stdout.contains("prof_grammar: ") {
                return Err(format!("no tool was registered\n{}", finished.report()));
            }
            return Ok(None);
        }
        let at = std::fs::read_to_string(&progress).unwrap_or_default().trim().parse();
        Ok(Some((at.map_err(|_| finished.report())?, finished.report())))
    }
}
