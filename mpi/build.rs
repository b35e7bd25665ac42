//! Which MPI this is built for, as its own compiler wrapper says, and where its library is.

use std::process::Command;

/// What the headers of the known ones define. Names are strings: MPICH's header defines `MPICH` as 1.
const ASK: &str = "#include <mpi.h>\n\
    #if defined(OMPI_MAJOR_VERSION)\n\
    accord_is \"Open MPI\" OMPI_MAJOR_VERSION . OMPI_MINOR_VERSION . OMPI_RELEASE_VERSION\n\
    #elif defined(MPICH_VERSION)\n\
    accord_is \"MPICH\" MPICH_VERSION\n\
    #else\n\
    accord_is \"MPI\" MPI_VERSION . MPI_SUBVERSION\n\
    #endif\n";

fn main() {
    println!("cargo:rerun-if-env-changed=MPICC");
    let mpicc = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let folder = std::env::var("OUT_DIR").expect("cargo sets it");
    let source = format!("{folder}/ask.c");
    std::fs::write(&source, ASK).expect("cargo's own folder can be written");
    let output = Command::new(&mpicc).args(["-E", "-P", &source]).output();
    let output =
        output.unwrap_or_else(|error| panic!("cannot start {mpicc}: {error}; install MPI, or name its mpicc in MPICC"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("accord_is "));
    let line = line.unwrap_or_else(|| panic!("{mpicc} has no mpi.h: {}", String::from_utf8_lossy(&output.stderr)));
    println!("cargo:rustc-env=MPI_BUILT_FOR={}", line.replace(" . ", ".").replace('"', ""));
    // The library is found again where it was, whatever the system's own search path has.
    let show = Command::new(&mpicc).arg("-show").output().expect("it was started before");
    for folder in String::from_utf8_lossy(&show.stdout).split_whitespace().filter_map(|word| word.strip_prefix("-L")) {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,{folder}");
    }
}
