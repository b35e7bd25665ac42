//! Replaces local variables that are stored once, before all loads, by the stored value, so that it need not be kept for each thread. Most of a kernel's
//! indices are such variables.

use super::super::types::is_scalar;
use crate::mlir::{Op, whole};
use std::collections::{HashMap, HashSet};

/// The uses of a local variable: positions in the function's block.
#[derive(Default)]
struct Uses {
    /// Stores at the level of the function's block, with the stored value.
    stores: Vec<(usize, String)>,
    /// The first position of a load.
    first_load: Option<usize>,
    /// Whether there are other uses, or stores inside of structures.
    has_others: bool,
}

/// Replaces such variables in a kernel with one block.
pub(super) fn promote(function: &mut Op) {
    let mut uses: HashMap<String, Uses> = HashMap::new();
    let mut bases: HashMap<String, String> = HashMap::new();
    for (at, op) in function.body().enumerate() {
        if op.name == "fir.alloca"
            && op.operands.is_empty()
            && op.get("in_type").is_some_and(is_scalar)
            && let Some(name) = op.result()
        {
            uses.insert(name.to_owned(), Uses::default());
            bases.insert(name.to_owned(), name.to_owned());
        }
        note(op, at, true, &mut uses, &mut bases);
    }
    let promoted: HashMap<String, String> = uses
        .into_iter()
        .filter(|(_, one)| !one.has_others)
        .filter_map(|(name, one)| match &*one.stores {
            [(at, value)] if one.first_load.is_none_or(|first| first > *at) => Some((name, value.clone())),
            _ => None,
        })
        .collect();
    // The values of loads.
    let mut values: HashMap<String, String> = HashMap::new();
    function.walk(&mut |op| {
        let variable = op.operands.first().and_then(|name| bases.get(name)).and_then(|base| promoted.get(base));
        if let (Some(value), Some(result)) = (variable, op.result())
            && op.name == "fir.load"
        {
            values.insert(result.to_owned(), value.clone());
        }
    });
    let gone: HashSet<String> =
        bases.into_iter().filter(|(_, base)| promoted.contains_key(base)).map(|(name, _)| name).collect();
    rewrite(function, &values, &gone);
}

/// Notes the uses of local variables in an operation and nested ones.
fn note(op: &Op, at: usize, is_outer: bool, uses: &mut HashMap<String, Uses>, bases: &mut HashMap<String, String>) {
    for (index, operand) in op.operands.iter().enumerate() {
        let Some(base) = bases.get(whole(operand)).cloned() else { continue };
        let Some(one) = uses.get_mut(&base) else { continue };
        match (&*op.name, index) {
            ("fir.load", 0) => one.first_load = Some(one.first_load.map_or(at, |first| first.min(at))),
            ("fir.store", 1) if is_outer => one.stores.push((at, op.operands[0].clone())),
            ("fir.declare", 0) if is_outer => {
                if let Some(result) = op.result() {
                    bases.insert(result.to_owned(), base);
                }
            }
            _ => one.has_others = true,
        }
    }
    for inner in op.regions.iter().flatten().flat_map(|block| &block.ops) {
        note(inner, at, false, uses, bases);
    }
}

/// Removes the variables with these names of addresses, and replaces loaded values.
fn rewrite(op: &mut Op, values: &HashMap<String, String>, gone: &HashSet<String>) {
    for block in op.regions.iter_mut().flatten() {
        block.ops.retain(|op| {
            let is_access = ["fir.store", "fir.load", "fir.declare"].contains(&&*op.name)
                && op.operands.iter().any(|name| gone.contains(name));
            let is_variable = op.name == "fir.alloca" && op.result().is_some_and(|name| gone.contains(name));
            !(is_access || is_variable)
        });
        for inner in &mut block.ops {
            for operand in &mut inner.operands {
                // A variable's value may be that of another one.
                while let Some(value) = values.get(operand) {
                    operand.clone_from(value);
                }
            }
            rewrite(inner, values, gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::{Module, module};

    #[test]
    fn variables_that_are_stored_once_before_their_loads_become_values() {
        let text = r#""builtin.module"() ({
"func.func"() <{function_type = (i32) -> (), sym_name = "k"}> ({
^bb0(%n: i32):
%x = "fir.alloca"() <{in_type = i32, operandSegmentSizes = array<i32: 0, 0>}> : () -> !fir.ref<i32>
%y = "fir.alloca"() <{in_type = i32, operandSegmentSizes = array<i32: 0, 0>}> : () -> !fir.ref<i32>
%z = "fir.alloca"() <{in_type = i32, operandSegmentSizes = array<i32: 0, 0>}> : () -> !fir.ref<i32>
%d = "fir.declare"(%x) : (!fir.ref<i32>) -> !fir.ref<i32>
"fir.store"(%n, %d) : (i32, !fir.ref<i32>) -> ()
%1 = "fir.load"(%x) : (!fir.ref<i32>) -> i32
"fir.store"(%1, %y) : (i32, !fir.ref<i32>) -> ()
"fir.store"(%1, %z) : (i32, !fir.ref<i32>) -> ()
"fir.if"(%c) ({
%2 = "fir.load"(%y) : (!fir.ref<i32>) -> i32
"fir.store"(%2, %z) : (i32, !fir.ref<i32>) -> ()
}, {
}) : (i1) -> ()
}) : () -> ()
}) : () -> ()"#;
        let mut op = module(text).unwrap().op.list().remove(0);
        promote(&mut op);
        let text = Module { op, ..Module::default() }.to_string();
        assert_eq!(text.matches("fir.alloca").count(), 1, "{text}");
        assert_eq!(text.matches("\"fir.store\"(%n, %z)").count(), 2, "{text}");
        assert!(!text.contains("fir.load") && !text.contains("fir.declare"), "{text}");
    }
}
