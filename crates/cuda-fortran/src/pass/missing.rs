//! Routines of CUDA and MPI that their modules do not have. With implicit typing, flang takes them for external functions of the program.

use crate::mlir::{Module, Op};
use crate::refusal::{Error, Refusal};
use crate::remedies;

/// flang's mark of an external procedure.
const MARK: &str = "_QP";

/// Refuses calls of such routines that the source does not define.
pub(super) fn refuse(list: &[Op], module: &Module) -> Result<(), Error> {
    let mut refusal = None;
    for function in list.iter().filter(|op| op.name == "func.func") {
        function.walk(&mut |op| {
            let callee = op.reference("callee").filter(|_| op.name == "fir.call");
            let Some(name) = callee.and_then(|name| name.strip_prefix(MARK)) else { return };
            let is_defined = || list.iter().any(|one| one.symbol() == callee && one.body().next().is_some());
            if let Some(remedy) = remedies::of_routine(name).filter(|_| refusal.is_none() && !is_defined()) {
                refusal = Some(Refusal::new(module, &op.location, format!("{name} is not supported"), remedy));
            }
        });
    }
    refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::module;

    #[test]
    fn routines_for_textures_are_refused_with_their_line() {
        let text = r#""builtin.module"() ({
"func.func"() <{function_type = () -> (), sym_name = "_QQmain"}> ({
"fir.call"() <{callee = @_QPcuda_own}> : () -> () loc("a.cuf":6:3)
"fir.call"() <{callee = @_QPcudamallocarray}> : () -> () loc("a.cuf":7:3)
}) : () -> ()
}) : () -> ()"#;
        let mut whole = module(text).unwrap();
        let known = whole.clone();
        let error = refuse(whole.op.list(), &known).unwrap_err().to_string();
        assert!(error.starts_with("a.cuf:7:3: error: cudamallocarray is not supported; "), "{error}");
    }
}
