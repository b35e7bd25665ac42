//! Compares the scheduler with a naive one: they must decide alike over random histories, and invariants must hold
//! after each step.
//!
//! `ACCORD_SCHEDULER_SEED=N` runs one history again and prints it, `ACCORD_SCHEDULER_SEEDS=N` runs those of the first N seeds.

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

/// Histories of the short tier, and of the long one.
const SHORT: u64 = 60;
const LONG: u64 = 10_000;

/// Number of inputs of a history.
const STEPS: usize = 120;
/// Number of inputs that the copy takes at a time.
const FOLLOWS_EVERY: usize = 30;

fn decisions(effects: &[Effect]) -> Vec<&Effect> {
    effects
        .iter()
        .filter(|effect| {
            !matches!(effect, Effect::Audit(_) | Effect::QuarantineRefused { .. } | Effect::Changed { .. })
        })
        .collect()
}

/// Runs a history. Returns the numbers of started jobs, and of jobs that end because their account is spent.
///
/// # Errors
/// Returns what has gone wrong: a decision that differs, a repetition that differs, or an invariant that does not hold.
fn run(seed: u64, print: bool) -> Result<(usize, usize), String> {
    let (mut history, policy) = History::new(seed);
    let mut names: Vec<String> = policy.accounts.iter().map(|account| account.name.clone()).collect();
    let (mut fast, mut again, mut naive) =
        (Scheduler::new(policy.clone()), Scheduler::new(policy.clone()), Naive::new(policy));
    let (mut log, mut follower, mut copy) = (InputLog::default(), Follower::default(), None::<Scheduler>);
    let (mut started, mut spent, mut promises) = (0, 0, Promises::default());
    for step in 0..STEPS {
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
        naive.apply(now, input.clone(), &mut effects.2);
        if print {
            println!("    {:?}", effects.0);
        }
        let place = || format!("seed {seed}, step {step}, {now:?}: {input:?}");
        fast.check_invariants().map_err(|why| format!("invariant: {}: {why}", place()))?;
        promises.check(&input, &effects.0).map_err(|why| format!("invariant: {}: {why}", place()))?;
        for name in &names {
            let (found, exact) = (fast.usage(name).map(|usage| usage.milli_ms), naive.usage(name));
            if found != exact {
                return Err(format!("invariant: {}: {name} used {found:?}, which is {exact:?}", place()));
            }
        }
        if decisions(&effects.0) != decisions(&effects.2) {
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
        if step % FOLLOWS_EVERY == 0 {
            copy = follower.follow(log.take(&fast, follower.has_copy())).cloned();
        }
        started += effects.0.iter().filter(|effect| matches!(effect, Effect::Started { .. })).count();
        let is_spent = |effect: &&Effect| matches!(effect, Effect::Ended { cause: EndCause::Spent, .. });
        spent += effects.0.iter().filter(is_spent).count();
        history.take_note(&effects.0);
    }
    Ok((started, spent))
}

#[test]
fn decisions_equal_those_of_the_naive_scheduler() {
    if let Some(seed) = std::env::var("ACCORD_SCHEDULER_SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed, true).unwrap();
        return;
    }
    let seeds = std::env::var("ACCORD_SCHEDULER_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let count = seeds.unwrap_or_else(|| accord_test_tier::pick(SHORT, LONG));
    let first = if seeds.is_some() { 0 } else { accord_test_tier::first_seed(count) };
    let (mut started, mut spent) = (0, 0);
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| run(seed, false));
        match outcome.unwrap_or_else(|_| Err(format!("panic: seed {seed}"))) {
            Ok(jobs) => (started, spent) = (started + jobs.0, spent + jobs.1),
            Err(why) => panic!("{why}\nrun it again with ACCORD_SCHEDULER_SEED={seed}"),
        }
    }
    assert!(started as u64 > 5 * count, "{started} jobs started in {count} histories");
    assert!(spent as u64 > count / 50, "{spent} jobs of spent accounts ended in {count} histories");
}
