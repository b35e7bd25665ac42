//! `!$cuf kernel do`: LLVM 22 has the operation (`cuf.kernel`), but no pass that lowers it. Each becomes a kernel whose
//! threads iterate with the grid's stride, and its launch.

use super::capture::{Captures, Scope};
use super::reduction::{Reduction, reduction};
use super::types::{is_scalar, referred, size};
use super::{declare, ops};
use crate::mlir::{Block, Module, Op, split_list, whole};
use crate::refusal::{Error, Refusal, place};
use std::collections::HashSet;
use std::fmt::Write;

const ALLOCATE: &str = "_FortranACUFMemAlloc";
const ALLOCATE_TYPE: &str = "(i64, i32, !fir.ref<i8>, i32) -> !fir.llvm_ptr<i8>";
const FREE: &str = "_FortranACUFMemFree";
const FREE_TYPE: &str = "(!fir.llvm_ptr<i8>, i32, !fir.ref<i8>, i32) -> ()";
const COPY: &str = "_FortranACUFDataTransferPtrPtr";
const COPY_TYPE: &str = "(!fir.llvm_ptr<i8>, !fir.llvm_ptr<i8>, i64, i32, !fir.ref<i8>, i32) -> ()";

/// Block sizes for `*` in the source, by the number of loops.
const BLOCKS: [[u32; 3]; 3] = [[128, 1, 1], [32, 4, 1], [32, 2, 2]];

/// Replaces each kernel loop.
pub(crate) fn rewrite(module: &mut Module) -> Result<(), Error> {
    let whole = module.clone();
    let mut made = OutlinedLoops::default();
    for function in module.op.list().iter_mut().filter(|op| op.name == "func.func") {
        let mut has = false;
        function.walk(&mut |op| has |= op.name == "cuf.kernel");
        if has {
            let scope = Scope::new(&whole, function);
            let name = function.symbol().unwrap_or("kernel").to_owned();
            rewrite_in(function, &scope, &name, &mut made)?;
        }
    }
    let list = module.op.list();
    list.extend(made.functions);
    if made.has_reductions {
        declare(list, ALLOCATE, ALLOCATE_TYPE)?;
        declare(list, FREE, FREE_TYPE)?;
        declare(list, COPY, COPY_TYPE)?;
    }
    Ok(())
}

#[derive(Default)]
struct OutlinedLoops {
    functions: Vec<Op>,
    names: HashSet<String>,
    has_reductions: bool,
}

fn rewrite_in(op: &mut Op, scope: &Scope<'_>, function: &str, made: &mut OutlinedLoops) -> Result<(), Error> {
    for block in op.regions.iter_mut().flatten() {
        let mut at = 0;
        while at < block.ops.len() {
            if block.ops[at].name != "cuf.kernel" {
                rewrite_in(&mut block.ops[at], scope, function, made)?;
                at += 1;
                continue;
            }
            let new = launch(block.ops.remove(at), scope, function, made)?;
            let length = new.len();
            block.ops.splice(at..at, new);
            at += length;
        }
    }
    Ok(())
}

/// The parts of a `cuf.kernel`.
struct Loops {
    block: Vec<(String, String)>,
    stream: Vec<(String, String)>,
    lower: Vec<(String, String)>,
    upper: Vec<(String, String)>,
    step: Vec<(String, String)>,
    reductions: Vec<Reduction>,
    /// The region's only block.
    body: Block,
    location: String,
}

impl Loops {
    fn new(mut op: Op, scope: &Scope<'_>) -> Result<Self, Error> {
        let location = std::mem::take(&mut op.location);
        let refuse = |what: &str, remedy: &str| Refusal::new(scope.module, &location, what, remedy);
        let mut parts = op.segmented().into_iter();
        let mut next = || parts.next().unwrap_or_default();
        let (_grid, block, stream) = (next(), next(), next());
        let (lower, upper, step, reduced) = (next(), next(), next(), next());
        let kinds = op.get("reduceAttrs").unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let mut blocks = op.regions.pop().unwrap_or_default();
        let body = match (blocks.pop(), blocks.is_empty()) {
            (Some(body), true) if (1..=3).contains(&lower.len()) => body,
            _ => return Err(refuse("a kernel loop with exits or with more than three loops", "write a kernel").into()),
        };
        let mut reductions = Vec::new();
        for ((variable, kind), attribute) in reduced.into_iter().zip(split_list(&kinds)) {
            let operator = attribute.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
            let new = reduction(&variable, &kind, &operator);
            reductions.push(new.ok_or_else(|| {
                let name = scope.variable(&variable);
                refuse(
                    &format!("reduction {operator} of {name} in a kernel loop"),
                    "reduce by +, max, min, iand, ior or ieor, in integer or real of 4 or 8 bytes",
                )
            })?);
        }
        implied(&body, scope, &mut reductions);
        Ok(Self { block, stream, lower, upper, step, reductions, body, location })
    }
}

/// Adds the implicit sums, which no clause names: each store to a host scalar that adds to its value.
fn implied(body: &Block, scope: &Scope<'_>, reductions: &mut Vec<Reduction>) {
    let mut ops = Vec::new();
    body.ops.iter().for_each(|op| op.walk(&mut |op| ops.push(op)));
    let define = |value: &str| ops.iter().find(|op| op.result() == Some(value)).copied();
    let mut not_sums = HashSet::new();
    let mut sums: Vec<Reduction> = Vec::new();
    for store in ops.iter().filter(|op| op.name == "fir.store") {
        let (value, variable, kind) = (&store.operands[0], &store.operands[1], &store.operand_types[1]);
        if define(variable).is_some()
            || scope.is_device(variable)
            || reductions.iter().any(|one| one.variable == *variable)
        {
            continue;
        }
        let mut pending = vec![value.clone()];
        let mut adds = false;
        let mut is_sum = false;
        while let Some(value) = pending.pop() {
            match define(&value) {
                Some(op) if ["arith.addf", "arith.addi"].contains(&&*op.name) => {
                    adds = true;
                    pending.extend(op.operands.iter().cloned());
                }
                Some(op) if ["arith.subf", "arith.subi"].contains(&&*op.name) => {
                    adds = true;
                    pending.push(op.operands[0].clone());
                }
                Some(op) if op.name == "fir.load" && op.operands[0] == *variable => is_sum = adds,
                _ => {}
            }
        }
        match reduction(variable, kind, "add").filter(|_| is_sum) {
            Some(sum) if !sums.contains(&sum) => sums.push(sum),
            Some(_) => {}
            None => drop(not_sums.insert(variable.clone())),
        }
    }
    reductions.extend(sums.into_iter().filter(|sum| !not_sums.contains(&sum.variable)));
}

/// Returns values and types that the operations use and don't define, in order.
fn taken(body: &Block) -> Vec<(String, String)> {
    let mut inside: HashSet<&str> = body.arguments.iter().map(|(name, _)| &**name).collect();
    let mut used = Vec::new();
    let mut visit = |op: &'_ Op| {
        used.extend(op.operands.iter().cloned().zip(op.operand_types.iter().cloned()));
    };
    body.ops.iter().for_each(|op| op.walk(&mut visit));
    for op in &body.ops {
        op.walk(&mut |op| {
            inside.extend(op.result().map(|name| name.split(':').next().unwrap_or(name)));
            inside
                .extend(op.regions.iter().flatten().flat_map(|block| block.arguments.iter().map(|(name, _)| &**name)));
        });
    }
    let mut seen = HashSet::new();
    used.retain(|(value, _)| !inside.contains(whole(value)) && seen.insert(value.clone()));
    used
}

/// Moves reads of host variables' components before the loops, because the device has no copy of the variable.
fn hoist(block: &mut Block, outside: &mut Vec<Op>, is_outside: &mut impl FnMut(&Op) -> bool) {
    let mut at = 0;
    while at < block.ops.len() {
        for inner in block.ops[at].regions.iter_mut().flatten() {
            hoist(inner, outside, is_outside);
        }
        if is_outside(&block.ops[at]) {
            outside.push(block.ops.remove(at));
        } else {
            at += 1;
        }
    }
}

/// Returns the launch that replaces a kernel loop, after adding the kernel to `made`.
fn launch(op: Op, scope: &Scope<'_>, function: &str, made: &mut OutlinedLoops) -> Result<Vec<Op>, Error> {
    let mut loops = Loops::new(op, scope)?;
    let line = place(scope.module, &loops.location).map_or(0, |place| place.line);
    let mut name = format!("{function}_{line}_gpu");
    while !made.names.insert(name.clone()) {
        name.push('_');
    }
    let prefix = format!("cufk{}", made.names.len());
    let mut hoisted = Vec::new();
    let mut known: HashSet<String> =
        taken(&loops.body).into_iter().map(|(value, _)| whole(&value).to_owned()).collect();
    hoist(&mut loops.body, &mut hoisted, &mut |op| {
        let all_outside = op.operands.iter().all(|operand| known.contains(whole(operand)));
        let component = op.name == "fir.coordinate_of"
            && op.operand_types[0].starts_with("!fir.ref<!fir.type<")
            && !scope.is_device(&op.operands[0]);
        let moved = all_outside && (component || op.name == "fir.field_index" || op.name == "arith.constant");
        known.extend(op.result().filter(|_| moved).map(str::to_owned));
        moved
    });
    check_carried(&loops, scope)?;

    let mut captures = Captures::new(scope, &loops.reductions, &loops.location, prefix.clone());
    for (value, kind) in taken(&loops.body) {
        captures.take(&value, &kind)?;
    }
    for op in &mut loops.body.ops {
        op.walk_mut(&mut |op| {
            for operand in &mut op.operands {
                if let Some(name) = captures.names.get(operand) {
                    operand.clone_from(name);
                }
            }
        });
    }
    made.has_reductions |= !loops.reductions.is_empty();
    made.functions.push(kernel(&name, &prefix, &loops, &mut captures)?);

    let mut all = hoisted;
    all.extend(ops(&loops.location, &host(&name, &prefix, &loops, &captures)?)?);
    Ok(all)
}

/// Refuses a host scalar that carries a value between iterations.
fn check_carried(loops: &Loops, scope: &Scope<'_>) -> Result<(), Refusal> {
    let mut ops = Vec::new();
    loops.body.ops.iter().for_each(|op| op.walk(&mut |op| ops.push(op)));
    let stored: HashSet<&str> = ops.iter().filter(|op| op.name == "fir.store").map(|op| &*op.operands[1]).collect();
    let inside: HashSet<&str> = ops.iter().filter_map(|op| op.result()).collect();
    for variable in stored {
        let is_host = !inside.contains(variable) && !scope.is_device(variable);
        if !is_host || loops.reductions.iter().any(|reduction| reduction.variable == variable) {
            continue;
        }
        let first = ops
            .iter()
            .find(|op| ["fir.load", "fir.store"].contains(&&*op.name) && op.operands.iter().any(|one| one == variable));
        let kind = first.and_then(|op| op.operand_types.last()).map_or("", |kind| kind);
        if first.is_some_and(|op| op.name == "fir.load") && referred(kind).is_some_and(is_scalar) {
            return Err(Refusal::new(
                scope.module,
                &loops.location,
                format!("{} carries a value from one iteration of a kernel loop to another", scope.variable(variable)),
                "name it in a clause reduce, as reduce(max:x), or assign it in each iteration before its use",
            ));
        }
    }
    Ok(())
}

/// Returns the kernel's function.
fn kernel(name: &str, p: &str, loops: &Loops, captures: &mut Captures<'_>) -> Result<Op, Error> {
    let mut bounds = Vec::new();
    for list in [&loops.lower, &loops.upper, &loops.step] {
        bounds.push(list.iter().map(|(value, kind)| captures.take(value, kind)).collect::<Result<Vec<_>, _>>()?);
    }
    let sums: Vec<(String, String)> = loops
        .reductions
        .iter()
        .enumerate()
        .map(|(at, reduction)| {
            let value = format!("%{p}r{at}d");
            let kind = format!("!fir.ref<{}>", reduction.kind);
            let inner = captures.argument(&value, &kind);
            (inner, kind)
        })
        .collect();
    let mut text = std::mem::take(&mut captures.inner);
    let count = loops.lower.len();
    for (depth, (lower, step)) in bounds[0].iter().zip(&bounds[2]).enumerate() {
        // The innermost loop is x.
        let axis = ["x", "y", "z"][count - 1 - depth];
        let q = format!("%{p}t{depth}");
        for (suffix, register) in [("a", "tid"), ("b", "ctaid"), ("c", "ntid"), ("d", "nctaid")] {
            let _ = writeln!(text, "{q}{suffix} = \"nvvm.read.ptx.sreg.{register}.{axis}\"() : () -> i32");
        }
        for (result, first, second) in [("e", "b", "c"), ("f", "c", "d")] {
            let _ = writeln!(text, "{q}{result} = \"arith.muli\"({q}{first}, {q}{second}) : (i32, i32) -> i32");
        }
        let _ = writeln!(
            text,
            "{q}g = \"arith.addi\"({q}e, {q}a) : (i32, i32) -> i32
{q}h = \"fir.convert\"({q}g) : (i32) -> index
{q}i = \"fir.convert\"({q}f) : (i32) -> index
{q}j = \"arith.muli\"({q}h, {step}) : (index, index) -> index
{q}k = \"arith.addi\"({lower}, {q}j) : (index, index) -> index
{q}l = \"arith.muli\"({q}i, {step}) : (index, index) -> index"
        );
    }
    for (depth, ((variable, _), upper)) in loops.body.arguments.iter().zip(&bounds[1]).enumerate() {
        let q = format!("%{p}t{depth}");
        let _ = writeln!(
            text,
            "\"fir.do_loop\"({q}k, {upper}, {q}l) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}}> ({{\n^bb0({variable}: index):"
        );
    }
    text.push_str("\"accord.body\"() : () -> ()\n");
    for _ in 0..count {
        text.push_str("\"fir.result\"() : () -> ()\n}) : (index, index, index) -> ()\n");
    }
    for (reduction, (sum, kind)) in loops.reductions.iter().zip(&sums) {
        let content = &reduction.kind;
        let own = captures.take(&reduction.variable, kind)?;
        let _ = writeln!(
            text,
            "{sum}v = \"fir.load\"({own}) : ({kind}) -> {content}
{sum}p = \"fir.convert\"({sum}) : ({kind}) -> !llvm.ptr
{sum}o = \"llvm.atomicrmw\"({sum}p, {sum}v) <{{bin_op = {} : i64, ordering = 2 : i64}}> : (!llvm.ptr, {content}) -> {content}",
            reduction.atomic
        );
    }
    // A reduction whose variable has no other use in the body is captured here.
    let text = format!("{}{text}", std::mem::take(&mut captures.inner));
    let arguments: Vec<String> = captures.arguments.iter().map(|(_, kind, name)| format!("{name}: {kind}")).collect();
    let kinds: Vec<&str> = captures.arguments.iter().map(|(_, kind, _)| &**kind).collect();
    let marks = kinds
        .iter()
        .map(|kind| if kind.starts_with("!fir.ref<") { "{cuf.data_attr = #cuf.cuda<device>}" } else { "{}" });
    let marks = marks.collect::<Vec<_>>().join(", ");
    let text = format!(
        "\"func.func\"() <{{arg_attrs = [{marks}], function_type = ({}) -> (), sym_name = \"{name}\"}}> ({{\n^bb0({}):\n{text}\"func.return\"() : () -> ()\n}}) \
         {{cuf.proc_attr = #cuf.cuda_proc<global>}} : () -> ()",
        kinds.join(", "),
        arguments.join(", ")
    );
    let mut function = ops(&loops.location, &text)?.pop().unwrap_or_default();
    let mut body = Some(loops.body.ops.iter().filter(|op| op.name != "fir.end").cloned().collect::<Vec<_>>());
    function.walk_mut(&mut |op| {
        for block in op.regions.iter_mut().flatten() {
            if let Some(at) = block.ops.iter().position(|op| op.name == "accord.body") {
                block.ops.splice(at..=at, body.take().unwrap_or_default());
            }
        }
    });
    Ok(function)
}

/// Returns the host's operations: grid, accumulators, launch.
fn host(name: &str, p: &str, loops: &Loops, captures: &Captures<'_>) -> Result<String, Error> {
    let count = loops.lower.len();
    let mut text = captures.host.clone();
    let block: &[(String, String)] = if loops.block.len() <= count { &loops.block } else { &[] };
    for (axis, size) in BLOCKS[count - 1].into_iter().enumerate() {
        match block.get(axis) {
            Some((value, kind)) => {
                let _ = writeln!(text, "%{p}b{axis} = \"fir.convert\"({value}) : ({kind}) -> i32");
            }
            None => {
                let _ = writeln!(text, "%{p}b{axis} = \"arith.constant\"() <{{value = {size} : i32}}> : () -> i32");
            }
        }
        if axis >= count {
            let _ = writeln!(text, "%{p}g{axis} = \"arith.constant\"() <{{value = 1 : i32}}> : () -> i32");
            continue;
        }
        let depth = count - 1 - axis;
        let (lower, upper, step) = (&loops.lower[depth].0, &loops.upper[depth].0, &loops.step[depth].0);
        let q = format!("%{p}n{axis}");
        let _ = writeln!(
            text,
            "{q}a = \"arith.subi\"({upper}, {lower}) : (index, index) -> index
{q}b = \"arith.addi\"({q}a, {step}) : (index, index) -> index
{q}c = \"arith.divsi\"({q}b, {step}) : (index, index) -> index
{q}d = \"fir.convert\"({q}c) : (index) -> i32
{q}e = \"arith.constant\"() <{{value = 1 : i32}}> : () -> i32
{q}f = \"arith.subi\"(%{p}b{axis}, {q}e) : (i32, i32) -> i32
{q}g = \"arith.addi\"({q}d, {q}f) : (i32, i32) -> i32
{q}h = \"arith.divsi\"({q}g, %{p}b{axis}) : (i32, i32) -> i32
%{p}g{axis} = \"arith.maxsi\"({q}h, {q}e) : (i32, i32) -> i32"
        );
    }
    for (at, reduction) in loops.reductions.iter().enumerate() {
        let q = format!("%{p}r{at}");
        let (variable, kind) = (&reduction.variable, format!("!fir.ref<{}>", reduction.kind));
        let bytes = size(&reduction.kind).unwrap_or(8);
        let _ = writeln!(
            text,
            "{q}z = \"arith.constant\"() <{{value = {bytes} : i64}}> : () -> i64
{q}t = \"arith.constant\"() <{{value = 0 : i32}}> : () -> i32
{q}o = \"arith.constant\"() <{{value = 1 : i32}}> : () -> i32
{q}f = \"fir.zero_bits\"() : () -> !fir.ref<i8>
{q}a = \"fir.call\"({q}z, {q}t, {q}f, {q}t) <{{callee = @{ALLOCATE}}}> : {ALLOCATE_TYPE}
{q}h = \"fir.convert\"({variable}) : ({kind}) -> !fir.llvm_ptr<i8>
\"fir.call\"({q}a, {q}h, {q}z, {q}t, {q}f, {q}t) <{{callee = @{COPY}}}> : {COPY_TYPE}
{q}d = \"fir.convert\"({q}a) : (!fir.llvm_ptr<i8>) -> {kind}"
        );
    }
    let mut operands: Vec<String> =
        ["g0", "g1", "g2", "b0", "b1", "b2"].iter().map(|name| format!("%{p}{name}")).collect();
    let mut kinds = vec!["i32".to_owned(); 6];
    let shared = usize::from(!loops.stream.is_empty());
    if let Some((value, kind)) = loops.stream.first() {
        let _ = writeln!(text, "%{p}s = \"arith.constant\"() <{{value = 0 : i32}}> : () -> i32");
        operands.extend([format!("%{p}s"), value.clone()]);
        kinds.extend(["i32".to_owned(), kind.clone()]);
    }
    operands.extend(captures.arguments.iter().map(|(value, _, _)| value.clone()));
    kinds.extend(captures.arguments.iter().map(|(_, kind, _)| kind.clone()));
    let _ = writeln!(
        text,
        "\"cuf.kernel_launch\"({}) <{{callee = @{name}, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, {shared}, {shared}, {}>}}> : ({}) -> ()",
        operands.join(", "),
        captures.arguments.len(),
        kinds.join(", ")
    );
    for at in 0..loops.reductions.len() {
        let q = format!("%{p}r{at}");
        let _ = writeln!(
            text,
            "\"fir.call\"({q}h, {q}a, {q}z, {q}o, {q}f, {q}t) <{{callee = @{COPY}}}> : {COPY_TYPE}
\"fir.call\"({q}a, {q}t, {q}f, {q}t) <{{callee = @{FREE}}}> : {FREE_TYPE}"
        );
    }
    Ok(text)
}
