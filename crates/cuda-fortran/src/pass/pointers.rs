//! Deallocation of device pointers: flang's `cuf-convert` calls the runtime's function for allocatables, which refuses a pointer's descriptor.

use super::{declare, ops};
use crate::mlir::{Module, Op, SyntaxError};

const FUNCTION: &str = "_FortranAPointerDeallocate";
const KIND: &str = "(!fir.ref<!fir.box<none>>, i1, !fir.box<none>, !fir.ref<i8>, i32) -> i32";

/// Replaces each `cuf.deallocate` of a pointer by a call of the runtime's function for pointers.
pub(crate) fn rewrite(module: &mut Module) -> Result<(), SyntaxError> {
    let mut count = 0;
    rewrite_in(&mut module.op, &mut count)?;
    if count > 0 {
        declare(module.op.list(), FUNCTION, KIND)?;
    }
    Ok(())
}

fn rewrite_in(op: &mut Op, count: &mut usize) -> Result<(), SyntaxError> {
    for block in op.regions.iter_mut().flatten() {
        let mut at = 0;
        while at < block.ops.len() {
            let inner = &mut block.ops[at];
            rewrite_in(inner, count)?;
            if inner.name != "cuf.deallocate" || !inner.properties.has("pointer") {
                at += 1;
                continue;
            }
            let (operand, kind) = (&inner.operands[0], &inner.operand_types[0]);
            let result = inner.result().unwrap_or("%unused");
            let n = *count;
            *count += 1;
            let text = format!(
                r#"%cufd{n}a = "fir.convert"({operand}) : ({kind}) -> !fir.ref<!fir.box<none>>
%cufd{n}b = "arith.constant"() <{{value = false}}> : () -> i1
%cufd{n}c = "fir.absent"() : () -> !fir.box<none>
%cufd{n}d = "fir.zero_bits"() : () -> !fir.ref<i8>
%cufd{n}e = "arith.constant"() <{{value = 0 : i32}}> : () -> i32
{result} = "fir.call"(%cufd{n}a, %cufd{n}b, %cufd{n}c, %cufd{n}d, %cufd{n}e) <{{callee = @{FUNCTION}, fastmath = #arith.fastmath<none>}}> : {KIND}"#
            );
            let new = ops(&inner.location.clone(), &text)?;
            let length = new.len();
            block.ops.splice(at..=at, new);
            at += length;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::module;

    #[test]
    fn a_pointer_is_deallocated_as_one_and_an_allocatable_stays() {
        let text = r#""builtin.module"() ({
"func.func"() <{function_type = () -> (), sym_name = "f"}> ({
%1 = "x.desc"() : () -> !fir.ref<!fir.box<!fir.ptr<f32>>>
%2 = "cuf.deallocate"(%1) <{data_attr = #cuf.cuda<device>, pointer}> : (!fir.ref<!fir.box<!fir.ptr<f32>>>) -> i32
%3 = "cuf.deallocate"(%1) <{data_attr = #cuf.cuda<device>}> : (!fir.ref<!fir.box<!fir.ptr<f32>>>) -> i32
}) : () -> ()
}) : () -> ()"#;
        let mut module = module(text).unwrap();
        rewrite(&mut module).unwrap();
        let text = module.to_string();
        assert_eq!(text.matches("cuf.deallocate").count(), 1, "{text}");
        assert!(
            text.contains("%2 = \"fir.call\"(%cufd0a, %cufd0b")
                && text.contains("sym_name = \"_FortranAPointerDeallocate\""),
            "{text}"
        );
    }
}
