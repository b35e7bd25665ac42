//! Starts this program again, for another task.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The first argument of every process of the agent: a release is one program, which chooses its task by this name.
const NAME: &str = "accord-node-agent";

/// Returns a command that starts this program, whose file is `program`.
pub(crate) fn again(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.arg0(NAME);
    command
}
