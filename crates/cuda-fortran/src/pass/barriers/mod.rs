//! Cuts kernels for CPU devices at their barriers: what lies between two barriers becomes a loop over the threads of a block, so that no thread needs a
//! stack of its own. Control flow around a barrier is executed once for all threads, so it must be uniform: the same for all of them. Local variables, and
//! values that are used behind a barrier, become arrays with an element for each thread.
//!
//! Kernels with other control flow, or whose threads wait for their warp, run as fibers.

mod promote;
mod segments;
mod threads;
mod uniform;
mod values;

use crate::mlir::Op;
use crate::refusal::Error;
use segments::Segments;
use std::collections::{HashMap, HashSet};
use values::{Value, has_barrier, is_barrier, is_pure, single};

/// Most bytes of a thread's local variables and of its values that are kept across a barrier, which are on the stack for all threads of a block.
const BYTES_MAX: usize = 1024;
/// Operations by which threads wait for each other, apart from barriers; the runtime's functions that do the same follow.
const WAITS: &[&str] = &["nvvm.vote.sync", "nvvm.bar.warp.sync", "nvvm.shfl.sync", "nvvm.read.ptx.sreg.laneid"];
const WAITING_CALLS: &[&str] = &["accord_shfl", "accord_ballot", "accord_cuf"];

/// Cuts the kernels of the list that can be cut; returns their symbols.
pub(super) fn cut(list: &mut [Op], kernels: &[&str]) -> Result<HashSet<String>, Error> {
    let mut done = HashSet::new();
    for at in 0..list.len() {
        let Some(symbol) = list[at].symbol().filter(|symbol| kernels.contains(symbol)).map(str::to_owned) else {
            continue;
        };
        if has_barrier(&list[at])
            && !waits_otherwise(&list[at], list)
            && let Some(new) = cut_function(&list[at])?
        {
            list[at] = new;
            done.insert(symbol);
        }
    }
    Ok(done)
}

/// Whether threads wait for each other otherwise: in operations of warps, or in functions that the kernel calls.
fn waits_otherwise(kernel: &Op, list: &[Op]) -> bool {
    let mut pending = vec![kernel];
    let mut seen = HashSet::new();
    while let Some(function) = pending.pop() {
        let mut waits = false;
        function.walk(&mut |op| {
            waits |= WAITS.contains(&&*op.name);
            waits |= op.name == "nvvm.barrier" && op.get("reductionOp").is_some();
            waits |= is_barrier(op) && function.symbol() != kernel.symbol();
            let Some(callee) = op.reference("callee") else { return };
            waits |= WAITING_CALLS.iter().any(|start| callee.starts_with(start));
            if seen.insert(callee.to_owned()) {
                match list.iter().find(|op| op.name == "func.func" && op.symbol() == Some(callee)) {
                    Some(function) if function.body().next().is_some() => pending.push(function),
                    // Code of another source may wait.
                    _ => waits |= callee.starts_with("_Q"),
                }
            }
        });
        if waits {
            return true;
        }
    }
    false
}

/// Whether a structure with a barrier can be executed once for all threads.
fn is_structure(op: &Op) -> bool {
    let has_one_block = |region: &Vec<crate::mlir::Block>| region.len() <= 1;
    match &*op.name {
        "fir.do_loop" => !op.properties.has("unordered") && op.regions.iter().all(has_one_block),
        "fir.if" => op.results.is_none() && op.regions.iter().all(has_one_block),
        _ => false,
    }
}

/// Returns the kernel, cut at its barriers; `None` if it can't be cut.
fn cut_function(function: &Op) -> Result<Option<Op>, Error> {
    if !matches!(&*function.regions, [region] if region.len() == 1) {
        return Ok(None);
    }
    let mut function = function.clone();
    promote::promote(&mut function);
    let block = &function.regions[0][0];
    let mut values = HashMap::new();
    values.extend(block.arguments.iter().map(|(name, _)| (name.clone(), Value::Shared)));
    let mut segment = 0;
    if collect(&block.ops, &mut segment, &mut values).is_none()
        || local_bytes(&values).is_none_or(|bytes| bytes > BYTES_MAX)
    {
        return Ok(None);
    }
    let varying = uniform::varying(&function, &values);
    let mut new = function.clone();
    // The first run finds the values that are used behind a barrier.
    let mut kept = HashMap::new();
    loop {
        let mut segments = Segments::new(&values, &varying, kept.clone(), &function);
        let Some(ops) = segments.function(&block.ops)? else { return Ok(None) };
        if segments.kept == kept {
            let bytes = |kind: &String| threads::kept_type(kind).and_then(threads::bytes).unwrap_or(BYTES_MAX);
            if local_bytes(&values).unwrap_or(BYTES_MAX) + kept.values().map(bytes).sum::<usize>() > BYTES_MAX {
                return Ok(None);
            }
            new.regions[0][0].ops = ops;
            return Ok(Some(new));
        }
        kept = segments.kept;
    }
}

/// Notes the values of a block, and numbers its segments. Returns `None` if there is an unsupported structure around a barrier.
fn collect(ops: &[Op], segment: &mut usize, values: &mut HashMap<String, Value>) -> Option<()> {
    for op in ops {
        if is_barrier(op) {
            *segment += 1;
            continue;
        }
        if has_barrier(op) {
            if !is_structure(op) {
                return None;
            }
            *segment += 1;
            for block in op.regions.iter().flatten() {
                values.extend(block.arguments.iter().map(|(name, _)| (name.clone(), Value::Shared)));
                collect(&block.ops, segment, values)?;
                *segment += 1;
            }
            values.extend(op.result().map(|name| (single(name).to_owned(), Value::Shared)));
            continue;
        }
        let Some(result) = op.result() else { continue };
        let value = if op.name == "fir.alloca" {
            let is_fixed = op.operands.is_empty();
            Value::Local(op.get("in_type").filter(|_| is_fixed)?.to_owned())
        } else if is_pure(op) {
            Value::Pure(Box::new(op.clone()))
        } else {
            Value::Computed(*segment, op.result_types.first()?.clone())
        };
        values.insert(single(result).to_owned(), value);
    }
    Some(())
}

/// Returns the bytes of all local variables of a thread; `None` if the size of one is unknown.
fn local_bytes(values: &HashMap<String, Value>) -> Option<usize> {
    let locals = values.values().filter_map(|value| match value {
        Value::Local(kind) => Some(threads::bytes(kind)),
        _ => None,
    });
    locals.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::{Module, module};

    fn kernel(body: &str) -> Op {
        let text = format!(
            "\"builtin.module\"() ({{\n\"func.func\"() <{{function_type = (!fir.ref<i32>, i32) -> (), sym_name = \"k\"}}> ({{\n^bb0(%a: !fir.ref<i32>, %n: i32):\n{body}\"func.return\"() : () -> ()\n}}) : () -> ()\n}}) : () -> ()"
        );
        module(&text).unwrap().op.list().remove(0)
    }

    fn cut_text(body: &str) -> Option<String> {
        let op = cut_function(&kernel(body)).unwrap()?;
        Some(Module { op, ..Module::default() }.to_string())
    }

    const START: &str =
        "%x = \"fir.alloca\"() <{in_type = i32, operandSegmentSizes = array<i32: 0, 0>}> : () -> !fir.ref<i32>
%t = \"nvvm.read.ptx.sreg.tid.x\"() : () -> i32
%c = \"arith.constant\"() <{value = true}> : () -> i1
\"fir.store\"(%t, %x) : (i32, !fir.ref<i32>) -> ()
%l = \"fir.load\"(%a) : (!fir.ref<i32>) -> i32
";
    const END: &str = "\"fir.store\"(%l, %x) : (i32, !fir.ref<i32>) -> ()\n";

    #[test]
    fn segments_become_loops_over_threads() {
        let text = cut_text(&format!("{START}\"nvvm.barrier0\"() : () -> ()\n{END}")).unwrap();
        assert_eq!(text.matches("fir.do_loop").count(), 6, "{text}");
        assert!(!text.contains("nvvm.barrier0") && !text.contains("sreg.tid"), "{text}");
        // The value that is loaded before the barrier and stored behind it has an element for each thread.
        assert_eq!(text.matches("fir.alloca").count(), 2, "{text}");
    }

    #[test]
    fn control_flow_that_differs_between_threads_is_not_cut() {
        let of = |condition: &str| {
            let body = format!(
                "\"fir.if\"({condition}) ({{\n\"nvvm.barrier0\"() : () -> ()\n\"fir.result\"() : () -> ()\n}}, {{\n}}) : (i1) -> ()\n"
            );
            let compared = "%s = \"arith.cmpi\"(%t, %n) <{predicate = 0 : i64}> : (i32, i32) -> i1\n%u = \"arith.cmpi\"(%n, %n) <{predicate = 0 : i64}> : (i32, i32) -> i1\n%v = \"arith.cmpi\"(%l, %n) <{predicate = 0 : i64}> : (i32, i32) -> i1\n";
            cut_text(&format!("{START}{compared}{body}{END}")).is_some()
        };
        assert!(of("%c") && of("%u"));
        assert!(!of("%s") && !of("%v"));
    }

    #[test]
    fn kernels_that_wait_for_warps_are_not_cut() {
        let mut list = vec![kernel("\"nvvm.barrier0\"() : () -> ()\n\"nvvm.bar.warp.sync\"(%n) : (i32) -> ()\n")];
        assert!(cut(&mut list, &["k"]).unwrap().is_empty());
        let mut list = vec![kernel("\"nvvm.barrier0\"() : () -> ()\n\"fir.call\"() <{callee = @_QMmPf}> : () -> ()\n")];
        assert!(cut(&mut list, &["k"]).unwrap().is_empty());
        let mut list = vec![kernel("\"nvvm.barrier0\"() : () -> ()\n\"fir.call\"() <{callee = @sinf}> : () -> ()\n")];
        assert_eq!(cut(&mut list, &["k"]).unwrap().len(), 1);
    }
}
