//! External procedures get the names of other Fortran compilers: `_QPname` becomes `name_`. Procedures of modules keep flang's names.

use crate::mlir::Module;

/// flang's mark of an external procedure.
const MARK: &str = "_QP";

/// Renames external procedures and the references to them.
pub(crate) fn rename(module: &mut Module) {
    module.op.walk_mut(&mut |op| {
        let values = op.properties.0.iter_mut().chain(&mut op.attributes.0);
        for (key, value) in values.filter_map(|(key, value)| Some((key, value.as_mut()?))) {
            let renamed = if key == "sym_name" { symbol(value) } else { reference(value) };
            if let Some(renamed) = renamed {
                *value = renamed;
            }
        }
    });
}

/// Returns the new value for that of a definition, if it is an external procedure.
fn symbol(value: &str) -> Option<String> {
    let name = value.strip_prefix('"')?.strip_suffix('"')?.strip_prefix(MARK)?;
    is_external(name).then(|| format!("\"{name}_\""))
}

/// Returns the new value for a reference, if it is to an external procedure.
fn reference(value: &str) -> Option<String> {
    let name = value.strip_prefix('@')?.strip_prefix(MARK)?;
    is_external(name).then(|| format!("@{name}_"))
}

/// Whether nothing but a name follows flang's mark; names of nested entities have capital letters as marks.
fn is_external(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir;

    #[test]
    fn external_procedures_get_one_underscore() {
        let text = r#""builtin.module"() ({
"func.func"() <{function_type = () -> (), sym_name = "_QPmpi_init"}> ({
}) : () -> ()
"func.func"() <{function_type = () -> (), sym_name = "_QPouterPinner"}> ({
"fir.call"() <{callee = @_QPmpi_init}> : () -> ()
"fir.call"() <{callee = @_QMmPinner}> : () -> ()
%0 = "fir.address_of"() <{symbol = @_QPmpi_init}> : () -> (() -> ())
}) : () -> ()
}) : () -> ()
"#;
        let mut module = mlir::module(text).unwrap();
        rename(&mut module);
        let text = module.to_string();
        assert!(text.contains("sym_name = \"mpi_init_\"") && text.contains("sym_name = \"_QPouterPinner\""), "{text}");
        assert!(text.contains("callee = @mpi_init_") && text.contains("symbol = @mpi_init_"), "{text}");
        assert!(text.contains("callee = @_QMmPinner"), "{text}");
    }
}
