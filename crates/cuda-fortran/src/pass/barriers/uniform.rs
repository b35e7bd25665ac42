//! Which values of a kernel differ between the threads of a block.

use super::values::{Value, is_pure, single};
use crate::mlir::{Op, whole};
use std::collections::{HashMap, HashSet};

/// Operations by which the address of a variable leads to that of a part.
const ADDRESSES: &[&str] = &["fir.declare", "fir.convert", "fir.array_coor", "fir.coordinate_of"];
/// Registers that differ.
const REGISTERS: &[&str] = &["nvvm.read.ptx.sreg.tid.", "nvvm.read.ptx.sreg.laneid"];

/// What is known so far: everything is uniform until shown otherwise.
struct Knowledge<'a> {
    values: &'a HashMap<String, Value>,
    /// Values that differ, and local variables whose contents do.
    varying: HashSet<String>,
    /// The local variable that an address belongs to.
    bases: HashMap<String, String>,
}

/// Returns the values that differ between threads, or may.
pub(super) fn varying(function: &Op, values: &HashMap<String, Value>) -> HashSet<String> {
    let mut knowledge = Knowledge { values, varying: HashSet::new(), bases: HashMap::new() };
    loop {
        let before = (knowledge.varying.len(), knowledge.bases.len());
        for op in function.body() {
            knowledge.visit(op, true);
        }
        if before == (knowledge.varying.len(), knowledge.bases.len()) {
            return knowledge.varying;
        }
    }
}

impl Knowledge<'_> {
    fn varies(&self, name: &str) -> bool {
        self.varying.contains(whole(name))
    }

    fn mark(&mut self, name: &str) {
        self.varying.insert(single(whole(name)).to_owned());
    }

    /// Returns the local variable that an address belongs to.
    fn base(&self, address: &str) -> Option<String> {
        if matches!(self.values.get(address), Some(Value::Local(_))) {
            return Some(address.to_owned());
        }
        self.bases.get(address).cloned()
    }

    /// Takes an operation into account. `is_for_all` says whether all threads execute it, or none.
    fn visit(&mut self, op: &Op, is_for_all: bool) {
        let operands_vary = op.operands.iter().any(|name| self.varies(name));
        let first = op.operands.first().map_or("", String::as_str);
        if ADDRESSES.contains(&&*op.name)
            && let (Some(result), Some(base)) = (op.result(), self.base(first))
        {
            self.bases.insert(result.to_owned(), base);
        }
        match &*op.name {
            "fir.store" => {
                let address = &op.operands[1];
                if let Some(base) = self.base(address)
                    && (operands_vary || !is_for_all)
                {
                    self.mark(&base);
                }
                // The address itself is stored.
                if let Some(base) = self.base(first) {
                    self.mark(&base);
                }
            }
            "fir.load" => {
                let differs = self.base(first).is_none_or(|base| self.varies(&base)) || operands_vary;
                if let Some(result) = op.result().filter(|_| differs) {
                    self.mark(result);
                }
            }
            "fir.alloca" => {}
            _ if !op.regions.is_empty() => self.structure(op, is_for_all && !operands_vary),
            _ => {
                let is_plain = is_pure(op) && !REGISTERS.iter().any(|start| op.name.starts_with(start));
                if let Some(result) = op.result().filter(|_| operands_vary || !is_plain) {
                    self.mark(result);
                }
                if !is_pure(op) && op.name != "fir.result" {
                    // Who gets a variable's address may write to it.
                    let bases: Vec<String> = op.operands.iter().filter_map(|name| self.base(name)).collect();
                    bases.iter().for_each(|base| self.mark(base));
                }
            }
        }
    }

    fn structure(&mut self, op: &Op, is_for_all: bool) {
        let is_known = op.name == "fir.do_loop" || op.name == "fir.if";
        let is_for_all = is_for_all && is_known;
        let mut yields_vary = !is_for_all;
        for block in op.regions.iter().flatten() {
            for inner in &block.ops {
                self.visit(inner, is_for_all);
                yields_vary |= inner.name == "fir.result" && inner.operands.iter().any(|name| self.varies(name));
            }
        }
        if yields_vary {
            let arguments = op.regions.iter().flatten().flat_map(|block| &block.arguments);
            let names: Vec<String> = arguments.map(|(name, _)| name.clone()).collect();
            names.iter().map(String::as_str).chain(op.result()).for_each(|name| self.mark(name));
        }
    }
}
