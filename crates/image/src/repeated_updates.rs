//! Atomic updates whose result does not depend on how many gangs perform them.
//!
//! GCC removes a loop that adds zero, or the same to each gang, to a reduction's result. Each gang then still updates the result: by `max.f32` with a
//! constant, or `add.f64` with 0. These updates do not depend on the number of gangs for which the region was compiled, and neither does the
//! result. Minimum, maximum and bitwise operations do not change a value a second time, nor does adding 0.
//!
//! The analysis follows constants through shuffles, because all lanes have the same one. It also follows them through the buffers in shared memory with
//! which GCC reduces over long vectors and workers.

use super::ptx::{Instruction, Line};
use super::spin::{Body, base};
use std::collections::{HashMap, HashSet};

/// Buffers of reductions inside a gang.
const BUFFERS: [&str; 2] = ["__vector_red", "__worker_red"];

/// Returns the lines of a kernel's body with atomic updates whose result is the same for any number of gangs.
pub(super) fn repeated_updates(text: &[&str]) -> HashSet<usize> {
    let is_atomic = |line: &&str| line.contains("atom") || line.contains("red");
    if !text.iter().any(is_atomic) {
        return HashSet::new();
    }
    let body = Body::read(text);
    let mut values = Values::of(&body);
    for (at, line) in body.lines.iter().enumerate() {
        values.step(at, line);
    }
    let buffers_hold = values.buffers_hold;
    let updates = values.updates.into_iter();
    updates.filter(|update| buffers_hold || !update.by_constant).map(|update| update.at).collect()
}

/// The value of a register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    /// The same bits in all lanes.
    Constant(u64),
    /// An address in a buffer of reductions inside a gang, so many bytes after its start.
    Buffer(u64),
}

/// An update that does not depend on the number of gangs.
struct Update {
    at: usize,
    /// Whether that holds only because its operand is this constant, which may come from a buffer.
    by_constant: bool,
}

struct Values<'a> {
    body: &'a Body<'a>,
    registers: HashMap<&'a str, Value>,
    /// Registers written in several places, whose values are unknown after a label.
    variables: HashSet<&'a str>,
    /// The stored value at each place of the buffers.
    buffers: HashMap<u64, u64>,
    /// Whether each place of the buffers has only ever held one value.
    buffers_hold: bool,
    updates: Vec<Update>,
}

impl<'a> Values<'a> {
    fn of(body: &'a Body<'a>) -> Self {
        let mut written = HashSet::new();
        let registers = body.lines.iter().filter_map(Line::instruction).flat_map(results);
        let variables = registers.filter(|register| !written.insert(*register)).collect();
        Self {
            body,
            registers: HashMap::new(),
            variables,
            buffers: HashMap::new(),
            buffers_hold: true,
            updates: Vec::new(),
        }
    }

    fn step(&mut self, at: usize, line: &Line<'a>) {
        let instruction = match line {
            Line::Instruction(instruction) => instruction,
            Line::Label(_) => {
                let Self { registers, variables, .. } = self;
                registers.retain(|register, _| !variables.contains(register));
                return;
            }
            _ => return,
        };
        let (name, kind) = instruction.name.split_once('.').unwrap_or((instruction.name, ""));
        match name {
            "atom" | "red" => self.update(at, instruction, kind),
            "st" => self.store(instruction),
            _ => {}
        }
        let value = if instruction.guard.is_none() { self.value(name, kind, &instruction.operands) } else { None };
        let unpacked = self.unpacked(instruction);
        for (part, register) in results(instruction).enumerate() {
            match unpacked.map(|whole| Value::Constant((whole >> (32 * part)) & u64::from(u32::MAX))).or(value) {
                Some(value) => self.registers.insert(register, value),
                None => self.registers.remove(register),
            };
        }
    }

    /// The 64 bits that an instruction divides between two registers.
    fn unpacked(&self, instruction: &Instruction<'a>) -> Option<u64> {
        match (instruction.name, &instruction.operands[..]) {
            ("mov.b64", [to, from]) if to.starts_with('{') && instruction.guard.is_none() => self.constant(from, 64),
            _ => None,
        }
    }

    fn constant(&self, operand: &str, width: u32) -> Option<u64> {
        let bits = if width == 32 { u64::from(u32::MAX) } else { u64::MAX };
        if let Some(hex) = operand.strip_prefix("0f").or_else(|| operand.strip_prefix("0d")) {
            return u64::from_str_radix(hex, 16).ok();
        }
        if let Ok(number) = operand.parse::<i64>() {
            return Some(number.cast_unsigned() & bits);
        }
        if let Some((low, high)) = operand.strip_prefix('{').and_then(|pair| pair.strip_suffix('}')?.split_once(',')) {
            return Some(self.constant(low.trim(), 32)? | self.constant(high.trim(), 32)? << 32);
        }
        match self.registers.get(operand) {
            Some(Value::Constant(value)) => Some(*value),
            _ => None,
        }
    }

    /// Returns the place of an address in the buffers.
    fn place(&self, address: &str) -> Option<u64> {
        let register = base(address)?;
        let Some(Value::Buffer(at)) = self.registers.get(register) else { return None };
        let rest = address.trim_matches(['[', ']']).strip_prefix(register)?.trim();
        if rest.is_empty() {
            return Some(*at);
        }
        Some(at.wrapping_add(rest.strip_prefix('+')?.trim().parse().ok()?))
    }

    fn value(&mut self, name: &str, kind: &str, operands: &[&'a str]) -> Option<Value> {
        let width = if kind.ends_with("64") { 64 } else { 32 };
        let reads_buffer =
            operands.iter().skip(1).any(|operand| matches!(self.registers.get(operand), Some(Value::Buffer(_))));
        match (name, operands) {
            ("cvta", &[_, from]) if BUFFERS.contains(&from) => Some(Value::Buffer(0)),
            ("mov", &[_, from]) if reads_buffer => self.registers.get(from).copied(),
            // Each worker has its own part.
            ("mad", &[_, _, _, buffer]) if reads_buffer => self.registers.get(buffer).copied(),
            ("add", &[_, buffer, more]) if reads_buffer => {
                match (self.registers.get(buffer), self.constant(more, 64)) {
                    (Some(Value::Buffer(at)), Some(more)) => Some(Value::Buffer(at.wrapping_add(more))),
                    _ => self.lost(),
                }
            }
            ("setp" | "atom" | "red", _) => None,
            ("ld", &[_, address]) => {
                self.place(address).and_then(|place| self.buffers.get(&place).copied()).map(Value::Constant)
            }
            _ if reads_buffer => self.lost(),
            ("mov", &[_, from]) => self.constant(from, width).map(Value::Constant),
            ("shfl", &[_, from, ..]) => self.constant(from, 32).map(Value::Constant),
            (_, &[_, a, b]) => {
                let (a, b) = (self.constant(a, width)?, self.constant(b, width)?);
                Operation::read(name, kind)?.of(a, b).map(Value::Constant)
            }
            _ => None,
        }
    }

    /// Gives up on a buffer whose address is used in an unknown way.
    fn lost(&mut self) -> Option<Value> {
        self.buffers_hold = false;
        None
    }

    fn store(&mut self, instruction: &Instruction<'a>) {
        let &[address, from] = &instruction.operands[..] else { return };
        if matches!(self.registers.get(from), Some(Value::Buffer(_))) {
            self.lost();
        }
        let Some(place) = self.place(address) else { return };
        let width = if instruction.name.ends_with("64") { 64 } else { 32 };
        match self.constant(from, width) {
            Some(value) if self.buffers.insert(place, value).is_none_or(|before| before == value) => {}
            _ => self.buffers_hold = false,
        }
    }

    /// Records an atomic update: its operation, and its effect on a buffer.
    fn update(&mut self, at: usize, instruction: &Instruction<'a>, kind: &str) {
        let found = if kind.contains("cas.b") { self.of_swap(at) } else { self.of_instruction(at, instruction, kind) };
        let address = instruction.operands.iter().find(|operand| operand.starts_with('['));
        if let Some(place) = address.and_then(|address| self.place(address)) {
            let before = self.buffers.get(&place).copied();
            let left = found.zip(before).and_then(|((operation, value), before)| operation.of(before, value?));
            self.buffers_hold &= before.is_some() && left == before;
            // The buffer is the gang's own.
            self.updates.push(Update { at, by_constant: false });
            return;
        }
        let Some((operation, value)) = found else { return };
        if operation.keeps_any() {
            self.updates.push(Update { at, by_constant: false });
        } else if value.is_some_and(|value| operation.keeps(value)) {
            self.updates.push(Update { at, by_constant: true });
        }
    }

    /// Returns the operation of the hardware, if the found value has no other use.
    fn of_instruction(&self, at: usize, instruction: &Instruction<'a>, kind: &str) -> Option<(Operation, Option<u64>)> {
        let mut operands = &instruction.operands[..];
        if instruction.name.starts_with("atom.") {
            let (found, rest) = operands.split_first()?;
            if !self.body.is_only_in(found, &[at]) {
                return None;
            }
            operands = rest;
        }
        let &[_, value] = operands else { return None };
        let mut parts = kind.rsplit('.');
        let (kind, name) = (parts.next()?, parts.next()?);
        let operation = Operation::read(name, kind)?;
        Some((operation, self.constant(value, operation.width)))
    }

    /// Returns the operation of a loop around a swap, if the found value has no other use.
    fn of_swap(&self, at: usize) -> Option<(Operation, Option<u64>)> {
        let (instruction, spin) = (self.body.instruction(at)?, self.body.spin(at)?);
        let &[found, _, expected, new] = &instruction.operands[..] else { return None };
        let in_loop = |register: &str| self.body.uses(register).all(|line| spin.lines.contains(&line));
        if found != expected && !in_loop(found) || !self.body.uses(expected).all(|line| line < spin.lines.end) {
            return None;
        }
        if new == expected {
            return Some((Operation::NOTHING, Some(0)));
        }
        let width = self.body.swap(at)?.width;
        let set = |register: &str| self.body.set_in(spin.lines.clone(), register).map(|(instruction, _)| instruction);
        let source = |register: &'a str| match set(register) {
            Some(copy) if copy.name.starts_with("mov.") => copy.operands.get(1).copied().unwrap_or(register),
            _ => register,
        };
        let computed = set(source(new))?;
        let &[_, a, b] = &computed.operands[..] else { return None };
        let value = match [a, b].map(|operand| operand == expected || source(operand) == expected) {
            [true, false] => b,
            [false, true] => a,
            _ => return None,
        };
        let (name, kind) = computed.name.split_once('.')?;
        let operation = Operation::read(name, kind)?;
        let steady = spin.keeps(value) && computed.guard.is_none() && operation.width == width;
        steady.then(|| (operation, self.constant(value, operation.width)))
    }
}

/// The registers that an instruction writes.
fn results<'a>(instruction: &Instruction<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    let writes = !["st", "red", "bra", "ret", "bar", "barrier"]
        .iter()
        .any(|name| instruction.name.split('.').next() == Some(name));
    let first = instruction.operands.first().copied().filter(|_| writes).unwrap_or_default();
    first.trim_matches(['{', '}']).split(',').map(str::trim).filter(|register| register.starts_with('%'))
}

/// An operation of two values.
#[derive(Clone, Copy)]
struct Operation {
    name: Name,
    real: bool,
    signed: bool,
    width: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Add,
    Multiply,
    Minimum,
    Maximum,
    And,
    Or,
    ExclusiveOr,
}

impl Operation {
    /// The operation that, with 0, changes no value.
    const NOTHING: Self = Self { name: Name::Or, real: false, signed: false, width: 64 };

    fn read(name: &str, kind: &str) -> Option<Self> {
        let name = match name {
            "add" => Name::Add,
            "mul" => Name::Multiply,
            "min" => Name::Minimum,
            "max" => Name::Maximum,
            "and" => Name::And,
            "or" => Name::Or,
            "xor" => Name::ExclusiveOr,
            _ => return None,
        };
        let (modifier, kind) = kind.rsplit_once('.').unwrap_or(("", kind));
        let (of, width) = kind.split_at_checked(1)?;
        let width = width.parse().ok().filter(|width| [32, 64].contains(width))?;
        let (real, signed) = (of == "f", of == "s");
        let known = matches!((modifier, real), ("", _) | ("lo", false) | ("rn", true));
        known.then_some(Self { name, real, signed, width })
    }

    /// Whether repeating an update by any value changes nothing.
    fn keeps_any(self) -> bool {
        matches!(self.name, Name::Minimum | Name::Maximum | Name::And | Name::Or)
    }

    /// Whether repeating an update by this value changes nothing.
    fn keeps(self, value: u64) -> bool {
        let one = match (self.real, self.width) {
            (false, _) => 1,
            (true, 32) => u64::from(1f32.to_bits()),
            (true, _) => 1f64.to_bits(),
        };
        let negative_zero = if self.real { 1 << (self.width - 1) } else { 0 };
        match self.name {
            Name::Add => value == 0 || value == negative_zero,
            Name::ExclusiveOr => value == 0,
            Name::Multiply => value == one,
            Name::Minimum | Name::Maximum | Name::And | Name::Or => true,
        }
    }

    /// Returns the operation's result for two constants, or `None` if only the hardware defines it.
    fn of(self, a: u64, b: u64) -> Option<u64> {
        if !self.real {
            return Some(self.of_integers(a, b));
        }
        if self.width == 32 {
            let [a, b] = [a, b].map(|bits| f64::from(f32::from_bits(bits as u32)));
            // A sum or product of floats rounded twice equals one rounded once.
            return self.of_reals(a, b).map(|value| u64::from((value as f32).to_bits()));
        }
        self.of_reals(f64::from_bits(a), f64::from_bits(b)).map(f64::to_bits)
    }

    fn of_integers(self, a: u64, b: u64) -> u64 {
        let value = match self.name {
            Name::Add => a.wrapping_add(b),
            Name::Multiply => a.wrapping_mul(b),
            Name::And => a & b,
            Name::Or => a | b,
            Name::ExclusiveOr => a ^ b,
            Name::Minimum | Name::Maximum => {
                // For signed numbers the order starts at the smallest number.
                let order = |bits: u64| if self.signed { bits ^ 1 << (self.width - 1) } else { bits };
                let smaller_first = order(a) <= order(b);
                if smaller_first == (self.name == Name::Minimum) { a } else { b }
            }
        };
        if self.width == 32 { value & u64::from(u32::MAX) } else { value }
    }

    fn of_reals(self, a: f64, b: f64) -> Option<f64> {
        let value = match self.name {
            Name::Add => a + b,
            Name::Multiply => a * b,
            Name::Minimum if a != b => a.min(b),
            Name::Maximum if a != b => a.max(b),
            _ if a.to_bits() == b.to_bits() => a,
            _ => return None,
        };
        (!value.is_nan()).then_some(value)
    }
}
