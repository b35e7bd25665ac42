//! How many gangs a kernel's code counts on.
//!
//! A constant `num_gangs` is part of the code, which then doesn't read `%nctaid.x`: each gang takes its share of a loop as if there
//! were so many. The image has the number in 16 bits only. What the code shows of it is in what it computes for a gang's first
//! iteration: the gang's number times a share, and the share is `(n + 99999) / 100000`, or a constant where `n` is one. That is
//! then compared with the loop's end.

use super::ptx::{Instruction, Line};
use std::collections::{HashMap, HashSet};

/// What can be told of a kernel's gangs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GangCount {
    /// What the image says; any number where that is 0.
    AsGiven,
    /// The code was compiled for so many, which the image can't say.
    Exactly(u32),
    /// It was compiled for a multiple of 65,536, and doesn't show for which.
    Lost,
}

/// What a kernel's code shows of its number of gangs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GangUse {
    /// It reads the number while it runs.
    counted: bool,
    /// It reads its own gang's number, and does not compare what follows from that with a loop's end.
    unbounded: bool,
    /// Numbers of gangs by which it divides a loop's length.
    divisors: Vec<u64>,
    /// Numbers of gangs, or multiples of them, that it adds for later rounds of a loop.
    rounds: Vec<u64>,
    /// Iterations of one gang, and of the loop.
    shares: Vec<(u64, u64)>,
}

/// What the image's 16 bits leave out.
const LOST: u64 = 1 << 16;
/// The driver's largest grid.
const GANGS_MAX: u64 = (1 << 31) - 1;

impl GangUse {
    /// Looks at a kernel's body.
    pub(super) fn read(body: &[&str]) -> Self {
        let lines: Vec<Line<'_>> = body.iter().map(|line| Line::read(line)).collect();
        let mut reader = Reader::new(lines.iter().filter_map(Line::instruction));
        for line in &lines {
            match line {
                Line::Label(_) => reader.label(),
                Line::Instruction(instruction) => reader.step(instruction),
                _ => {}
            }
        }
        reader.end();
        reader.found
    }

    /// The number of gangs of a kernel for which the image gives this one.
    pub fn count(&self, given: u16) -> GangCount {
        let given = u64::from(given);
        if self.counted {
            return GangCount::AsGiven;
        }
        let mut fitting = self.divisors.iter().copied().filter(|number| number % LOST == given);
        if let Some(first) = fitting.next() {
            // Two that fit contradict each other: neither is taken for proof.
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
        // Of what the image gives plus multiples of 65,536, the first that gets all iterations done.
        let mut count = given;
        for &(share, length) in self.shares.iter().filter(|(_, length)| *length > 1) {
            let least = length.div_ceil(share);
            count = count.max(given + least.saturating_sub(given).div_ceil(LOST) * LOST);
        }
        match count {
            0 if self.unbounded || !self.divisors.is_empty() || !self.rounds.is_empty() => GangCount::Lost,
            0 => GangCount::AsGiven,
            _ => exactly(count, given),
        }
    }
}

/// The numbers of gangs of which the image would give this, and of which so many are a multiple.
fn parts(multiple: u64, given: u64) -> impl Iterator<Item = u64> {
    /// Beyond that it is something else.
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

/// What is known of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Constant(i64),
    /// A thread's number, or a multiple of it.
    Thread,
    /// So many times the gang's number (times a share), and what is added to that.
    Gang {
        times: i64,
        share: Option<u64>,
        rest: Rest,
    },
    /// Something divided by this, so many times: a gang's share of a loop.
    Share {
        of: u64,
        times: i64,
    },
}

/// What is added to a multiple of the gang's number, besides the numbers of its threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    Constant(i64),
    Unknown,
}

struct Reader<'a> {
    values: HashMap<&'a str, Value>,
    /// Registers that are written in several places: what they have after a label may come from elsewhere.
    variables: HashSet<&'a str>,
    /// How many times the gang's number is in what variables begin with.
    begins: HashMap<&'a str, u64>,
    /// The divisor of the latest division.
    divided: Option<u64>,
    /// The gang's number was read, and nothing was compared since.
    open: bool,
    /// Nor what it takes for a second round.
    strides: bool,
    found: GangUse,
}

impl<'a> Reader<'a> {
    fn new<'i>(instructions: impl Iterator<Item = &'i Instruction<'a>>) -> Self
    where
        'a: 'i,
    {
        let mut written = HashSet::new();
        let variables = instructions.filter_map(Instruction::written).filter(|to| !written.insert(*to)).collect();
        Self {
            values: HashMap::new(),
            variables,
            begins: HashMap::new(),
            divided: None,
            open: false,
            strides: false,
            found: GangUse::default(),
        }
    }

    fn label(&mut self) {
        let Self { values, variables, .. } = self;
        values.retain(|register, _| !variables.contains(register));
    }

    fn step(&mut self, instruction: &Instruction<'a>) {
        let operands: &[&'a str] = &instruction.operands;
        if operands.contains(&"%nctaid.x") {
            self.found.counted = true;
        }
        if operands.contains(&"%ctaid.x") {
            self.end();
            (self.open, self.strides) = (true, true);
        }
        let (name, kind) = instruction.name.split_once('.').unwrap_or((instruction.name, ""));
        if matches!(name, "setp" | "min" | "max") && operands.len() == 3 {
            self.compare(name, kind, operands);
        }
        let Some(&to) = operands.first() else { return };
        if let ("add", &[to, a, b]) = (name, operands) {
            self.stride(to, a, b);
        }
        match self.value(name, kind, operands) {
            Some(value) => {
                if let Value::Gang { times, share: None, .. } = value
                    && self.variables.contains(to)
                {
                    self.begins.insert(to, times.unsigned_abs());
                }
                self.values.insert(to, value)
            }
            None => self.values.remove(to),
        };
    }

    /// Takes what a loop over every so many iterations adds to a variable that begins with the gang's number, or is added to that.
    fn stride(&mut self, to: &'a str, a: &'a str, b: &'a str) {
        if let (Some(&each), true, Some(Value::Constant(by))) = (self.begins.get(to), to == a, self.get(b)) {
            self.found.rounds.extend(part(by.unsigned_abs(), each));
        }
        for (gang, variable) in [(a, b), (b, a)] {
            if let Some(Value::Gang { times, share: None, .. }) = self.get(gang)
                && self.variables.contains(variable)
            {
                self.begins.entry(variable).or_insert(times.unsigned_abs());
            }
        }
    }

    /// Another read of the gang's number begins, or the body ends.
    fn end(&mut self) {
        self.found.unbounded |= std::mem::take(&mut self.open);
    }

    fn get(&self, operand: &str) -> Option<Value> {
        match operand {
            "%ctaid.x" => Some(Value::Gang { times: 1, share: None, rest: Rest::Constant(0) }),
            "%tid.x" | "%tid.y" => Some(Value::Thread),
            _ => match operand.parse() {
                Ok(number) => Some(Value::Constant(number)),
                Err(_) => self.values.get(operand).copied(),
            },
        }
    }

    /// What an instruction leaves in its first operand.
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
            // By 31 and 63 the sign is brought into all bits.
            ("shr", &[_, _, by]) => self.divide(1 << by.parse::<u32>().ok().filter(|by| *by < 31)?),
            _ => None,
        }
    }

    fn divide(&mut self, by: u64) -> Option<Value> {
        (by >= LOST).then(|| {
            self.divided = Some(by);
            Value::Share { of: by, times: 1 }
        })
    }

    /// Takes the first comparison of what follows from the gang's number for that with the loop's end.
    fn compare(&mut self, name: &str, kind: &str, operands: &[&str]) {
        let known = |operand: &str| match self.get(operand) {
            Some(Value::Gang { times, share, rest }) if times != 0 => Some((times, share, rest)),
            _ => None,
        };
        let (a, b) = (operands[1], operands[2]);
        let ((times, share, rest), end) = match (known(a), known(b)) {
            (Some(gang), None) => (gang, b),
            (None, Some(gang)) => (gang, a),
            _ => return,
        };
        let (each, end) = (times.unsigned_abs(), self.get(end));
        if let (None, Rest::Constant(next), true) = (share, rest, self.strides) {
            // The second round of a loop over every so many iterations, where that is unrolled.
            let next = next.unsigned_abs() - if name == "setp" { 0 } else { each.min(next.unsigned_abs()) };
            if next / 2 >= each {
                self.strides = false;
                self.found.rounds.extend(part(next, each));
            }
        }
        if !self.open {
            return;
        }
        let constant = matches!(end, Some(Value::Constant(_)));
        if let Some(of) = share.or(self.divided.filter(|_| !constant)) {
            self.open = false;
            self.found.divisors.extend(part(of, each));
            return;
        }
        let Some(Value::Constant(end)) = end else { return };
        // Loops that count down have all of this below zero.
        let down = times < 0;
        let end = if down { end.saturating_neg() } else { end };
        let order = kind.split('.').next().unwrap_or_default();
        let length = match (name, order) {
            _ if rest == Rest::Unknown => return,
            ("min", _) if !down => end,
            ("max", _) if down => end,
            _ if rest != Rest::Constant(0) => return,
            ("setp", "eq" | "ne") => end.saturating_add(1),
            ("setp", "ge" | "lt") => end.saturating_add(i64::from(down)),
            ("setp", "gt" | "le") => end.saturating_add(i64::from(!down)),
            _ => return,
        };
        if let Ok(length) = u64::try_from(length) {
            self.open = false;
            self.found.shares.push((each, length));
        }
    }
}

/// How many gangs there are if all together do so many iterations, and this one so many of them. With one gang there is no number.
fn part(all: u64, each: u64) -> Option<u64> {
    (all.is_multiple_of(each) && all / each > 1).then(|| all / each)
}

/// The sum of two, of which one may be unknown.
fn plus(a: Option<Value>, b: Option<Value>) -> Option<Value> {
    use Value::{Constant, Gang, Share, Thread};
    match (a, b) {
        (Some(Constant(a)), Some(Constant(b))) => a.checked_add(b).map(Constant),
        (Some(Gang { times: a, share, rest }), Some(Gang { times: b, share: other, rest: more })) if share == other => {
            let rest = match (rest, more) {
                (Rest::Constant(a), Rest::Constant(b)) => Rest::Constant(a.checked_add(b)?),
                _ => Rest::Unknown,
            };
            Some(Gang { times: a.checked_add(b)?, share, rest })
        }
        (Some(Gang { times, share, rest }), other) | (other, Some(Gang { times, share, rest })) => {
            let rest = match (rest, other) {
                // A gang's threads are within its share.
                (rest, Some(Thread)) => rest,
                (Rest::Constant(rest), Some(Constant(more))) => Rest::Constant(rest.checked_add(more)?),
                _ => Rest::Unknown,
            };
            Some(Gang { times, share, rest })
        }
        (Some(Thread), Some(Thread)) => Some(Thread),
        (Some(Share { of, times: a }), Some(Share { of: other, times: b })) if of == other => {
            Some(Share { of, times: a.checked_add(b)? })
        }
        _ => None,
    }
}

fn times(a: Value, b: Value) -> Option<Value> {
    use Value::{Constant, Gang, Share, Thread};
    match (a, b) {
        (Constant(a), Constant(b)) => a.checked_mul(b).map(Constant),
        (Thread, Constant(_)) | (Constant(_), Thread) => Some(Thread),
        (Gang { times, share, rest }, Constant(by)) | (Constant(by), Gang { times, share, rest }) => {
            let rest = match rest {
                Rest::Constant(rest) => Rest::Constant(rest.checked_mul(by)?),
                Rest::Unknown => Rest::Unknown,
            };
            Some(Gang { times: times.checked_mul(by)?, share, rest })
        }
        (Share { of, times }, Constant(by)) | (Constant(by), Share { of, times }) => {
            Some(Share { of, times: times.checked_mul(by)? })
        }
        (Gang { times: a, share: None, rest }, Share { of, times: b })
        | (Share { of, times: b }, Gang { times: a, share: None, rest }) => {
            let rest = if rest == Rest::Constant(0) { rest } else { Rest::Unknown };
            Some(Gang { times: a.checked_mul(b)?, share: Some(of), rest })
        }
        _ => None,
    }
}
