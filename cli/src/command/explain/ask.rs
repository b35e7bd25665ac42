//! Starts a program that describes its GPU code instead of running.

use crate::failure::{Failure, Result};
use crate::launch::{find_libacc, preload_with};
use accord_device::image::{EXPLAIN_ENV, ProgramObject, decode_program};
use accord_types::settings;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The time limit of a program's constructors.
const START_MAX: Duration = Duration::from_secs(30);
/// Interval of checks whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Returns the objects of a program.
///
/// # Errors
/// Returns an error if the program doesn't reach its `main`, or did not load libacc.so.
pub(super) fn program(file: &Path) -> Result<Vec<ProgramObject>> {
    let libacc = find_libacc()?;
    run(file, absolute(file)?, preload_with(&libacc), &libacc)
}

/// Returns the objects of a program that loads this shared object; the program is this command itself.
///
/// # Errors
/// Returns the errors of [`program`].
pub(super) fn shared_object(file: &Path) -> Result<Vec<ProgramObject>> {
    let libacc = find_libacc()?;
    let loaded = absolute(file)?;
    let mut preload = preload_with(&libacc);
    preload.push(":");
    preload.push(&loaded);
    let own = std::env::current_exe().map_err(|error| Failure::system("can't find the accord program", error))?;
    // Only the object's own code is requested, not its loader's.
    let objects = run(file, own, preload, &libacc)?;
    let objects: Vec<ProgramObject> = objects.into_iter().filter(|object| !object.executable).collect();
    if objects.is_empty() && !is_loadable(&loaded) {
        return Err(Failure::new(format!(
            "{}: its path has a space or a colon, so that it can't be loaded",
            file.display()
        )));
    }
    Ok(objects)
}

/// Whether a path can be preloaded: the dynamic linker splits lists of objects at spaces and colons.
fn is_loadable(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte))
}

fn absolute(file: &Path) -> Result<PathBuf> {
    file.canonicalize().map_err(|error| Failure::system(file.display(), error))
}

fn run(file: &Path, start: PathBuf, preload: OsString, libacc: &Path) -> Result<Vec<ProgramObject>> {
    let folder = tempfile::Builder::new()
        .prefix("accord-")
        .tempdir()
        .map_err(|error| Failure::system("can't make a private directory", error))?;
    let answer = folder.path().join("answer");
    let printed = folder.path().join("stderr");
    let stderr = std::fs::File::create(&printed).map_err(|error| Failure::system("can't make a file", error))?;
    let mut setting = OsString::from(format!("{}:", std::process::id()));
    setting.push(&answer);
    let mut child = Command::new(&start)
        .env("LD_PRELOAD", preload)
        .env(settings::LIBACC.name, libacc)
        .env(EXPLAIN_ENV, setting)
        // Constructors that print or read don't disturb the output.
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(|error| Failure::start(&start, &error))?;
    let deadline = Instant::now() + START_MAX;
    let status = loop {
        match child.try_wait().map_err(|error| Failure::system("can't wait for the program", error))? {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(POLL_INTERVAL),
        }
    };
    let bytes = std::fs::read(&answer).unwrap_or_default();
    if let Some(objects) = decode_program(&bytes) {
        return Ok(objects);
    }
    let printed = std::fs::read_to_string(&printed).unwrap_or_default();
    let lines: String = printed.lines().take(LINES_MAX).map(|line| format!("\n  {line}")).collect();
    let why = match status {
        _ if !bytes.is_empty() => format!("{} is of another version than this command", libacc.display()),
        None => format!("its constructors did not end within {} s", START_MAX.as_secs()),
        Some(status) => format!("it {} before its main, or did not load libacc.so", end(status)),
    };
    Err(Failure::new(format!("{}: {why}{lines}", file.display())))
}

/// Most lines of a failed program's messages to pass on.
const LINES_MAX: usize = 10;

fn end(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
    }
}
