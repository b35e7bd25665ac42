//! A cluster that several programs use one after the other, because its start takes longer than most of them.

use crate::{Job, Result, Running};
use std::ffi::OsString;
use std::io::PipeWriter;

/// The beginnings of the names of what `accord run` sets for its program.
const SET_BY_RUN: &[&str] = &["ACCORD_", "ACC_", "CUDA_VISIBLE_DEVICES=", "LD_PRELOAD="];
/// Written after the settings.
const STARTED: &str = "the cluster has started";

/// A local cluster for the programs of one test.
pub(crate) struct SharedCluster {
    /// A shell, started by `accord run`, that waits for the end of its standard input.
    shell: Running,
    /// Its standard input.
    input: PipeWriter,
    /// What `accord run` sets for a program.
    settings: Vec<(String, OsString)>,
}

impl SharedCluster {
    /// Starts a cluster, by a command `accord run` without the program.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub(crate) fn start(accord_run: Job) -> Result<Self> {
        let (output, input) = std::io::pipe().map_err(|error| format!("no pipe: {error}"))?;
        let script = format!("env -0; printf '{STARTED}'; cat");
        let shell = accord_run.args(["sh", "-c", &script]).stdin(output).start()?;
        shell.await_output(STARTED)?;
        let printed = shell.output();
        let set = printed.split('\0').filter(|line| SET_BY_RUN.iter().any(|name| line.starts_with(name)));
        let settings = set.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.into()));
        Ok(Self { settings: settings.filter(|(name, _)| name != Job::MARK).collect(), shell, input })
    }

    /// Creates a command that uses the cluster's devices.
    pub(crate) fn job(&self, program: impl Into<OsString>) -> Job {
        Job::new(program).envs(self.settings.clone())
    }

    /// Ends the cluster.
    ///
    /// # Errors
    /// Returns an error if it does not end well.
    pub(crate) fn end(self) -> Result<()> {
        drop(self.input);
        self.shell.finish()?.success().map(drop)
    }
}
