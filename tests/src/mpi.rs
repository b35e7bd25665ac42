//! The MPI that is first in `PATH`, and Accord's part for it.

use crate::workspace::{root, target};
use crate::{Job, Tool, tool};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The installed MPI.
#[derive(Clone, Debug)]
struct Mpi {
    /// Whether its mpirun is MPICH's.
    is_mpich: bool,
    /// Accord's object for it.
    object: PathBuf,
}

/// Returns the reason if no MPI job can be started here.
pub fn no_mpi() -> Option<String> {
    mpi().as_ref().err().cloned()
}

/// Whether the MPI that is first in `PATH` is MPICH.
pub fn is_mpich() -> bool {
    mpi().as_ref().is_ok_and(|mpi| mpi.is_mpich)
}

impl Job {
    /// Makes agents use the object for the installed MPI, one of those that `scripts/build-mpi` may have built.
    #[must_use]
    pub fn with_mpi(self) -> Self {
        match mpi() {
            Ok(mpi) => self.env("ACCORD_MPI", &mpi.object),
            Err(_) => self,
        }
    }
}

fn mpi() -> &'static Result<Mpi, String> {
    static MPI: OnceLock<Result<Mpi, String>> = OnceLock::new();
    MPI.get_or_init(|| {
        let version =
            Command::new("mpirun").arg("--version").output().map_err(|error| format!("no mpirun: {error}"))?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let is_mpich = version.contains("HYDRA");
        let name = if is_mpich { "mpich" } else { "openmpi" };
        let built = [target(), root().join("target")].map(|folder| folder.join("mpi").join(name));
        // A machine with only the programs has one object, next to them.
        let beside = tool(Tool::NodeAgent)?.parent().map(PathBuf::from);
        let mut objects = built.into_iter().chain(beside).map(|folder| folder.join("libaccord_mpi.so"));
        let object = objects.find(|object| object.is_file());
        Ok(Mpi { is_mpich, object: object.ok_or_else(|| format!("no libaccord_mpi.so for {name}: make mpi"))? })
    })
}
