//! The cores that a launcher leaves an agent: many bind each process to one, and an agent's devices and threads share what it has.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// An agent with fewer is told of it where the machine has more: a thread for MPI, one for commands, one for a queue, and a device's own.
const CORES_MIN: usize = 4;

/// Returns how many of how many cores this thread may use; `None` where the system does not say.
pub(crate) fn given() -> Option<(usize, usize)> {
    let set = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let may_use = (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).count();
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok()??;
    Some((may_use, usize::try_from(online).ok()?))
}

/// Returns the warning if that is too little.
pub(crate) fn too_few((may_use, online): (usize, usize)) -> Option<String> {
    (may_use < CORES_MIN && may_use < online).then(|| {
        format!(
            "this agent may use {may_use} of {online} cores, which its devices and threads share: have the launcher bind it to none \
             (Open MPI: --bind-to none; MPICH: -bind-to none; srun: --cpu-bind=none, --cpus-per-task)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_was_bound_to_few_cores_is_told_what_to_do() {
        let said = too_few((1, 32)).unwrap();
        assert!(said.contains("1 of 32 cores") && said.contains("--bind-to none"), "{said}");
        for enough in [(2, 2), (4, 32), (32, 32), (1, 1)] {
            assert_eq!(too_few(enough), None);
        }
        assert!(given().is_some_and(|(may_use, online)| may_use >= 1 && online >= 1));
    }
}
