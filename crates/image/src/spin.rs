//! Loops around a compare-and-swap in a kernel's body.

use super::ptx::{Instruction, Line, code, has_word, is_register};
use std::ops::Range;

/// A kernel's body.
pub(super) struct Body<'a> {
    text: &'a [&'a str],
    pub(super) lines: Vec<Line<'a>>,
}

/// A swap `atom.cas.b64 found,[address],expected,new;`.
pub(super) struct Swap<'a> {
    /// The state space of the address: empty, `.global` or `.shared`.
    pub(super) space: &'a str,
    pub(super) width: u32,
    pub(super) found: &'a str,
    pub(super) address: &'a str,
    pub(super) expected: &'a str,
    pub(super) new: &'a str,
}

/// Lines from a label to the branch back to it, without an inner loop. Only the end leaves the loop.
pub(super) struct Spin<'a> {
    pub(super) lines: Range<usize>,
    /// Registers that the loop writes.
    written: Vec<&'a str>,
}

impl<'a> Body<'a> {
    pub(super) fn read(text: &'a [&'a str]) -> Self {
        Self { text, lines: text.iter().map(|line| Line::read(line)).collect() }
    }

    pub(super) fn instruction(&self, line: usize) -> Option<&Instruction<'a>> {
        self.lines[line].instruction()
    }

    /// Returns the swap in this line, if its form is known.
    pub(super) fn swap(&self, at: usize) -> Option<Swap<'a>> {
        let instruction = self.instruction(at).filter(|instruction| instruction.guard.is_none())?;
        let (space, width) = instruction.name.strip_prefix("atom")?.split_once(".cas.b")?;
        let width = match width {
            "32" => 32,
            "64" => 64,
            _ => return None,
        };
        let &[found, address, expected, new] = &instruction.operands[..] else { return None };
        let base = base(address)?;
        let apart = new != expected && new != found && ![found, expected, new].contains(&base);
        let known = matches!(space, "" | ".global" | ".shared") && (is_register(base) || !base.starts_with('%'));
        (apart && known && [found, expected, new].into_iter().all(is_register)).then_some(Swap {
            space,
            width,
            found,
            address,
            expected,
            new,
        })
    }

    /// Returns the loop around a swap. The caller must check its instructions.
    pub(super) fn spin(&self, at: usize) -> Option<Spin<'a>> {
        let position = |label: &str| self.lines.iter().position(|line| *line == Line::Label(label));
        let (start, back) = (at + 1..self.lines.len()).find_map(|line| {
            let start = position(self.instruction(line)?.target()?)?;
            (start < line).then_some((start, line))
        })?;
        let lines = start..back + 1;
        if !lines.contains(&at) || lines.clone().any(|line| matches!(self.lines[line], Line::Other | Line::Register)) {
            return None;
        }
        let written = lines.clone().filter_map(|line| self.instruction(line)?.written()).collect();
        let spin = Spin { lines, written };
        // The lines that a thread skips do not depend on the loop.
        let stays = (start..back).all(|line| {
            let Some(instruction) = self.instruction(line) else { return true };
            let Some(target) = instruction.target() else { return true };
            position(target).is_some_and(|to| line < to && to < back)
                && spin.keeps(instruction.guard.unwrap_or_default())
        });
        stays.then_some(spin)
    }

    /// Whether code after a loop may lead into it again, or before it.
    pub(super) fn leads_back(&self, spin: &Spin<'_>) -> bool {
        let behind = &self.lines[spin.lines.end..];
        behind.iter().zip(&self.text[spin.lines.end..]).any(|(line, text)| match line {
            Line::Instruction(instruction) => {
                instruction.name.starts_with("br")
                    && !instruction.target().is_some_and(|target| behind.contains(&Line::Label(target)))
            }
            Line::Other => code(text).contains("br"),
            _ => false,
        })
    }

    /// Returns the lines that use a register, except its declaration.
    pub(super) fn uses(&self, register: &str) -> impl Iterator<Item = usize> {
        (0..self.lines.len())
            .filter(move |&line| self.lines[line] != Line::Register && has_word(code(self.text[line]), register))
    }

    /// Whether only these lines use a register.
    pub(super) fn is_only_in(&self, register: &str, lines: &[usize]) -> bool {
        self.uses(register).all(|line| lines.contains(&line))
    }

    /// Returns the only instruction among `lines` that writes a register, and its line.
    pub(super) fn set_in(&self, lines: Range<usize>, register: &str) -> Option<(&Instruction<'a>, usize)> {
        let mut all = lines.filter_map(|line| {
            let instruction = self.instruction(line)?;
            (instruction.written() == Some(register)).then_some((instruction, line))
        });
        all.next().filter(|_| all.next().is_none())
    }
}

impl Spin<'_> {
    /// Whether an operand has the same value in all rounds.
    pub(super) fn keeps(&self, operand: &str) -> bool {
        !self.written.contains(&operand)
    }
}

/// Returns `%r3` of `[%r3+8]`.
pub(super) fn base(address: &str) -> Option<&str> {
    let inside = address.strip_prefix('[')?.strip_suffix(']')?;
    Some(inside.split_once('+').map_or(inside, |(base, _)| base).trim())
}
