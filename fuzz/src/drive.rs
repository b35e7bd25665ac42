//! Feeds targets, and looks at what they do with it.

use crate::allocations::{Taken, counted};
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

/// Longest that one input may keep a processor busy.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Inputs that a run goes on from because they reached what none before them had.
const KEPT_MAX: usize = 512;
/// Inputs of a target that the repository keeps for the places that they reach.
pub const CORPUS_MAX: usize = 64;
/// Their bytes.
pub const CORPUS_BYTES_MAX: usize = 8 << 10;
/// A place counts if an input reaches it each time. Where threads wait for each other some are reached now and then.
const REACHED_AGAIN: usize = 3;
/// Longer inputs are not made shorter: that would take too long.
const SHORTENED_MAX: usize = 4 << 10;
/// Inputs between two looks at the clock.
const STEP: u32 = 64;

/// How long a target is fed.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// So many inputs.
    Inputs(u32),
    /// So long.
    Time(Duration),
}

/// An input with which a decoder went wrong, made as small as is easy.
#[derive(Debug)]
pub struct Failure {
    /// The target's name.
    pub target: &'static str,
    /// What happened.
    pub what: String,
    /// With what.
    pub input: Vec<u8>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, with {} bytes:", self.target, self.what, self.input.len())?;
        self.input.iter().take(256).try_for_each(|byte| write!(f, " {byte:02x}"))?;
        let shown = &self.input[..self.input.len().min(1024)];
        write!(f, "\n  as text: {}", String::from_utf8_lossy(shown).escape_debug())
    }
}

/// Feeds a target with its corpus, its seeds and changed ones of them. Returns how many inputs it took.
///
/// # Errors
/// Returns the first input with which it went wrong, or what is wrong with its corpus.
pub fn drive(target: &Target, budget: Budget, seed: u64) -> Result<u32, Failure> {
    let no_corpus = |what| Failure { target: target.name, what, input: Vec::new() };
    let kept = corpus::read(target).map_err(no_corpus)?;
    feed(target, kept.into_iter().map(|kept| kept.input).collect(), budget, seed, &mut |_, _| {})
}

/// Inputs that are worth being kept: those that together reach what the target's seeds do not, each as short as is easy. If they are too many, those
/// that reach the most for their length.
///
/// # Errors
/// Returns the first input with which the target went wrong.
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
    // What has become useless in the corpus is not chosen again.
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
    let (mut wanted, mut room) = (Vec::new(), CORPUS_BYTES_MAX);
    while wanted.len() < CORPUS_MAX {
        left.retain(|(reached, _)| !reached.is_empty());
        // The one that reaches the most for its length. Short ones are not that much better than others.
        let worth = |(reached, input): &(BTreeSet<u64>, Vec<u8>)| (reached.len() << 10) / (input.len() + 64);
        let best = (0..left.len()).max_by_key(|&at| (worth(&left[at]), Reverse(left[at].1.len())));
        let Some((met, input)) = best.map(|best| left.swap_remove(best)) else { break };
        let input = shortened(target, &met, input);
        if input.len() <= room {
            left.iter_mut().for_each(|(reached, _)| reached.retain(|place| !met.contains(place)));
            room -= input.len();
            wanted.push(input);
        }
    }
    wanted.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    Ok(wanted)
}

fn reached(target: &Target, input: &[u8]) -> BTreeSet<u64> {
    check(target, input).map_or_else(|_| BTreeSet::new(), |reached| reached.into_iter().collect())
}

/// Leaves out of an input what its decoder gets to these places without.
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

/// What an input has reached: places of the code in builds that count them; else how often it asked for memory, and the most of it
/// by its magnitude, as one number: each new one is worth a place.
fn reach(taken: Taken) -> Vec<u64> {
    let places = coverage::reached();
    let memory = u64::from(taken.calls) << 8 | u64::from(taken.most.checked_ilog2().map_or(0, |log| log + 1));
    if places.is_empty() { vec![memory] } else { places }
}

fn feed(
    target: &Target,
    mut pool: Vec<Vec<u8>>,
    budget: Budget,
    seed: u64,
    tell: &mut dyn FnMut(&[u64], &[u8]),
) -> Result<u32, Failure> {
    let mut seen = HashSet::new();
    pool.extend((target.seeds)());
    for input in &pool {
        let reached = check(target, input).map_err(|what| small(target, what, input.clone()))?;
        tell(&reached, input);
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
        tell(&reached, &input);
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
    /// What the target's panic says; none outside of targets.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps what a panic of a target says, with its place. Others are shown as ever.
fn remember_panics() {
    let others = take_hook();
    set_hook(Box::new(move |panic| {
        let within = PANIC.with_borrow_mut(|text| text.as_mut().map(|text| *text = panic.to_string()).is_some());
        if !within {
            others(panic);
        }
    }));
}

/// Gives one input to a target. Returns what it reached.
///
/// # Errors
/// Returns the target's fault.
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

/// Leaves out of an input what it goes wrong without.
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

/// Time that this thread has had a processor: other work on the machine does not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
