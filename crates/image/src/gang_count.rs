//! Determines the number of gangs that a kernel's code relies on.
//!
//! A constant `num_gangs` is part of the code, which then does not read `%nctaid.x`: each gang takes its share of a loop for so many gangs. The image
//! has only 16 bits of the number. A program may compare its gang number with constants of its own. So only the forms of GCC's loops over gangs prove
//! the rest:
//!
//! * Shares: from `gang * share` to `min(gang * share + share, end)`, compared with the start. The share is `(n + 99999) / 100000`, or
//!   a constant if `n` is one.
//! * Rounds: a variable that starts at the gang's number, or is added to it, grows in a loop by the number of gangs.

use super::gang_values::{Gang, Rest, Value, plus, times};
use super::ptx::{Instruction, Line};
use super::repeated_updates::repeated_updates;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A kernel's number of gangs, as far as known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GangCount {
    /// The number in the image; any number if that is 0.
    AsGiven,
    /// The number for which the code was compiled, though the image does not hold it.
    Exactly(u32),
    /// Unknown: the code was compiled for a multiple of 65,536, and does not show which.
    Lost,
}

/// A kernel's use of its number of gangs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GangUse {
    /// Whether the code reads the number at run time.
    counted: bool,
    /// Whether the code may be correct for only one number of gangs: it uses a gang's number, or has atomic updates whose result depends on how many
    /// there are.
    depends: bool,
    /// Numbers of gangs by which the code divides a loop's length.
    divisors: Vec<u64>,
    /// Numbers of gangs, or multiples, that the code adds for later rounds of a loop.
    rounds: Vec<u64>,
    /// Shares of loops of constant length.
    shares: Vec<ConstantShare>,
}

/// A gang's part of a loop of constant length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ConstantShare {
    /// Iterations per gang.
    each: u64,
    /// Iterations of the loop.
    length: u64,
    /// Whether the gang's threads share them.
    threads: bool,
}

/// The multiple that the image's 16 bits leave out.
const LOST: u64 = 1 << 16;
/// The driver's largest grid.
const GANGS_MAX: u64 = (1 << 31) - 1;

impl GangUse {
    /// Analyses a kernel's body.
    pub(super) fn read(body: &[&str]) -> Self {
        let lines: Vec<Line<'_>> = body.iter().map(|line| Line::read(line)).collect();
        let mut reader = Reader::new(&lines, repeated_updates(body));
        for (at, line) in lines.iter().enumerate() {
            match line {
                Line::Label(_) => reader.label(),
                Line::Instruction(instruction) => reader.step(at, instruction),
                _ => {}
            }
        }
        reader.found
    }

    /// Returns the number of gangs of a kernel for which the image has `given`.
    pub fn count(&self, given: u16) -> GangCount {
        let given = u64::from(given);
        if self.counted {
            return GangCount::AsGiven;
        }
        let mut fitting = self.divisors.iter().copied().filter(|number| number % LOST == given);
        if let Some(first) = fitting.next() {
            // Two fitting numbers contradict each other, and prove nothing.
            let one = fitting.all(|number| number == first);
            if one {
                return exactly(first, given);
            }
        }
        let mut fitting = self.rounds.iter().flat_map(|round| parts(*round, given));
        if let Some(first) = fitting.next() {
            return if first == given || fitting.all(|number| number == first) {
                exactly(first, given)
            } else {
                GangCount::Lost
            };
        }
        let proven = (!self.shares.is_empty()).then(|| {
            // The first number, equal to the image's modulo 65,536, for which all shares are right.
            let mut numbers = (given..=GANGS_MAX).step_by(LOST as usize);
            numbers.find(|number| *number > 0 && self.shares.iter().all(|share| share.fits(*number, given)))
        });
        match proven.flatten() {
            Some(number) => exactly(number, given),
            None if given == 0 && self.depends => GangCount::Lost,
            None => GangCount::AsGiven,
        }
    }
}

impl ConstantShare {
    /// Whether GCC gives so many gangs this share, if the image has the lower bits of the number.
    fn fits(&self, number: u64, given: u64) -> bool {
        let all_done = number.saturating_mul(self.each) >= self.length;
        // The code shows neither the number of threads nor the loop's step.
        let shared_out = self.threads || (self.each > 1 && self.length.div_ceil(number) == self.each);
        all_done && (number == given || shared_out)
    }
}

/// Returns the numbers of gangs for which the image would have `given`, and that divide `multiple`.
fn parts(multiple: u64, given: u64) -> impl Iterator<Item = u64> {
    /// Larger values are no such multiple.
    const MULTIPLE_MAX: u64 = 1 << 36;
    let all = if multiple <= MULTIPLE_MAX { multiple / LOST } else { 0 };
    let itself = (given > 1 && multiple.is_multiple_of(given)).then_some(given);
    let larger = (1..=all).filter(move |times| multiple.is_multiple_of(*times)).map(move |times| multiple / times);
    itself.into_iter().chain(larger.filter(move |number| number % LOST == given))
}

fn exactly(number: u64, given: u64) -> GangCount {
    match u32::try_from(number) {
        _ if number == given => GangCount::AsGiven,
        Ok(count) if number <= GANGS_MAX => GangCount::Exactly(count),
        _ => GangCount::Lost,
    }
}

struct Reader<'a> {
    values: HashMap<&'a str, Value>,
    /// Registers written in several places, whose value after a label may come from elsewhere.
    variables: HashSet<&'a str>,
    /// The lines of loops.
    loops: Vec<Range<usize>>,
    /// The multiple of the gang's number with which variables begin.
    begins: HashMap<&'a str, u64>,
    /// The divisors in the code.
    divided: HashSet<u64>,
    /// Whether only threads of the first gang execute the following code.
    within_first: bool,
    /// Lines with atomic updates whose result is the same for every number of gangs.
    repeated: HashSet<usize>,
    found: GangUse,
}

impl<'a> Reader<'a> {
    fn new(lines: &[Line<'a>], repeated: HashSet<usize>) -> Self {
        let (mut written, mut labels, mut loops) = (HashSet::new(), HashMap::new(), Vec::new());
        let mut variables = HashSet::new();
        for (at, line) in lines.iter().enumerate() {
            match line {
                Line::Label(name) => {
                    labels.insert(*name, at);
                }
                Line::Instruction(instruction) => {
                    loops.extend(instruction.target().and_then(|target| labels.get(target)).map(|from| *from..at));
                    variables.extend(instruction.written().filter(|to| !written.insert(*to)));
                }
                _ => {}
            }
        }
        Self {
            values: HashMap::new(),
            variables,
            loops,
            begins: HashMap::new(),
            divided: HashSet::new(),
            within_first: false,
            repeated,
            found: GangUse::default(),
        }
    }

    fn label(&mut self) {
        let Self { values, variables, .. } = self;
        values.retain(|register, _| !variables.contains(register));
    }

    fn step(&mut self, at: usize, instruction: &Instruction<'a>) {
        let operands: &[&'a str] = &instruction.operands;
        let (name, kind) = instruction.name.split_once('.').unwrap_or((instruction.name, ""));
        self.found.counted |= operands.contains(&"%nctaid.x");
        self.found.depends |= matches!(name, "atom" | "red") && !self.repeated.contains(&at);
        self.within_first &= !operands.contains(&"%ctaid.x");
        let reads = operands.iter().any(|operand| matches!(self.get(address(operand)), Some(Value::Gang(_))));
        if let ("setp", &[_, a, b]) = (name, operands) {
            self.compare(a, b);
        }
        let Some(&to) = operands.first() else { return };
        if let ("add", &[to, a, b]) = (name, operands) {
            self.round(at, to, a, b);
        }
        if let ("add" | "vadd", [_, added @ ..]) = (name, operands) {
            self.adds(added);
        }
        let value = self.value(name, kind, operands);
        // Other uses of the gang's number than the test for the first gang.
        let followed = matches!(value, Some(Value::Gang(_))) && !self.variables.contains(to);
        if let Some(gang) = self.asks_for_the_first(name, kind, operands) {
            // Threads of other gangs do no work in such a loop.
            self.within_first |= gang.thread;
        } else {
            self.found.depends |= reads && !followed && !self.within_first;
        }
        match value {
            Some(value) => {
                if let Value::Gang(Gang { times, share: None, .. }) = value
                    && self.variables.contains(to)
                {
                    self.begins.insert(to, times.unsigned_abs());
                }
                self.values.insert(to, value)
            }
            None => self.values.remove(to),
        };
    }

    /// Returns the gang's number, with its threads', if an instruction only tests whether this is the first gang. A loop with no more iterations than threads
    /// of one gang needs that.
    fn asks_for_the_first(&self, name: &str, kind: &str, operands: &[&str]) -> Option<Gang> {
        let &[_, gang, end] = operands else { return None };
        let (Some(Value::Gang(gang)), Some(Value::Constant(end))) = (self.get(gang), self.get(end)) else {
            return None;
        };
        let down = gang.times < 0;
        let own = match (kind.split('.').next()?, down) {
            ("eq" | "ne", _) | ("gt" | "le", false) | ("lt" | "ge", true) => 0,
            ("ge" | "lt", false) | ("gt" | "le", true) => 1,
            _ => return None,
        };
        let is_first = end.unsigned_abs() < gang.times.unsigned_abs() + own && (end == 0 || (end < 0) == down);
        (name == "setp" && gang.share.is_none() && gang.rest == Rest::Constant(0) && is_first).then_some(gang)
    }

    /// Records what a loop adds per round to a variable that begins with the gang's number, or is added to it.
    fn round(&mut self, at: usize, to: &'a str, a: &'a str, b: &'a str) {
        let Some(&each) = self.begins.get(to) else { return };
        let Some(Value::Constant(by)) = self.get(b) else { return };
        if to != a || !self.loops.iter().any(|lines| lines.contains(&at)) {
            return;
        }
        let number = part(by.unsigned_abs(), each);
        // The number of rounds was computed by a division by the same number.
        let known = self.divided.contains(&by.unsigned_abs());
        let found = if known { &mut self.found.divisors } else { &mut self.found.rounds };
        found.extend(number);
    }

    /// Records variables that are added to the gang's number.
    fn adds(&mut self, added: &[&'a str]) {
        let gang = added.iter().find_map(|operand| match self.get(operand) {
            Some(Value::Gang(Gang { times, share: None, .. })) => Some(times.unsigned_abs()),
            _ => None,
        });
        for &variable in added.iter().filter(|_| gang.is_some()) {
            if self.variables.contains(variable) {
                self.begins.entry(variable).or_insert(gang.unwrap_or_default());
            }
        }
    }

    fn get(&self, operand: &str) -> Option<Value> {
        match operand {
            "%ctaid.x" => Some(Value::Gang(Gang::NUMBER)),
            "%tid.x" | "%tid.y" => Some(Value::Thread),
            _ => match operand.parse() {
                Ok(number) => Some(Value::Constant(number)),
                Err(_) => self.values.get(operand).copied(),
            },
        }
    }

    /// Returns the value of an instruction's first operand after it.
    fn value(&mut self, name: &str, kind: &str, operands: &[&str]) -> Option<Value> {
        let whole = ["32", "64"].iter().any(|bits| kind.split('.').any(|part| part.ends_with(bits)));
        if !whole {
            return None;
        }
        match (name, operands) {
            ("mov" | "cvt", &[_, from]) => self.get(from),
            ("neg", &[_, from]) => times(self.get(from)?, Value::Constant(-1)),
            ("add", &[_, a, b]) => plus(self.get(a), self.get(b)),
            ("vadd", &[_, a, b, c]) => plus(plus(self.get(a), self.get(b)), self.get(c)),
            ("sub", &[_, a, b]) => plus(self.get(a), self.get(b).and_then(|b| times(b, Value::Constant(-1)))),
            ("mul", &[_, a, b]) => times(self.get(a)?, self.get(b)?),
            ("mad", &[_, a, b, c]) => {
                let product = self.get(a).zip(self.get(b)).and_then(|(a, b)| times(a, b));
                plus(product, self.get(c))
            }
            ("shl", &[_, a, b]) => {
                let by = b.parse::<u32>().ok().filter(|by| *by < 32)?;
                times(self.get(a)?, Value::Constant(1 << by))
            }
            ("div", &[_, _, by]) => self.divide(by.parse::<i64>().ok()?.unsigned_abs()),
            // Shifts by 31 and 63 copy the sign to all bits.
            ("shr", &[_, _, by]) => self.divide(1 << by.parse::<u32>().ok().filter(|by| *by < 31)?),
            ("min" | "max", &[_, a, b]) => {
                let begin = |operand| match self.get(operand) {
                    Some(Value::Gang(gang)) => {
                        gang.begin().filter(|gang| gang.share.is_some() || (gang.times < 0) == (name == "max"))
                    }
                    _ => None,
                };
                let (begin, end) = begin(a).map(|gang| (gang, b)).or_else(|| begin(b).map(|gang| (gang, a)))?;
                let end = match self.get(end) {
                    Some(Value::Constant(end)) => Some(end),
                    _ => None,
                };
                Some(Value::Bound { begin, end })
            }
            _ => None,
        }
    }

    fn divide(&mut self, by: u64) -> Option<Value> {
        (by >= LOST).then(|| {
            self.divided.insert(by);
            Value::Share { of: by, times: 1 }
        })
    }

    /// Records the comparison of the start of a gang's share with its end.
    fn compare(&mut self, a: &str, b: &str) {
        let (gang, (begin, end)) = match (self.get(a), self.get(b)) {
            (Some(Value::Gang(gang)), Some(Value::Bound { begin, end }))
            | (Some(Value::Bound { begin, end }), Some(Value::Gang(gang))) => (gang, (begin, end)),
            _ => return,
        };
        if gang != begin {
            return;
        }
        let each = begin.times.unsigned_abs();
        match (begin.share, end) {
            (Some(of), _) => self.found.divisors.extend(part(of, each)),
            // In loops that count down all values are negative.
            (None, Some(end)) => {
                let length = if begin.times < 0 { end.saturating_neg() } else { end };
                if let Ok(length) = u64::try_from(length) {
                    self.found.shares.push(ConstantShare { each, length, threads: begin.thread });
                }
            }
            (None, None) => {}
        }
    }
}

/// The register of an operand that may be an address.
fn address(operand: &str) -> &str {
    let inside = operand.strip_prefix('[').and_then(|operand| operand.strip_suffix(']'));
    inside.map_or(operand, |inside| inside.split('+').next().unwrap_or(inside))
}

/// Returns the number of gangs if all together do `all` iterations, and one of them `each`. With one gang no number
/// appears.
fn part(all: u64, each: u64) -> Option<u64> {
    (all.checked_rem(each) == Some(0) && all / each > 1).then(|| all / each)
}
