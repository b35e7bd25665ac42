//! Builds the cut kernel: loops over the threads for the segments between barriers, and the structures around barriers outside of them.

use super::super::ops;
use super::threads::{self, position, thread};
use super::values::{Value, has_barrier, is_barrier, is_pure, single};
use crate::mathematics;
use crate::mlir::{Op, whole};
use crate::refusal::Error;
use std::collections::{HashMap, HashSet};

/// Start of the name of the register with a thread's position.
const POSITION: &str = "nvvm.read.ptx.sreg.tid.";

pub(super) struct Segments<'a> {
    values: &'a HashMap<String, Value>,
    varying: &'a HashSet<String>,
    /// Values that are used behind the segment that computes them, with their types: each has an array.
    pub(super) kept: HashMap<String, String>,
    /// Values with an array in this run.
    known: HashMap<String, String>,
    location: String,
    has_calls: bool,
    /// Numbers for new names.
    count: usize,
    /// The number of the present segment, as [`super::collect`] counts.
    segment: usize,
}

/// Where operations are added: in a loop over threads, or outside.
struct InsertionPoint {
    ops: Vec<Op>,
    /// The new names of values that have been repeated here.
    names: HashMap<String, String>,
    /// The number of the loop over threads.
    thread: Option<usize>,
}

impl<'a> Segments<'a> {
    pub(super) fn new(
        values: &'a HashMap<String, Value>,
        varying: &'a HashSet<String>,
        known: HashMap<String, String>,
        function: &Op,
    ) -> Self {
        let mut has_calls = false;
        function.walk(&mut |op| {
            has_calls |= op.reference("callee").is_some_and(|name| !mathematics::is_in_libm(name));
        });
        let location = function.location.clone();
        Self { values, varying, kept: HashMap::new(), known, location, has_calls, count: 0, segment: 0 }
    }

    /// Returns the operations of the function's block; `None` if the kernel can't be cut.
    pub(super) fn function(&mut self, block: &[Op]) -> Result<Option<Vec<Op>>, Error> {
        let mut text = threads::prologue();
        let mut arrays: Vec<(&String, &str)> = self
            .values
            .iter()
            .filter_map(|(name, value)| match value {
                Value::Local(kind) => Some((name, kind.as_str())),
                _ => None,
            })
            .collect();
        let known = self.known.clone();
        for (name, kind) in &known {
            let Some(kept) = threads::kept_type(kind) else { return Ok(None) };
            arrays.push((name, kept));
        }
        arrays.sort_unstable();
        for (name, kind) in arrays {
            let Some(allocation) = threads::allocation(&array_name(name), kind) else { return Ok(None) };
            text.push_str(&allocation);
        }
        let mut list = ops(&self.location, &text)?;
        let Some(rest) = self.block(block)? else { return Ok(None) };
        list.extend(rest);
        Ok(Some(list))
    }

    fn block(&mut self, ops: &[Op]) -> Result<Option<Vec<Op>>, Error> {
        let mut list = Vec::new();
        let mut segment: Vec<&Op> = Vec::new();
        for op in ops {
            let is_end = op.name == "fir.result" || op.name == "func.return";
            if !is_barrier(op) && !has_barrier(op) && !is_end {
                segment.push(op);
                continue;
            }
            let Some(loops) = self.loops(&std::mem::take(&mut segment))? else { return Ok(None) };
            list.extend(loops);
            if is_barrier(op) {
                self.segment += 1;
                continue;
            }
            let mut new = op.clone();
            let mut outside = InsertionPoint { ops: Vec::new(), names: HashMap::new(), thread: None };
            for operand in &mut new.operands {
                if self.varying.contains(whole(operand)) {
                    return Ok(None);
                }
                let Some(name) = self.resolve(operand, &mut outside)? else { return Ok(None) };
                *operand = name;
            }
            list.extend(outside.ops);
            if !is_end {
                self.segment += 1;
                for block in new.regions.iter_mut().flatten() {
                    let Some(inner) = self.block(&block.ops)? else { return Ok(None) };
                    block.ops = inner;
                    self.segment += 1;
                }
            }
            list.push(new);
        }
        Ok(Some(list))
    }

    /// Returns the loops over threads for a segment; nothing if it has no effects.
    fn loops(&mut self, segment: &[&Op]) -> Result<Option<Vec<Op>>, Error> {
        let work: Vec<&Op> = segment.iter().copied().filter(|op| !is_pure(op) && op.name != "fir.alloca").collect();
        let Some(first) = work.first() else { return Ok(Some(Vec::new())) };
        let location = first.location.clone();
        self.count += 1;
        let number = self.count;
        let mut place = InsertionPoint { ops: Vec::new(), names: HashMap::new(), thread: Some(number) };
        for op in work {
            let mut new = op.clone();
            for name in used(op) {
                let Some(resolved) = self.resolve(&name, &mut place)? else { return Ok(None) };
                if resolved != name {
                    new.walk_mut(&mut |op| {
                        op.operands
                            .iter_mut()
                            .filter(|operand| **operand == name)
                            .for_each(|operand| operand.clone_from(&resolved));
                    });
                }
            }
            place.ops.push(new);
            if let Some(result) = op.result()
                && let Some(kind) = self.known.get(single(result)).cloned()
                && !self.keep(result, &kind, &mut place)?
            {
                return Ok(None);
            }
        }
        threads::loops(number, place.ops, &location, self.has_calls).map(Some)
    }

    /// Stores a value for segments behind a barrier. Returns `false` if memory can't hold it.
    fn keep(&mut self, result: &str, kind: &str, place: &mut InsertionPoint) -> Result<bool, Error> {
        if result.contains(':') {
            return Ok(false);
        }
        let Some(kept) = threads::kept_type(kind) else { return Ok(false) };
        let index = place.thread.map_or("%cut_0".to_owned(), thread);
        self.count += 1;
        let n = format!("%cut_k{}", self.count);
        let Some(mut text) = threads::element(&n, &array_name(result), kept, &index) else { return Ok(false) };
        let value = if kept == kind {
            result.to_owned()
        } else {
            text.push_str(&format!("{n}v = \"fir.convert\"({result}) : ({kind}) -> {kept}\n"));
            format!("{n}v")
        };
        text.push_str(&format!("\"fir.store\"({value}, {n}) : ({kept}, !fir.ref<{kept}>) -> ()"));
        place.ops.extend(ops(&self.location, &text)?);
        Ok(true)
    }

    /// Returns the name of a value at a place, where it is repeated or loaded if need be; `None` if that can't be.
    fn resolve(&mut self, name: &str, place: &mut InsertionPoint) -> Result<Option<String>, Error> {
        let whole_name = whole(name);
        let rest = &name[whole_name.len()..];
        if let Some(known) = place.names.get(whole_name) {
            return Ok(Some(format!("{known}{rest}")));
        }
        let Some(value) = self.values.get(whole_name) else { return Ok(None) };
        self.count += 1;
        let new = format!("%cut_v{}", self.count);
        match value {
            Value::Shared => return Ok(Some(name.to_owned())),
            Value::Local(kind) => {
                let index = place.thread.map_or("%cut_0".to_owned(), thread);
                let Some(text) = threads::element(&new, &array_name(whole_name), kind, &index) else { return Ok(None) };
                place.ops.extend(ops(&self.location, &text)?);
            }
            Value::Pure(op) if op.name.starts_with(POSITION) => {
                let Some(number) = place.thread else { return Ok(None) };
                return Ok(Some(position(number, &op.name[POSITION.len()..])));
            }
            Value::Pure(op) => {
                let mut op = (**op).clone();
                for operand in &mut op.operands {
                    let Some(resolved) = self.resolve(operand, place)? else { return Ok(None) };
                    *operand = resolved;
                }
                op.results = op.results.map(|results| results.replacen(whole_name, &new, 1));
                place.ops.push(op);
            }
            Value::Computed(segment, _) if place.thread.is_some() && *segment == self.segment => {
                return Ok(Some(name.to_owned()));
            }
            Value::Computed(_, kind) => {
                self.kept.insert(whole_name.to_owned(), kind.clone());
                let Some(kept) = threads::kept_type(kind).filter(|_| rest.is_empty()) else { return Ok(None) };
                let index = place.thread.map_or("%cut_0".to_owned(), thread);
                let Some(mut text) = threads::element(&format!("{new}a"), &array_name(whole_name), kept, &index) else {
                    return Ok(None);
                };
                let loaded = if kept == kind { new.clone() } else { format!("{new}l") };
                text.push_str(&format!("{loaded} = \"fir.load\"({new}a) : (!fir.ref<{kept}>) -> {kept}\n"));
                if loaded != new {
                    text.push_str(&format!("{new} = \"fir.convert\"({loaded}) : ({kept}) -> {kind}\n"));
                }
                place.ops.extend(ops(&self.location, &text)?);
            }
        }
        place.names.insert(whole_name.to_owned(), new.clone());
        Ok(Some(format!("{new}{rest}")))
    }
}

/// Returns the name of the array for a variable or value.
fn array_name(name: &str) -> String {
    format!("%cut_array_{}", name.trim_start_matches('%'))
}

/// Returns the values that an operation and nested ones use, and do not define.
fn used(op: &Op) -> Vec<String> {
    let mut defined = HashSet::new();
    op.walk(&mut |op| {
        defined.extend(op.result().map(|name| single(name).to_owned()));
        let arguments = op.regions.iter().flatten().flat_map(|block| &block.arguments);
        defined.extend(arguments.map(|(name, _)| name.clone()));
    });
    let mut names = Vec::new();
    op.walk(&mut |op| {
        for name in op.operands.iter().filter(|name| !defined.contains(whole(name))) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    });
    names
}
