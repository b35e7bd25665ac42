//! Rewrites LLVM's intermediate representation of device code, between `tco` and `opt`, and the resulting PTX.

use crate::mathematics::{Library, is_in_libm};

/// Makes the kernels PTX entries, and lets mathematical functions call `library`.
#[must_use]
pub fn entries(ir: &str, kernels: &[String], library: Library) -> String {
    let mut text = String::with_capacity(ir.len());
    for line in ir.lines() {
        let definition = line.strip_prefix("define void @").filter(|rest| {
            let name = rest.split('(').next().unwrap_or_default();
            kernels.iter().any(|kernel| kernel == name.trim_matches('"'))
        });
        match definition {
            Some(rest) => {
                text.push_str("define ptx_kernel void @");
                text.push_str(rest);
            }
            None => text.push_str(line),
        }
        text.push('\n');
    }
    library.rewrite(&text)
}

/// Returns libm's functions that PTX declares and does not define.
#[must_use]
pub fn libm_functions(ptx: &str) -> Vec<String> {
    ptx.lines().filter_map(declared).filter(|name| is_in_libm(name)).map(str::to_owned).collect()
}

/// Returns the name of a function whose declaration begins in this line.
fn declared(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(".extern .func ")?;
    // The result precedes the name.
    let name = rest.rsplit_once(')').map_or(rest, |(_, name)| name);
    Some(name.trim().trim_end_matches([';', '(']))
}

/// Gives the declarations of libm's functions the types of GCC's definitions: LLVM writes `.b32` for `.f32`.
#[must_use]
pub fn with_libm_types(ptx: &str, functions: &[String]) -> String {
    let mut text = String::with_capacity(ptx.len());
    let mut inside = None;
    for line in ptx.lines() {
        if let Some(name) = declared(line) {
            inside = functions.iter().find(|known| **known == name);
        }
        // Bessel functions of any order have an integer before the real number.
        let is_order =
            line.contains("_param_0") && inside.is_some_and(|name| ["jn", "jnf", "yn", "ynf"].contains(&&**name));
        match inside {
            Some(_) if is_order => text.push_str(&line.replace(".b32", ".u32")),
            Some(_) => text.push_str(&line.replace(".b32", ".f32").replace(".b64", ".f64")),
            None => text.push_str(line),
        }
        text.push('\n');
        if line.starts_with(';') {
            inside = None;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_become_entries() {
        let ir = "define void @k(ptr %0) {\n  %1 = call float @llvm.sin.f32(float %2)\n}\ndefine void @kk() {\n";
        let new = entries(ir, &["k".to_owned()], Library::Libm);
        assert!(new.starts_with("define ptx_kernel void @k(ptr %0) {\n  %1 = call float @sinf(float %2)\n"), "{new}");
        assert!(new.contains("define void @kk()"), "{new}");
    }

    #[test]
    fn declarations_of_libm_get_its_types() {
        let ptx = ".extern .func  (.param .b32 func_retval0) sinf\n(\n\t.param .b32 sinf_param_0\n)\n;\n\
                   .extern .func  (.param .b32 func_retval0) _QMaPsinf\n(\n\t.param .b32 x\n)\n;\n\
                   .extern .func  (.param .b64 func_retval0) jn\n(\n\t.param .b32 jn_param_0,\n\t.param .b64 jn_param_1\n)\n;\n\
                   .param .b32 param0;\n";
        let functions = libm_functions(ptx);
        assert_eq!(functions, ["sinf", "jn"]);
        let new = with_libm_types(ptx, &functions);
        assert!(new.contains("(.param .f32 func_retval0) sinf\n(\n\t.param .f32 sinf_param_0\n"), "{new}");
        assert!(new.contains("\t.param .u32 jn_param_0,\n\t.param .f64 jn_param_1\n"), "{new}");
        assert!(new.contains("\t.param .b32 x\n") && new.ends_with(".param .b32 param0;\n"), "{new}");
    }
}
