//! Loops over arrays, several rounds at a time.
//!
//! ```text
//! $L3:    ld.f64 %r83,[%r81];
//!         mul.f64 %r84,%r83,%r25;
//!         st.f64 [%r85],%r84;
//!         add.u64 %r81,%r81,256;
//!         add.u64 %r85,%r85,256;
//!         setp.ne.u64 %r86,%r29,%r81;
//! @ %r86  bra $L3;
//! ```
//!
//! Each round waits for its loads before it stores, and the driver's compiler can't start the next round's loads, which might read the stored values.
//! So a thread has only one round's loads in flight, too few to saturate the memory.
//!
//! Such a loop gets another one in front that does several rounds at once: first all loads and computations, then the stores in their order. It runs
//! while so many rounds are left, and only if no load of these rounds reads what an earlier round stores. Then the result is the same: every
//! instruction runs as often as before with the same operands, and one thread's stores keep their order. The original loop does the remaining rounds.
//!
//! * **The number of rounds left** follows from the test at the end: whether a register that grows by a constant differs from one
//!   that is constant in the loop. If they differ by at least several rounds, only the last of these can be the loop's last one.
//! * **The addresses of stores and loads** are known if all grow by the same constant per round. Then one test of the first round's addresses
//!   suffices: a load conflicts with an earlier round's store if its address is behind the store's, by at most the growth in these rounds.
//! * Loops without stores need no such test. The driver's compiler unrolls them itself, but too little for `float`, so that small ones get
//!   [`LOADING_ROUNDS`]. Loops that load from loaded addresses, as with sparse matrices, get [`ROUNDS`].

use super::ptx::{Instruction, Line, is_register};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::Range;

/// Rounds done at once.
const ROUNDS: u64 = 4;
/// Rounds done at once in short loops without stores, which need no test.
const LOADING_ROUNDS: u64 = 8;
const LOADING_MAX: usize = 2;
/// Longest loops that are unrolled. Others have enough loads in flight, and would need too many registers.
const INSTRUCTIONS_MAX: usize = 40;
const LOADS_MAX: usize = 8;

/// Returns new text of lines of a kernel, and the number of its unrolled loops. Loops with lines that already have new text are unchanged.
pub(super) fn unroll(
    lines: &[&str],
    body: Range<usize>,
    changed: &BTreeMap<usize, String>,
) -> (u32, Vec<(usize, String)>) {
    let read = |at: usize| match lines[at] {
        _ if changed.contains_key(&at) => Line::Other,
        line if is_place(line) => Line::Empty,
        line => Line::read(line),
    };
    let read: Vec<Line<'_>> = body.clone().map(read).collect();
    let types = types(&lines[body.clone()]);
    let (mut count, mut changes) = (0, Vec::new());
    for range in innermost(&read) {
        let Some(found) = Loop::read(&read[range.clone()], &types) else { continue };
        let at = body.start + range.start;
        let Some((before, after)) = found.write(at, &types) else { continue };
        changes.push((at, before));
        changes.push((body.start + range.end - 1, after));
        count += 1;
    }
    (count, changes)
}

/// Whether a line only refers to the source.
fn is_place(line: &str) -> bool {
    line.trim_start().starts_with(".loc ")
}

/// Returns the types of a kernel's registers, with the dot: `.u64`. Omits registers that are declared twice.
fn types<'a>(body: &[&'a str]) -> HashMap<&'a str, &'a str> {
    let (mut types, mut twice) = (HashMap::new(), HashSet::new());
    for line in body {
        let Some(declared) = super::ptx::code(line).strip_prefix(".reg ").and_then(|rest| rest.strip_suffix(';'))
        else {
            continue;
        };
        if let Some((kind, name)) = declared.split_once(' ')
            && types.insert(name.trim(), kind).is_some()
        {
            twice.insert(name.trim());
        }
    }
    types.retain(|name, _| !twice.contains(name));
    types
}

/// Returns the lines from labels to the branches back to them, without labels or other branches in between.
fn innermost(lines: &[Line<'_>]) -> Vec<Range<usize>> {
    let (mut found, mut start) = (Vec::new(), None);
    for (at, line) in lines.iter().enumerate() {
        match line {
            Line::Label(label) => start = Some((at, *label)),
            Line::Instruction(instruction) => {
                let Some(target) = instruction.target() else { continue };
                if let Some((start, label)) = start.take()
                    && label == target
                {
                    found.push(start..at + 1);
                }
            }
            Line::Empty | Line::Register => {}
            Line::Other => start = None,
        }
    }
    found
}

/// The properties of a loop.
struct Loop<'l, 'a> {
    label: &'a str,
    /// All instructions but the test and the branch.
    body: Vec<&'l Instruction<'a>>,
    /// The predicate that the test writes, and its type, for example `u64`.
    again: &'a str,
    kind: &'static str,
    /// The register that grows, the value with which the loop ends, and the constant.
    counter: &'a str,
    end: &'a str,
    step: u64,
}

/// A load or store.
struct Access<'a> {
    base: &'a str,
    offset: i64,
    store: bool,
}

impl<'l, 'a> Loop<'l, 'a> {
    fn read(lines: &'l [Line<'a>], types: &HashMap<&str, &str>) -> Option<Self> {
        let Some(Line::Label(label)) = lines.first() else { return None };
        let mut body: Vec<&Instruction<'a>> = lines.iter().filter_map(Line::instruction).collect();
        let (back, test) = (body.pop()?, body.pop()?);
        let kind = ["u64", "s64", "u32", "s32"].into_iter().find(|kind| test.name == format!("setp.ne.{kind}"))?;
        let &[again, one, other] = &test.operands[..] else { return None };
        let leads_back = back.guard == Some(again) && !back.unless && test.guard.is_none() && is_register(again);
        if !leads_back || body.len() > INSTRUCTIONS_MAX {
            return None;
        }
        let plain = |instruction: &&Instruction<'a>| {
            instruction.guard.is_none() && (is_computation(instruction) || access(instruction).is_some())
        };
        let used: HashSet<&str> = body.iter().flat_map(|instruction| registers(instruction)).collect();
        let loads = body.iter().filter(|instruction| is_load(instruction)).count();
        let known = used.iter().chain([&again, &one]).all(|register| types.contains_key(register));
        if !body.iter().all(plain) || !known || !(1..=LOADS_MAX).contains(&loads) {
            return None;
        }
        let this = |counter: &'a str, end: &'a str| {
            let step = grows(&body, counter).filter(|step| *step > 0)?.unsigned_abs();
            let stays = is_register(end) && !body.iter().any(|instruction| written(instruction) == Some(end));
            let full = step < 1 << 24 && types.get(counter).map(|kind| &kind[2..]) == Some(&kind[1..]);
            (stays && full && types.contains_key(end)).then_some((counter, end, step))
        };
        let (counter, end, step) = this(one, other).or_else(|| this(other, one))?;
        (!used.contains(again)).then_some(Self { label, body, again, kind, counter, end, step })
    }

    /// Returns the texts that replace the label and the branch.
    fn write(&self, number: usize, types: &HashMap<&str, &str>) -> Option<(String, String)> {
        let mut text = Text { number, out: String::new(), declared: 0, types };
        let bits = &self.kind[1..];
        let (rest, rounds, done) =
            (format!("$accord_rest{number}"), format!("$accord_rounds{number}"), format!("$accord_done{number}"));
        let (left, enough) = (text.register(self.counter), text.register(self.again));
        let count = self.rounds()?;
        let far = self.step * count;
        let _ = writeln!(text.out, "sub.u{bits} {left},{},{};", self.end, self.counter);
        let _ = writeln!(text.out, "setp.lt.u{bits} {enough},{left},{far};\n@{enough} bra {rest};");
        if self.stores() {
            self.write_look(&mut text, &enough, &rest)?;
        }
        let _ = writeln!(text.out, "{rounds}:");
        let (mut names, mut stores) = (HashMap::new(), String::new());
        for _ in 0..count {
            for instruction in &self.body {
                if access(instruction).is_some_and(|access| access.store) {
                    let operands: Vec<String> =
                        instruction.operands.iter().map(|operand| renamed(operand, &names)).collect();
                    let _ = writeln!(stores, "{} {};", instruction.name, operands.join(","));
                } else {
                    text.again(instruction, &mut names);
                }
            }
        }
        text.out.push_str(&stores);
        let mut last: Vec<_> = names.iter().collect();
        last.sort_unstable();
        for (register, name) in last {
            let _ = writeln!(text.out, "mov{} {register},{name};", types[register]);
        }
        let _ = write!(
            text.out,
            "sub.u{bits} {left},{end},{counter};\nsetp.ge.u{bits} {enough},{left},{far};\n@{enough} bra {rounds};\n\
             setp.ne.{kind} {again},{end},{counter};\n@!{again} bra {done};\n{rest}:",
            end = self.end,
            counter = self.counter,
            kind = self.kind,
            again = self.again,
        );
        let label = format!("{}:\n{}", self.label, text.out);
        Some((label, format!("@ {} bra {rest};\n{done}:", self.again)))
    }

    /// Returns the number of rounds to do at once, or `None` if the driver's compiler does better.
    fn rounds(&self) -> Option<u64> {
        let loads = self.body.iter().filter(|instruction| is_load(instruction)).count();
        match (self.stores() || self.loads_by_loaded(), loads <= LOADING_MAX) {
            (true, _) => Some(ROUNDS),
            (false, few) => few.then_some(LOADING_ROUNDS),
        }
    }

    fn stores(&self) -> bool {
        self.body.iter().any(|instruction| access(instruction).is_some_and(|access| access.store))
    }

    /// Writes the test that branches to the original loop if a load of some rounds reads an earlier round's store.
    fn write_look(&self, text: &mut Text<'_>, meets: &str, rest: &str) -> Option<()> {
        /// Bytes of the widest load or store, less one.
        const WIDTH: i64 = 7;
        let steps = self.steps();
        let step_of = |register: &str| steps.get(register).copied().unwrap_or(Some(0));
        let (mut names, mut at, mut step) = (HashMap::new(), Vec::new(), None);
        for instruction in &self.body {
            if let Some(access) = access(instruction) {
                let grows = step_of(access.base).filter(|grows| grows.unsigned_abs() < 1 << 24)?;
                if *step.get_or_insert(grows) != grows {
                    return None;
                }
                at.push((renamed(access.base, &names), access));
            } else if step_of(written(instruction)?).is_some() {
                text.again(instruction, &mut names);
            }
        }
        let (step, last) = (step?, ROUNDS.cast_signed() - 1);
        let mut seen = HashSet::new();
        for (number, (store, stored)) in at.iter().enumerate().filter(|(_, (_, access))| access.store) {
            for (other, (load, loaded)) in at.iter().enumerate().filter(|(_, (_, access))| !access.store) {
                // A load after the store also reads its own round's.
                let first = i64::from(other < number);
                let offset = stored.offset - loaded.offset;
                if !seen.insert((store, load, offset, first)) {
                    continue;
                }
                let nearest = (step * first).min(step * last) - WIDTH;
                let range = step.abs() * (last - first) + 2 * WIDTH;
                let behind = text.register(stored.base);
                let _ = write!(
                    text.out,
                    "sub.u64 {behind},{store},{load};\nadd.u64 {behind},{behind},{};\n\
                     setp.le.u64 {meets},{behind},{range};\n@{meets} bra {rest};\n",
                    offset - nearest,
                );
            }
        }
        Some(())
    }

    /// Returns the growth per round of each register that is written, at its use, or `None` if unknown.
    fn steps(&self) -> HashMap<&'a str, Option<i64>> {
        let mut steps = HashMap::new();
        for (at, instruction) in self.body.iter().enumerate() {
            let Some(to) = written(instruction) else { continue };
            let step = self.step(at, instruction, to, &steps);
            steps.insert(to, step);
        }
        steps
    }

    fn step(
        &self,
        at: usize,
        instruction: &Instruction<'a>,
        to: &str,
        known: &HashMap<&str, Option<i64>>,
    ) -> Option<i64> {
        if let Some(step) = grows(&self.body, to) {
            return instruction.name.ends_with("64").then_some(step);
        }
        // Its value before it is set comes from the previous round.
        if is_load(instruction) || self.body[..=at].iter().any(|before| read(before).any(|used| used == to)) {
            return None;
        }
        let step = |operand: &str| match known.get(operand) {
            Some(step) => *step,
            // It is set later, is a number, or is not set in the loop.
            None if self.body.iter().any(|other| written(other) == Some(operand)) => {
                grows(&self.body, operand).filter(|_| self.counts_in_full(operand))
            }
            None => Some(0),
        };
        match (instruction.name, &instruction.operands[..]) {
            ("mov.u64" | "mov.s64" | "mov.b64", &[_, from]) => step(from),
            ("add.u64" | "add.s64", &[_, a, b]) => step(a)?.checked_add(step(b)?),
            ("sub.u64" | "sub.s64", &[_, a, b]) => step(a)?.checked_sub(step(b)?),
            ("shl.b64", &[_, a, by]) => {
                let by = by.parse::<u32>().ok().filter(|by| *by < 8)?;
                step(a)?.checked_mul(1 << by)
            }
            _ => instruction.operands[1..].iter().all(|from| step(from) == Some(0)).then_some(0),
        }
    }

    /// Whether a register is incremented in 64 bits.
    fn counts_in_full(&self, register: &str) -> bool {
        let mut sets = self.body.iter().filter(|instruction| written(instruction) == Some(register));
        sets.all(|instruction| instruction.name.ends_with("64"))
    }

    /// Whether the loop loads from an address that depends on loaded values.
    fn loads_by_loaded(&self) -> bool {
        let mut loaded: HashSet<&str> = HashSet::new();
        self.body.iter().any(|instruction| {
            let from_loaded = read(instruction).any(|register| loaded.contains(register));
            if is_load(instruction) && from_loaded {
                return true;
            }
            if is_load(instruction) || from_loaded {
                loaded.extend(written(instruction));
            }
            false
        })
    }
}

/// Generated text with registers of its own.
struct Text<'t> {
    number: usize,
    out: String,
    declared: u32,
    types: &'t HashMap<&'t str, &'t str>,
}

impl Text<'_> {
    /// Declares a new register of the type of another one.
    fn register(&mut self, like: &str) -> String {
        let name = format!("%accord_{}_{}", self.number, self.declared);
        self.declared += 1;
        let _ = writeln!(self.out, ".reg {} {name};", self.types[like]);
        name
    }

    /// Repeats an instruction, with new registers for those that it and earlier ones write.
    fn again<'a>(&mut self, instruction: &Instruction<'a>, names: &mut HashMap<&'a str, String>) {
        let (to, from) = (instruction.operands[0], &instruction.operands[1..]);
        let from: Vec<String> = from.iter().map(|operand| renamed(operand, names)).collect();
        let name = self.register(to);
        let _ = writeln!(self.out, "{} {name},{};", instruction.name, from.join(","));
        names.insert(to, name);
    }
}

/// An operand by the new names.
fn renamed(operand: &str, names: &HashMap<&str, String>) -> String {
    let Some((base, offset)) = address(operand) else {
        return names.get(operand).map_or_else(|| operand.to_owned(), Clone::clone);
    };
    let base = names.get(base).map_or(base, |name| name);
    if offset == 0 { format!("[{base}]") } else { format!("[{base}+{offset}]") }
}

/// Returns register and offset of `[%r1+8]`.
fn address(operand: &str) -> Option<(&str, i64)> {
    let inner = operand.strip_prefix('[')?.strip_suffix(']')?;
    let (base, offset) = match inner.split_once('+') {
        Some((base, offset)) => (base, offset.parse::<i32>().ok()?),
        None => (inner, 0),
    };
    is_register(base).then_some((base, offset.into()))
}

/// Returns the memory access of a load or store of one value, if it uses a register's address in generic or global memory.
fn access<'a>(instruction: &Instruction<'a>) -> Option<Access<'a>> {
    const TYPES: [&str; 14] =
        ["u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64"];
    let (name, kind) = instruction.name.split_once('.')?;
    let &[first, second] = &instruction.operands[..] else { return None };
    let (value, place, store) = match name {
        "ld" => (first, second, false),
        "st" => (second, first, true),
        _ => return None,
    };
    let kind = kind.strip_prefix("global.").unwrap_or(kind);
    let (base, offset) = address(place)?;
    let whole = is_register(value) || (store && is_number(value));
    (TYPES.contains(&kind) && whole).then_some(Access { base, offset, store })
}

fn is_load(instruction: &Instruction<'_>) -> bool {
    access(instruction).is_some_and(|access| !access.store)
}

/// Whether an instruction only computes one register from others and numbers.
fn is_computation(instruction: &Instruction<'_>) -> bool {
    const NAMES: [&str; 26] = [
        "abs", "add", "and", "copysign", "cvt", "div", "fma", "mad", "max", "min", "mov", "mul", "neg", "not", "or",
        "rcp", "rem", "selp", "setp", "shl", "shr", "sqrt", "sub", "vadd", "vsub", "xor",
    ];
    let mut parts = instruction.name.split('.');
    let name = parts.next().unwrap_or_default();
    let [to, from @ ..] = &instruction.operands[..] else { return false };
    // An instruction with a carry has a second result.
    NAMES.contains(&name)
        && parts.all(|part| part != "cc")
        && is_register(to)
        && from.iter().all(|from| is_register(from) || is_number(from))
}

/// An integer, or the bits of a floating point value.
fn is_number(text: &str) -> bool {
    let bits = text.strip_prefix("0f").or_else(|| text.strip_prefix("0d"));
    let hex = bits.is_some_and(|bits| bits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()
}

/// The register that an instruction of a loop writes.
fn written<'a>(instruction: &Instruction<'a>) -> Option<&'a str> {
    let store = access(instruction).is_some_and(|access| access.store);
    if store { None } else { instruction.operands.first().copied() }
}

/// Returns the registers that an instruction reads.
fn read<'l, 'a>(instruction: &'l Instruction<'a>) -> impl Iterator<Item = &'a str> + use<'l, 'a> {
    let skipped = usize::from(written(instruction).is_some());
    let from = instruction.operands.iter().skip(skipped);
    from.map(|operand| address(operand).map_or(*operand, |(base, _)| base)).filter(|operand| is_register(operand))
}

fn registers<'l, 'a>(instruction: &'l Instruction<'a>) -> impl Iterator<Item = &'a str> + use<'l, 'a> {
    written(instruction).into_iter().chain(read(instruction))
}

/// Returns the constant that a register's only instruction adds to it.
fn grows(body: &[&Instruction<'_>], register: &str) -> Option<i64> {
    let mut set = body.iter().filter(|instruction| written(instruction) == Some(register));
    let (instruction, None) = (set.next()?, set.next()) else { return None };
    match (instruction.name, &instruction.operands[..]) {
        ("add.u64" | "add.s64" | "add.u32" | "add.s32", &[to, from, by]) if to == from => by.parse().ok(),
        _ => None,
    }
}
