//! A program's place in an MPI job, as launchers tell it in the environment.

use crate::Rank;

/// Variables of one launcher: rank, size, local rank, local size.
type Names = [&'static str; 4];

const LAUNCHERS: [Names; 6] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"],
    ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"],
    ["PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", SLURM_LOCAL_SIZE],
    ["FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""],
];

/// Tasks of all nodes of a step, such as `2(x3),1`; `SLURM_NODEID` says which is this one.
const SLURM_LOCAL_SIZE: &str = "SLURM_STEP_TASKS_PER_NODE";

impl Rank {
    /// The rank that the environment tells; none if no known launcher has started the program. `lookup` reads one
    /// variable. Several launchers may have left theirs (`srun` starts `mpirun`, say): the one that knows the place on the
    /// node counts, else the first.
    pub fn of_environment(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| lookup(name)?.trim().parse::<u32>().ok();
        let all = LAUNCHERS.iter().filter_map(|[rank, size, local_rank, local_size]| {
            let whole = Self { rank: number(rank)?, size: number(size)?, local_rank: 0, local_size: 0 };
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

/// Tasks of the node with this number: `2(x3),1` means 2, 2, 2, 1.
fn slurm_tasks(text: &str, node: u32) -> Option<u32> {
    let mut before = 0;
    for part in text.split(',') {
        let (tasks, times) = match part.split_once("(x") {
            Some((tasks, times)) => (tasks, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1u32),
        };
        before += times;
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
