//! Paths of Accord's other programs and its library.

use crate::failure::{Failure, Result};
use accord_types::installed::libacc_places;
use accord_types::settings;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the library to preload: `ACCORD_LIBACC`, or the one installed with this command.
pub(crate) fn find_libacc() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(settings::LIBACC.name).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return path
            .canonicalize()
            .map_err(|error| Failure::new(format!("{} names {}: {error}", settings::LIBACC.name, path.display())));
    }
    let here = own_directory()?;
    libacc_places(&here).iter().find_map(|path| path.canonicalize().ok()).ok_or_else(|| {
        Failure::new(format!(
            "no libacc.so beside {} or in ../lib; build it (make) or name it in {}",
            here.display(),
            settings::LIBACC.name
        ))
    })
}

/// Returns the folder with Accord's headers: that of an installation, or of the source tree that this program was built
/// in.
pub(crate) fn find_include() -> Result<PathBuf> {
    let here = own_directory()?;
    let places = [here.join("../include/accord"), here.join("../../libacc/include")];
    places
        .iter()
        .filter(|place| place.join("openacc.f90").is_file())
        .find_map(|place| place.canonicalize().ok())
        .ok_or_else(|| {
            Failure::new(format!(
                "no headers in ../include/accord of {}; install Accord (make install)",
                here.display()
            ))
        })
}

/// Returns the path of one of Accord's programs: next to this one, otherwise in PATH.
pub(crate) fn find_program(name: &str) -> Result<PathBuf> {
    let beside = own_directory()?.join(name);
    if beside.is_file() {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| Failure::new(format!("no {name} beside accord or in PATH; build it (make)")))
}

/// Returns the path of this program. Must first be called before the process enters another mount namespace: in a
/// chroot the kernel's answer is wrong afterwards.
pub(crate) fn own_program() -> Result<PathBuf> {
    static OWN: OnceLock<PathBuf> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return Ok(own.clone());
    }
    let own =
        std::env::current_exe().map_err(|error| Failure::system("can't find the accord program itself", error))?;
    Ok(OWN.get_or_init(|| own).clone())
}

/// Returns the value of `LD_PRELOAD` with `library` first.
pub(crate) fn preload_with(library: &Path) -> OsString {
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(OsStr::new(":"));
        preload.push(others);
    }
    preload
}

/// Returns `ACC_PROFLIB` with libacc, the first library of an `LD_PRELOAD`, before tools. Every libgomp of a process
/// loads that library and so becomes known to libacc, even one linked into an object. libacc does the same for its
/// program's children.
pub(crate) fn proflib_with_libacc(preload: &OsStr) -> Option<(&'static str, OsString)> {
    let libacc = preload.as_bytes().split(|byte| *byte == b':').next().filter(|first| !first.is_empty())?;
    let mut all = OsStr::from_bytes(libacc).to_owned();
    if let Some(tools) = std::env::var_os(settings::ACC_PROFLIB.name).filter(|tools| !tools.is_empty()) {
        all.push(OsStr::new(";"));
        all.push(tools);
    }
    Some((settings::ACC_PROFLIB.name, all))
}

fn own_directory() -> Result<PathBuf> {
    let program = own_program()?;
    Ok(program.parent().unwrap_or(Path::new("/")).to_owned())
}
