//! Determines the device with number 0, if that depends on the first number that the program names.
//!
//! Programs of MPI jobs compute numbers in two ways. `local_rank % n` requires the own node's devices first,
//! `rank % n` one order for all. The first number that a program names shows which way it uses.
//! docs/design/devices.md has the reasons, and what each order guarantees.

use accord_types::Rank;

/// The devices of one type, in local order: the own node's, then the other nodes' in the global order, cyclically.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Devices {
    /// Number of devices.
    pub(crate) count: u32,
    /// Number of devices of the own node.
    pub(crate) own: u32,
    /// The start of the global order.
    pub(crate) global: u32,
}

/// Returns the device, by its place in the local order, that gets number 0. `named` is the number that the program has named
/// first, if it has named one before it used a device.
pub(crate) fn first(rank: Rank, devices: Devices, named: Option<u32>) -> u32 {
    let n = devices.count;
    let Some(named) = named.filter(|named| *named < n && rank.local_size > 0) else { return 0 };
    let (of_rank, of_local) = (rank.rank % n, rank.local_rank % n);
    if named != of_rank || named == of_local {
        return 0;
    }
    if rank.local_size <= devices.own {
        // The device by its local rank: one of its own node, which no other rank gets.
        return (of_local + n - named) % n;
    }
    devices.global
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Placement {
        Block,
        Cyclic,
    }

    #[derive(Clone, Copy, Debug)]
    enum Idiom {
        Rank,
        Local,
        None,
    }

    /// Nodes of a job: which nodes of the cluster they are, in the job's order; and devices of each node of the cluster.
    struct Job<'a> {
        hosts: &'a [usize],
        devices: &'a [u32],
        ranks: u32,
        placement: Placement,
    }

    impl Job<'_> {
        /// Returns each rank's host in the job, with all that a launcher tells it.
        fn ranks(&self) -> Vec<(usize, Rank)> {
            let hosts = self.hosts.len() as u32;
            let per_host = self.ranks.div_ceil(hosts);
            let host = |rank: u32| match self.placement {
                Placement::Block => rank / per_host,
                Placement::Cyclic => rank % hosts,
            };
            let on = |h: u32| (0..self.ranks).filter(move |r| host(*r) == h);
            (0..self.ranks)
                .map(|rank| {
                    let h = host(rank);
                    let local_rank = on(h).position(|r| r == rank).unwrap() as u32;
                    let local_size = on(h).count() as u32;
                    (h as usize, Rank { rank, size: self.ranks, local_rank, local_size, job: 0 })
                })
                .collect()
        }

        /// The node and device that each rank computes on.
        fn devices(&self, idiom: Idiom) -> Vec<(usize, u32)> {
            let global: Vec<(usize, u32)> = self
                .devices
                .iter()
                .enumerate()
                .flat_map(|(node, count)| (0..*count).map(move |at| (node, at)))
                .collect();
            let n = global.len() as u32;
            self.ranks()
                .into_iter()
                .map(|(host, rank)| {
                    let node = self.hosts[host];
                    let own = self.devices[node];
                    // The local order begins with the own node, if it has devices.
                    let begin =
                        if own == 0 { 0 } else { global.iter().position(|(at, _)| *at == node).unwrap() as u32 };
                    let named = match idiom {
                        Idiom::Rank => Some(rank.rank % n),
                        Idiom::Local => Some(rank.local_rank % n),
                        Idiom::None => None,
                    };
                    let devices = Devices { count: n, own, global: (n - begin) % n };
                    let place = first(rank, devices, named) + named.unwrap_or(0);
                    global[((begin + place) % n) as usize]
                })
                .collect()
        }
    }

    /// Returns the most and fewest ranks on one device.
    fn load(devices: &[u32], got: &[(usize, u32)]) -> (usize, usize) {
        let all = devices.iter().enumerate().flat_map(|(node, count)| (0..*count).map(move |at| (node, at)));
        let loads: Vec<usize> = all.map(|device| got.iter().filter(|other| **other == device).count()).collect();
        (*loads.iter().max().unwrap(), *loads.iter().min().unwrap())
    }

    const BOTH: [Idiom; 2] = [Idiom::Rank, Idiom::Local];
    const PLACEMENTS: [Placement; 2] = [Placement::Block, Placement::Cyclic];

    #[test]
    fn ranks_with_enough_devices_on_their_node_get_one_each_and_there() {
        for hosts in 1..=6usize {
            for devices in 1..=4u32 {
                for ranks in 1..=hosts as u32 * devices {
                    for placement in PLACEMENTS {
                        for idiom in BOTH {
                            let (nodes, each): (Vec<usize>, Vec<u32>) = ((0..hosts).collect(), vec![devices; hosts]);
                            let job = Job { hosts: &nodes, devices: &each, ranks, placement };
                            let got = job.devices(idiom);
                            let what = format!("{idiom:?} {placement:?} {ranks} ranks on {hosts}x{devices}: {got:?}");
                            assert_eq!(load(&each, &got).0, 1, "{what}");
                            for ((host, _), (node, _)) in job.ranks().iter().zip(&got) {
                                assert_eq!(host, node, "{what}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_job_on_some_nodes_of_the_cluster_stays_there_in_whatever_order() {
        let each = [2, 2, 2, 2, 2];
        for hosts in [&[3, 1][..], &[4, 0, 2], &[2], &[1, 2, 3, 4]] {
            for placement in PLACEMENTS {
                for idiom in BOTH {
                    let job = Job { hosts, devices: &each, ranks: 2 * hosts.len() as u32, placement };
                    let got = job.devices(idiom);
                    assert_eq!(load(&each, &got).0, 1, "{idiom:?} {placement:?} {got:?}");
                    assert!(got.iter().all(|(node, _)| hosts.contains(node)));
                }
            }
        }
    }

    #[test]
    fn more_ranks_than_devices_share_evenly() {
        for hosts in 1..=4usize {
            for devices in 1..=3u32 {
                for times in 2..=3 {
                    for placement in PLACEMENTS {
                        for idiom in BOTH {
                            let (nodes, each): (Vec<usize>, Vec<u32>) = ((0..hosts).collect(), vec![devices; hosts]);
                            let ranks = hosts as u32 * devices * times;
                            let got = Job { hosts: &nodes, devices: &each, ranks, placement }.devices(idiom);
                            let (most, least) = load(&each, &got);
                            let what = format!("{idiom:?} {placement:?} {ranks} ranks on {hosts}x{devices}: {got:?}");
                            assert!(least > 0, "{what}");
                            assert!(most <= 2 * times as usize, "{what}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn hosts_without_devices_are_spread_by_rank() {
        // All of the job's nodes have none.
        let each = [0, 0, 2, 2, 2];
        for placement in PLACEMENTS {
            for ranks in 1..=6 {
                let got = Job { hosts: &[0, 1], devices: &each, ranks, placement }.devices(Idiom::Rank);
                assert_eq!(load(&each, &got).0, 1, "{placement:?} {got:?}");
            }
        }
        // Local ranks know nothing of other nodes: each node begins with the first device.
        let got = Job { hosts: &[0, 1], devices: &each, ranks: 4, placement: Placement::Block }.devices(Idiom::Local);
        assert_eq!(got, [(2, 0), (2, 1), (2, 0), (2, 1)]);
    }

    #[test]
    fn more_ranks_than_a_node_has_devices_use_other_nodes() {
        // Four ranks on the first two nodes of four with one device each.
        let each = [1, 1, 1, 1];
        for placement in PLACEMENTS {
            let got = Job { hosts: &[0, 1], devices: &each, ranks: 4, placement }.devices(Idiom::Rank);
            assert_eq!(load(&each, &got), (1, 1), "{placement:?} {got:?}");
        }
    }

    #[test]
    fn a_program_that_names_no_device_has_its_nodes_first() {
        let each = [2, 2];
        let got = Job { hosts: &[0, 1], devices: &each, ranks: 4, placement: Placement::Cyclic }.devices(Idiom::None);
        assert_eq!(got, [(0, 0), (1, 0), (0, 0), (1, 0)]);
    }

    #[test]
    fn other_numbers_and_unknown_places_are_local() {
        let rank = Rank { rank: 5, size: 8, local_rank: 1, local_size: 2, job: 0 };
        let devices = Devices { count: 8, own: 2, global: 4 };
        assert_eq!(first(rank, devices, Some(5)), 4, "number 5 is the own node's second");
        for named in [0, 1, 2, 3, 4, 6, 7, 8, 1000] {
            assert_eq!(first(rank, devices, Some(named)), 0, "{named}");
        }
        assert_eq!(first(Rank { local_size: 0, local_rank: 0, ..rank }, devices, Some(5)), 0);
        assert_eq!(first(rank, Devices { own: 1, ..devices }, Some(5)), 4);
        assert_eq!(first(rank, Devices { count: 0, own: 0, global: 0 }, Some(5)), 0);
    }
}
