//! The command line of Slurm's srun, inside of an allocation.

use crate::failure::{Failure, Result};
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The ways in which srun connects ranks, the best first.
const WAYS: [&str; 2] = ["pmix", "pmi2"];
/// The same for MPICH and its derivatives: most are built without PMIx, and each rank would then be a world of its own.
const WAYS_OF_MPICH: [&str; 2] = ["pmi2", "pmix"];
/// The fence of Slurm's PMIx, by which ranks wait for each other. By default it uses a tree, and a step of fewer nodes
/// than `TreeWidth` (50) then has no barrier. Open MPI's MPI_Init relies on the barrier: a late rank gets messages
/// before it can receive them, and dies.
const FENCE: &str = "SLURM_PMIX_FENCE";

/// This machine's srun.
pub(crate) struct Srun {
    way: Option<&'static str>,
    /// Whether the caller has chosen a fence.
    fence_chosen: bool,
}

impl Srun {
    /// Queries srun's abilities. `mpi` is the MPI of the ranks, if known.
    pub(crate) fn find(mpi: Option<&str>) -> Result<Self> {
        let listed = ways().ok_or_else(|| Failure::new("no srun that answers; use --launcher mpirun"))?;
        Ok(Self { way: best(&listed, mpi), fence_chosen: std::env::var_os(FENCE).is_some() })
    }

    /// Whether srun can start ranks in a way that the usual MPIs support.
    pub(super) fn speaks_to_ranks(&self) -> bool {
        self.way.is_some()
    }

    /// Returns the name for display.
    pub(crate) fn name(&self) -> String {
        format!("srun --mpi={}", self.way.unwrap_or("none"))
    }

    /// Checks that ranks of this MPI can connect; otherwise returns the reason.
    pub(crate) fn starts_ranks_of(&self, mpi: &str) -> Result<(), String> {
        match self.way {
            // Open MPI 4 and later needs PMIx.
            Some("pmi2") if mpi.starts_with("Open MPI") => {
                Err(format!("{mpi} needs PMIx, and this srun has pmi2 only (srun --mpi=list)"))
            }
            Some(_) => Ok(()),
            None => Err("this srun has neither pmix nor pmi2 (srun --mpi=list)".to_owned()),
        }
    }

    /// Returns the command line for one `command` on each node. It does not reserve cores, memory or GPUs.
    pub(super) fn on_each(&self, nodes: u32, command: &[OsString]) -> Vec<OsString> {
        let mut line = self.base();
        line.extend([format!("--nodes={nodes}"), format!("--ntasks={nodes}")].map(OsString::from));
        // The batch script's options for its ranks do not hold for agents.
        line.extend(["--ntasks-per-node=1", "--cpus-per-task=1", "--cpu-bind=none"].map(OsString::from));
        line.extend_from_slice(command);
        line
    }

    /// Returns the command line for this many ranks of `step`.
    pub(super) fn ranks(&self, ranks: u32, step: &[OsString]) -> Vec<OsString> {
        let mut line = self.base();
        line.push(format!("--ntasks={ranks}").into());
        line.extend_from_slice(step);
        line
    }

    fn base(&self) -> Vec<OsString> {
        // Agents and program share cores.
        let mut line: Vec<OsString> = ["srun", "--overlap"].map(OsString::from).into();
        let fence =
            if self.way == Some("pmix") && !self.fence_chosen { format!(",{FENCE}=ring") } else { String::new() };
        line.push(format!("--export=ALL{fence}").into());
        if let Some(way) = self.way {
            line.push(format!("--mpi={way}").into());
        }
        line
    }
}

/// Returns the output of `srun --mpi=list`.
fn ways() -> Option<String> {
    let output = Command::new("srun").arg("--mpi=list").stdin(Stdio::null()).output().ok()?;
    // Versions print it on different streams.
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn best(listed: &str, mpi: Option<&str>) -> Option<&'static str> {
    let ways = if mpi.is_none_or(|mpi| mpi.starts_with("Open MPI")) { WAYS } else { WAYS_OF_MPICH };
    ways.into_iter().find(|way| listed.split_whitespace().any(|word| word == *way))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_way_is_chosen_and_what_it_does_not_do_is_said() {
        let both = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions: pmix_v4";
        assert_eq!(best(both, None), Some("pmix"));
        assert_eq!(best(both, Some("Open MPI 4.1.4")), Some("pmix"));
        assert_eq!(best(both, Some("MPICH 4.0.2")), Some("pmi2"));
        assert_eq!(best("none cray_shasta pmi2", None), Some("pmi2"));
        assert_eq!(best("none pmix", Some("MPICH 5.0.2")), Some("pmix"));
        assert_eq!(best("none", None), None);
        let of = |way| Srun { way, fence_chosen: false };
        assert!(of(Some("pmix")).starts_ranks_of("Open MPI 4.1.4").is_ok());
        assert!(of(Some("pmi2")).starts_ranks_of("Open MPI 4.1.4").unwrap_err().contains("PMIx"));
        assert!(of(Some("pmi2")).starts_ranks_of("MPICH 4.0.2").is_ok());
        assert!(of(None).starts_ranks_of("MPICH 4.0.2").is_err());
    }

    #[test]
    fn ranks_wait_for_each_other_unless_the_caller_has_chosen_how() {
        let exported = |way, fence_chosen| {
            let line = Srun { way, fence_chosen }.ranks(2, &["./app".into()]);
            line.into_iter().find(|word| word.to_string_lossy().starts_with("--export")).unwrap()
        };
        assert_eq!(exported(Some("pmix"), false), "--export=ALL,SLURM_PMIX_FENCE=ring");
        assert_eq!(exported(Some("pmix"), true), "--export=ALL");
        assert_eq!(exported(Some("pmi2"), false), "--export=ALL");
    }
}
