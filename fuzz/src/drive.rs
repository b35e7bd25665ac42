//! Feeds inputs to targets and checks their effects.

use crate::allocations::{AllocationUse, counted};
use crate::mutate::{Chance, mutate};
use crate::{Target, corpus, coverage};
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::time::{Duration, Instant};

/// Most processor time of one input.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Most inputs kept as starting points because they reached new code.
const KEPT_MAX: usize = 512;
/// Most inputs of a target in the repository's corpus.
pub const CORPUS_MAX: usize = 64;
/// Most bytes of these.
pub const CORPUS_BYTES_MAX: usize = 8 << 10;
/// Number of repetitions in which an input must reach the same code: code that depends on the timing of threads does not count.
const REACHED_AGAIN: usize = 3;
/// Longer inputs are not minimized, because that would take too long.
const SHORTENED_MAX: usize = 4 << 10;
/// Number of inputs between two checks of the time limit.
const STEP: u32 = 64;

/// The limit of a run.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// Number of inputs.
    Inputs(u32),
    /// Processor time.
    Time(Duration),
}

/// An input with which a decoder failed, roughly minimized.
#[derive(Debug)]
pub struct Failure {
    /// The target's name.
    pub target: &'static str,
    /// The failure.
    pub what: String,
    /// The input.
    pub input: Vec<u8>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, with {} bytes:", self.target, self.what, self.input.len())?;
        self.input.iter().take(256).try_for_each(|byte| write!(f, " {byte:02x}"))?;
        let displayed = &self.input[..self.input.len().min(1024)];
        write!(f, "\n  as text: {}", String::from_utf8_lossy(displayed).escape_debug())
    }
}

/// Runs a target with its corpus, its seeds and mutations of them. Returns the number of inputs.
///
/// # Errors
/// Returns the first failing input, or an error of the corpus.
pub fn drive(target: &Target, budget: Budget, seed: u64) -> Result<u32, Failure> {
    let no_corpus = |what| Failure { target: target.name, what, input: Vec::new() };
    let kept = corpus::read(target).map_err(no_corpus)?;
    feed(target, kept.into_iter().map(|kept| kept.input).collect(), budget, seed, &mut |_, _| {})
}

/// Collects inputs for the corpus: together they reach all code that was reached beyond the target's seeds, each roughly minimized. If there are too
/// many, those that reach the most code for their length are chosen.
///
/// # Errors
/// Returns the first failing input.
pub fn collect(target: &Target, budget: Budget, seed: u64) -> Result<Vec<Vec<u8>>, Failure> {
    let mut known = BTreeSet::new();
    for input in (target.seeds)() {
        for _ in 0..REACHED_AGAIN {
            known.extend(reached(target, &input));
        }
    }
    let mut rare: Vec<(BTreeSet<u64>, Vec<u8>)> = Vec::new();
    let no_corpus = |what| Failure { target: target.name, what, input: Vec::new() };
    let kept = corpus::read(target).map_err(no_corpus)?.into_iter().map(|kept| kept.input).collect();
    // Corpus inputs that have become redundant are not chosen again.
    feed(target, kept, budget, seed, &mut |reached, input| {
        let news: BTreeSet<u64> = reached.iter().copied().filter(|place| known.insert(*place)).collect();
        if !news.is_empty() {
            rare.push((news, input.to_vec()));
        }
    })?;
    let mut left = Vec::new();
    for (mut news, input) in rare {
        let mut all = reached(target, &input);
        for _ in 1..REACHED_AGAIN {
            all = &all & &reached(target, &input);
        }
        news = &news & &all;
        left.push((news, all, input));
    }
    let places: BTreeSet<u64> = left.iter().flat_map(|(news, ..)| news).copied().collect();
    let mut left: Vec<(BTreeSet<u64>, Vec<u8>)> =
        left.into_iter().map(|(_, all, input)| (&all & &places, input)).collect();
    let (mut wanted, mut space) = (Vec::new(), CORPUS_BYTES_MAX);
    while wanted.len() < CORPUS_MAX {
        left.retain(|(reached, _)| !reached.is_empty());
        // Chooses the input that reaches the most code for its length. Differences between short lengths hardly count.
        let worth = |(reached, input): &(BTreeSet<u64>, Vec<u8>)| (reached.len() << 10) / (input.len() + 64);
        let best = (0..left.len()).max_by_key(|&at| (worth(&left[at]), Reverse(left[at].1.len())));
        let Some((met, input)) = best.map(|best| left.swap_remove(best)) else { break };
        let input = shortened(target, &met, input);
        if input.len() <= space {
            left.iter_mut().for_each(|(reached, _)| reached.retain(|place| !met.contains(place)));
            space -= input.len();
            wanted.push(input);
        }
    }
    wanted.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    Ok(wanted)
}

fn reached(target: &Target, input: &[u8]) -> BTreeSet<u64> {
    check(target, input).map_or_else(|_| BTreeSet::new(), |reached| reached.into_iter().collect())
}

/// Removes parts of an input while it still reaches these places.
fn shortened(target: &Target, wanted: &BTreeSet<u64>, mut input: Vec<u8>) -> Vec<u8> {
    let mut len = input.len() / 2;
    while len > 0 && input.len() <= SHORTENED_MAX {
        let mut at = 0;
        while at < input.len() {
            let mut shorter = input.clone();
            shorter.drain(at..(at + len).min(shorter.len()));
            if wanted.is_subset(&reached(target, &shorter)) {
                input = shorter;
            } else {
                at += len;
            }
        }
        len /= 2;
    }
    input
}

/// Returns what an input has reached: in builds with counters its code, else one number of its count of allocations and the magnitude of
/// its largest memory use. Each new number counts as one place.
fn reach(taken: AllocationUse) -> Vec<u64> {
    let places = coverage::reached();
    let memory = u64::from(taken.calls) << 8 | u64::from(taken.most.checked_ilog2().map_or(0, |log| log + 1));
    if places.is_empty() { vec![memory] } else { places }
}

fn feed(
    target: &Target,
    mut pool: Vec<Vec<u8>>,
    budget: Budget,
    seed: u64,
    notify: &mut dyn FnMut(&[u64], &[u8]),
) -> Result<u32, Failure> {
    let mut seen = HashSet::new();
    pool.extend((target.seeds)());
    for input in &pool {
        let reached = check(target, input).map_err(|what| small(target, what, input.clone()))?;
        notify(&reached, input);
        seen.extend(reached);
    }
    if pool.is_empty() {
        pool.push(Vec::new());
    }
    let first = pool.len();
    let (mut chance, start) = (Chance::new(seed), Instant::now());
    let mut done = 0;
    loop {
        match budget {
            Budget::Inputs(most) if done >= most => return Ok(done),
            Budget::Time(most) if done % STEP == 0 && start.elapsed() >= most => return Ok(done),
            _ => {}
        }
        let mut input = pool[chance.below(pool.len())].clone();
        let other = &pool[chance.below(pool.len())];
        mutate(&mut input, other, target.words, target.input_max, &mut chance);
        let reached = check(target, &input).map_err(|what| small(target, what, input.clone()))?;
        done += 1;
        notify(&reached, &input);
        let before = seen.len();
        seen.extend(reached);
        if seen.len() > before {
            if pool.len() < first + KEPT_MAX {
                pool.push(input);
            } else {
                let at = first + chance.below(KEPT_MAX);
                pool[at] = input;
            }
        }
    }
}

static HOOK: Once = Once::new();

thread_local! {
    /// The message of the running target's panic, or `None` outside of targets.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records the message and location of a target's panic. Other panics are printed as usual.
fn remember_panics() {
    let others = take_hook();
    set_hook(Box::new(move |panic| {
        let within = PANIC.with_borrow_mut(|text| text.as_mut().map(|text| *text = panic.to_string()).is_some());
        if !within {
            others(panic);
        }
    }));
}

/// Runs a target with one input. Returns what it reached.
///
/// # Errors
/// Returns the target's failure.
pub fn check(target: &Target, input: &[u8]) -> Result<Vec<u64>, String> {
    let before = cpu_time();
    HOOK.call_once(remember_panics);
    PANIC.set(Some(String::new()));
    coverage::reset();
    let (outcome, taken) = counted(|| catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
    let reached = reach(taken);
    let panic = PANIC.take().unwrap_or_default();
    let time = cpu_time().saturating_sub(before);
    if outcome.is_err() {
        return Err(format!("a panic: {panic}"));
    }
    let bound = target.memory.bound(input.len());
    if taken.most > bound {
        return Err(format!("it took {} bytes of memory, {bound} are allowed", taken.most));
    }
    if time > TIME_MAX {
        return Err(format!("it took {time:?}"));
    }
    Ok(reached)
}

/// Removes parts of an input while the target still fails.
fn small(target: &Target, what: String, mut input: Vec<u8>) -> Failure {
    let mut what = what;
    let mut len = input.len() / 2;
    while len > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut shorter = input.clone();
            shorter.drain(at..(at + len).min(shorter.len()));
            match check(target, &shorter) {
                Err(found) => (what, input) = (found, shorter),
                Ok(_) => at += len,
            }
        }
        len /= 2;
    }
    Failure { target: target.name, what, input }
}

/// Returns this thread's processor time, which other processes do not affect.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
