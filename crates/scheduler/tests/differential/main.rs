//! Compares the scheduler with a naive one: they must decide alike over random histories, and invariants must hold
//! after each step.
//!
//! `ACCORD_SCHEDULER_SEED=long:N` or `brief:N` runs one history again and prints it. `ACCORD_SCHEDULER_SEEDS=N` and `ACCORD_SCHEDULER_BRIEF_SEEDS=N`
//! run those of the first N seeds.

mod history;
mod naive;
mod naive_near;
mod naive_place;
mod promises;
#[path = "../random/mod.rs"]
mod random;

use accord_scheduler::follower::{Follower, InputLog};
use accord_scheduler::{Effect, EndCause, Scheduler};
use history::History;
use naive::Naive;
use promises::Promises;

/// A kind of histories.
struct Kind {
    name: &'static str,
    /// Number of inputs of a history.
    steps: usize,
    /// Number of inputs that the copy takes at a time.
    follows_every: usize,
    /// Least and largest number of nodes.
    nodes: (u32, u32),
    /// Whether it begins with all nodes, and only accounts that may have jobs request devices.
    dense: bool,
    /// Histories of the short tier, and of the long one.
    counts: (u64, u64),
    /// The variable that has the number of histories.
    variable: &'static str,
}

/// Histories of a cluster that fills and empties several times, for what takes long to come about.
const LONG: Kind = Kind {
    name: "long",
    steps: 120,
    follows_every: 30,
    nodes: (2, 6),
    dense: false,
    counts: (60, 10_000),
    variable: "ACCORD_SCHEDULER_SEEDS",
};

/// Histories of few nodes and jobs, of which many are run.
const BRIEF: Kind = Kind {
    name: "brief",
    steps: 25,
    follows_every: 10,
    nodes: (1, 3),
    dense: true,
    counts: (10_000, 50_000),
    variable: "ACCORD_SCHEDULER_BRIEF_SEEDS",
};

fn decisions(effects: &[Effect]) -> Vec<&Effect> {
    effects
        .iter()
        .filter(|effect| {
            !matches!(effect, Effect::Audit(_) | Effect::QuarantineRefused { .. } | Effect::Changed { .. })
        })
        .collect()
}

/// Numbers of jobs.
#[derive(Clone, Copy, Default)]
struct Counts {
    started: usize,
    /// Those that end because their account is spent.
    spent: usize,
    /// Those that are suspended because they gave way to others.
    gave_way: usize,
    /// Suspended ones that go on.
    resumed: usize,
}

/// Runs a history. Returns the numbers of its jobs.
///
/// # Errors
/// Returns what has gone wrong: a decision that differs, a repetition that differs, or an invariant that does not hold.
fn run(kind: &Kind, seed: u64, print: bool) -> Result<Counts, String> {
    let (mut history, policy) = History::new(seed, kind.nodes, kind.dense);
    let mut names: Vec<String> = policy.accounts.iter().map(|account| account.name.clone()).collect();
    let (mut fast, mut again, mut naive) =
        (Scheduler::new(policy.clone()), Scheduler::new(policy.clone()), Naive::new(policy));
    let (mut log, mut follower, mut copy) = (InputLog::default(), Follower::default(), None::<Scheduler>);
    let (mut counts, mut promises) = (Counts::default(), Promises::default());
    // Until a job has given way. Beside its devices the two may choose other ones of a node, and all differs from then on.
    let mut is_compared = true;
    for step in 0..kind.steps {
        let (now, input) = history.next();
        if let accord_scheduler::Input::PolicyApplied { policy, .. } = &input {
            names = policy.accounts.iter().map(|account| account.name.clone()).collect();
        }
        if let accord_scheduler::Input::AccountAdded(account) = &input
            && !names.contains(&account.name)
        {
            names.push(account.name.clone());
        }
        let mut effects = (Vec::new(), Vec::new(), Vec::new());
        if print {
            println!("{step} {now:?}: {input:?}");
        }
        log.note(now, &input);
        fast.apply(now, input.clone(), &mut effects.0);
        again.apply(now, input.clone(), &mut effects.1);
        if is_compared {
            naive.apply(now, input.clone(), &mut effects.2);
        }
        if print {
            println!("    {:?}", effects.0);
        }
        let place = || format!("seed {seed}, step {step}, {now:?}: {input:?}");
        fast.check_invariants().map_err(|why| format!("invariant: {}: {why}", place()))?;
        promises.check(&input, &effects.0).map_err(|why| format!("invariant: {}: {why}", place()))?;
        for name in names.iter().filter(|_| is_compared) {
            let (found, exact) = (fast.usage(name).map(|usage| usage.milli_ms), naive.usage(name));
            if found != exact {
                return Err(format!("invariant: {}: {name} used {found:?}, which is {exact:?}", place()));
            }
        }
        if is_compared && decisions(&effects.0) != decisions(&effects.2) {
            let (fast, naive) = (decisions(&effects.0), decisions(&effects.2));
            return Err(format!("differential: {}\nfast:  {fast:?}\nnaive: {naive:?}", place()));
        }
        if effects.0 != effects.1 {
            return Err(format!("repetition: {}: equal inputs, other effects", place()));
        }
        if let Some(copy) = &mut copy {
            let mut decided = Vec::new();
            copy.apply(now, input.clone(), &mut decided);
            if effects.0 != decided {
                return Err(format!(
                    "repetition: {}: a copy that has taken the earlier inputs decides otherwise",
                    place()
                ));
            }
        }
        if step % kind.follows_every == 0 {
            copy = follower.follow(log.take(&fast, follower.has_copy())).cloned();
        }
        for effect in &effects.0 {
            if let Effect::Suspend { job, .. } = effect {
                is_compared &= fast.suspension(*job).is_none_or(|of| of.cause.preempted_by().is_none());
            }
            match effect {
                Effect::Started { .. } => counts.started += 1,
                Effect::Ended { cause: EndCause::Spent, .. } => counts.spent += 1,
                Effect::Suspended { job } => {
                    let suspension = fast.suspension(*job);
                    counts.gave_way += usize::from(suspension.is_some_and(|of| of.cause.preempted_by().is_some()));
                }
                Effect::Resumed { .. } => counts.resumed += 1,
                _ => {}
            }
        }
        history.take_note(&effects.0);
    }
    Ok(counts)
}

/// Runs the histories of a kind. Returns their number, and the numbers of jobs as [`run`] does.
fn run_all(kind: &Kind) -> (u64, Counts) {
    let seeds = std::env::var(kind.variable).ok().and_then(|seeds| seeds.parse().ok());
    let count = seeds.unwrap_or_else(|| accord_test_tier::pick(kind.counts.0, kind.counts.1));
    let first = if seeds.is_some() { 0 } else { accord_test_tier::first_seed(count) };
    let mut counts = Counts::default();
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| run(kind, seed, false));
        match outcome.unwrap_or_else(|_| Err(format!("panic: seed {seed}"))) {
            Ok(Counts { started, spent, gave_way, resumed }) => {
                counts.started += started;
                counts.spent += spent;
                counts.gave_way += gave_way;
                counts.resumed += resumed;
            }
            Err(why) => panic!("{why}\nrun it again with ACCORD_SCHEDULER_SEED={}:{seed}", kind.name),
        }
    }
    (count, counts)
}

/// Whether one history was to be run, which has been if it is of this kind.
fn runs_one(kind: &Kind) -> bool {
    let Ok(chosen) = std::env::var("ACCORD_SCHEDULER_SEED") else { return false };
    if let Some(seed) = chosen.strip_prefix(kind.name).and_then(|seed| seed.strip_prefix(':')) {
        run(kind, seed.parse().unwrap(), true).unwrap();
    }
    true
}

#[test]
fn decisions_equal_those_of_the_naive_scheduler() {
    if !runs_one(&LONG) {
        let (count, Counts { started, spent, .. }) = run_all(&LONG);
        assert!(started as u64 > 5 * count, "{started} jobs started in {count} histories");
        assert!(spent as u64 > count / 50, "{spent} jobs of spent accounts ended in {count} histories");
    }
}

#[test]
fn decisions_equal_those_of_the_naive_scheduler_in_brief_histories() {
    if !runs_one(&BRIEF) {
        let (count, Counts { started, gave_way, resumed, .. }) = run_all(&BRIEF);
        assert!(started as u64 > 2 * count, "{started} jobs started in {count} histories");
        assert!(gave_way as u64 > count / 2_000, "{gave_way} jobs gave way in {count} histories");
        assert!(resumed as u64 > count / 2_000, "{resumed} suspended jobs went on in {count} histories");
    }
}
