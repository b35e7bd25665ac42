//! Paths of the workspace and its builds.

use crate::Result;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A program of Accord's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tool {
    /// `accord`
    Accord,
    /// `accord-coordinator`
    Coordinator,
    /// `accord-node-agent`
    NodeAgent,
}

impl Tool {
    fn file(self) -> &'static str {
        match self {
            Self::Accord => "accord",
            Self::Coordinator => "accord-coordinator",
            Self::NodeAgent => "accord-node-agent",
        }
    }
}

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Returns the path of a program.
///
/// # Errors
/// Returns an error if it isn't built and can't be.
pub fn tool(tool: Tool) -> Result<PathBuf> {
    Ok(built()?.join(tool.file()))
}

/// Returns the path of `libacc.so`.
///
/// # Errors
/// Returns an error if it isn't built and can't be.
pub fn libacc() -> Result<PathBuf> {
    Ok(built()?.join("libacc.so"))
}

/// Returns the folder of the tests' compiled files, which is kept between runs.
pub(crate) fn scratch() -> PathBuf {
    target().join("accord-tests")
}

pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the folder with libacc.so and the programs: `ACCORD_TEST_BIN`, or that of the tests' profile. Missing files
/// are built once.
fn built() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(find_or_build).clone()
}

/// Returns the path of an example program of a package.
///
/// # Errors
/// Returns an error if it isn't built and can't be.
pub fn package_example(package: &str, name: &str) -> Result<PathBuf> {
    let path = target().join(PROFILE).join("examples").join(name);
    if !path.exists() {
        build(&["-p", package, "--example", name])?;
    }
    Ok(path)
}

/// The profile of the tests, and its folder.
const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

fn find_or_build() -> Result<PathBuf> {
    const FILES: [&str; 5] = ["libacc.so", "libaccord_cuf.a", "accord", "accord-coordinator", "accord-node-agent"];
    const PACKAGES: [&str; 10] =
        ["-p", "libacc", "-p", "accord-cuf", "-p", "accord", "-p", "accord-coordinator", "-p", "accord-node-agent"];
    if let Some(given) = std::env::var_os("ACCORD_TEST_BIN") {
        return Ok(PathBuf::from(given));
    }
    let folder = target().join(PROFILE);
    if !FILES.iter().all(|file| folder.join(file).exists()) {
        build(&PACKAGES)?;
    }
    Ok(folder)
}

/// Builds a part of the workspace in the tests' profile.
fn build(part: &[&str]) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args(["build", "--quiet"]).args(part);
    if PROFILE == "release" {
        cargo.arg("--release");
    }
    let status = cargo.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo build: {status}")) }
}
