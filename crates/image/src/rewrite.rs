//! Rewrites PTX so that a region's argument block is the kernel's own parameter.
//!
//! GCC's kernels take the address of a block of slots. Copying that block to device memory costs a copy per launch. A
//! rewritten kernel takes the block itself as its parameter (`slots.rs`). Only kernels that use the address in ways that GCC is known to
//! produce are rewritten so. In all kernels, updates of shared results (`reduce.rs`, `global_updates.rs`), gang numbers (`gang_blocks.rs`) and
//! loops over arrays (`unroll.rs`) are rewritten too.

use super::definitions::definitions;
use super::gang_blocks::{gang_numbers, shared_variables};
use super::global_updates::global_updates;
use super::ptx::code;
use super::reduce::{Updates, count_updates, rewrite_updates};
use super::slots::{read_slots, write_prologue};
use super::unroll::unroll;
use super::{BlockLayout, GangUse, Refusal};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Changes whenever the same PTX would be rewritten differently, as part of the names of cached code.
pub const REWRITE_VERSION: u32 = 5;
/// Oldest architecture (`sm_70`) whose kernels can take the address of their parameters.
pub const PARAMETER_SM_MIN: u32 = 70;
/// Oldest PTX version (7.7) that supports it.
const VERSION_MIN: (u32, u32) = (7, 7);

/// The way in which a kernel gets its argument block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockPath {
    /// As the parameter.
    Parameter(BlockLayout),
    /// By address, in device memory.
    Memory(Refusal),
}

/// One kernel of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The kernel's name in the PTX.
    pub name: String,
    /// The way in which the kernel gets its argument block.
    pub block: BlockPath,
    /// The kernel's updates of results that threads share.
    pub updates: Updates,
    /// The kernel's use of its number of gangs.
    pub gangs: GangUse,
    /// Whether the kernel works with several gangs per block, by its own code alone ([`gangs_apart`](super::gangs_apart)).
    pub shares_blocks: bool,
    /// Number of loops that do several rounds at a time.
    pub unrolled: u32,
}

/// An object after rewriting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewritten<'a> {
    /// The PTX; borrowed if unchanged.
    pub text: Cow<'a, str>,
    /// The kernels that the object defines.
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
            None => read_slots(&lines[body.clone()]),
        };
        let block = match found.and_then(|found| {
            let layout = BlockLayout::new(found.count).ok_or(Refusal::TooManySlots)?;
            Ok((layout, found))
        }) {
            Ok((layout, found)) => {
                prologues.push((body.start + found.load, layout, name, found.reads.is_some()));
                let reads = found.reads.into_iter().flatten();
                changes.extend(reads.map(|read| (body.start + read.line, read.write(&layout))));
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
                let (unrolled, loops) = unroll(&lines, body.clone(), &changes);
                let globals = global_updates(&lines, body.clone());
                let (updates, swaps) = rewrite_updates(&lines, body);
                changes.extend(loops.into_iter().chain(globals).chain(swaps));
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

/// Returns the kernel's name if this line declares (`true`) or defines (`false`) one in GCC's form.
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

/// Returns why no kernel of an object can be rewritten.
fn object_refusal(lines: &[&str], sm: u32) -> Option<Refusal> {
    if sm < PARAMETER_SM_MIN {
        return Some(Refusal::Architecture(sm));
    }
    for line in lines {
        let code = code(line);
        let code = code.strip_prefix('@').map_or(code, |guarded| guarded.split_once(' ').map_or("", |(_, c)| c));
        // Removed in sm_70, so that the target can't be raised.
        let old = |name: &str| code.contains(name) && !code.contains(&format!("{name}sync."));
        if old("shfl.") || old("vote.") {
            return Some(Refusal::NoMask);
        }
    }
    let has = |directive: &str| lines.iter().any(|line| code(line).starts_with(directive));
    (!has(".version ") || !has(".target sm_")).then_some(Refusal::NoVersion)
}

/// New text of lines by their numbers.
type Changes = BTreeMap<usize, String>;

/// Returns the object with its version and target raised, and the prologues and changes applied.
fn write(lines: &[&str], prologues: &[(usize, BlockLayout, &str, bool)], changes: &Changes) -> String {
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
        } else if let Some((_, layout, name, _)) =
            entry_name(line).and_then(|(name, _)| prologues.iter().find(|(_, _, known, _)| *known == name))
        {
            let end = if code.ends_with(';') { ";" } else { "" };
            let visible = if code.starts_with(".visible") { ".visible " } else { "" };
            let _ = write!(out, "{visible}.entry {name} (.param .align 16 .b8 %in_ar0[{}]){end}", layout.bytes);
        } else if let Some((_, layout, _, direct)) = prologues.iter().find(|(load, ..)| *load == at) {
            write_prologue(&mut out, layout, *direct);
        } else if let Some(change) = changes.get(&at) {
            out.push_str(change);
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Returns an object's version and target as written: `6.0` and `sm_30`.
pub fn header(text: &str) -> (Option<&str>, Option<&str>) {
    let directive = |name| text.lines().find_map(|line| code(line).strip_prefix(name)).map(str::trim);
    (directive(".version "), directive(".target "))
}

fn version_of(text: &str) -> (u32, u32) {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    (major.trim().parse().unwrap_or(0), minor.trim().parse().unwrap_or(0))
}
