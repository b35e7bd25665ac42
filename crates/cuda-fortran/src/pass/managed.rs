//! Module variables with attribute `managed`: flang 22 registers none but allocatable arrays. Each becomes a host variable, and a device variable
//! of its own, to which device code refers. The runtime copies one to the other around launches.

use crate::mlir::{Module, Op};
use crate::refusal::{Error, Refusal};
use std::collections::HashSet;

/// Suffix of the device variable's name.
const SUFFIX: &str = "_accord_managed";

/// Returns the host variable of a device variable that stands for a managed one.
pub(super) fn host_name(device: &str) -> Option<&str> {
    device.strip_suffix(SUFFIX)
}

/// Splits each managed variable of the module.
pub(crate) fn rewrite(module: &mut Module) -> Result<(), Error> {
    let list = module.op.list();
    let is_managed = |op: &Op| op.name == "fir.global" && op.get("data_attr") == Some("#cuf.cuda<managed>");
    let mut names = HashSet::new();
    let mut twins = Vec::new();
    for op in list.iter_mut().filter(|op| is_managed(op)) {
        let Some(name) = op.symbol().map(str::to_owned) else { continue };
        let mut twin = op.clone();
        twin.properties.set("data_attr", "#cuf.cuda<device>");
        twin.properties.set("sym_name", format!("\"{name}{SUFFIX}\""));
        twin.properties.set("symref", format!("@{name}{SUFFIX}"));
        twins.push(twin);
        op.properties.remove("data_attr");
        names.insert(name);
    }
    if names.is_empty() {
        return Ok(());
    }
    list.extend(twins);
    let known = module.clone();
    for function in module.op.list().iter_mut().filter(|op| op.name == "func.func") {
        let kind = function.get("cuf.proc_attr").unwrap_or_default().to_owned();
        if kind.is_empty() || kind.contains("<host>") {
            function.walk_mut(&mut |op| {
                if matches!(&*op.name, "cuf.allocate" | "cuf.deallocate")
                    && op.get("data_attr") == Some("#cuf.cuda<managed>")
                {
                    op.properties.remove("hasDoubleDescriptor");
                }
            });
            continue;
        }
        let mut refused = None;
        function.walk_mut(&mut |op| {
            let Some(name) = op.reference("symbol").filter(|name| names.contains(*name)).map(str::to_owned) else {
                return;
            };
            if kind.contains("host_device") {
                refused.get_or_insert_with(|| op.location.clone());
            }
            op.properties.set("symbol", format!("@{name}{SUFFIX}"));
        });
        if let Some(location) = refused {
            let what = "a managed module variable in a procedure for host and device".to_owned();
            return Err(Refusal::new(&known, &location, what, "pass it as an argument").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::module;

    fn text(kind: &str) -> String {
        format!(
            r#""builtin.module"() ({{
"fir.global"() <{{data_attr = #cuf.cuda<managed>, sym_name = "_QMmEn", symref = @_QMmEn, type = i32}}> ({{
}}) : () -> ()
"func.func"() <{{function_type = () -> (), sym_name = "_QMmPk"}}> ({{
%0 = "fir.address_of"() <{{symbol = @_QMmEn}}> : () -> !fir.ref<i32>
"func.return"() : () -> ()
}}) {{cuf.proc_attr = #cuf.cuda_proc<{kind}>}} : () -> ()
"func.func"() <{{function_type = () -> (), sym_name = "_QQmain"}}> ({{
%0 = "fir.address_of"() <{{symbol = @_QMmEn}}> : () -> !fir.ref<i32>
%1 = "cuf.allocate"(%0) <{{data_attr = #cuf.cuda<managed>, hasDoubleDescriptor}}> : (!fir.ref<i32>) -> i32
"func.return"() : () -> ()
}}) : () -> ()
}}) : () -> ()"#
        )
    }

    #[test]
    fn device_code_gets_a_variable_of_its_own() {
        let mut changed = module(&text("global")).unwrap();
        rewrite(&mut changed).unwrap();
        let printed = changed.to_string();
        assert!(printed.contains("data_attr = #cuf.cuda<device>, sym_name = \"_QMmEn_accord_managed\""), "{printed}");
        assert_eq!(printed.matches("symbol = @_QMmEn_accord_managed").count(), 1, "{printed}");
        assert_eq!(printed.matches("symbol = @_QMmEn}").count(), 1, "{printed}");
        assert!(!printed.contains("hasDoubleDescriptor"), "{printed}");
        assert_eq!(host_name("_QMmEn_accord_managed"), Some("_QMmEn"));
    }

    #[test]
    fn a_procedure_for_host_and_device_is_refused() {
        let mut changed = module(&text("host_device")).unwrap();
        assert!(rewrite(&mut changed).unwrap_err().to_string().contains("pass it as an argument"));
    }
}
