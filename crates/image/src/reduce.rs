//! Replaces loops that update a shared result by one operation of the hardware.
//!
//! GCC adds a gang's part of a reduction to the result, and performs atomic updates of `double`, by a loop:
//!
//! ```text
//! $L6:    mov.u64 %r28,%r97;                    // expected: the found value
//! $L4:    mov.b64 %r170,%r28;
//!         add.f64 %r169,%r76,%r170;             // %r76 is the gang's part
//!         mov.b64 %r98,%r169;
//!         atom.cas.b64 %r97,[%r44],%r28,%r98;
//!         setp.ne.u64 %r171,%r28,%r97;          // not the expected value: retry
//! @ %r171 bra $L6;
//! ```
//!
//! With thousands of gangs, one of them succeeds per round trip to the L2 cache. The hardware's own operations on one address
//! follow each other within nanoseconds.
//!
//! **One operation.** If the hardware has the loop's operation, `atom.cas` becomes `red`, and a `mov` that makes the found value equal to
//! the expected one. Then the loop ends as one that succeeds at once. The result is the same: the loop has only known
//! instructions, and its value and its address stay the same. No other code uses the registers with the found, expected and
//! computed values.
//!
//! **Nothing to write.** Otherwise `atom.cas` is skipped if the new value equals the expected one bit by bit and the previous round
//! found that. The update counts as done at that moment, when it would have changed nothing. That holds for all
//! operations and values, including NaN and -0.0. In the first round the expected value is the compiler's guess, a constant. A
//! value that equals the guess never counts as found. All other values were found if the register has only two sources: the guess before
//! the loop and the result of the swap in it. Also, no path may lead to the loop again, where the address could differ.
//!
//! All other code is unchanged.

use super::ptx::{Instruction, Line, has_word, is_register};
use super::spin::{Body, Spin, Swap, base};
use std::fmt::Write as _;
use std::ops::Range;

/// A kernel's changes of results that threads share: reductions over gangs and workers, and atomic updates.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Updates {
    /// Number of updates by one operation of the hardware, in place of the compiler's loop.
    pub hardware: u32,
    /// Number of loops, which retry until no other thread interferes, or until they hold a lock.
    pub loops: u32,
}

/// Returns new text of lines of the object, by their numbers, for a kernel whose body is at `body`.
pub(super) fn rewrite_updates(lines: &[&str], body: Range<usize>) -> (Updates, Vec<(usize, String)>) {
    let (mut counts, mut changes) = (Updates::default(), Vec::new());
    let text = &lines[body.clone()];
    if !text.iter().any(|line| line.contains(SWAP)) {
        return (counts, changes);
    }
    let kernel = Body::read(text);
    for at in 0..kernel.lines.len() {
        let Some(instruction) = kernel.instruction(at).filter(|instruction| instruction.name.contains(SWAP)) else {
            continue;
        };
        if let Some(red) = one_operation(&kernel, at) {
            counts.hardware += 1;
            changes.push((body.start + at, red));
            continue;
        }
        // A swap whose result is unused releases a lock.
        counts.loops += u32::from(instruction.written().is_some());
        changes.extend(unless_same(&kernel, at).map(|swap| (body.start + at, swap)));
    }
    (counts, changes)
}

const SWAP: &str = ".cas.b";

/// Counts the updates of an unchanged kernel.
pub(super) fn count_updates(body: &[&str]) -> Updates {
    let swaps = body.iter().filter(|line| line.contains(SWAP)).map(|line| Line::read(line));
    let loops = swaps.filter(|line| line.instruction().is_some_and(|swap| swap.written().is_some())).count();
    Updates { hardware: 0, loops: u32::try_from(loops).unwrap_or(u32::MAX) }
}

/// Returns `red` for the swap in line `at`, if it is equivalent.
fn one_operation(kernel: &Body<'_>, at: usize) -> Option<String> {
    let swap = kernel.swap(at)?;
    let spin = kernel.spin(at)?;
    let Swap { space, width, found, address, expected, new } = swap;
    // Back to the previous place where control flow may enter.
    let start = (spin.lines.start..at).rev().find(|&line| match &kernel.lines[line] {
        Line::Empty => false,
        Line::Instruction(instruction) => instruction.target().is_some(),
        _ => true,
    })?;
    let (new_set, new_at) = kernel.set_in(start..at, new)?;
    let (operation, at_operation) = match copied(new_set) {
        Some(computed) => kernel.set_in(start..new_at, computed)?,
        None => (new_set, new_at),
    };
    let name = hardware_name(operation, width)?;
    let &[computed, left, right] = &operation.operands[..] else { return None };
    // One operand is the expected value, or a copy of it in a floating-point register.
    let copy_of_expected = |operand: &str| {
        let (copy, line) = kernel.set_in(start..at_operation, operand)?;
        (copied(copy) == Some(expected)).then_some(line)
    };
    let (operand, value) = match [left, right].map(|operand| operand == expected || copy_of_expected(operand).is_some())
    {
        [true, false] => (left, right),
        [false, true] => (right, left),
        _ => return None,
    };
    // The next instruction tests whether the expected value, or a copy of it, was found.
    let test = (at + 1..spin.lines.end).find(|&line| kernel.lines[line] != Line::Empty)?;
    let tested = kernel.instruction(test).filter(|instruction| instruction.guard.is_none())?;
    let is_test = ["u", "s", "b"].iter().any(|kind| tested.name == format!("setp.ne.{kind}{width}"));
    let other = match tested.operands[..] {
        [_, one, other] | [_, other, one] if is_test && one == found => other,
        _ => return None,
    };
    // The line that makes the found value the expected one, or that saves it for the test if both use one register.
    let kept = if found == expected {
        kernel.set_in(start..at, other).filter(|(copy, _)| copied(copy) == Some(expected))?.1
    } else {
        let (_, line) = kernel.set_in(spin.lines.clone(), expected).filter(|(copy, _)| copied(copy) == Some(found))?;
        (other == expected && !(start..=test).contains(&line)).then_some(line)?
    };
    let mut known = vec![new_at, at_operation, at, test, kept];
    if operand != expected {
        let line = copy_of_expected(operand)?;
        known.push(line);
        kernel.is_only_in(operand, &[line, at_operation]).then_some(())?;
    }
    let alone = kernel.is_only_in(new, &[new_at, at])
        && (computed == new || kernel.is_only_in(computed, &[at_operation, new_at]))
        && (if found == expected {
            kernel.is_only_in(other, &[kept, test])
        } else {
            kernel.is_only_in(found, &[at, test, kept])
        })
        && kernel.uses(expected).all(|line| {
            known.contains(&line)
                || (!spin.lines.contains(&line) && kernel.instruction(line).is_some_and(|i| only_sets(i, expected)))
        });
    let value_stays = if is_register(value) { spin.keeps(value) && value != expected } else { is_constant(value) };
    let steady = value_stays && base(address).is_some_and(|base| spin.keeps(base));
    let ends = again_while(kernel, &spin, test);
    if !alone || !steady || !ends || !only_has(kernel, &spin, &known, carries_outcome) {
        return None;
    }
    let mut text = format!("red{space}.{name} {address},{value};");
    if found != expected {
        let _ = write!(text, "\nmov.b{width} {found},{expected};");
    }
    Some(text)
}

/// Returns the swap in line `at`, skipped if it would write the found value.
fn unless_same(kernel: &Body<'_>, at: usize) -> Option<String> {
    // A few workers of one gang do not contend.
    let swap = kernel.swap(at).filter(|swap| swap.space != ".shared")?;
    let spin = kernel.spin(at)?;
    let Swap { space, width, found, address, expected, new } = swap;
    let fine = base(address).is_some_and(|base| spin.keeps(base))
        && only_has(kernel, &spin, &[at], |instruction| carries_outcome(instruction) || computes(instruction));
    if !fine || kernel.leads_back(&spin) {
        return None;
    }
    let mut guess = None;
    for line in kernel.uses(expected) {
        let instruction = kernel.instruction(line)?;
        if !spin.lines.contains(&line) {
            let constant = copied(instruction).filter(|from| is_integer(from) && only_sets(instruction, expected))?;
            if guess.replace(constant).is_some_and(|other| other != constant) {
                return None;
            }
        } else if line != at && instruction.written() == Some(expected) && copied(instruction) != Some(found) {
            return None;
        }
    }
    let guess = guess?;
    let mut text = format!(
        "{{\n.reg .pred %accord_same;\n\
         setp.eq.b{width} %accord_same,{expected},{new};\n\
         setp.ne.and.b{width} %accord_same,{expected},{guess},%accord_same;\n"
    );
    if found != expected {
        let elsewhere = |line| line != at && kernel.instruction(line).is_none_or(|i| i.written() == Some(found));
        if kernel.uses(found).any(|line| !spin.lines.contains(&line) || elsewhere(line)) {
            return None;
        }
        let _ = writeln!(text, "@%accord_same mov.b{width} {found},{expected};");
    }
    let _ = write!(text, "@!%accord_same atom{space}.cas.b{width} {found},{address},{expected},{new};\n}}");
    Some(text)
}

/// Whether a loop has instructions of this kind only, besides branches and some lines.
fn only_has(kernel: &Body<'_>, spin: &Spin<'_>, besides: &[usize], kind: impl Fn(&Instruction<'_>) -> bool) -> bool {
    let mut rest =
        spin.lines.clone().filter(|line| !besides.contains(line)).filter_map(|line| kernel.instruction(line));
    rest.all(|instruction| instruction.target().is_some() || (instruction.guard.is_none() && kind(instruction)))
}

/// Whether a loop continues exactly if the test in a line of it holds. The instructions after it carry the outcome to the loop's end.
fn again_while(kernel: &Body<'_>, spin: &Spin<'_>, test: usize) -> bool {
    let mut have: Vec<&str> = kernel.instruction(test).and_then(Instruction::written).into_iter().collect();
    for line in test + 1..spin.lines.end - 1 {
        let Some(instruction) = kernel.instruction(line) else { continue };
        let (to, from) = match (instruction.name, &instruction.operands[..]) {
            ("mov.pred" | "ld.shared.u32" | "st.shared.u32", &[to, from])
            | ("selp.u32", &[to, _, _, from])
            | ("setp.ne.u32", &[to, from, _])
            | ("shfl.sync.idx.b32", &[to, from, ..]) => (to, from),
            ("bra" | "bra.uni", _) => return false,
            (_, &[to, ..]) => (to, ""),
            _ => continue,
        };
        let has = have.contains(&from);
        have.retain(|known| *known != to);
        have.extend(has.then_some(to));
    }
    let back = kernel.instruction(spin.lines.end - 1);
    back.is_some_and(|back| !back.unless && back.guard.is_some_and(|guard| have.contains(&guard)))
}

/// Whether an instruction carries a test's outcome to the threads of a warp or a gang, which leave the loop together.
fn carries_outcome(instruction: &Instruction<'_>) -> bool {
    let carries = match (instruction.name, &instruction.operands[..]) {
        ("setp.eq.u32", [_, "1", "0"]) | ("mov.pred", [_, _]) => true,
        ("selp.u32", [_, "1", "0", _]) | ("setp.ne.u32", [_, _, "0"]) => true,
        ("shfl.sync.idx.b32", [to, from, "0", "31", _]) => to == from,
        ("ld.shared.u32", [_, _]) => true,
        ("st.shared.u32", [_, from]) => return is_register(from),
        _ => return instruction.name.starts_with("bar.") || instruction.name.starts_with("barrier.sync"),
    };
    carries && instruction.written().is_some()
}

/// Whether an instruction computes one register from others.
fn computes(instruction: &Instruction<'_>) -> bool {
    const NAMES: [&str; 15] =
        ["mov", "cvt", "add", "sub", "mul", "min", "max", "neg", "and", "or", "xor", "not", "setp", "selp", "shr"];
    let name = instruction.name.split('.').next().unwrap_or_default();
    NAMES.contains(&name) && instruction.written().is_some()
}

/// Returns the register that an instruction copies unchanged.
fn copied<'a>(instruction: &Instruction<'a>) -> Option<&'a str> {
    let (name, width) = instruction.name.split_at_checked("mov.b".len())?;
    let &[_, from] = &instruction.operands[..] else { return None };
    let known = ["mov.b", "mov.u", "mov.s", "mov.f"].contains(&name) && ["32", "64"].contains(&width);
    (known && instruction.guard.is_none() && instruction.written().is_some()).then_some(from)
}

/// Whether an instruction writes a register without reading it.
fn only_sets(instruction: &Instruction<'_>, register: &str) -> bool {
    let sets = instruction.name.starts_with("mov.") || instruction.name.starts_with("ld.");
    let reads = instruction.guard.into_iter().chain(instruction.operands.iter().skip(1).copied());
    sets && instruction.written() == Some(register) && !reads.into_iter().any(|operand| has_word(operand, register))
}

/// Returns for example `add.f64`, if the hardware has the operation for values of this many bits. Adding is the same with and without signs.
fn hardware_name(instruction: &Instruction<'_>, width: u32) -> Option<&'static str> {
    if instruction.guard.is_some() {
        return None;
    }
    Some(match (width, instruction.name) {
        (32, "add.u32" | "add.s32") => "add.u32",
        (32, "add.f32") => "add.f32",
        (32, "min.s32") => "min.s32",
        (32, "max.s32") => "max.s32",
        (32, "min.u32") => "min.u32",
        (32, "max.u32") => "max.u32",
        (32, "and.b32") => "and.b32",
        (32, "or.b32") => "or.b32",
        (32, "xor.b32") => "xor.b32",
        (64, "add.u64" | "add.s64") => "add.u64",
        (64, "add.f64") => "add.f64",
        (64, "min.s64") => "min.s64",
        (64, "max.s64") => "max.s64",
        (64, "min.u64") => "min.u64",
        (64, "max.u64") => "max.u64",
        (64, "and.b64") => "and.b64",
        (64, "or.b64") => "or.b64",
        (64, "xor.b64") => "xor.b64",
        _ => return None,
    })
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// An integer, or the bits of a floating point value.
fn is_constant(text: &str) -> bool {
    let bits = ["0f", "0d"].iter().find_map(|prefix| text.strip_prefix(prefix));
    is_integer(text) || bits.is_some_and(|bits| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
