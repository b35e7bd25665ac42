//! Modules of NVIDIA's libraries and tools. Those that Accord has are compiled once a source uses them; a program's own module of the same name comes first.

use accord_cuda_fortran::reductions;
use std::path::Path;
use std::process::Command;

/// Modules with their sources, next to that of `cudafor`, in the order of compilation.
const MODULES: &[(&str, &[&str])] = &[
    (reductions::MODULE, &[reductions::SOURCE]),
    ("nvtx", &["nvtx.cuf"]),
    ("cublas", &["cublas.cuf"]),
    ("cublas_v2", &["cublas.cuf"]),
    ("cufft", &["cufft.cuf"]),
    ("cusparse", &["cusparse.cuf"]),
    ("cusolverdn", &["cublas.cuf", "cusolver.cuf"]),
    ("curand", &["curand.cuf"]),
];

/// Modules that Accord does not have.
const MISSING: &[&str] = &[
    "cusolvermp",
    "curand_device",
    "cutensor",
    "cutensorex",
    "nccl",
    "nvshmem",
    "nvml",
    "cublasxt",
    "cufftxt",
    "cufftw",
    "wmma",
    "thrust",
];

/// Libraries of `-cudalib` and `-l` whose routines the runtime has, and loads at their first call.
const LOADED: &[&str] = &["cublas", "cufft", "cusparse", "cusolver", "curand", "nvtx", "nvToolsExt", "nvhpcwrapnvtx"];

/// Returns the module that flang's error line does not find.
fn missing(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("error: Cannot parse module file for module '")?;
    let (module, why) = rest.split_once('\'')?;
    why.ends_with("was not found").then_some(module)
}

/// Returns the sources of modules that flang's errors name.
pub(super) fn sources(errors: &str) -> Vec<&'static str> {
    let modules = errors.lines().filter_map(missing);
    let sources = modules.filter_map(|module| MODULES.iter().find(|(known, _)| *known == module));
    let mut found = Vec::new();
    for source in sources.flat_map(|(_, sources)| *sources) {
        if !found.contains(source) {
            found.push(*source);
        }
    }
    found
}

/// Explains flang's errors about a module of NVIDIA that Accord does not have; `None` if there are none.
pub(super) fn refusal(errors: &str) -> Option<String> {
    errors.lines().find_map(|line| {
        let module = missing(line).filter(|module| MISSING.contains(module))?;
        let (place, _) = line.split_once("error:")?;
        Some(format!(
            "{place}error: Accord has no module {module}; leave its calls out, or put them into a source in C with the library's own header, which \
             works on GPUs of the program's own node"
        ))
    })
}

/// Checks the libraries of `-cudalib`.
///
/// # Errors
/// Returns why one of them is refused.
pub(super) fn check(list: &str) -> Result<(), String> {
    match list.split(',').find(|name| !LOADED.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "-cudalib={name} is not supported: leave its calls out, or call it from a source in C, and link -l{name}"
        )),
    }
}

/// Whether the linker needs an option `-lNAME`: not if the runtime loads the library, and it is not there to link with.
pub(super) fn is_linked(name: &str, folders: &[&Path]) -> bool {
    if !LOADED.contains(&name) {
        return true;
    }
    let files = [format!("lib{name}.so"), format!("lib{name}.a")];
    let is_in = |folder: &&Path| files.iter().any(|file| folder.join(file).is_file());
    folders.iter().any(is_in) || files.iter().any(|file| is_found(file))
}

/// Whether gcc finds a library.
fn is_found(file: &str) -> bool {
    let output = Command::new("gcc").arg(format!("-print-file-name={file}")).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(module: &str) -> String {
        format!(
            "./u.cuf:2:7: error: Cannot parse module file for module '{module}': Source file '{module}.mod' was not found\n"
        )
    }

    #[test]
    fn modules_of_vendors_are_supplied_or_refused_by_name() {
        assert_eq!(sources(&(line("cublas_v2") + &line("nvtx"))), ["cublas.cuf", "nvtx.cuf"]);
        assert_eq!(sources(&line("own")), Vec::<&str>::new());
        assert_eq!(sources(&(line("cusolverdn") + &line("cublas_v2"))), ["cublas.cuf", "cusolver.cuf"]);
        assert!(refusal(&line("cutensor")).unwrap().starts_with("./u.cuf:2:7: error: Accord has no module cutensor"));
        assert_eq!(refusal(&line("own")), None);
        assert!(check("cublas,cufft,nvtx").is_ok() && check("cublas,cutensor").unwrap_err().contains("cutensor"));
    }

    #[test]
    fn libraries_that_the_runtime_loads_are_linked_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_linked("m", &[]) && !is_linked("nvhpcwrapnvtx", &[folder.path()]));
        std::fs::write(folder.path().join("libnvhpcwrapnvtx.so"), "").unwrap();
        assert!(is_linked("nvhpcwrapnvtx", &[folder.path()]));
    }
}
