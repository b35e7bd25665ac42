//! Mathematical functions of device code for GPUs, which PTX has no instructions for: LLVM's intrinsics and flang's calls become
//! calls of a library.

use std::collections::BTreeSet;

/// The library of mathematical functions that device code for GPUs calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// NVIDIA's libdevice, linked as LLVM's bitcode.
    Libdevice,
    /// libm of GCC's offload compiler, linked as PTX.
    Libm,
}

/// LLVM's intrinsics without an instruction, named as in libm.
const INTRINSICS: &[&str] = &[
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "exp2", "log", "log2",
    "log10", "pow",
];

/// Functions of libm that flang calls by name, besides those of the intrinsics.
const FUNCTIONS: &[&str] = &[
    "asinh", "acosh", "atanh", "erf", "erfc", "expm1", "log1p", "cbrt", "fmod", "hypot", "tgamma", "lgamma", "j0",
    "j1", "jn", "y0", "y1", "yn",
];

/// Functions that are defined here in LLVM's language, with the names under which device code calls them: LLVM's intrinsics and
/// flang's runtime. The definitions serve all kinds of numbers: see [`Library::definition`].
const DEFINED: &[(&str, &str, &str)] = &[
    ("llvm.lround.i32.f32", "accord.lround.i32.f32", LROUND),
    ("llvm.lround.i32.f64", "accord.lround.i32.f64", LROUND),
    ("llvm.lround.i64.f32", "accord.lround.i64.f32", LROUND),
    ("llvm.lround.i64.f64", "accord.lround.i64.f64", LROUND),
    ("llvm.powi.f32.i32", "accord.powi.f32", include_str!("mathematics/powi.ll")),
    ("llvm.powi.f64.i32", "accord.powi.f64", include_str!("mathematics/powi.ll")),
    ("_FortranAModReal4", "accord.mod.f32", MOD),
    ("_FortranAModReal8", "accord.mod.f64", MOD),
    ("_FortranAModuloReal4", "accord.modulo.f32", include_str!("mathematics/modulo.ll")),
    ("_FortranAModuloReal8", "accord.modulo.f64", include_str!("mathematics/modulo.ll")),
];

const LROUND: &str = "define internal INT @NAME(REAL %x) alwaysinline {
  %r = call REAL @llvm.round.KIND(REAL %x)
  %i = fptosi REAL %r to INT
  ret INT %i
}
declare REAL @llvm.round.KIND(REAL)";

const MOD: &str = "define internal REAL @NAME(REAL %a, REAL %p, ptr %file, i32 %line) alwaysinline {
  %r = call REAL @FMOD(REAL %a, REAL %p)
  ret REAL %r
}
declare REAL @FMOD(REAL, REAL)";

/// Whether device code for GPUs may call a function of this name, which no CUDA Fortran source defines.
#[must_use]
pub(crate) fn is_known(name: &str) -> bool {
    is_in_libm(name) || DEFINED.iter().any(|(known, _, _)| *known == name)
}

/// Whether libm has a function of this name.
pub(crate) fn is_in_libm(name: &str) -> bool {
    let in_list = |name: &str| FUNCTIONS.contains(&name) || INTRINSICS.contains(&name);
    in_list(name) || name.strip_suffix('f').is_some_and(in_list)
}

impl Library {
    /// Returns the name of one of libm's functions in the library.
    fn name(self, function: &str) -> String {
        match self {
            Self::Libdevice => format!("__nv_{function}"),
            Self::Libm => function.to_owned(),
        }
    }

    /// Whether rewritten text calls the library, which then has to be linked. Only libdevice's functions have names of their own.
    #[must_use]
    pub fn is_called(self, ir: &str) -> bool {
        self == Self::Libdevice && ir.contains("@__nv_")
    }

    /// Replaces the calls of mathematical functions in LLVM's representation of a module.
    #[must_use]
    pub(crate) fn rewrite(self, ir: &str) -> String {
        let mut used = BTreeSet::new();
        let mut declared = BTreeSet::new();
        let mut text = String::with_capacity(ir.len());
        for line in ir.lines() {
            let new = self.line(line, &mut used);
            if new.starts_with("declare ") {
                let symbol = symbol(&new).to_owned();
                // Two names may become one, and definitions follow below.
                if symbol.starts_with("accord.") || !declared.insert(symbol) {
                    continue;
                }
            }
            text.push_str(&new);
            text.push('\n');
        }
        for at in used {
            for line in self.definition(at).lines() {
                if !line.starts_with("declare ") || declared.insert(symbol(line).to_owned()) {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        text
    }

    /// Returns the definition of a function, with the kinds that its name ends with: `NAME` stands for the name, `REAL` and `KIND` for the type of reals,
    /// `INT` for that of integers, `FMOD` for the library's function.
    fn definition(self, at: usize) -> String {
        let (_, name, text) = DEFINED[at];
        let (real, kind, fmod) =
            if name.ends_with("f32") { ("float", "f32", "fmodf") } else { ("double", "f64", "fmod") };
        let integer = if name.contains(".i32.") { "i32" } else { "i64" };
        let text = text.replace("NAME", name).replace("REAL", real).replace("KIND", kind).replace("INT", integer);
        text.replace("FMOD", &self.name(fmod))
    }

    /// Renames the functions in a line, and notes which ones have to be defined.
    fn line(self, line: &str, used: &mut BTreeSet<usize>) -> String {
        if !(line.starts_with("declare ") || line.contains("call ")) {
            return line.to_owned();
        }
        let mut text = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('@') {
            let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || "._$".contains(c))).unwrap_or(after.len());
            let name = &after[..end];
            text.push_str(before);
            text.push('@');
            let intrinsic = name.strip_prefix("llvm.").and_then(|name| name.rsplit_once('.'));
            if let Some(at) = DEFINED.iter().position(|(known, _, _)| *known == name) {
                used.insert(at);
                text.push_str(DEFINED[at].1);
            } else if let Some((function, kind @ ("f32" | "f64"))) =
                intrinsic.filter(|(one, _)| INTRINSICS.contains(one))
            {
                text.push_str(&self.name(&format!("{function}{}", if kind == "f32" { "f" } else { "" })));
            } else if is_in_libm(name) {
                text.push_str(&self.name(name));
            } else {
                text.push_str(name);
            }
            rest = &after[end..];
        }
        text + rest
    }
}

/// Returns the symbol that a declaration declares.
fn symbol(declaration: &str) -> &str {
    declaration.split_once('@').and_then(|(_, rest)| rest.split('(').next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IR: &str = "define void @k() {
  %1 = call contract float @llvm.sin.f32(float %0)
  %2 = call double @llvm.pow.f64(double %a, double %b) #2
  %3 = call double @llvm.fma.f64(double %a)
  %4 = call double @tan(double %a)
  %5 = call double @_FortranAModReal8(double %a, double %b, ptr @file, i32 8)
  %6 = call float @llvm.powi.f32.i32(float %0, i32 %n)
  %7 = call float @_QMmPsin(float %0)
}
declare float @llvm.sin.f32(float) #2
declare double @llvm.pow.f64(double, double)
declare double @tan(double)
declare double @fmod(double, double)
declare double @_FortranAModReal8(double, double, ptr, i32)
declare float @llvm.powi.f32.i32(float, i32)
";

    #[test]
    fn functions_get_the_librarys_names() {
        let new = Library::Libdevice.rewrite(IR);
        for part in [
            "call contract float @__nv_sinf(float %0)",
            "call double @__nv_pow(double %a, double %b) #2",
            "@llvm.fma.f64(double %a)",
            "call double @__nv_tan(double %a)",
            "@_QMmPsin(float %0)",
            "declare float @__nv_sinf(float) #2",
        ] {
            assert!(new.contains(part), "{part}: {new}");
        }
        assert!(!new.contains("@llvm.sin") && !new.contains("@_FortranA") && !new.contains("@llvm.powi"), "{new}");
        let plain = Library::Libm.rewrite(IR);
        assert!(plain.contains("call contract float @sinf(float %0)") && plain.contains("@pow(double %a"), "{plain}");
    }

    #[test]
    fn missing_functions_are_defined_once_and_declared_once() {
        for library in [Library::Libdevice, Library::Libm] {
            let new = library.rewrite(IR);
            assert_eq!(new.matches("define internal double @accord.mod.f64(").count(), 1, "{new}");
            assert_eq!(new.matches("define internal float @accord.powi.f32(").count(), 1, "{new}");
            assert!(["NAME", "REAL", "KIND", "INT ", "FMOD"].iter().all(|word| !new.contains(word)), "{new}");
            let fmod = format!("declare double @{}(", library.name("fmod"));
            assert_eq!(new.matches(&fmod).count(), 1, "{new}");
            assert!(!new.contains("declare float @accord."), "{new}");
        }
    }

    #[test]
    fn roundings_have_the_kinds_of_their_names() {
        let ir = "  %1 = call i64 @llvm.lround.i64.f32(float %0)\ndeclare i64 @llvm.lround.i64.f32(float)\n";
        let new = Library::Libm.rewrite(ir);
        assert!(new.contains("call i64 @accord.lround.i64.f32(float %0)"), "{new}");
        assert!(new.contains("define internal i64 @accord.lround.i64.f32(float %x)"), "{new}");
        assert!(new.contains("call float @llvm.round.f32(float %x)"), "{new}");
    }

    #[test]
    fn known_functions_are_libms_and_those_defined_here() {
        assert!(is_known("sinf") && is_known("hypot") && is_known("_FortranAModuloReal4"));
        assert!(!is_known("f") && !is_known("_FortranAioOutputInteger32") && !is_known("sqrtff"));
    }
}
