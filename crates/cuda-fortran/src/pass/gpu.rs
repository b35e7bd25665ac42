//! Device code for GPUs: NVVM's operations become LLVM's intrinsics, shared memory becomes globals of its address space.

use super::device::{Device, is_shared, shared_memory, shared_size, take};
use super::ops;
use crate::mlir::{Module, Op};
use crate::refusal::{Error, Refusal};
use std::fmt::Write;

/// Returns the module for GPUs and its kernels.
pub(crate) fn lower(mut module: Module) -> Result<Option<(Module, Vec<String>)>, Error> {
    let Some(mut device) = take(&mut module) else { return Ok(None) };
    if device.list.is_empty() {
        return Ok(None);
    }
    let shared = device.list.clone();
    for function in device.list.iter_mut().filter(|op| op.name == "func.func") {
        let name = function.symbol().unwrap_or_default().to_owned();
        let mut count = 0;
        replace(function, &mut |op| operation(op, &name, &shared, &module, &mut count))?;
    }
    for op in &mut device.list {
        if is_shared(op) {
            *op = shared_global(op)?;
        } else if op.name == "fir.global" && op.get("data_attr") == Some("#cuf.cuda<constant>") {
            // tco has no address space for constants.
            op.properties.set("data_attr", "#cuf.cuda<device>");
        }
    }
    let Device { list, kernels } = device;
    *module.op.list() = list;
    Ok(Some((module, kernels.into_iter().map(|kernel| kernel.symbol).collect())))
}

/// Replaces the operations in regions for which `new` returns others.
pub(super) fn replace(op: &mut Op, new: &mut impl FnMut(&Op) -> Result<Option<Vec<Op>>, Error>) -> Result<(), Error> {
    for block in op.regions.iter_mut().flatten() {
        let mut at = 0;
        while at < block.ops.len() {
            replace(&mut block.ops[at], new)?;
            if let Some(list) = new(&block.ops[at])? {
                let length = list.len();
                block.ops.splice(at..=at, list);
                at += length;
            } else {
                at += 1;
            }
        }
    }
    Ok(())
}

fn shared_global(op: &Op) -> Result<Op, Error> {
    let (symbol, size) = (op.symbol().unwrap_or_default(), shared_size(op));
    let alignment = op.get("alignment").and_then(|text| text.split(' ').next()).unwrap_or("16");
    let (linkage, alignment, body) = match size {
        0 => ("external", "16", String::new()),
        _ => (
            "internal",
            alignment,
            format!(
                "%0 = \"llvm.mlir.undef\"() : () -> !llvm.array<{size} x i8>\n\"llvm.return\"(%0) : (!llvm.array<{size} x i8>) -> ()\n"
            ),
        ),
    };
    let text = format!(
        "\"llvm.mlir.global\"() <{{addr_space = 3 : i32, alignment = {alignment} : i64, global_type = !llvm.array<{size} x i8>, \
         linkage = #llvm.linkage<{linkage}>, sym_name = \"{symbol}\", visibility_ = 0 : i64}}> ({{\n{body}}}) : () -> ()"
    );
    Ok(ops(&op.location, &text)?.pop().unwrap_or_default())
}

/// Returns a call of an intrinsic in the generic form.
fn intrinsic(result: &str, name: &str, operands: &[&str], kinds: &[&str], gives: &str) -> String {
    let result = if result.is_empty() { String::new() } else { format!("{result} = ") };
    format!(
        "{result}\"llvm.call_intrinsic\"({}) <{{fastmathFlags = #llvm.fastmath<none>, intrin = \"llvm.nvvm.{name}\", op_bundle_sizes = array<i32>, \
         operandSegmentSizes = array<i32: {}, 0>}}> : ({}) -> ({gives})\n",
        operands.join(", "),
        operands.len(),
        kinds.join(", ")
    )
}

/// Returns the replacement of an operation.
fn operation(
    op: &Op,
    function: &str,
    shared: &[Op],
    module: &Module,
    count: &mut usize,
) -> Result<Option<Vec<Op>>, Error> {
    *count += 1;
    let n = format!("%cufg{count}");
    let result = op.result().unwrap_or_default();
    let operands: Vec<&str> = op.operands.iter().map(|operand| &**operand).collect();
    let zero = format!("{n}z = \"arith.constant\"() <{{value = 0 : i32}}> : () -> i32\n");
    let text = match &*op.name {
        "nvvm.barrier0" => zero + &intrinsic("", "barrier.cta.sync.aligned.all", &[&format!("{n}z")], &["i32"], ""),
        "nvvm.barrier" if op.get("reductionOp").is_none() => {
            zero + &intrinsic("", "barrier.cta.sync.aligned.all", &[&format!("{n}z")], &["i32"], "")
        }
        "nvvm.barrier" => {
            let kind = op.get("reductionOp").unwrap_or_default();
            let kind =
                ["popc", "and", "or"].into_iter().find(|name| kind.contains(&format!("<{name}>"))).unwrap_or("popc");
            let mut text = zero;
            let predicate = operands.first().copied().unwrap_or_default();
            let _ =
                writeln!(text, "{n}p = \"arith.cmpi\"({predicate}, {n}z) <{{predicate = 1 : i64}}> : (i32, i32) -> i1");
            let name = format!("barrier.cta.red.{kind}.aligned.all");
            if kind == "popc" {
                text += &intrinsic(result, &name, &[&format!("{n}z"), &format!("{n}p")], &["i32", "i1"], "i32");
            } else {
                text +=
                    &intrinsic(&format!("{n}r"), &name, &[&format!("{n}z"), &format!("{n}p")], &["i32", "i1"], "i1");
                let _ = writeln!(text, "{result} = \"arith.extui\"({n}r) : (i1) -> i32");
            }
            text
        }
        "nvvm.memory.barrier" => {
            let scope = op.get("scope").unwrap_or_default();
            let name = if scope.contains("cta") {
                "membar.cta"
            } else if scope.contains("sys") {
                "membar.sys"
            } else {
                "membar.gl"
            };
            intrinsic("", name, &[], &[], "")
        }
        "nvvm.bar.warp.sync" => intrinsic("", "bar.warp.sync", &operands, &["i32"], ""),
        "nvvm.vote.sync" => {
            let kind = op.get("kind").unwrap_or_default();
            let kind = ["ballot", "any", "all", "uni"].into_iter().find(|name| kind.contains(name)).unwrap_or("ballot");
            let gives = op.result_types.first().map_or("i32", |kind| kind);
            intrinsic(result, &format!("vote.{kind}.sync"), &operands, &["i32", "i1"], gives)
        }
        name if name.starts_with("nvvm.read.ptx.sreg.") => {
            let name = name.trim_start_matches("nvvm.");
            intrinsic(result, name, &[], &[], "i32")
        }
        "cuf.shared_memory" => {
            let Some((symbol, _)) = shared_memory(op, function, shared) else {
                return Err(Refusal::new(
                    module,
                    &op.location,
                    "shared memory without a size",
                    "declare it in the kernel",
                )
                .into());
            };
            let (offset, gives) = (operands.last().copied().unwrap_or_default(), op.result_types.join(""));
            format!(
                "{n}a = \"llvm.mlir.addressof\"() <{{global_name = @{symbol}}}> : () -> !llvm.ptr<3>
{n}b = \"llvm.addrspacecast\"({n}a) : (!llvm.ptr<3>) -> !llvm.ptr
{n}c = \"llvm.getelementptr\"({n}b, {offset}) <{{elem_type = i8, rawConstantIndices = array<i32: -2147483648>}}> : (!llvm.ptr, i32) -> !llvm.ptr
{result} = \"fir.convert\"({n}c) : (!llvm.ptr) -> {gives}"
            )
        }
        _ => return Ok(None),
    };
    Ok(Some(ops(&op.location, &text)?))
}
