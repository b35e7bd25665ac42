//! Launches in host code: the addresses of the arguments, and a call of the runtime.

use super::ops;
use super::types::{is_address, is_box, referred};
use crate::mlir::{Module, Op, split_list};
use crate::refusal::{Error, Refusal, place};
use std::collections::HashMap;
use std::fmt::Write;

pub(super) const FUNCTION: &str = "accord_cuf_launch";
pub(super) const KIND: &str =
    "(!llvm.ptr, i64, i64, i64, i64, i64, i64, !llvm.ptr, i32, !llvm.ptr, !llvm.ptr, !llvm.ptr, i32) -> ()";

/// The properties of the module that a launch's replacement needs.
pub(super) struct Launches<'a> {
    pub(super) module: &'a Module,
    /// The address of the stream, by the token that a launch depends on.
    streams: HashMap<String, (String, String)>,
    count: usize,
    /// Files of launches, in the order of their numbers.
    pub(super) files: Vec<String>,
}

impl<'a> Launches<'a> {
    pub(super) fn new(module: &'a Module) -> Self {
        Self { module, streams: HashMap::new(), count: 0, files: Vec::new() }
    }

    /// Records the streams of a function.
    pub(super) fn enter(&mut self, function: &Op) {
        self.streams.clear();
        function.walk(&mut |op| {
            if let ("cuf.stream_cast", Some(token)) = (&*op.name, op.result()) {
                self.streams.insert(token.to_owned(), (op.operands[0].clone(), op.operand_types[0].clone()));
            }
        });
    }

    /// Returns the symbol of the name of a launch's file.
    pub(super) fn file(number: usize) -> String {
        format!("accord_cuf_file_{number}")
    }

    /// Returns the replacement of an operation.
    pub(super) fn operation(&mut self, op: &Op) -> Result<Option<Vec<Op>>, Error> {
        match &*op.name {
            "cuf.stream_cast" => Ok(Some(Vec::new())),
            "gpu.launch_func" => Ok(Some(ops(&op.location, &self.launch(op)?)?)),
            _ => Ok(None),
        }
    }

    fn launch(&mut self, op: &Op) -> Result<String, Error> {
        let refuse = |what: &str, remedy: &str| Error::from(Refusal::new(self.module, &op.location, what, remedy));
        let parts = op.segmented();
        let part = |at: usize| parts.get(at).map_or(&[][..], |part| &**part);
        if !part(7).is_empty() {
            return Err(refuse("a launch with clusters", "leave attribute cluster_dims out"));
        }
        if op.attributes.get("cuf.proc_attr").is_some_and(|kind| kind.contains("grid_global")) {
            return Err(refuse(
                "a launch of a cooperative grid",
                "end the kernel where the grid has to wait for all its blocks",
            ));
        }
        let name = op
            .reference("kernel")
            .and_then(|path| path.split_once("::@"))
            .map_or("", |(_, name)| name)
            .trim_matches('"');
        let stub =
            self.module.op.body().find(|function| function.name == "func.func" && function.symbol() == Some(name));
        let Some(stub) = stub else {
            return Err(refuse(&format!("a launch of {name}, of which the source has no interface"), "use its module"));
        };
        let kind = stub.get("function_type").unwrap_or("() -> ()").to_owned();
        let marks = stub
            .get("arg_attrs")
            .map_or_else(Vec::new, |list| split_list(list.trim_start_matches('[').trim_end_matches(']')));

        let p = format!("%cufl{}", self.count);
        self.count += 1;
        let arguments = part(11);
        let mut text = format!(
            "{p}k = \"llvm.intr.stacksave\"() : () -> !llvm.ptr
{p}n = \"arith.constant\"() <{{value = {} : i32}}> : () -> i32
{p}u = \"arith.constant\"() <{{value = 1 : i32}}> : () -> i32
{p}z = \"llvm.mlir.zero\"() : () -> !llvm.ptr
{p}arr = \"llvm.alloca\"({p}n) <{{elem_type = !llvm.ptr}}> : (i32) -> !llvm.ptr
{p}ext = \"llvm.alloca\"({p}n) <{{elem_type = i64}}> : (i32) -> !llvm.ptr
",
            arguments.len().max(1)
        );
        for (at, (value, kind)) in arguments.iter().enumerate() {
            let by_value = marks.get(at).is_some_and(|mark| !mark.contains("cuf.data_attr"));
            argument(&mut text, &p, at, value, kind, by_value);
        }
        let _ = writeln!(text, "{p}f = \"fir.address_of\"() <{{symbol = @\"{name}\"}}> : () -> ({kind})");
        let _ = writeln!(text, "{p}fp = \"fir.convert\"({p}f) : ({kind}) -> !llvm.ptr");
        for (at, (value, kind)) in (1..7).flat_map(part).enumerate() {
            let _ = writeln!(text, "{p}d{at} = \"fir.convert\"({value}) : ({kind}) -> i64");
        }
        let stream = match part(0).first().map(|(token, _)| self.streams.get(token)) {
            None => format!("{p}z"),
            Some(Some((value, kind))) if kind == "!llvm.ptr" => value.clone(),
            Some(Some((value, kind))) => {
                let _ = writeln!(text, "{p}s = \"fir.convert\"({value}) : ({kind}) -> !llvm.ptr");
                format!("{p}s")
            }
            Some(None) => {
                return Err(refuse("a launch that waits for an unknown stream", "name the stream in the launch"));
            }
        };
        let shared = match part(10).first() {
            Some((value, kind)) => {
                let _ = writeln!(text, "{p}m = \"fir.convert\"({value}) : ({kind}) -> i32");
                format!("{p}m")
            }
            None => {
                let _ = writeln!(text, "{p}m = \"arith.constant\"() <{{value = 0 : i32}}> : () -> i32");
                format!("{p}m")
            }
        };
        let place = place(self.module, &op.location);
        let (file, line) = place.map_or((String::new(), 0), |place| (place.file, place.line));
        let number = self.files.iter().position(|known| *known == file).unwrap_or_else(|| {
            self.files.push(file);
            self.files.len() - 1
        });
        let _ = writeln!(
            text,
            "{p}h = \"llvm.mlir.addressof\"() <{{global_name = @{}}}> : () -> !llvm.ptr
{p}l = \"arith.constant\"() <{{value = {line} : i32}}> : () -> i32
\"fir.call\"({p}fp, {p}d0, {p}d1, {p}d2, {p}d3, {p}d4, {p}d5, {stream}, {shared}, {p}arr, {p}ext, {p}h, {p}l) <{{callee = @{FUNCTION}}}> : {KIND}
\"llvm.intr.stackrestore\"({p}k) : (!llvm.ptr) -> ()",
            Self::file(number)
        );
        Ok(text)
    }
}

/// Stores an argument's address, and its size if it is passed by value through an address.
fn argument(text: &mut String, p: &str, at: usize, value: &str, kind: &str, by_value: bool) {
    let store = |text: &mut String, value: &str| {
        let _ = writeln!(
            text,
            "{p}q{at} = \"llvm.alloca\"({p}u) <{{elem_type = !llvm.ptr}}> : (i32) -> !llvm.ptr
\"llvm.store\"({value}, {p}q{at}) <{{ordering = 0 : i64}}> : (!llvm.ptr, !llvm.ptr) -> ()"
        );
    };
    if kind == "!llvm.ptr" {
        store(text, value);
    } else if is_address(kind) {
        let _ = writeln!(text, "{p}v{at} = \"fir.convert\"({value}) : ({kind}) -> !llvm.ptr");
        store(text, &format!("{p}v{at}"));
    } else {
        let _ = writeln!(
            text,
            "{p}a{at} = \"fir.alloca\"() <{{in_type = {kind}, operandSegmentSizes = array<i32: 0, 0>}}> : () -> !fir.ref<{kind}>
\"fir.store\"({value}, {p}a{at}) : ({kind}, !fir.ref<{kind}>) -> ()
{p}v{at} = \"fir.convert\"({p}a{at}) : (!fir.ref<{kind}>) -> !llvm.ptr"
        );
        if is_box(kind) {
            store(text, &format!("{p}v{at}"));
        }
    }
    let address = if is_address(kind) || is_box(kind) { format!("{p}q{at}") } else { format!("{p}v{at}") };
    let element = |text: &mut String, name: &str, list: &str, kind: &str| {
        let _ = writeln!(
            text,
            "{p}{name}{at} = \"llvm.getelementptr\"({p}{list}) <{{elem_type = {kind}, rawConstantIndices = array<i32: {at}>}}> : (!llvm.ptr) -> !llvm.ptr"
        );
    };
    element(text, "e", "arr", "!llvm.ptr");
    let _ =
        writeln!(text, "\"llvm.store\"({address}, {p}e{at}) <{{ordering = 0 : i64}}> : (!llvm.ptr, !llvm.ptr) -> ()");
    element(text, "x", "ext", "i64");
    match referred(kind).filter(|content| by_value && content.starts_with("!fir.type<")) {
        Some(content) => {
            let pair = format!("!fir.ref<!fir.array<2x{content}>>");
            let _ = writeln!(
                text,
                "{p}w{at} = \"fir.zero_bits\"() : () -> {pair}
{p}i{at} = \"arith.constant\"() <{{value = 1 : index}}> : () -> index
{p}y{at} = \"fir.coordinate_of\"({p}w{at}, {p}i{at}) <{{baseType = {pair}}}> : ({pair}, index) -> {kind}
{p}s{at} = \"fir.convert\"({p}y{at}) : ({kind}) -> i64"
            );
        }
        None => {
            let _ = writeln!(text, "{p}s{at} = \"arith.constant\"() <{{value = 0 : i64}}> : () -> i64");
        }
    }
    let _ = writeln!(text, "\"llvm.store\"({p}s{at}, {p}x{at}) <{{ordering = 0 : i64}}> : (i64, !llvm.ptr) -> ()");
}
