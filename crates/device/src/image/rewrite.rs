//! PTX rewritten so that a region's argument block is the kernel's own parameter.
//!
//! GCC's kernels take the address of a block of slots. Bringing that block into device memory costs a copy a
//! launch. A rewritten kernel takes the block itself as its parameter, copies the slots into
//! thread-local memory while it adds the parameter's address to the relative ones, and goes on with the
//! address of that copy. Only kernels that use the address in the ways that GCC is known to
//! produce are touched; all others keep the ordinary way. Both kinds get their updates of shared results
//! (`reduce.rs`), the numbers of their gangs (`gang_blocks.rs`) and loops over arrays (`unroll.rs`) rewritten.

use super::definitions::definitions;
use super::gang_blocks::{gang_numbers, shared_variables};
use super::ptx::{code, has_word, is_register};
use super::reduce::{Updates, count_updates, rewrite_updates};
use super::refusal::SLOTS_MAX;
use super::unroll::unroll;
use super::{BlockLayout, GangUse, Refusal};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Changes whenever the same PTX would be rewritten differently: cached machine code has it in its name.
pub const REWRITE_VERSION: u32 = 4;
/// Oldest architecture (`sm_70`) whose kernels can take the address of their parameters.
pub const PARAMETER_SM_MIN: u32 = 70;
/// Oldest PTX version (7.7) with that.
const VERSION_MIN: (u32, u32) = (7, 7);

/// How a kernel gets its argument block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockPath {
    /// As its parameter.
    Parameter(BlockLayout),
    /// By address, in device memory.
    Memory(Refusal),
}

/// One kernel of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// Its name in the PTX.
    pub name: String,
    /// How it gets its argument block.
    pub block: BlockPath,
    /// How it changes results that threads share.
    pub updates: Updates,
    /// What its code shows of its number of gangs.
    pub gangs: GangUse,
    /// It works the same with several gangs in a block, as far as its own code goes ([`gangs_apart`](super::gangs_apart)).
    pub shares_blocks: bool,
    /// Loops of it that do several rounds at a time.
    pub unrolled: u32,
}

/// An object after rewriting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewritten<'a> {
    /// The PTX; borrowed if nothing was changed.
    pub text: Cow<'a, str>,
    /// The kernels that it defines.
    pub kernels: Vec<Kernel>,
}

/// Rewrites one PTX object for an architecture (90 for `sm_90`).
pub fn rewrite(text: &str, sm: u32) -> Rewritten<'_> {
    let lines: Vec<&str> = text.lines().collect();
    let refused = object_refusal(&lines, sm);
    let mut kernels = Vec::new();
    let mut prologues = Vec::new();
    let mut changes = Changes::new();
    let shared = shared_variables(&lines);
    for definition in definitions(&lines) {
        let Some((name, false)) = entry_name(definition.head) else { continue };
        let body = definition.body.clone();
        let found = match &refused {
            Some(why) => Err(why.clone()),
            None => read_body(&lines[body.clone()]),
        };
        let block = match found.and_then(|found| {
            let layout = BlockLayout::new(found.slots).ok_or(Refusal::TooManySlots)?;
            Ok((layout, body.start + found.load))
        }) {
            Ok((layout, load)) => {
                prologues.push((load, layout, name));
                BlockPath::Parameter(layout)
            }
            Err(why) => BlockPath::Memory(why),
        };
        let gangs = GangUse::read(&lines[body.clone()]);
        let numbers = if refused.is_none() { gang_numbers(&lines, &definition, &shared) } else { None };
        let shares_blocks = numbers.is_some();
        changes.extend(numbers.into_iter().flatten());
        let (updates, unrolled) = match &refused {
            Some(_) => (count_updates(&lines[body]), 0),
            None => {
                let (unrolled, loops) = unroll(&lines, body.clone());
                let (updates, swaps) = rewrite_updates(&lines, body);
                changes.extend(loops.into_iter().chain(swaps));
                (updates, unrolled)
            }
        };
        kernels.push(Kernel { name: name.to_owned(), block, updates, gangs, shares_blocks, unrolled });
    }
    if prologues.is_empty() && changes.is_empty() {
        return Rewritten { text: Cow::Borrowed(text), kernels };
    }
    Rewritten { text: Cow::Owned(write(&lines, &prologues, &changes)), kernels }
}

const PARAMETER: &str = "(.param .u64 %in_ar0)";
const LOAD: &str = "ld.param.u64 %ar0,[%in_ar0];";

/// The kernel's name if this line declares (true) or defines (false) one of GCC's form.
fn entry_name(line: &str) -> Option<(&str, bool)> {
    let code = code(line);
    let rest = code.strip_prefix(".visible ").unwrap_or(code).strip_prefix(".entry ")?;
    let (name, parameter) = rest.split_once(' ')?;
    match parameter.strip_prefix(PARAMETER)?.trim() {
        "" => Some((name, false)),
        ";" => Some((name, true)),
        _ => None,
    }
}

/// Why no kernel of an object can be rewritten.
fn object_refusal(lines: &[&str], sm: u32) -> Option<Refusal> {
    if sm < PARAMETER_SM_MIN {
        return Some(Refusal::Architecture(sm));
    }
    for line in lines {
        let code = code(line);
        let code = code.strip_prefix('@').map_or(code, |guarded| guarded.split_once(' ').map_or("", |(_, c)| c));
        // Gone from sm_70 on, so the target can't be raised.
        let old = |name: &str| code.contains(name) && !code.contains(&format!("{name}sync."));
        if old("shfl.") || old("vote.") {
            return Some(Refusal::NoMask);
        }
    }
    let has = |directive: &str| lines.iter().any(|line| code(line).starts_with(directive));
    (!has(".version ") || !has(".target sm_")).then_some(Refusal::NoVersion)
}

struct Body {
    /// Line of the instruction that loads the parameter.
    load: usize,
    slots: u32,
}

/// Checks that a kernel uses its block's address in known ways only, and counts its slots.
fn read_body(lines: &[&str]) -> Result<Body, Refusal> {
    let mut load = None;
    let mut copies: Vec<&str> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = code(line);
        if code == LOAD {
            if load.replace(at).is_some() {
                return Err(Refusal::UnknownUse(code.to_owned()));
            }
        } else if has_word(code, "%in_ar0") {
            return Err(Refusal::UnknownUse(code.to_owned()));
        } else if has_word(code, "%ar0") && !code.starts_with(".reg ") {
            let copy = code.strip_prefix("mov.u64 ").and_then(|rest| rest.strip_suffix(",%ar0;"));
            copies.push(copy.filter(|to| is_register(to)).ok_or_else(|| Refusal::UnknownUse(code.to_owned()))?);
        }
    }
    let load = load.ok_or(Refusal::NoLoad)?;
    let (mut slots, mut stored, mut restored) = (0, false, false);
    for line in lines {
        let code = code(line);
        for copy in &copies {
            if code.starts_with(".reg ") || !has_word(code, copy) || code.ends_with(",%ar0;") {
                continue;
            }
            match use_of(code, copy) {
                Use::Slot(slot) => slots = slots.max(slot + 1),
                Use::Broadcast => {}
                Use::Store => stored = true,
                Use::Restore => restored = true,
                Use::Stack => return Err(Refusal::OnStack),
                Use::Unknown => return Err(Refusal::UnknownUse(code.to_owned())),
            }
        }
    }
    if stored && !restored {
        return Err(Refusal::KeptInMemory);
    }
    if slots > SLOTS_MAX {
        return Err(Refusal::TooManySlots);
    }
    Ok(Body { load, slots })
}

enum Use {
    /// Loads (part of) this slot.
    Slot(u32),
    /// Half of a copy from one thread to all by shuffles.
    Broadcast,
    /// Halves of a copy by shared memory.
    Store,
    Restore,
    /// Stores the address on the stack, as unoptimized code does.
    Stack,
    Unknown,
}

fn use_of(code: &str, register: &str) -> Use {
    let Some((name, operands)) = code.trim_end_matches(';').split_once(' ') else { return Use::Unknown };
    let operands = operands.replace(' ', "");
    if name == "mov.b64" {
        let (to, from) = match operands.strip_prefix('{') {
            Some(rest) => match rest.split_once("},") {
                Some(pair) => pair,
                None => return Use::Unknown,
            },
            None => match operands.split_once(',') {
                Some(pair) => pair,
                None => return Use::Unknown,
            },
        };
        let halves = |text: &str| text.trim_matches(['{', '}']).split(',').all(is_register) && text.contains(',');
        return if (to == register && halves(from)) || (from == register && halves(to)) {
            Use::Broadcast
        } else {
            Use::Unknown
        };
    }
    let Some((first, second)) = operands.split_once(',') else { return Use::Unknown };
    if name == "st.u64" {
        return match second == register && !has_word(first, register) {
            true if first.contains("%frame") => Use::Stack,
            true => Use::Store,
            false => Use::Unknown,
        };
    }
    if !name.starts_with("ld.") || name.contains(".v") {
        return Use::Unknown;
    }
    let Some(address) = second.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else { return Use::Unknown };
    let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
    match (first == register, base == register) {
        (true, false) if name == "ld.u64" && !has_word(offset, register) => Use::Restore,
        (false, true) => match offset.parse::<u32>() {
            Ok(offset) if offset < SLOTS_MAX * 16 => Use::Slot(offset / 8),
            _ => Use::Unknown,
        },
        _ => Use::Unknown,
    }
}

/// New text of lines, by their numbers.
type Changes = BTreeMap<usize, String>;

/// The object with its version and target raised, and the prologues and changes in place.
fn write(lines: &[&str], prologues: &[(usize, BlockLayout, &str)], changes: &Changes) -> String {
    let mut out = String::with_capacity(lines.iter().map(|line| line.len() + 1).sum::<usize>() + 4096);
    for (at, line) in lines.iter().enumerate() {
        let code = code(line);
        if let Some(version) = code.strip_prefix(".version ") {
            let (major, minor) = version_of(version).max(VERSION_MIN);
            let _ = write!(out, ".version {major}.{minor}");
        } else if let Some(target) = code.strip_prefix(".target sm_") {
            let digits = target.find(|c: char| !c.is_ascii_digit()).unwrap_or(target.len());
            let (number, rest) = target.split_at(digits);
            match number.parse::<u32>() {
                Ok(sm) if sm < PARAMETER_SM_MIN => {
                    let _ = write!(out, ".target sm_{PARAMETER_SM_MIN}{rest}");
                }
                _ => out.push_str(line),
            }
        } else if let Some((_, layout, name)) =
            entry_name(line).and_then(|(name, _)| prologues.iter().find(|(_, _, known)| *known == name))
        {
            let end = if code.ends_with(';') { ";" } else { "" };
            let visible = if code.starts_with(".visible") { ".visible " } else { "" };
            let _ = write!(out, "{visible}.entry {name} (.param .align 16 .b8 %in_ar0[{}]){end}", layout.bytes);
        } else if let Some((_, layout, _)) = prologues.iter().find(|(load, ..)| *load == at) {
            write_prologue(&mut out, layout);
        } else if let Some(change) = changes.get(&at) {
            out.push_str(change);
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

fn write_prologue(out: &mut String, layout: &BlockLayout) {
    if layout.slots == 0 {
        out.push_str("mov.u64 %ar0,0;");
        return;
    }
    let _ = write!(
        out,
        ".local .align 8 .b8 %accord_slots[{}];\n\
         .reg .u64 %accord_block;\n.reg .u64 %accord_mask;\n.reg .u64 %accord_bit;\n.reg .u64 %accord_slot;\n\
         cvta.param.u64 %accord_block,%in_ar0;\n",
        layout.slots * 8
    );
    for slot in 0..layout.slots {
        if slot % 64 == 0 {
            let _ = writeln!(out, "ld.param.u64 %accord_mask,[%in_ar0+{}];", layout.mask_at + slot / 64 * 8);
        }
        let _ = write!(
            out,
            "ld.param.u64 %accord_slot,[%in_ar0+{at}];\n\
             bfe.u64 %accord_bit,%accord_mask,{},1;\n\
             mad.lo.u64 %accord_slot,%accord_bit,%accord_block,%accord_slot;\n\
             st.local.u64 [%accord_slots+{at}],%accord_slot;\n",
            slot % 64,
            at = slot * 8
        );
    }
    out.push_str("cvta.local.u64 %ar0,%accord_slots;");
}

/// The version and the target that an object names, as they stand there: `6.0` and `sm_30`.
pub fn header(text: &str) -> (Option<&str>, Option<&str>) {
    let directive = |name| text.lines().find_map(|line| code(line).strip_prefix(name)).map(str::trim);
    (directive(".version "), directive(".target "))
}

fn version_of(text: &str) -> (u32, u32) {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    (major.trim().parse().unwrap_or(0), minor.trim().parse().unwrap_or(0))
}
