//! Feeds targets, and looks at what they do with it.

use crate::Target;
use crate::allocations::counted;
use crate::mutate::{Chance, mutate};
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};

/// Longest that one input may keep a processor busy.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Inputs that are kept because they allocated otherwise than all before.
const KEPT_MAX: usize = 512;
/// Inputs of a target that the repository keeps, and their bytes.
const CORPUS_MAX: usize = 24;
const CORPUS_BYTES_MAX: usize = 8 << 10;
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

/// Inputs of a target that once went wrong or are good to begin with, from `fuzz/corpus`.
pub fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// Feeds a target with its corpus, its seeds and changed ones of them. Returns how many inputs it took.
///
/// # Errors
/// The first input with which it went wrong.
pub fn drive(target: &Target, budget: Budget, seed: u64) -> Result<u32, Failure> {
    let mut tell = |_: crate::Taken, _: &[u8]| {};
    feed(target, corpus(target), budget, seed, &mut tell)
}

/// Inputs that are worth being kept: for each sign of how far a decoder gets (what it allocates) the shortest that was found, from the
/// shortest on, as long as there is room.
///
/// # Errors
/// The first input with which the target went wrong.
pub fn collect(target: &Target, budget: Budget, seed: u64) -> Result<Vec<Vec<u8>>, Failure> {
    let mut best: BTreeMap<Sign, Vec<u8>> = BTreeMap::new();
    let mut keep = |taken: crate::Taken, input: &[u8]| {
        let known = best.entry(sign(taken)).or_insert_with(|| input.to_vec());
        if input.len() < known.len() {
            *known = input.to_vec();
        }
    };
    // Not from the corpus: what has become useless in there goes.
    feed(target, Vec::new(), budget, seed, &mut keep)?;
    let mut found: Vec<_> = best.into_iter().map(|(sign, input)| shortened(target, sign, input)).collect();
    found.sort_by_key(Vec::len);
    found.dedup();
    let mut room = CORPUS_BYTES_MAX;
    found.retain(|input| {
        let fits = (1..=room).contains(&input.len());
        room -= if fits { input.len() } else { 0 };
        fits
    });
    found.truncate(CORPUS_MAX);
    Ok(found)
}

/// Leaves out of an input what its decoder gets as far without.
fn shortened(target: &Target, wanted: Sign, mut input: Vec<u8>) -> Vec<u8> {
    let mut len = input.len() / 2;
    while len > 0 && input.len() <= SHORTENED_MAX {
        let mut at = 0;
        while at < input.len() {
            let mut shorter = input.clone();
            shorter.drain(at..(at + len).min(shorter.len()));
            match check(target, &shorter) {
                Ok(taken) if sign(taken) == wanted => input = shorter,
                _ => at += len,
            }
        }
        len /= 2;
    }
    input
}

/// Calls for memory, and the most of it by its magnitude.
type Sign = (u32, Option<u32>);

fn sign(taken: crate::Taken) -> Sign {
    (taken.calls, taken.most.checked_ilog2())
}

fn feed(
    target: &Target,
    mut pool: Vec<Vec<u8>>,
    budget: Budget,
    seed: u64,
    tell: &mut dyn FnMut(crate::Taken, &[u8]),
) -> Result<u32, Failure> {
    pool.extend((target.seeds)());
    for input in &pool {
        let taken = check(target, input).map_err(|what| small(target, what, input.clone()))?;
        tell(taken, input);
    }
    if pool.is_empty() {
        pool.push(Vec::new());
    }
    let (first, mut seen) = (pool.len(), HashSet::new());
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
        let taken = check(target, &input).map_err(|what| small(target, what, input.clone()))?;
        done += 1;
        tell(taken, &input);
        // Sizes by their magnitude: each new one is worth a place.
        if seen.insert(sign(taken)) {
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

/// Gives one input to a target.
///
/// # Errors
/// What it did wrong.
pub fn check(target: &Target, input: &[u8]) -> Result<crate::Taken, String> {
    let before = cpu_time();
    HOOK.call_once(remember_panics);
    PANIC.set(Some(String::new()));
    let (outcome, taken) = counted(|| catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
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
    Ok(taken)
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
