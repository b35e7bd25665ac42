//! Device code for GPUs: NVVM's operations become LLVM's intrinsics, shared memory becomes globals of its address space.

use super::device::{Device, is_shared, shared_memory, shared_size, take};
use super::ops;
use crate::mathematics::is_known;
use crate::mlir::{Module, Op, split_list};
use crate::refusal::{Error, Refusal};
use std::fmt::Write;

/// Returns the module for GPUs and its kernels.
pub(crate) fn lower(mut module: Module) -> Result<Option<(Module, Vec<String>)>, Error> {
    let Some(mut device) = take(&mut module) else { return Ok(None) };
    if device.list.is_empty() {
        return Ok(None);
    }
    let shared = device.list.clone();
    let is_kernel = |op: &Op| device.kernels.iter().any(|kernel| op.symbol() == Some(&kernel.symbol));
    for kernel in device.list.iter_mut().filter(|op| is_kernel(op)) {
        complex_by_parts(kernel)?;
    }
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
        "fir.call" => match call(op, &n, shared, module)? {
            Some(text) => text,
            None => return Ok(None),
        },
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

/// Passes complex numbers to a kernel as two reals each, since flang has no other form for GPUs.
fn complex_by_parts(kernel: &mut Op) -> Result<(), Error> {
    let Some(entry) = kernel.regions.first_mut().and_then(|region| region.first_mut()) else { return Ok(()) };
    let marks = kernel.properties.get("arg_attrs").map(|list| split_list(list.trim_matches(['[', ']'])));
    let (mut arguments, mut new_marks, mut joined) = (Vec::new(), Vec::new(), String::new());
    for (at, (name, kind)) in entry.arguments.drain(..).enumerate() {
        let mark = marks.as_ref().and_then(|marks| marks.get(at)).cloned().unwrap_or_else(|| "{}".to_owned());
        let Some(part) = kind.strip_prefix("complex<").and_then(|part| part.strip_suffix('>')) else {
            new_marks.push(mark);
            arguments.push((name, kind));
            continue;
        };
        new_marks.extend([mark.clone(), mark]);
        arguments.extend(["re", "im"].map(|suffix| (format!("{name}_{suffix}"), part.to_owned())));
        let _ = writeln!(
            joined,
            "{name}_none = \"fir.undefined\"() : () -> {kind}
{name}_half = \"fir.insert_value\"({name}_none, {name}_re) <{{coor = [0 : index]}}> : ({kind}, {part}) -> {kind}
{name} = \"fir.insert_value\"({name}_half, {name}_im) <{{coor = [1 : index]}}> : ({kind}, {part}) -> {kind}"
        );
    }
    entry.arguments = arguments;
    if joined.is_empty() {
        return Ok(());
    }
    entry.ops.splice(0..0, ops(&kernel.location, &joined)?);
    let kinds: Vec<&str> = entry.arguments.iter().map(|(_, kind)| &**kind).collect();
    kernel.properties.set("function_type", format!("({}) -> ()", kinds.join(", ")));
    if marks.is_some() {
        kernel.properties.set("arg_attrs", format!("[{}]", new_marks.join(", ")));
    }
    Ok(())
}

/// Returns the replacement of a call: warps' exchanges become intrinsics. Refuses functions that no library for GPUs has.
fn call(op: &Op, n: &str, list: &[Op], module: &Module) -> Result<Option<String>, Error> {
    let Some(name) = op.reference("callee") else { return Ok(None) };
    let result = op.result().unwrap_or_default();
    let all = format!("{n}m = \"arith.constant\"() <{{value = -1 : i32}}> : () -> i32\n");
    if let Some((kind, number)) = name.strip_prefix("accord_shfl").and_then(|rest| rest.rsplit_once('_')) {
        let (mode, clamp) = match kind {
            "_up" => ("up", 0),
            "_down" => ("down", 31),
            "_xor" => ("bfly", 31),
            _ => ("idx", 31),
        };
        let [value, lane] = &op.operands[..] else { return Ok(None) };
        let clamp = format!("{n}c = \"arith.constant\"() <{{value = {clamp} : i32}}> : () -> i32\n");
        let name = format!("shfl.sync.{mode}.{number}");
        let operands = [&*format!("{n}m"), value, lane, &format!("{n}c")];
        return Ok(Some(all + &clamp + &intrinsic(result, &name, &operands, &["i32", number, "i32", "i32"], number)));
    }
    if name == "accord_ballot_l4" {
        let [value] = &op.operands[..] else { return Ok(None) };
        let kind = op.operand_types.join("");
        let predicate = format!("{n}p = \"fir.convert\"({value}) : ({kind}) -> i1\n");
        let operands = [&*format!("{n}m"), &format!("{n}p")];
        return Ok(Some(all + &predicate + &intrinsic(result, "vote.ballot.sync", &operands, &["i32", "i1"], "i32")));
    }
    let Some(declared) = list.iter().find(|function| function.name == "func.func" && function.symbol() == Some(name))
    else {
        return Ok(None);
    };
    let is_elsewhere = declared.body().next().is_none();
    let is_device = name.starts_with("_Q") || name.starts_with("llvm.") || declared.get("cuf.proc_attr").is_some();
    if is_elsewhere && !is_device && !is_known(name) {
        let (what, remedy) = refused(name);
        return Err(Refusal::new(module, &op.location, what, remedy).into());
    }
    Ok(None)
}

/// Returns what a call of this function of flang's runtime stands for, and a replacement.
fn refused(name: &str) -> (String, &'static str) {
    let Some(what) = name.strip_prefix("_FortranA") else {
        return (format!("a call of {name} in device code"), "write it with other functions, or run on CPU devices");
    };
    if what.starts_with("io") {
        return ("input or output in device code".to_owned(), "print on the host, or run on CPU devices");
    }
    if what.starts_with("Stop") || what.starts_with("ErrorStop") || what.starts_with("Fail") {
        return ("a stop in device code".to_owned(), "store a status for the host, or run on CPU devices");
    }
    if what.starts_with("Allocat") || what.starts_with("Pointer") {
        return ("an allocation in device code".to_owned(), "allocate on the host, or run on CPU devices");
    }
    (format!("{what} of flang's runtime in device code"), "write it as a loop or an expression, or run on CPU devices")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::module;

    /// A kernel with this body, and declarations of functions.
    fn lowered(parameters: &str, arguments: &str, body: &str) -> Result<String, Error> {
        let text = format!(
            r#""builtin.module"() ({{
"gpu.module"() <{{sym_name = "cuda_device_mod"}}> ({{
"gpu.func"() <{{function_type = ({parameters}) -> ()}}> ({{
^bb0({arguments}):
{body}
"gpu.return"() : () -> () loc("a.cuf":9:1)
}}) {{gpu.kernel, sym_name = "k", workgroup_attributions = 0 : i64}} : () -> () loc("a.cuf":3:1)
"func.func"() <{{function_type = (i32, i32) -> i32, sym_name = "accord_shfl_up_i32", sym_visibility = "private"}}> ({{
}}) {{cuf.proc_attr = #cuf.cuda_proc<device>}} : () -> ()
"func.func"() <{{function_type = (i32) -> i32, sym_name = "accord_ballot_l4", sym_visibility = "private"}}> ({{
}}) {{cuf.proc_attr = #cuf.cuda_proc<device>}} : () -> ()
"func.func"() <{{function_type = () -> i32, sym_name = "_FortranAioEndIoStatement", sym_visibility = "private"}}> ({{
}}) : () -> ()
"func.func"() <{{function_type = (f32) -> f32, sym_name = "tanf", sym_visibility = "private"}}> ({{
}}) : () -> ()
}}) : () -> ()
}}) : () -> ()"#
        );
        Ok(lower(module(&text)?)?.map(|(module, _)| module.to_string()).unwrap_or_default())
    }

    #[test]
    fn exchanges_of_warps_become_intrinsics() {
        let body = r#"%1 = "fir.call"(%a, %b) <{callee = @accord_shfl_up_i32}> : (i32, i32) -> (i32)
%2 = "fir.call"(%l) <{callee = @accord_ballot_l4}> : (!fir.logical<4>) -> (i32)"#;
        let text = lowered("i32, i32, !fir.logical<4>", "%a: i32, %b: i32, %l: !fir.logical<4>", body).unwrap();
        assert!(text.contains("llvm.nvvm.shfl.sync.up.i32") && text.contains("value = 0 : i32"), "{text}");
        assert!(text.contains("llvm.nvvm.vote.ballot.sync") && text.contains("(!fir.logical<4>) -> (i1)"), "{text}");
        assert!(!text.contains("\"fir.call\""), "{text}");
    }

    #[test]
    fn complex_parameters_become_two() {
        let body = r#""fir.store"(%c, %p) : (complex<f64>, !fir.ref<complex<f64>>) -> ()"#;
        let text = lowered(
            "!fir.ref<complex<f64>>, complex<f64>, i32",
            "%p: !fir.ref<complex<f64>>, %c: complex<f64>, %n: i32",
            body,
        )
        .unwrap();
        assert!(text.contains("function_type = (!fir.ref<complex<f64>>, f64, f64, i32) -> ()"), "{text}");
        assert!(text.contains("%c_re: f64, %c_im: f64") && text.contains("fir.insert_value"), "{text}");
    }

    #[test]
    fn printing_is_refused_with_its_line() {
        let body = r#"%1 = "fir.call"() <{callee = @_FortranAioEndIoStatement}> : () -> (i32) loc("a.cuf":5:7)"#;
        let error = lowered("i32", "%x: i32", body).unwrap_err().to_string();
        assert!(error.starts_with("a.cuf:5:7: error: input or output in device code; print on the host"), "{error}");
        let body = r#"%1 = "fir.call"(%x) <{callee = @tanf}> : (f32) -> (f32)"#;
        assert!(lowered("f32", "%x: f32", body).unwrap().contains("@tanf"));
    }
}
