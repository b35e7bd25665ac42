//! The rewriting steps.

mod barriers;
mod capture;
mod cpu;
pub(crate) mod device;
mod external;
pub(crate) mod gpu;
pub(crate) mod host;
pub(crate) mod launch;
pub(crate) mod loops;
pub(crate) mod managed;
mod missing;
mod places;
pub(crate) mod pointers;
mod reduction;
mod registration;
mod types;

use crate::mlir::{Op, SyntaxError, operations};

/// Parses operations, all with `location`.
fn ops(location: &str, text: &str) -> Result<Vec<Op>, SyntaxError> {
    let mut ops = operations(text)?;
    for op in &mut ops {
        op.walk_mut(&mut |op| location.clone_into(&mut op.location));
    }
    Ok(ops)
}

/// Declares the function `name` of this type in the module's list, unless it is declared.
fn declare(list: &mut Vec<Op>, name: &str, kind: &str) -> Result<(), SyntaxError> {
    if !list.iter().any(|op| op.symbol() == Some(name)) {
        list.extend(ops(
            "unknown",
            &format!(
                "\"func.func\"() <{{function_type = {kind}, sym_name = \"{name}\", sym_visibility = \"private\"}}> ({{\n}}) {{fir.runtime}} : () -> ()"
            ),
        )?);
    }
    Ok(())
}
