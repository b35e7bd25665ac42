//! The loops over the threads of a block, and the arrays with an element for each thread.

use super::super::device::PLACE;
use super::super::ops;
use super::super::types::{self, is_address, is_scalar};
use crate::mlir::{Block, Op};
use crate::refusal::Error;
use std::fmt::Write;

/// Returns the dimensions and the element type of a local variable; no dimensions for a scalar.
fn parts(kind: &str) -> Option<(Vec<usize>, &str)> {
    let Some(content) = kind.strip_prefix("!fir.array<").and_then(|rest| rest.strip_suffix('>')) else {
        return is_scalar(kind).then_some((Vec::new(), kind));
    };
    let mut rest = content;
    let mut dimensions = Vec::new();
    while let Some((number, tail)) = rest.split_once('x')
        && let Ok(number) = number.parse()
    {
        dimensions.push(number);
        rest = tail;
    }
    is_scalar(rest).then_some((dimensions, rest))
}

/// Returns the bytes of a local variable; `None` for types without a known size.
pub(super) fn bytes(kind: &str) -> Option<usize> {
    let (dimensions, element) = parts(kind)?;
    Some(dimensions.iter().product::<usize>() * types::size(element)?)
}

/// Returns the type of an array with an element for each thread.
fn array(kind: &str) -> Option<String> {
    let (dimensions, element) = parts(kind)?;
    let dimensions: String = dimensions.iter().map(|count| format!("{count}x")).collect();
    Some(format!("!fir.array<{dimensions}?x{element}>"))
}

/// Returns the type that memory holds for a value of this type; `None` if there is none.
pub(super) fn kept_type(kind: &str) -> Option<&str> {
    if kind == "index" || is_address(kind) { Some("i64") } else { is_scalar(kind).then_some(kind) }
}

/// Returns the number of threads and the constants that loops over them need.
pub(super) fn prologue() -> String {
    let mut text = String::from(
        "%cut_0 = \"arith.constant\"() <{value = 0 : index}> : () -> index\n%cut_1 = \"arith.constant\"() <{value = 1 : index}> : () -> index\n",
    );
    for axis in ["x", "y", "z"] {
        let _ = writeln!(
            text,
            "%cut_r{axis} = \"nvvm.read.ptx.sreg.ntid.{axis}\"() : () -> i32
%cut_n{axis} = \"fir.convert\"(%cut_r{axis}) : (i32) -> index
%cut_m{axis} = \"arith.subi\"(%cut_n{axis}, %cut_1) <{{overflowFlags = #arith.overflow<none>}}> : (index, index) -> index"
        );
    }
    text.push_str(
        "%cut_nxy = \"arith.muli\"(%cut_nx, %cut_ny) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
%cut_n = \"arith.muli\"(%cut_nxy, %cut_nz) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index\n",
    );
    text
}

/// Returns the allocation of an array with an element for each thread.
pub(super) fn allocation(name: &str, kind: &str) -> Option<String> {
    let array = array(kind)?;
    Some(format!(
        "{name} = \"fir.alloca\"(%cut_n) <{{in_type = {array}, operandSegmentSizes = array<i32: 0, 1>}}> : (index) -> !fir.ref<{array}>\n"
    ))
}

/// Returns the address of a thread's element.
pub(super) fn element(result: &str, name: &str, kind: &str, thread: &str) -> Option<String> {
    let (dimensions, element) = parts(kind)?;
    let array = array(kind)?;
    let indices = "%cut_0, ".repeat(dimensions.len());
    let types = "index, ".repeat(dimensions.len());
    let (first, last) = if dimensions.is_empty() {
        (result.to_owned(), String::new())
    } else {
        (
            format!("{result}e"),
            format!("{result} = \"fir.convert\"({result}e) : (!fir.ref<{element}>) -> !fir.ref<{kind}>\n"),
        )
    };
    Some(format!(
        "{first} = \"fir.coordinate_of\"({name}, {indices}{thread}) <{{baseType = !fir.ref<{array}>}}> : (!fir.ref<{array}>, {types}index) -> !fir.ref<{element}>\n{last}"
    ))
}

/// The names of a thread's number and position in the loops with this number.
pub(super) fn thread(number: usize) -> String {
    format!("%cut_t{number}")
}

pub(super) fn position(number: usize, axis: &str) -> String {
    format!("%cut_{axis}{number}")
}

/// Returns loops over all threads around `body`. `has_calls` says whether functions read the thread's position.
pub(super) fn loops(number: usize, body: Vec<Op>, location: &str, has_calls: bool) -> Result<Vec<Op>, Error> {
    let mut text = String::new();
    for axis in ["x", "y", "z"] {
        let _ = writeln!(text, "{} = \"fir.convert\"(%cut_i{axis}{number}) : (index) -> i32", position(number, axis));
    }
    let n = format!("%cut_{number}");
    let _ = writeln!(
        text,
        "{n}a = \"arith.muli\"(%cut_iz{number}, %cut_nxy) <{{overflowFlags = #arith.overflow<none>}}> : (index, index) -> index
{n}b = \"arith.muli\"(%cut_iy{number}, %cut_nx) <{{overflowFlags = #arith.overflow<none>}}> : (index, index) -> index
{n}c = \"arith.addi\"({n}a, {n}b) <{{overflowFlags = #arith.overflow<none>}}> : (index, index) -> index
{} = \"arith.addi\"({n}c, %cut_ix{number}) <{{overflowFlags = #arith.overflow<none>}}> : (index, index) -> index",
        thread(number)
    );
    if has_calls {
        let _ = writeln!(text, "{n}p = \"llvm.mlir.addressof\"() <{{global_name = @{PLACE}}}> : () -> !llvm.ptr");
        for (at, axis) in ["x", "y", "z"].into_iter().enumerate() {
            let _ = writeln!(
                text,
                "{n}p{axis} = \"llvm.getelementptr\"({n}p) <{{elem_type = i32, rawConstantIndices = array<i32: {at}>}}> : (!llvm.ptr) -> !llvm.ptr
\"llvm.store\"({}, {n}p{axis}) <{{ordering = 0 : i64}}> : (i32, !llvm.ptr) -> ()",
                position(number, axis)
            );
        }
    }
    let mut inner = ops(location, &text)?;
    inner.extend(body);
    for axis in ["x", "y", "z"] {
        inner.extend(ops(location, "\"fir.result\"() : () -> ()")?);
        let text = format!(
            "\"fir.do_loop\"(%cut_0, %cut_m{axis}, %cut_1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}}> ({{\n}}) : (index, index, index) -> ()"
        );
        let mut outer = ops(location, &text)?;
        let arguments = vec![(format!("%cut_i{axis}{number}"), "index".to_owned())];
        outer[0].regions = vec![vec![Block { label: Some("^bb0".to_owned()), arguments, ops: inner }]];
        inner = outer;
    }
    Ok(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_variables_have_an_element_for_each_thread() {
        assert_eq!(array("!fir.array<16x4xf32>").as_deref(), Some("!fir.array<16x4x?xf32>"));
        assert_eq!(array("!fir.logical<4>").as_deref(), Some("!fir.array<?x!fir.logical<4>>"));
        assert_eq!(array("!fir.box<!fir.heap<f32>>"), None);
        assert_eq!(array("!fir.array<?xf32>"), None);
        assert_eq!((bytes("!fir.array<16x4xf32>"), bytes("i64")), (Some(256), Some(8)));
        assert_eq!(
            (kept_type("index"), kept_type("!fir.ref<f32>"), kept_type("!fir.box<f32>")),
            (Some("i64"), Some("i64"), None)
        );
    }
}
