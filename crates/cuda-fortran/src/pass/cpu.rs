//! Device code for CPU devices. NVVM's operations become calls of the runtime and reads of the thread's place in the
//! grid. Shared memory becomes variables of the system's thread that runs the block.

use super::device::{PLACE, is_shared, is_variable, shared_memory, shared_size};
use super::gpu::replace;
use super::{barriers, ops};
use crate::mlir::{Module, Op};
use crate::refusal::{Error, Refusal};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// The offset in [`PLACE`] of the address of the block's dynamic shared memory.
const DYNAMIC_AT: usize = 12 * size_of::<i32>();

const REGISTERS: [&str; 4] = ["tid", "ctaid", "ntid", "nctaid"];

/// Functions of the runtime, as device code calls them.
const FUNCTIONS: &[(&str, &str)] = &[
    ("accord_cuf_barrier", "() -> ()"),
    ("accord_cuf_barrier_popc", "(i32) -> i32"),
    ("accord_cuf_barrier_and", "(i32) -> i32"),
    ("accord_cuf_barrier_or", "(i32) -> i32"),
    ("accord_cuf_lane", "() -> i32"),
    ("accord_cuf_vote_ballot", "(i32, i1) -> i32"),
    ("accord_cuf_vote_any", "(i32, i1) -> i1"),
    ("accord_cuf_vote_all", "(i32, i1) -> i1"),
    ("accord_cuf_warp_barrier", "(i32) -> ()"),
];

/// Prefix of device code's symbols, because the host's stubs have the same names.
pub(super) const PREFIX: &str = "accord_dev_";
/// Prefix of the variable that holds a device variable's address.
pub(super) const SLOT: &str = "accord_slot_";

/// A device variable that the host can access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) kind: String,
}

/// Device code for the program's own processor.
pub(super) struct CpuCode {
    pub(super) list: Vec<Op>,
    /// The variables whose addresses the code needs.
    pub(super) variables: Vec<Variable>,
    /// Kernels that run all threads of a block in one call.
    pub(super) cut: HashSet<String>,
}

/// Lowers device code with these kernels for the program's own processor.
pub(super) fn lower(mut list: Vec<Op>, kernels: &[&str], module: &Module) -> Result<CpuCode, Error> {
    let cut = barriers::cut(&mut list, kernels)?;
    let mut variables = Vec::new();
    for op in list.iter().filter(|op| is_variable(op)) {
        let attribute = op.get("data_attr").unwrap_or_default();
        if !["#cuf.cuda<device>", "#cuf.cuda<constant>"].contains(&attribute) {
            let what = format!(
                "a module variable with attribute {}",
                attribute.trim_start_matches("#cuf.cuda<").trim_end_matches('>')
            );
            return Err(
                Refusal::new(module, &op.location, what, "give it attribute device, or pass it to the kernel").into()
            );
        }
        let (name, kind) = (op.symbol().unwrap_or_default(), op.get("type").unwrap_or_default());
        variables.push(Variable { name: name.to_owned(), kind: kind.to_owned() });
    }
    let shared = list.clone();
    let mut new = Vec::new();
    let mut count = 0;
    for mut op in list {
        if is_variable(&op) {
            new.push(pointer(&format!("{SLOT}{}", op.symbol().unwrap_or_default()))?);
            continue;
        }
        if is_shared(&op) {
            new.extend(shared_global(&op)?);
            continue;
        }
        if op.name == "func.func" {
            let name = op.symbol().unwrap_or_default().to_owned();
            replace(&mut op, &mut |op| operation(op, &name, &shared, &variables, module, &mut count))?;
        } else if op.name == "fir.global" {
            op.properties.set("linkName", "\"internal\"");
            op.properties.remove("sym_visibility");
        }
        new.push(op);
    }
    // A Fortran procedure without a body is device code of another source, which renames it in the same way.
    let is_procedure = |op: &Op| op.body().next().is_some() || op.symbol().is_some_and(|name| name.starts_with("_Q"));
    let names: HashMap<String, String> = new
        .iter()
        .filter(|op| op.name == "fir.global" || op.name == "func.func" && is_procedure(op))
        .filter_map(Op::symbol)
        .map(|name| (name.to_owned(), format!("{PREFIX}{name}")))
        .collect();
    super::device::rename(&mut new, &names);
    new.push(thread_local(PLACE, "!llvm.array<14 x i32>", 16)?);
    for (name, kind) in FUNCTIONS {
        super::declare(&mut new, name, kind)?;
    }
    Ok(CpuCode { list: new, variables, cut })
}

/// Returns a thread-local variable. It is visible to other objects, so that the optimizer assumes that a barrier may
/// change it.
fn thread_local(name: &str, kind: &str, alignment: u32) -> Result<Op, Error> {
    global(name, kind, alignment, ", thread_local_")
}

fn pointer(name: &str) -> Result<Op, Error> {
    global(name, "!llvm.ptr", 8, "")
}

fn global(name: &str, kind: &str, alignment: u32, more: &str) -> Result<Op, Error> {
    let text = format!(
        "\"llvm.mlir.global\"() <{{addr_space = 0 : i32, alignment = {alignment} : i64, global_type = {kind}, linkage = #llvm.linkage<weak>, \
         sym_name = \"{name}\"{more}, visibility_ = 1 : i64}}> ({{\n%0 = \"llvm.mlir.zero\"() : () -> {kind}\n\"llvm.return\"(%0) : ({kind}) -> ()\n}}) : () -> ()"
    );
    Ok(ops("unknown", &text)?.pop().unwrap_or_default())
}

fn shared_global(op: &Op) -> Result<Option<Op>, Error> {
    let size = shared_size(op);
    if size == 0 {
        return Ok(None);
    }
    let name = format!("{PREFIX}{}", op.symbol().unwrap_or_default());
    thread_local(&name, &format!("!llvm.array<{size} x i8>"), 16).map(Some)
}

/// Returns the replacement of an operation.
fn operation(
    op: &Op,
    function: &str,
    shared: &[Op],
    variables: &[Variable],
    module: &Module,
    count: &mut usize,
) -> Result<Option<Vec<Op>>, Error> {
    *count += 1;
    let n = format!("%cufc{count}");
    let result = op.result().unwrap_or_default();
    let call = |name: &str| {
        let gives = if result.is_empty() { String::new() } else { format!("{result} = ") };
        format!(
            "{gives}\"fir.call\"({}) <{{callee = @accord_cuf_{name}}}> : ({}) -> ({})",
            op.operands.join(", "),
            op.operand_types.join(", "),
            op.result_types.join(", ")
        )
    };
    let text = match &*op.name {
        "nvvm.barrier0" => call("barrier"),
        "nvvm.barrier" => match op.get("reductionOp") {
            None => call("barrier"),
            Some(kind) => {
                let kind = ["popc", "and", "or"].into_iter().find(|name| kind.contains(&format!("<{name}>")));
                call(&format!("barrier_{}", kind.unwrap_or("popc")))
            }
        },
        "nvvm.memory.barrier" => "\"llvm.fence\"() <{ordering = 7 : i64}> : () -> ()".to_owned(),
        "nvvm.bar.warp.sync" => call("warp_barrier"),
        "nvvm.vote.sync" => {
            let kind = op.get("kind").unwrap_or_default();
            match ["ballot", "any", "all"].into_iter().find(|name| kind.contains(name)) {
                Some(kind) => call(&format!("vote_{kind}")),
                None => return Err(unknown(op, module)),
            }
        }
        "nvvm.read.ptx.sreg.warpsize" => {
            format!("{result} = \"arith.constant\"() <{{value = 32 : i32}}> : () -> i32")
        }
        "nvvm.read.ptx.sreg.laneid" => call("lane"),
        name if name.starts_with("nvvm.read.ptx.sreg.") => {
            let Some(index) = register(name) else { return Err(unknown(op, module)) };
            format!(
                "{n}a = \"llvm.mlir.addressof\"() <{{global_name = @{PLACE}}}> : () -> !llvm.ptr
{n}b = \"llvm.getelementptr\"({n}a) <{{elem_type = i32, rawConstantIndices = array<i32: {index}>}}> : (!llvm.ptr) -> !llvm.ptr
{result} = \"llvm.load\"({n}b) <{{ordering = 0 : i64}}> : (!llvm.ptr) -> i32"
            )
        }
        "cuf.shared_memory" => {
            let Some((symbol, size)) = shared_memory(op, function, shared) else {
                return Err(Refusal::new(
                    module,
                    &op.location,
                    "shared memory without a size",
                    "declare it in the kernel",
                )
                .into());
            };
            let offset = op.operands.last().cloned().unwrap_or_default();
            let mut text = String::new();
            if size == 0 {
                let _ = writeln!(
                    text,
                    "{n}p = \"llvm.mlir.addressof\"() <{{global_name = @{PLACE}}}> : () -> !llvm.ptr
{n}q = \"llvm.getelementptr\"({n}p) <{{elem_type = i8, rawConstantIndices = array<i32: {DYNAMIC_AT}>}}> : (!llvm.ptr) -> !llvm.ptr
{n}a = \"llvm.load\"({n}q) <{{ordering = 0 : i64}}> : (!llvm.ptr) -> !llvm.ptr"
                );
            } else {
                let _ = writeln!(
                    text,
                    "{n}a = \"llvm.mlir.addressof\"() <{{global_name = @\"{PREFIX}{symbol}\"}}> : () -> !llvm.ptr"
                );
            }
            let _ = write!(
                text,
                "{n}c = \"llvm.getelementptr\"({n}a, {offset}) <{{elem_type = i8, rawConstantIndices = array<i32: -2147483648>}}> : (!llvm.ptr, i32) -> !llvm.ptr
{result} = \"fir.convert\"({n}c) : (!llvm.ptr) -> {}",
                op.result_types.join("")
            );
            text
        }
        "fir.address_of" => {
            let Some(name) = op.reference("symbol").filter(|name| variables.iter().any(|one| one.name == *name)) else {
                return Ok(None);
            };
            format!(
                "{n}a = \"llvm.mlir.addressof\"() <{{global_name = @\"{SLOT}{name}\"}}> : () -> !llvm.ptr
{n}b = \"llvm.load\"({n}a) <{{ordering = 0 : i64}}> : (!llvm.ptr) -> !llvm.ptr
{result} = \"fir.convert\"({n}b) : (!llvm.ptr) -> {}",
                op.result_types.join("")
            )
        }
        name if name.starts_with("nvvm.")
            || name.starts_with("gpu.")
            || name == "llvm.call_intrinsic"
            || name == "llvm.inline_asm" =>
        {
            return Err(unknown(op, module));
        }
        _ => return Ok(None),
    };
    Ok(Some(ops(&op.location, &text)?))
}

fn unknown(op: &Op, module: &Module) -> Error {
    let name = op.get("intrin").unwrap_or(&op.name);
    Refusal::new(
        module,
        &op.location,
        format!("{} in device code, which CPU devices don't have", name.trim_matches('"')),
        "leave it out for CPU devices",
    )
    .into()
}

/// Returns the number of a register in [`PLACE`].
fn register(name: &str) -> Option<usize> {
    let (register, axis) = name.strip_prefix("nvvm.read.ptx.sreg.")?.split_once('.')?;
    let axis = ["x", "y", "z"].iter().position(|one| *one == axis)?;
    Some(3 * REGISTERS.iter().position(|one| *one == register)? + axis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::module;

    #[test]
    fn procedures_of_other_sources_are_renamed_and_functions_of_the_runtime_are_not() {
        let text = r#""builtin.module"() ({
"func.func"() <{function_type = () -> (), sym_name = "_QMaPk"}> ({
"fir.call"() <{callee = @_QMbPf}> : () -> ()
"fir.call"() <{callee = @sin}> : () -> ()
"func.return"() : () -> ()
}) : () -> ()
"func.func"() <{function_type = () -> (), sym_name = "_QMbPf", sym_visibility = "private"}> ({
}) : () -> ()
"func.func"() <{function_type = () -> (), sym_name = "sin", sym_visibility = "private"}> ({
}) : () -> ()
}) : () -> ()"#;
        let mut whole = module(text).unwrap();
        let list = std::mem::take(whole.op.list());
        let list = lower(list, &[], &whole).unwrap().list;
        let names: Vec<_> = list.iter().filter_map(Op::symbol).take(3).collect();
        assert_eq!(names, ["accord_dev__QMaPk", "accord_dev__QMbPf", "sin"]);
        let called: Vec<_> = list[0].body().filter_map(|op| op.reference("callee")).collect();
        assert_eq!(called, ["accord_dev__QMbPf", "sin"]);
    }
}
