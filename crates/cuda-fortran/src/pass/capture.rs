//! Values that the body of a kernel loop uses from the surrounding procedure, and their ways into the kernel.

use super::reduction::Reduction;
use super::types::{is_address, is_box, is_scalar, referred};
use crate::mlir::{Module, Op, whole};
use crate::refusal::Refusal;
use std::collections::HashMap;
use std::fmt::Write;

/// Operations that are repeated in the kernel, with their operands.
const REPEATED: &[&str] = &[
    "arith.constant",
    "fir.absent",
    "fir.assumed_size_extent",
    "fir.dummy_scope",
    "fir.field_index",
    "fir.shape",
    "fir.shape_shift",
    "fir.shift",
    "fir.slice",
    "fir.undefined",
    "fir.zero_bits",
];

/// Operations whose result is in their first operand's memory.
const SAME_MEMORY: &[&str] =
    &["fir.declare", "fir.convert", "fir.rebox", "fir.box_addr", "fir.coordinate_of", "fir.array_coor", "fir.load"];

/// Definitions in a procedure, and the surrounding module.
pub(super) struct Scope<'a> {
    pub(super) module: &'a Module,
    /// Definitions by the result's name, without regions.
    definitions: HashMap<String, Op>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(module: &'a Module, function: &Op) -> Self {
        let mut definitions = HashMap::new();
        function.walk(&mut |op| {
            if let Some(results) = op.result() {
                let name = results.split(':').next().unwrap_or(results).to_owned();
                definitions.insert(name, Op { regions: Vec::new(), ..op.clone() });
            }
        });
        Self { module, definitions }
    }

    pub(super) fn definition(&self, value: &str) -> Option<&Op> {
        self.definitions.get(whole(value))
    }

    fn global(&self, op: &Op) -> Option<&Op> {
        let symbol = op.reference("symbol")?;
        self.module.op.body().find(|global| global.name == "fir.global" && global.symbol() == Some(symbol))
    }

    /// Returns the definitions between a value and its memory.
    fn memory(&self, value: &str) -> Vec<&Op> {
        let mut chain = Vec::new();
        let mut next = self.definition(value);
        while let Some(op) = next {
            chain.push(op);
            next = match op.operands.first() {
                Some(operand) if SAME_MEMORY.contains(&&*op.name) => self.definition(operand),
                _ => None,
            };
        }
        chain
    }

    /// Whether a value is in device memory, or managed.
    pub(super) fn is_device(&self, value: &str) -> bool {
        self.memory(value).iter().any(|op| {
            op.name == "cuf.alloc"
                || op.get("data_attr").is_some()
                || op.get("cuf.data_attr").is_some()
                || op.name == "fir.address_of"
                    && self.global(op).is_some_and(|global| global.get("data_attr").is_some())
        })
    }

    /// Returns the Fortran name of a variable.
    pub(super) fn variable(&self, value: &str) -> String {
        let memory = self.memory(value);
        let name = memory.iter().find_map(|op| op.get("uniq_name").or_else(|| op.get("bindc_name")));
        name.map_or_else(
            || "a host variable".to_owned(),
            |name| name.trim_matches('"').rsplit('E').next().unwrap_or(name).to_owned(),
        )
    }
}

/// The values passed into the kernel.
pub(super) struct Captures<'a> {
    scope: &'a Scope<'a>,
    reductions: &'a [Reduction],
    location: &'a str,
    /// Prefix that makes new names unique.
    prefix: String,
    count: usize,
    /// Names in the kernel, by the procedure's names.
    pub(super) names: HashMap<String, String>,
    /// Operations before the launch.
    pub(super) host: String,
    /// Operations at the start of the kernel.
    pub(super) inner: String,
    /// Host value, type, and name in the kernel.
    pub(super) arguments: Vec<(String, String, String)>,
}

impl<'a> Captures<'a> {
    pub(super) fn new(scope: &'a Scope<'a>, reductions: &'a [Reduction], location: &'a str, prefix: String) -> Self {
        Self {
            scope,
            reductions,
            location,
            prefix,
            count: 0,
            names: HashMap::new(),
            host: String::new(),
            inner: String::new(),
            arguments: Vec::new(),
        }
    }

    fn fresh(&mut self) -> String {
        self.count += 1;
        format!("%{}v{}", self.prefix, self.count)
    }

    /// Adds an argument, and returns its name in the kernel.
    pub(super) fn argument(&mut self, value: &str, kind: &str) -> String {
        let name = self.fresh();
        self.arguments.push((value.to_owned(), kind.to_owned(), name.clone()));
        name
    }

    /// Makes a value available in the kernel, and returns its name there.
    pub(super) fn take(&mut self, value: &str, kind: &str) -> Result<String, Refusal> {
        if let Some(name) = self.names.get(value) {
            return Ok(name.clone());
        }
        let name = self.bring(value, kind)?;
        self.names.insert(value.to_owned(), name.clone());
        Ok(name)
    }

    fn bring(&mut self, value: &str, kind: &str) -> Result<String, Refusal> {
        let scope = self.scope;
        let definition = scope.definition(value);
        if let Some(op) = definition.filter(|op| REPEATED.contains(&&*op.name)) {
            return self.repeat(op);
        }
        if is_scalar(kind) || is_box(kind) {
            return Ok(self.argument(value, kind));
        }
        let device = scope.is_device(value);
        match referred(kind) {
            Some(scalar) if is_scalar(scalar) && !device => return Ok(self.variable(value, kind, scalar)),
            Some(descriptor) if is_box(descriptor) => return Ok(self.variable(value, kind, descriptor)),
            _ => {}
        }
        if !is_address(kind) {
            return Err(self.refuse(value, format!("has type {kind}, which a kernel loop can't take")));
        }
        let memory = scope.memory(value);
        let root = memory.last().copied();
        if let Some(op) = root.filter(|op| op.name == "fir.address_of") {
            let is_constant = scope
                .global(op)
                .is_some_and(|global| global.get("constant").is_some() || global.properties.has("constant"));
            if device || is_constant {
                return memory.first().map_or_else(|| Ok(value.to_owned()), |op| self.repeat(op));
            }
        }
        if !device && root.is_none_or(|op| op.name != "fir.load") {
            return Err(self.refuse(value, "is in the host's memory".to_owned()));
        }
        Ok(self.argument(value, kind))
    }

    fn refuse(&self, value: &str, what: String) -> Refusal {
        let name = self.scope.variable(value);
        Refusal::new(
            self.scope.module,
            self.location,
            format!("{name}, which a kernel loop uses, {what}"),
            "use a device or managed array, or assign what the loop needs to a scalar before it",
        )
    }

    /// Repeats an operation in the kernel, with its operands.
    fn repeat(&mut self, op: &Op) -> Result<String, Refusal> {
        let mut new = op.clone();
        for (operand, kind) in new.operands.iter_mut().zip(&op.operand_types) {
            *operand = self.take(operand, kind)?;
        }
        let name = self.fresh();
        new.results = Some(name.clone());
        new.location.clear();
        let properties = if new.properties.0.is_empty() { String::new() } else { format!(" <{}>", new.properties) };
        let _ = writeln!(
            self.inner,
            "{name} = \"{}\"({}){properties} : ({}) -> ({})",
            new.name,
            new.operands.join(", "),
            new.operand_types.join(", "),
            new.result_types.join(", ")
        );
        Ok(name)
    }

    /// Creates a variable of each thread, initialised with the host's value or a reduction's neutral element.
    fn variable(&mut self, value: &str, kind: &str, content: &str) -> String {
        let name = self.fresh();
        let _ = writeln!(
            self.inner,
            "{name} = \"fir.alloca\"() <{{in_type = {content}, operandSegmentSizes = array<i32: 0, 0>}}> : () -> {kind}"
        );
        let first = if let Some(reduction) = self.reductions.iter().find(|reduction| reduction.variable == value) {
            let first = self.fresh();
            let _ = writeln!(
                self.inner,
                "{first} = \"arith.constant\"() <{{value = {} : {content}}}> : () -> {content}",
                reduction.neutral
            );
            first
        } else {
            let outer = self.fresh();
            let _ = writeln!(self.host, "{outer} = \"fir.load\"({value}) : ({kind}) -> {content}");
            self.argument(&outer, content)
        };
        let _ = writeln!(self.inner, "\"fir.store\"({first}, {name}) : ({content}, {kind}) -> ()");
        name
    }
}
