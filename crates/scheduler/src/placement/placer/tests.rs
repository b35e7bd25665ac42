//! Compares the placer with an exhaustive search, and checks its invariants.

use crate::placement::potential::POINT;
use crate::placement::{Bounds, Models, NodeState, Placement, Placer, Random, Task, WHOLE};

/// Kinds of tasks: whole devices and shares, on any model or on some, with little or much of the host.
const KINDS: [(u8, u16, u32, u32, u64); 8] = [
    (1, 1000, 8_000, 30_000, 0),
    (1, 470, 6_000, 12_000, 0),
    (1, 810, 4_000, 20_000, 0),
    (1, 190, 2_000, 4_000, 0),
    (2, 1000, 16_000, 60_000, 0b10),
    (8, 1000, 64_000, 200_000, 0),
    (2, 300, 4_000, 8_000, 0b11),
    (0, 0, 12_000, 16_000, 0),
];

fn task(random: &mut Random) -> Task {
    let (devices, share, cores, memory, models) = KINDS[random.below(KINDS.len() as u64) as usize];
    let models = Models::only((0..8).filter(|model| models >> model & 1 == 1));
    Task { devices, share, cores, memory, models }
}

/// Nodes with the free share of each device, and running tasks.
struct Cluster {
    placer: Placer,
    free: Vec<(u32, u32, u8, Vec<u16>)>,
    running: Vec<(Task, u32, Vec<usize>)>,
}

impl Cluster {
    fn new(bounds: Bounds) -> Self {
        let node = |at: u32| (96_000, 400_000, (at % 3) as u8, vec![WHOLE; [2, 4, 8][at as usize % 3]]);
        let mut cluster = Self { placer: Placer::new(bounds), free: (0..24).map(node).collect(), running: Vec::new() };
        for node in 0..cluster.free.len() {
            cluster.show(node);
        }
        cluster
    }

    fn state(&self, node: usize) -> NodeState {
        let (cores, memory, model, devices) = &self.free[node];
        NodeState::new(*cores, *memory, *model, devices)
    }

    fn show(&mut self, node: usize) {
        self.placer.set(node as u32, Some(self.state(node)));
    }

    /// Adds or removes a task's demand on a node.
    fn change(&mut self, task: &Task, node: u32, devices: &[usize], takes: bool) {
        let by = |free: u32, task: u32| if takes { free - task } else { free + task };
        let (cores, memory, _, remainders) = &mut self.free[node as usize];
        (*cores, *memory) = (by(*cores, task.cores), by(*memory, task.memory));
        for device in devices {
            remainders[*device] = by(remainders[*device].into(), task.share.into()) as u16;
        }
        self.show(node as usize);
    }

    fn arrive(&mut self, task: &Task) -> Option<Placement> {
        self.placer.arrived(task);
        let placement = self.placer.place(task)?;
        let devices = placement.devices(task, &self.free[placement.node as usize].3);
        self.change(task, placement.node, &devices, true);
        self.running.push((*task, placement.node, devices));
        Some(placement)
    }

    fn end(&mut self, at: usize) {
        let (task, node, devices) = self.running.swap_remove(at);
        self.change(&task, node, &devices, false);
    }
}

/// Runs arrivals, ends, losses and returns of nodes; `visit` gets the cluster before each arrival.
fn history(bounds: Bounds, steps: usize, mut visit: impl FnMut(&mut Cluster, &Task)) -> Vec<Option<Placement>> {
    let (mut cluster, mut random, mut placements) = (Cluster::new(bounds), Random::new(11), Vec::new());
    for step in 0..steps {
        let task = task(&mut random);
        visit(&mut cluster, &task);
        placements.push(cluster.arrive(&task));
        if random.below(3) == 0 && !cluster.running.is_empty() {
            cluster.end(random.below(cluster.running.len() as u64) as usize);
        }
        if step % 50 == 10 {
            let lost = random.below(24) as usize;
            cluster.placer.set(lost as u32, None);
            cluster.running.retain(|(_, node, _)| *node as usize != lost);
            let fresh = Cluster::new(bounds).free.swap_remove(lost);
            cluster.free[lost] = fresh;
            cluster.show(lost);
        }
    }
    placements
}

#[test]
fn refuses_no_task_that_fits_somewhere() {
    let mut fits = Vec::new();
    let placements = history(Bounds::default(), 600, |cluster, task| {
        fits.push((0..24).any(|node| cluster.state(node).fits(task)));
    });
    assert_eq!(placements.iter().map(Option::is_some).collect::<Vec<_>>(), fits);
    assert!(fits.contains(&true) && fits.contains(&false));
}

/// Returns the best placement by an exhaustive search: the smallest score, then the first node.
fn search(cluster: &Cluster, mix: &[Task], task: &Task) -> Option<Placement> {
    let placements = (0..24u32).filter_map(|node| {
        // A placer in which only this node takes new tasks judges it in isolation.
        let mut alone = Cluster::new(Bounds { memo: 1, rankings: 1, ranked: 1 });
        mix.iter().for_each(|task| alone.placer.arrived(task));
        (0..24).filter(|other| *other != node).for_each(|other| {
            alone.placer.set(other, Some(NodeState::new(0, 0, 0, &[])));
        });
        alone.placer.set(node, Some(cluster.state(node as usize)));
        alone.placer.place(task)
    });
    placements.min_by_key(|placement| (placement.score, placement.node))
}

#[test]
fn chooses_what_a_search_over_all_nodes_finds() {
    let (mut mix, mut found, mut at) = (Vec::new(), Vec::new(), 0);
    let placements = history(Bounds::default(), 60, |cluster, task| {
        mix.push(*task);
        at += 1;
        // The mix is applied with the arrival of the task itself.
        found.push((at % 7 == 0).then(|| search(cluster, &mix, task)));
    });
    for (placement, found) in placements.iter().zip(found) {
        if let Some(found) = found {
            assert_eq!(*placement, found);
        }
    }
}

#[test]
fn equal_inputs_give_equal_choices() {
    let placements = history(Bounds::default(), 400, |_, _| {});
    assert_eq!(placements, history(Bounds::default(), 400, |_, _| {}));
}

#[test]
fn forgetting_changes_no_decision() {
    let placements = history(Bounds::default(), 400, |_, _| {});
    for bounds in [
        Bounds { memo: 1, ..Bounds::default() },
        Bounds { rankings: 1, ..Bounds::default() },
        Bounds { ranked: 20, ..Bounds::default() },
        Bounds { memo: 1, rankings: 1, ranked: 1 },
    ] {
        let mut largest = 0;
        let bounded = history(bounds, 400, |cluster, _| largest = largest.max(cluster.placer.kept()));
        assert_eq!(bounded, placements, "{bounds:?}");
        assert!(largest <= bounds.rankings);
    }
}

#[test]
fn questions_change_no_decision() {
    let placements = history(Bounds::default(), 400, |_, _| {});
    let asked = history(Bounds::default(), 400, |cluster, task| {
        cluster.placer.candidates(task, 5);
        cluster.placer.place_where(task, |node| node % 2 == 0);
        let _ = cluster.placer.shortage(task);
    });
    assert_eq!(placements, asked);
}

#[test]
fn departures_restore_states_and_potential() {
    let mut cluster = Cluster::new(Bounds::default());
    let mut random = Random::new(5);
    for _ in 0..100 {
        let task = task(&mut random);
        cluster.placer.arrived(&task);
    }
    let (potential, distinct) = (cluster.placer.potential(), cluster.placer.distinct());
    for _ in 0..200 {
        let task = task(&mut random);
        if let Some(placement) = cluster.placer.place(&task) {
            let devices = placement.devices(&task, &cluster.free[placement.node as usize].3);
            cluster.change(&task, placement.node, &devices, true);
            cluster.running.push((task, placement.node, devices));
        }
    }
    assert_ne!(cluster.placer.potential(), potential);
    while !cluster.running.is_empty() {
        cluster.end(random.below(cluster.running.len() as u64) as usize);
    }
    assert_eq!((cluster.placer.potential(), cluster.placer.distinct()), (potential, distinct));
}

#[test]
fn candidates_begin_with_the_choice_and_name_its_terms() {
    let mut candidates = Vec::new();
    let placements = history(Bounds::default(), 300, |cluster, task| {
        cluster.placer.arrived(&Task { cores: 1, ..Task::default() });
        candidates.push(cluster.placer.candidates(task, 4));
    });
    let mut compared = 0;
    for (placement, candidates) in placements.iter().zip(&candidates) {
        assert_eq!(placement.is_some(), !candidates.is_empty());
        assert!(candidates.is_sorted_by_key(|candidate| candidate.placement.score));
        for candidate in candidates {
            let rounded = (candidate.change.sum() + (1 << (POINT - 8))) >> (POINT - 7);
            assert_eq!(candidate.placement.score.potential, rounded);
        }
        compared += usize::from(candidates.len() > 1);
    }
    assert!(compared > 100);
}

#[test]
fn scarce_models_are_kept_for_tasks_that_must_have_them() {
    let mut placer = Placer::default();
    for node in 0..4 {
        placer.set(node, Some(NodeState::new(64_000, 64_000, (node % 2) as u8, &[WHOLE; 4])));
    }
    let (any, must) = (
        Task { devices: 1, share: WHOLE, ..Task::default() },
        Task { devices: 1, share: WHOLE, models: Models::only([0]), ..Task::default() },
    );
    for _ in 0..40 {
        placer.arrived(&any);
        placer.arrived(&must);
    }
    let placement = placer.place(&any).unwrap();
    assert_eq!(placement.node % 2, 1);
    assert_eq!(placer.place(&must).unwrap().node, 0);
}

#[test]
fn shortage_counts_nodes_by_what_they_lack() {
    let mut placer = Placer::default();
    for (node, state) in [
        NodeState::new(9, 9, 1, &[1000]),
        NodeState::new(9, 9, 0, &[900]),
        NodeState::new(1, 9, 0, &[1000]),
        NodeState::new(9, 1, 0, &[1000]),
        NodeState::new(9, 1, 0, &[1000]),
    ]
    .into_iter()
    .enumerate()
    {
        placer.set(node as u32, Some(state));
    }
    let task = Task { devices: 1, share: 1000, cores: 5, memory: 5, models: Models::only([0]) };
    let shortage = placer.shortage(&task);
    assert_eq!((shortage.model, shortage.devices, shortage.cores, shortage.memory), (1, 1, 1, 2));
    assert_eq!(
        shortage.to_string(),
        "1 nodes have no device of an allowed model, 1 nodes have too few devices with enough free, \
         1 nodes have too few free host cores, 2 nodes have too little free host memory"
    );
}
