//! Rewrites LLVM's intermediate representation of device code, between `tco` and `opt`.

/// Functions without an instruction in the PTX back end, which get libm's names.
const MATHEMATICAL: &[&str] = &[
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "exp2", "log", "log2",
    "log10", "pow",
];

/// Makes the kernels PTX entries, and gives mathematical functions libm's names.
#[must_use]
pub fn entries(ir: &str, kernels: &[String]) -> String {
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
            None => text.push_str(&mathematical(line)),
        }
        text.push('\n');
    }
    text
}

fn mathematical(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("@llvm.") {
        text.push_str(before);
        let name = after.split('(').next().unwrap_or_default();
        match name.rsplit_once('.') {
            Some((function, kind @ ("f32" | "f64"))) if MATHEMATICAL.contains(&function) => {
                text.push('@');
                text.push_str(function);
                text.push_str(if kind == "f32" { "f" } else { "" });
            }
            _ => {
                text.push_str("@llvm.");
                text.push_str(name);
            }
        }
        rest = &after[name.len()..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_become_entries_and_functions_go_by_libms_names() {
        let ir = "define void @k(ptr %0) {\n  %1 = call float @llvm.sin.f32(float %2)\n  %3 = call double @llvm.fma.f64(double %4)\n}\ndefine void @kk() {\n";
        let new = entries(ir, &["k".to_owned()]);
        assert!(new.starts_with("define ptx_kernel void @k(ptr %0) {\n  %1 = call float @sinf(float %2)\n"), "{new}");
        assert!(new.contains("@llvm.fma.f64(double %4)") && new.contains("define void @kk()"), "{new}");
    }
}
