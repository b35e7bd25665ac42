//! The device code of a source, as a list of plain functions and globals, common to GPUs and CPU devices.

use super::types::is_box;
use crate::mlir::{Module, Op, unquoted};
use std::collections::{HashMap, HashSet};

/// The place of a thread in its block and of the block in the grid: four triples in a variable of the system's thread. The address of the
/// block's dynamic shared memory follows, which the launch sizes.
pub(super) const PLACE: &str = "accord_cuf_place";

/// A kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kernel {
    /// The symbol, which is also that of the host's stub.
    pub(super) symbol: String,
    /// The types of the parameters.
    pub(super) parameters: Vec<String>,
    /// Bytes of static shared memory.
    pub(super) shared: u64,
    pub(super) location: String,
}

/// Device code that was extracted from a module.
#[derive(Debug, Default)]
pub(super) struct Device {
    pub(super) list: Vec<Op>,
    pub(super) kernels: Vec<Kernel>,
}

/// Extracts the device code of a module; `None` if the source has none.
pub(super) fn take(module: &mut Module) -> Option<Device> {
    module.op.attributes.remove("gpu.container_module");
    let list = module.op.list();
    let at = list.iter().position(|op| op.name == "gpu.module")?;
    let mut gpu = list.remove(at);
    let mut device = Device { list: std::mem::take(gpu.list()), kernels: Vec::new() };
    for op in &mut device.list {
        if op.name == "gpu.func" {
            device.kernels.extend(plain_function(op));
        }
        op.walk_mut(&mut |op| match &*op.name {
            "gpu.return" => op.name = "func.return".to_owned(),
            "builtin.unrealized_conversion_cast" => op.name = "fir.convert".to_owned(),
            _ => {}
        });
    }
    for kernel in &mut device.kernels {
        let prefix = format!("{}__shared_mem__", kernel.symbol);
        let own = |op: &&Op| is_shared(op) && op.symbol().is_some_and(|name| name.starts_with(&prefix));
        kernel.shared = device.list.iter().filter(own).map(shared_size).sum();
    }
    add_named(&mut device.list, list);
    Some(device)
}

/// Turns a `gpu.func` into a `func.func`; returns the kernel if it is one.
fn plain_function(op: &mut Op) -> Option<Kernel> {
    op.name = "func.func".to_owned();
    let symbol = op.symbol().unwrap_or_default().to_owned();
    let is_kernel = op.attributes.has("gpu.kernel");
    for name in ["sym_name", "gpu.kernel", "workgroup_attributions", "private_attributions"] {
        op.attributes.remove(name);
    }
    op.properties.0.retain(|(name, _)| name == "function_type" || name == "arg_attrs" || name == "res_attrs");
    op.properties.set("sym_name", format!("\"{symbol}\""));
    let entry = op.regions.first().and_then(|region| region.first());
    let parameters =
        entry.map(|block| block.arguments.iter().map(|(_, kind)| kind.clone()).collect()).unwrap_or_default();
    is_kernel.then(|| Kernel { symbol, parameters, shared: 0, location: op.location.clone() })
}

/// Adds what the device code refers to and only the host's list has: constants and declarations of functions.
fn add_named(device: &mut Vec<Op>, host: &[Op]) {
    let mut known: HashSet<String> = device.iter().filter_map(Op::symbol).map(str::to_owned).collect();
    let mut at = 0;
    while at < device.len() {
        for name in references(&device[at]) {
            let copied = |op: &&Op| {
                op.symbol() == Some(&*name)
                    && (op.name == "fir.global" || op.name == "func.func" && op.body().next().is_none())
            };
            if let Some(found) = host.iter().find(copied)
                && known.insert(name.clone())
            {
                device.push(found.clone());
            }
        }
        at += 1;
    }
}

/// Returns the symbols that an operation and all nested ones refer to.
pub(super) fn references(op: &Op) -> Vec<String> {
    let mut names = Vec::new();
    op.walk(&mut |op| {
        for value in op.properties.0.iter().chain(&op.attributes.0).filter_map(|(_, value)| value.as_deref()) {
            each_reference(value, &mut |name| names.push(unquoted(name).to_owned()));
        }
    });
    names
}

/// Calls `found` with each symbol after an `@`, outside of strings.
fn each_reference<'a>(value: &'a str, found: &mut impl FnMut(&'a str)) {
    let mut rest = value;
    while let Some(at) = rest.find(['@', '"']) {
        let is_symbol = rest.as_bytes()[at] == b'@';
        let tail = &rest[at + usize::from(is_symbol)..];
        let end = match tail.strip_prefix('"') {
            Some(quoted) => quoted.find('"').map_or(tail.len(), |end| end + 2),
            None => tail.find(|c: char| !(c.is_ascii_alphanumeric() || "_$.-".contains(c))).unwrap_or(tail.len()),
        };
        if is_symbol {
            found(&tail[..end]);
        }
        rest = &tail[end.max(1).min(tail.len())..];
    }
}

/// Renames symbols: their definitions and references.
pub(super) fn rename(list: &mut [Op], names: &HashMap<String, String>) {
    for op in list {
        if let Some(new) = op.symbol().and_then(|name| names.get(name)) {
            op.properties.set("sym_name", format!("\"{new}\""));
        }
        op.walk_mut(&mut |op| {
            for value in op.properties.0.iter_mut().chain(&mut op.attributes.0).filter_map(|(_, value)| value.as_mut())
            {
                if value.contains('@') {
                    *value = renamed(value, names);
                }
            }
        });
    }
}

fn renamed(value: &str, names: &HashMap<String, String>) -> String {
    let mut found = Vec::new();
    each_reference(value, &mut |name| found.push(name));
    let mut text = String::new();
    let mut rest = value;
    for name in found {
        let Some((before, after)) = rest.split_once(&format!("@{name}")) else { continue };
        text.push_str(before);
        match names.get(unquoted(name)) {
            Some(new) => text.push_str(&format!("@\"{new}\"")),
            None => text.push_str(&format!("@{name}")),
        }
        rest = after;
    }
    text + rest
}

/// Returns the symbol and size of the shared memory that contains a `cuf.shared_memory` of `function`. A size of 0
/// stands for dynamic shared memory.
pub(super) fn shared_memory<'a>(op: &Op, function: &str, list: &'a [Op]) -> Option<(&'a str, u64)> {
    let own = op.get("bindc_name").map_or("", unquoted);
    let find = |name: String| list.iter().find(|global| global.name == "fir.global" && global.symbol() == Some(&name));
    let global =
        find(format!("{function}__shared_mem__{own}")).or_else(|| find(format!("{function}__shared_mem__")))?;
    Some((global.symbol()?, shared_size(global)))
}

/// Returns the size of a `fir.global` in shared memory.
pub(super) fn shared_size(global: &Op) -> u64 {
    let kind = global.get("type").unwrap_or_default();
    kind.strip_prefix("!fir.array<")
        .and_then(|rest| rest.split('x').next())
        .and_then(|size| size.parse().ok())
        .unwrap_or(0)
}

/// Whether a global is in shared memory.
pub(super) fn is_shared(op: &Op) -> bool {
    op.name == "fir.global" && op.get("data_attr") == Some("#cuf.cuda<shared>")
}

/// Whether a global is a device variable that the host can access.
pub(super) fn is_variable(op: &Op) -> bool {
    op.name == "fir.global" && op.get("data_attr").is_some_and(|kind| kind != "#cuf.cuda<shared>")
}

/// Returns the host's description of a parameter for the runtime: `d` a descriptor, `a` an address, or the size of a
/// value.
pub(super) fn parameter(kind: &str) -> String {
    if is_box(kind) {
        return "d".to_owned();
    }
    super::types::size(kind).map_or_else(|| "a".to_owned(), |size| size.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::module;

    const MIXED: &str = r#""builtin.module"() ({
"func.func"() <{function_type = () -> (), sym_name = "host"}> ({
"func.return"() : () -> ()
}) : () -> ()
"gpu.module"() <{sym_name = "cuda_device_mod"}> ({
"gpu.func"() <{function_type = (i32) -> ()}> ({
^bb0(%arg0: i32):
%1 = "fir.address_of"() <{symbol = @text}> : () -> !fir.ref<!fir.char<1,4>>
"fir.call"(%arg0) <{callee = @outer}> : (i32) -> ()
"gpu.return"() : () -> ()
}) {gpu.kernel, sym_name = "k", workgroup_attributions = 0 : i64} : () -> ()
}) : () -> ()
"fir.global"() <{constant, sym_name = "text", symref = @text, type = !fir.char<1,4>}> ({
}) : () -> ()
"func.func"() <{function_type = (i32) -> (), sym_name = "outer", sym_visibility = "private"}> ({
}) : () -> ()
}) {gpu.container_module} : () -> ()"#;

    #[test]
    fn kernels_become_functions_and_bring_what_they_name() {
        let mut module = module(MIXED).unwrap();
        let device = take(&mut module).unwrap();
        assert_eq!(device.kernels[0].parameters, ["i32"]);
        let names: Vec<_> = device.list.iter().filter_map(Op::symbol).collect();
        assert_eq!(names, ["k", "text", "outer"]);
        let text =
            device.list.iter().map(|op| Module { op: op.clone(), ..Module::default() }.to_string()).collect::<String>();
        assert!(!text.contains("gpu."), "{text}");
        assert!(!module.to_string().contains("gpu."), "{module}");
    }

    #[test]
    fn symbols_are_renamed_where_they_are_defined_and_used() {
        let mut module = module(MIXED).unwrap();
        let mut device = take(&mut module).unwrap();
        let names = HashMap::from([("text".to_owned(), "x text".to_owned())]);
        rename(&mut device.list, &names);
        assert!(references(&device.list[0]).contains(&"x text".to_owned()));
        assert_eq!(device.list[1].symbol(), Some("x text"));
        assert_eq!(device.list[1].get("symref"), Some("@\"x text\""));
        assert_eq!(renamed("[@a, \"@text\", @b::@text]", &names), "[@a, \"@text\", @b::@\"x text\"]");
    }
}
