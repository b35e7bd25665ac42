//! The cores that a launcher grants to an agent. Many launchers bind each process to one core, which all of the agent's
//! devices and threads then share.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// Fewest cores without a warning: one each for MPI, commands, a queue and a device.
const CORES_MIN: usize = 4;

/// Returns how many cores this thread may use, and how many are online; `None` if the system does not say.
pub(crate) fn given() -> Option<(usize, usize)> {
    let set = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let may_use = (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).count();
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok()??;
    Some((may_use, usize::try_from(online).ok()?))
}

/// Returns the warning if the cores are too few.
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
        let printed = too_few((1, 32)).unwrap();
        assert!(printed.contains("1 of 32 cores") && printed.contains("--bind-to none"), "{printed}");
        for enough in [(2, 2), (4, 32), (32, 32), (1, 1)] {
            assert_eq!(too_few(enough), None);
        }
        assert!(given().is_some_and(|(may_use, online)| may_use >= 1 && online >= 1));
    }
}
