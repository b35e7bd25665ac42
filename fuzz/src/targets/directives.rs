//! Directives in source texts, as `accord cc` and `accord lint` parse them.

use super::first;
use crate::{Memory, Target};

/// The command line is a program without a library, so this includes its module.
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the command line uses all of it")]
#[path = "../../../cli/src/directives/mod.rs"]
mod code;

use code::{Language, Outside, declared_in_module, exported, findings, includes, names, rewrite, uses};

/// Sources in C, C++ and Fortran.
pub(super) const DIRECTIVES: Target = Target {
    name: "directives",
    run: directives,
    seeds,
    words: &[
        "#pragma acc ",
        "_Pragma(\"acc ",
        "!$acc ",
        "c$acc ",
        "!$acc&",
        "set device_num(1)",
        "init",
        "shutdown device_type(nvidia)",
        "wait(devnum: 1: 2, 3) async(4)",
        "copy(a[0:n])",
        "declare create(x)",
        "update self(x)",
        "update device(a[0:1], a[2:3])",
        "allocate(x(4))\n",
        "deallocate(x)\n",
        "use m, only: y => x\n",
        "((VARIABLE UNKNOWN-INTENT OACC_DECLARE_CREATE",
        "num_gangs(1 << 17)",
        "subroutine s(x)\n",
        "type(cell), pointer :: x(:)\n",
        "call acc_copyin(x)\n",
        "reduction(+: x%y)",
        "!$omp parallel\n",
        "\\\n",
        "&\n",
        "/*",
        "*/",
        "//",
        "\"",
        "R\"(",
        ")",
        "'",
        "\n",
        "\r\n",
        "# 7 \"other.c\"\n",
    ],
    input_max: 4 << 10,
    memory: Memory { fixed: 64 << 10, per_byte: 512 },
    inputs: 3_000,
};

fn directives(mut bytes: &[u8]) {
    let language =
        [Language::C, Language::Cxx, Language::FreeFortran, Language::FixedFortran][usize::from(first(&mut bytes) % 4)];
    let text = String::from_utf8_lossy(bytes);
    // Declarations of other files are read from sources and from gfortran's module files.
    let mut outside = Outside::default();
    for (name, traits) in exported(&text, language).into_values().flatten().chain(declared_in_module(&text)) {
        outside.add(name, traits);
    }
    names(&text, language).into_iter().for_each(|name| outside.add(name, code::Traits::default()));
    let _ = (uses(&text), includes(&text, language));
    for gcc in [12, 15] {
        let (lines, markers) = (text.matches('\n').count() + 1, text.contains('#'));
        for finding in findings(&text, language, gcc, &outside) {
            assert!(markers || finding.line as usize <= lines, "line {} of {lines}", finding.line);
        }
    }
    if let Some(new) = rewrite(&text, language, "source.i", &outside) {
        assert!(new.edits > 0);
        // Rewritten source needs no further rewriting.
        assert!(rewrite(&new.text, language, "source.i", &outside).is_none(), "again: {}", new.text);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let c = "int main(void)\n{\n#pragma acc set device_num(1) device_type(nvidia)\n    _Pragma(\"acc init\")\n\
             #pragma acc parallel loop copy(a[0:n]) \\\n    async(1)\n    for (;;) ; /* no */\n\
             #pragma acc wait(devnum: 1: 2) async\n#pragma acc update self(x) if(n > 1)\n}\n";
    let free = "program p\n!$acc init\n  !$acc parallel loop copy(a) & ! no\n  !$acc& async(1)\n  x = 'it''s'\n\
                !$acc wait(devnum: 1: 2) async\n!$acc end parallel\nend program\n";
    let fixed =
        "      program p\nc$acc set device_num(1)\n!$acc parallel loop\n!$acc+copy(a)\n*$acc wait(1)\n      end\n";
    vec![
        [&[0], c.as_bytes()].concat(),
        [&[1], c.as_bytes()].concat(),
        [&[2], free.as_bytes()].concat(),
        [&[3], fixed.as_bytes()].concat(),
    ]
}
