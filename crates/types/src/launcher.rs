//! A program's place in an MPI job, as launchers state it in the environment.

use crate::Rank;

/// A launcher's variables: rank, size, local rank, local size; then the variables that identify the job, equal in all
/// ranks.
type Names = ([&'static str; 4], &'static [&'static str]);

const LAUNCHERS: [Names; 6] = [
    (
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"],
        &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
    ),
    (
        ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"],
        &["PMI_JOBID"],
    ),
    (["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"], &["PALS_APID", "PMI_JOBID"]),
    (["PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"], &["PALS_APID", "PMI_JOBID"]),
    (["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", SLURM_LOCAL_SIZE], &["SLURM_JOB_ID", "SLURM_STEP_ID"]),
    (["FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""], &["FLUX_JOB_ID"]),
];

/// Number of tasks on each node of a step, such as `2(x3),1`; `SLURM_NODEID` is this node's index.
const SLURM_LOCAL_SIZE: &str = "SLURM_STEP_TASKS_PER_NODE";

impl Rank {
    /// Returns the rank that the environment states, or `None` if no known launcher started the program. `lookup` reads
    /// one variable. Several launchers may have set theirs, such as `srun` below `mpirun`: the first that states the
    /// local rank counts, else the first.
    pub fn of_environment(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| lookup(name)?.trim().parse::<u32>().ok();
        let all = LAUNCHERS.iter().filter_map(|([rank, size, local_rank, local_size], job)| {
            let job = hash(job.iter().filter_map(|name| Some((*name, lookup(name)?))));
            let whole = Self { rank: number(rank)?, size: number(size)?, local_rank: 0, local_size: 0, job };
            let local_size = match *local_size {
                SLURM_LOCAL_SIZE => slurm_tasks(&lookup(SLURM_LOCAL_SIZE)?, number("SLURM_NODEID")?),
                name => number(name),
            };
            let local = number(local_rank).zip(local_size).filter(|(local_rank, local_size)| local_rank < local_size);
            let (local_rank, local_size) = local.unwrap_or((0, 0));
            (whole.rank < whole.size).then_some(Self { local_rank, local_size, ..whole })
        });
        let mut first = None;
        for found in all {
            if found.local_size > 0 {
                return Some(found);
            }
            first = first.or(Some(found));
        }
        first
    }
}

/// Returns FNV-1a over names and values; 0 if there are none.
fn hash(variables: impl Iterator<Item = (&'static str, String)>) -> u64 {
    let mut hash = 0;
    for (name, value) in variables {
        for byte in name.bytes().chain([b'=']).chain(value.bytes()).chain([0]) {
            hash =
                (if hash == 0 { 0xcbf2_9ce4_8422_2325 } else { hash } ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// Returns the number of tasks on the node with this index: `2(x3),1` means 2, 2, 2, 1.
fn slurm_tasks(text: &str, node: u32) -> Option<u32> {
    let mut before = 0u32;
    for part in text.split(',') {
        let (tasks, times) = match part.split_once("(x") {
            Some((tasks, times)) => (tasks, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1u32),
        };
        before = times.checked_add(before)?;
        if node < before {
            return tasks.trim().parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(variables: &[(&str, &str)]) -> Option<[u32; 4]> {
        let found = Rank::of_environment(|name| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        });
        found.map(|rank| [rank.rank, rank.size, rank.local_rank, rank.local_size])
    }

    #[test]
    fn more_nodes_than_there_can_be_are_none() {
        assert_eq!(slurm_tasks("2(x3),1", 3), Some(1));
        assert_eq!(slurm_tasks("2(x3),1(x4294967295)", 3), None);
        assert_eq!(slurm_tasks("2(x4294967295),1", u32::MAX), None);
    }

    #[test]
    fn launchers_tell_the_rank() {
        assert_eq!(rank(&[]), None);
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("OMPI_COMM_WORLD_SIZE", "6"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        assert_eq!(rank(&open_mpi), Some([5, 6, 1, 2]));
        assert_eq!(rank(&open_mpi[..2]), Some([5, 6, 0, 0]), "the place on the node is not known");
        let hydra = [("PMI_RANK", "3"), ("PMI_SIZE", "4"), ("MPI_LOCALRANKID", "3"), ("MPI_LOCALNRANKS", "4")];
        assert_eq!(rank(&hydra), Some([3, 4, 3, 4]));
        assert_eq!(rank(&[("PMI_RANK", "4"), ("PMI_SIZE", "4")]), None, "no such rank");
        assert_eq!(rank(&[("PMI_RANK", "x"), ("PMI_SIZE", "4")]), None);
    }

    #[test]
    fn launchers_name_the_job() {
        let job = |variables: &[(&str, &str)]| {
            let find =
                |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
            Rank::of_environment(find).map(|rank| rank.job)
        };
        let slurm = |id, step| {
            let place = [("SLURM_LOCALID", "0"), ("SLURM_NODEID", "0"), ("SLURM_STEP_TASKS_PER_NODE", "2")];
            let rank = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_JOB_ID", id), ("SLURM_STEP_ID", step)];
            job(&[&place[..], &rank].concat()).unwrap()
        };
        assert_eq!(slurm("17", "0"), slurm("17", "0"));
        assert!(slurm("17", "0") != 0 && slurm("17", "0") != slurm("17", "1") && slurm("17", "0") != slurm("170", ""));
        assert_eq!(job(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("SLURM_JOB_ID", "17")]), Some(0), "another launcher's");
        assert_ne!(job(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PALS_APID", "17")]), Some(0));
    }

    #[test]
    fn slurm_lists_the_tasks_of_all_nodes() {
        let of = |node, local, rank_: &'static str| {
            rank(&[
                ("SLURM_PROCID", rank_),
                ("SLURM_NTASKS", "7"),
                ("SLURM_LOCALID", local),
                ("SLURM_NODEID", node),
                ("SLURM_STEP_TASKS_PER_NODE", "2(x3),1"),
            ])
        };
        assert_eq!(of("2", "1", "5"), Some([5, 7, 1, 2]));
        assert_eq!(of("3", "0", "6"), Some([6, 7, 0, 1]));
        assert_eq!(slurm_tasks("4", 0), Some(4));
        assert_eq!(slurm_tasks("4", 1), None);
        assert_eq!(slurm_tasks("4(x", 0), None);
    }
}
