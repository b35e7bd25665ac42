//! How a kernel accesses the slots of its argument block, and how it does after that block became its parameter.
//!
//! GCC's code loads the block's address from the kernel's parameter, keeps it in registers, passes those to other threads, and loads slots. A slot with
//! a relative value points into the block, so that the block's address must be added.
//!
//! * If the address is only used to load whole slots, and passed to other threads of the warp, each load reads the parameter instead. The address
//!   itself is then unused.
//! * If the address passes through shared memory, or parts of slots are loaded, the kernel's first instructions copy the slots into thread-local
//!   memory. The rest uses the address of that copy. That memory is written for each thread of each gang, which is noticeable with many gangs.

use super::ptx::{Line, code, has_word, is_register};
use super::refusal::SLOTS_MAX;
use super::{BlockLayout, Refusal};
use std::fmt::Write as _;

const LOAD: &str = "ld.param.u64 %ar0,[%in_ar0];";

/// A kernel's reads of its slots.
pub(super) struct Slots {
    /// Number of the line that loads the parameter.
    pub(super) load: usize,
    pub(super) count: u32,
    /// The loads of slots, if they can read the parameter directly.
    pub(super) reads: Option<Vec<Read>>,
}

/// An instruction that loads a slot.
pub(super) struct Read {
    pub(super) line: usize,
    to: String,
    slot: u32,
}

/// Checks that a kernel uses its block's address in known ways only, and counts its slots.
pub(super) fn read_slots(lines: &[&str]) -> Result<Slots, Refusal> {
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
    let mut reads = Some(Vec::new());
    for (at, line) in lines.iter().enumerate() {
        let code = code(line);
        for copy in &copies {
            if code.starts_with(".reg ") || !has_word(code, copy) || code.ends_with(",%ar0;") {
                continue;
            }
            match use_of(code, copy) {
                Use::Slot(slot) => {
                    slots = slots.max(slot + 1);
                    match whole_slot(code) {
                        Some(to) => reads.iter_mut().for_each(|reads| {
                            reads.push(Read { line: at, to: to.to_owned(), slot });
                        }),
                        None => reads = None,
                    }
                }
                Use::Broadcast => reads = reads.filter(|_| is_broadcast(lines, code, copy)),
                Use::Store => (stored, reads) = (true, None),
                Use::Restore => (restored, reads) = (true, None),
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
    Ok(Slots { load, count: slots, reads })
}

enum Use {
    /// Loads (part of) this slot.
    Slot(u32),
    /// Half of a copy from one thread to all threads by shuffles.
    Broadcast,
    /// Halves of a copy through shared memory.
    Store,
    Restore,
    /// A store of the address on the stack, as in unoptimized code.
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

/// Returns the register into which an instruction loads a whole slot: 8 bytes at a multiple of 8.
fn whole_slot(code: &str) -> Option<&str> {
    let line = Line::read(code);
    let instruction = line.instruction()?;
    let &[to, address] = &instruction.operands[..] else { return None };
    let offset =
        address.strip_suffix(']')?.split_once('+').map_or(Some(0), |(_, offset)| offset.parse::<u32>().ok())?;
    let whole = ["ld.u64", "ld.s64", "ld.b64", "ld.f64"].contains(&instruction.name) && offset.is_multiple_of(8);
    (whole && is_register(to)).then_some(to)
}

/// Whether this line splits a register into halves, or joins them, only to pass its value from one thread of a warp to the others.
fn is_broadcast(lines: &[&str], code: &str, register: &str) -> bool {
    let halves = |code: &str| {
        Some(code.split_once('{')?.1.split_once('}')?.0.split_once(',').map(|(a, b)| [a, b])?.map(str::to_owned))
    };
    let Some(pair) = halves(code) else { return false };
    let apart = format!("mov.b64 {{{},{}}},{register};", pair[0], pair[1]);
    let together = format!("mov.b64 {register},{{{},{}}};", pair[0], pair[1]);
    let known = |code: &str| {
        let line = Line::read(code);
        let shuffled = line.instruction().is_some_and(|instruction| {
            instruction.guard.is_none()
                && instruction.name == "shfl.sync.idx.b32"
                && matches!(instruction.operands[..], [to, from, "0", "31", "0xffffffff"] if to == from && pair.iter().any(|half| half == to))
        });
        code.starts_with(".reg ") || code == apart || code == together || shuffled
    };
    let mut with =
        lines.iter().map(|line| super::ptx::code(line)).filter(|code| pair.iter().any(|half| has_word(code, half)));
    pair[0] != pair[1] && with.all(known) && lines.iter().any(|line| super::ptx::code(line) == apart)
}

impl Read {
    /// Returns the load from the parameter.
    pub(super) fn write(&self, layout: &BlockLayout) -> String {
        let Self { to, slot, .. } = self;
        format!(
            "cvta.param.u64 %accord_block,%in_ar0;\n\
             ld.param.u64 %accord_mask,[%in_ar0+{}];\n\
             ld.param.u64 %accord_slot,[%in_ar0+{}];\n\
             bfe.u64 %accord_bit,%accord_mask,{},1;\n\
             mad.lo.u64 %accord_slot,%accord_bit,%accord_block,%accord_slot;\n\
             mov.b64 {to},%accord_slot;",
            layout.mask_at + slot / 64 * 8,
            slot * 8,
            slot % 64,
        )
    }
}

/// Writes the replacement of the instruction that loads the parameter.
pub(super) fn write_prologue(out: &mut String, layout: &BlockLayout, direct: bool) {
    if layout.slots == 0 {
        out.push_str("mov.u64 %ar0,0;");
        return;
    }
    if direct {
        out.push_str(
            ".reg .u64 %accord_block;\n.reg .u64 %accord_mask;\n.reg .u64 %accord_bit;\n.reg .u64 %accord_slot;\n\
             mov.u64 %ar0,0;",
        );
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
