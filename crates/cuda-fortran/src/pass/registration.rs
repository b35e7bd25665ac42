//! Registration of a source's device code with the runtime: kernels, their parameters, their code for CPU devices and
//! GPUs, and the variables of modules.

use super::cpu::{PREFIX, SLOT, Variable};
use super::device::{Kernel, parameter};
use super::types::{is_address, is_box};
use super::{declare, ops};
use crate::embedded::GpuCode;
use crate::mlir::Op;
use crate::refusal::Error;
use std::collections::HashSet;
use std::fmt::Write;

/// flang's constructor, which registers device code with CUDA's runtime.
pub(super) const CONSTRUCTOR: &str = "__cudaFortranConstructor";

/// The number in the first name goes up with every change of what objects and the runtime share: these functions, the thread's place, a
/// launch. So objects of another version do not link.
const FUNCTIONS: &[(&str, &str)] = &[
    ("accord_cuf_register_module_2", "(!llvm.ptr, i64) -> !llvm.ptr"),
    ("accord_cuf_register_kernel", "(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i32, i64) -> ()"),
    ("accord_cuf_register_slot", "(!llvm.ptr, !llvm.ptr) -> ()"),
    ("accord_cuf_register_managed", "(!llvm.ptr, !llvm.ptr, i32) -> ()"),
    (RUN, "(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()"),
    (RUN_BLOCKS, "(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()"),
];

/// Functions that run a kernel's threads one by one, or all threads of a block in one call.
const RUN: &str = "accord_cuf_run";
const RUN_BLOCKS: &str = "accord_cuf_run_blocks";

/// Calls after which other threads of the block may have changed memory: kernels with them need a fiber for each
/// thread.
const WAITING: &[&str] = &["accord_cuf_barrier", "accord_cuf_vote", "accord_cuf_warp", "accord_shfl", "accord_ballot"];

pub(super) struct Registration<'a> {
    pub(super) kernels: &'a [Kernel],
    pub(super) variables: &'a [Variable],
    /// Device code for CPU devices.
    pub(super) code: &'a [Op],
    /// Kernels that run all threads of a block in one call.
    pub(super) cut: &'a HashSet<String>,
    pub(super) gpu: &'a GpuCode,
}

impl Registration<'_> {
    /// Returns globals and functions for each kernel.
    pub(super) fn operations(&self) -> Result<Vec<Op>, Error> {
        let code = match self.gpu {
            GpuCode::Ptx(texts) => texts.join("\0"),
            GpuCode::None(why) => why.clone(),
        };
        let mut list = vec![text("accord_cuf_ptx", &code)?, accessor("accord_cuf_own_place", super::device::PLACE)?];
        for (at, kernel) in self.kernels.iter().enumerate() {
            list.push(text(&format!("accord_cuf_name_{at}"), &kernel.symbol)?);
            let parameters = kernel.parameters.iter().map(|kind| parameter(kind)).collect::<Vec<_>>().join(" ");
            list.push(text(&format!("accord_cuf_parameters_{at}"), &parameters)?);
            list.extend(ops(&kernel.location, &thunk(at, kernel))?);
            let run = if self.cut.contains(&kernel.symbol) { RUN_BLOCKS } else { RUN };
            list.extend(ops(&kernel.location, &region(at, kernel, run))?);
        }
        for (name, kind) in FUNCTIONS {
            declare(&mut list, name, kind)?;
        }
        Ok(list)
    }

    /// Returns the replacement of an operation of the constructor.
    pub(super) fn replacement(&self, op: &Op) -> Result<Option<Vec<Op>>, Error> {
        let mut text = String::new();
        // With the final zero byte of the last text.
        let bytes = match self.gpu {
            GpuCode::Ptx(texts) => texts.iter().map(|text| text.len() + 1).sum(),
            GpuCode::None(_) => 0,
        };
        match &*op.name {
            "cuf.register_module" => {
                let module = op.result().unwrap_or("%accord_module");
                let _ = writeln!(
                    text,
                    "%accord_a = \"llvm.mlir.addressof\"() <{{global_name = @accord_cuf_ptx}}> : () -> !llvm.ptr
%accord_b = \"arith.constant\"() <{{value = {bytes} : i64}}> : () -> i64
{module} = \"fir.call\"(%accord_a, %accord_b) <{{callee = @accord_cuf_register_module_2}}> : (!llvm.ptr, i64) -> !llvm.ptr"
                );
                for (at, kernel) in self.kernels.iter().enumerate() {
                    self.register(&mut text, at, kernel, module);
                }
                for (at, Variable { name, kind }) in self.variables.iter().enumerate() {
                    let n = format!("%accord_s{at}");
                    let _ = writeln!(
                        text,
                        "{n}r = \"fir.address_of\"() <{{symbol = @\"{name}\"}}> : () -> (!fir.ref<{kind}>)
{n}a = \"fir.convert\"({n}r) : (!fir.ref<{kind}>) -> !llvm.ptr
{n}b = \"llvm.mlir.addressof\"() <{{global_name = @\"{SLOT}{name}\"}}> : () -> !llvm.ptr
\"fir.call\"({n}a, {n}b) <{{callee = @accord_cuf_register_slot}}> : (!llvm.ptr, !llvm.ptr) -> ()"
                    );
                    if let Some(host) = super::managed::host_name(name) {
                        let is_descriptor = u32::from(is_box(kind));
                        let _ = writeln!(
                            text,
                            "{n}h = \"fir.address_of\"() <{{symbol = @\"{host}\"}}> : () -> (!fir.ref<{kind}>)
{n}p = \"fir.convert\"({n}h) : (!fir.ref<{kind}>) -> !llvm.ptr
{n}q = \"arith.constant\"() <{{value = {is_descriptor} : i32}}> : () -> i32
\"fir.call\"({n}a, {n}p, {n}q) <{{callee = @accord_cuf_register_managed}}> : (!llvm.ptr, !llvm.ptr, i32) -> ()"
                        );
                    }
                }
            }
            "cuf.register_kernel" => {}
            _ => return Ok(None),
        }
        Ok(Some(ops(&op.location, &text)?))
    }

    fn register(&self, text: &mut String, at: usize, kernel: &Kernel, module: &str) {
        let n = format!("%accord_k{at}");
        let kinds = kernel.parameters.join(", ");
        let waits = u32::from(self.waits(&format!("{PREFIX}{}", kernel.symbol)));
        let _ = writeln!(
            text,
            "{n}a = \"fir.address_of\"() <{{symbol = @\"{}\"}}> : () -> (({kinds}) -> ())
{n}b = \"fir.convert\"({n}a) : (({kinds}) -> ()) -> !llvm.ptr
{n}c = \"llvm.mlir.addressof\"() <{{global_name = @accord_cuf_name_{at}}}> : () -> !llvm.ptr
{n}d = \"llvm.mlir.addressof\"() <{{global_name = @accord_cuf_parameters_{at}}}> : () -> !llvm.ptr
{n}e = \"llvm.mlir.addressof\"() <{{global_name = @\"{}\"}}> : () -> !llvm.ptr
{n}f = \"arith.constant\"() <{{value = {waits} : i32}}> : () -> i32
{n}g = \"arith.constant\"() <{{value = {} : i64}}> : () -> i64
\"fir.call\"({module}, {n}b, {n}c, {n}d, {n}e, {n}f, {n}g) <{{callee = @accord_cuf_register_kernel}}> : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i32, i64) -> ()",
            kernel.symbol,
            region_name(&kernel.symbol),
            kernel.shared
        );
    }

    /// Whether threads wait for each other in a function, or in one that it calls. A function of another source may
    /// contain waits.
    fn waits(&self, symbol: &str) -> bool {
        let mut pending = vec![symbol.to_owned()];
        let mut seen = HashSet::new();
        while let Some(name) = pending.pop() {
            if WAITING.iter().any(|start| name.starts_with(start)) {
                return true;
            }
            if !seen.insert(name.clone()) {
                continue;
            }
            if let Some(function) = self.code.iter().find(|op| op.name == "func.func" && op.symbol() == Some(&name)) {
                if function.body().next().is_none() && name.starts_with(PREFIX) {
                    return true;
                }
                function.walk(&mut |op| pending.extend(op.reference("callee").map(str::to_owned)));
            }
        }
        false
    }
}

/// Returns a text as a global, terminated by 0.
pub(super) fn text(name: &str, value: &str) -> Result<Op, Error> {
    let mut escaped = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' | 0..=31 | 127.. => {
                let _ = write!(escaped, "\\{byte:02X}");
            }
            _ => escaped.push(char::from(byte)),
        }
    }
    let size = value.len() + 1;
    let text = format!(
        "\"llvm.mlir.global\"() <{{addr_space = 0 : i32, constant, global_type = !llvm.array<{size} x i8>, linkage = #llvm.linkage<internal>, \
         sym_name = \"{name}\", value = \"{escaped}\\00\", visibility_ = 0 : i64}}> ({{\n}}) : () -> ()"
    );
    Ok(ops("unknown", &text)?.pop().unwrap_or_default())
}

/// Returns a function that returns the address of a variable of the calling thread.
fn accessor(name: &str, variable: &str) -> Result<Op, Error> {
    let text = format!(
        "\"llvm.func\"() <{{CConv = #llvm.cconv<ccc>, function_type = !llvm.func<ptr ()>, linkage = #llvm.linkage<internal>, sym_name = \"{name}\", visibility_ = 0 : i64}}> ({{
%0 = \"llvm.mlir.addressof\"() <{{global_name = @{variable}}}> : () -> !llvm.ptr
\"llvm.return\"(%0) : (!llvm.ptr) -> ()
}}) : () -> ()"
    );
    Ok(ops("unknown", &text)?.pop().unwrap_or_default())
}

/// Returns a Fortran procedure's name by its symbol: `module::procedure`, or `::procedure`.
pub(super) fn region_name(symbol: &str) -> String {
    let Some(rest) = symbol.strip_prefix("_Q") else { return format!("::{symbol}") };
    let (path, name) = rest.rsplit_once('P').unwrap_or(("", rest));
    format!("{}::{name}", path.trim_start_matches(['M', 'Q', 'F']))
}

fn thunk_name(at: usize) -> String {
    format!("accord_cuf_thunk_{at}")
}

/// Returns a function that takes the kernel's arguments by their addresses.
fn thunk(at: usize, kernel: &Kernel) -> String {
    let mut text = format!(
        "\"func.func\"() <{{function_type = (!llvm.ptr) -> (), sym_name = \"{}\", sym_visibility = \"private\"}}> ({{\n^bb0(%p: !llvm.ptr):\n",
        thunk_name(at)
    );
    for (n, kind) in kernel.parameters.iter().enumerate() {
        let _ = writeln!(
            text,
            "%e{n} = \"llvm.getelementptr\"(%p) <{{elem_type = !llvm.ptr, rawConstantIndices = array<i32: {n}>}}> : (!llvm.ptr) -> !llvm.ptr
%q{n} = \"llvm.load\"(%e{n}) <{{ordering = 0 : i64}}> : (!llvm.ptr) -> !llvm.ptr"
        );
        if is_address(kind) || is_box(kind) {
            let _ = writeln!(text, "%v{n} = \"llvm.load\"(%q{n}) <{{ordering = 0 : i64}}> : (!llvm.ptr) -> !llvm.ptr");
        }
        let (from, to) = if is_address(kind) {
            ("v", kind.clone())
        } else {
            (if is_box(kind) { "v" } else { "q" }, format!("!fir.ref<{kind}>"))
        };
        let result = if is_address(kind) { "a" } else { "r" };
        if kind == "!llvm.ptr" {
            let _ = writeln!(text, "%a{n} = \"llvm.bitcast\"(%v{n}) : (!llvm.ptr) -> !llvm.ptr");
        } else {
            let _ = writeln!(text, "%{result}{n} = \"fir.convert\"(%{from}{n}) : (!llvm.ptr) -> {to}");
        }
        if !is_address(kind) {
            let _ = writeln!(text, "%a{n} = \"fir.load\"(%r{n}) : (!fir.ref<{kind}>) -> {kind}");
        }
    }
    let arguments = (0..kernel.parameters.len()).map(|n| format!("%a{n}")).collect::<Vec<_>>().join(", ");
    let _ = write!(
        text,
        "\"fir.call\"({arguments}) <{{callee = @\"{PREFIX}{}\"}}> : ({}) -> ()\n\"func.return\"() : () -> ()\n}}) : () -> ()",
        kernel.symbol,
        kernel.parameters.join(", ")
    );
    text
}

/// Returns the region of a launch, which a CPU device starts. It passes the launch, the kernel and its own address to
/// the runtime's function `run`.
fn region(at: usize, kernel: &Kernel, run: &str) -> String {
    let name = region_name(&kernel.symbol);
    format!(
        "\"llvm.func\"() <{{CConv = #llvm.cconv<ccc>, function_type = !llvm.func<void (ptr)>, linkage = #llvm.linkage<internal>, sym_name = \"{name}\", visibility_ = 0 : i64}}> ({{
^bb0(%p: !llvm.ptr):
%0 = \"fir.address_of\"() <{{symbol = @{thunk}}}> : () -> ((!llvm.ptr) -> ())
%1 = \"fir.convert\"(%0) : ((!llvm.ptr) -> ()) -> !llvm.ptr
%2 = \"llvm.mlir.addressof\"() <{{global_name = @\"{name}\"}}> : () -> !llvm.ptr
%3 = \"llvm.mlir.addressof\"() <{{global_name = @accord_cuf_own_place}}> : () -> !llvm.ptr
\"fir.call\"(%p, %1, %2, %3) <{{callee = @{run}}}> : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()
\"llvm.return\"() : () -> ()
}}) : () -> ()",
        thunk = thunk_name(at)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::Module;

    fn printed(ops: Vec<Op>) -> String {
        ops.into_iter().map(|op| Module { op, ..Module::default() }.to_string()).collect()
    }

    fn registered(gpu: &GpuCode) -> String {
        let kernel = Kernel {
            symbol: "_QMmPk".to_owned(),
            parameters: vec!["!fir.ref<f32>".to_owned(), "f64".to_owned(), "!fir.box<f32>".to_owned()],
            shared: 96,
            location: "unknown".to_owned(),
        };
        let registration = Registration { kernels: &[kernel], variables: &[], code: &[], cut: &HashSet::new(), gpu };
        let module = ops("unknown", "%m = \"cuf.register_module\"() : () -> !llvm.ptr").unwrap();
        let constructor = registration.replacement(&module[0]).unwrap().unwrap();
        printed(registration.operations().unwrap()) + &printed(constructor)
    }

    #[test]
    fn a_kernel_is_registered_with_its_texts_parameters_and_shared_memory() {
        let text = registered(&GpuCode::Ptx(vec!["one".to_owned(), "two".to_owned()]));
        for part in [
            "value = \"one\\00two\\00\"",
            "value = 8 : i64",
            "value = \"a 8 d\\00\"",
            "value = 96 : i64",
            "sym_name = \"m::k\"",
            "accord_cuf_register_kernel",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_source_without_code_for_gpus_registers_the_reason() {
        let text = registered(&GpuCode::None("a.cuf:5:1: error: no".to_owned()));
        assert!(text.contains("value = \"a.cuf:5:1: error: no\\00\"") && text.contains("value = 0 : i64"), "{text}");
    }
}
