//! What lies between barriers: the values of a kernel at the level of barriers, and operations without effects.

use crate::mlir::Op;

/// Whether an operation is a barrier without a reduction.
pub(super) fn is_barrier(op: &Op) -> bool {
    op.name == "nvvm.barrier0" || op.name == "nvvm.barrier" && op.get("reductionOp").is_none()
}

pub(super) fn has_barrier(op: &Op) -> bool {
    let mut found = false;
    op.walk(&mut |op| found |= is_barrier(op));
    found
}

/// A value that is defined at the level of barriers: in the function's block, or in a block of a structure around a barrier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// The same for all threads, and defined outside of the loops over threads.
    Shared,
    /// The address of a local variable, of this type.
    Local(String),
    /// The result of an operation without effects, which is repeated where it is used.
    Pure(Box<Op>),
    /// The result of another operation, of this type, in the segment with this number.
    Computed(usize, String),
}

/// Whether an operation has no effects, and its result depends on nothing but its operands and the thread.
pub(super) fn is_pure(op: &Op) -> bool {
    const STARTS: &[&str] = &["arith.", "math.", "complex.", "fir.shape", "nvvm.read.ptx.sreg."];
    const NAMES: &[&str] = &[
        "fir.absent",
        "fir.address_of",
        "fir.array_coor",
        "fir.box_addr",
        "fir.box_dims",
        "fir.convert",
        "fir.coordinate_of",
        "fir.declare",
        "fir.dummy_scope",
        "fir.embox",
        "fir.extract_value",
        "fir.field_index",
        "fir.insert_value",
        "fir.no_reassoc",
        "fir.rebox",
        "fir.shift",
        "fir.slice",
        "fir.undefined",
        "fir.zero_bits",
        "cuf.shared_memory",
    ];
    op.regions.is_empty() && (STARTS.iter().any(|start| op.name.starts_with(start)) || NAMES.contains(&&*op.name))
}

/// Returns a result's name without the number of results.
pub(super) fn single(result: &str) -> &str {
    result.split(':').next().unwrap_or(result)
}
