//! Atomic updates in global memory whose result is unused.
//!
//! GCC writes `atom.add.u32 _,[%r81],1;` for a generic address. For it the driver's compiler uses an instruction that returns the result to the thread,
//! needed or not. For global memory, which nearly all such addresses name, it uses one that does not. The memory is then one and a half times as fast
//! (`histogram` in `benches/programs/gpu_kernels.c`). So the rewritten code tests the address, and uses a global update for it.

use super::ptx::{Instruction, Line, is_register};
use std::ops::Range;

/// Returns new text of lines of a kernel.
pub(super) fn global_updates(lines: &[&str], body: Range<usize>) -> Vec<(usize, String)> {
    body.filter_map(|at| Some((at, in_global(Line::read(lines[at]).instruction()?)?))).collect()
}

fn in_global(instruction: &Instruction<'_>) -> Option<String> {
    const OPERATIONS: [&str; 8] = ["add", "and", "or", "xor", "min", "max", "inc", "dec"];
    const TYPES: [&str; 7] = ["u32", "s32", "b32", "u64", "s64", "b64", "f32"];
    let what = instruction.name.strip_prefix("atom.")?;
    let (operation, kind) = what.split_once('.')?;
    let known = OPERATIONS.contains(&operation) && (TYPES.contains(&kind) || kind == "f64");
    let &["_", address, value] = &instruction.operands[..] else { return None };
    let inside = address.strip_prefix('[')?.strip_suffix(']')?;
    let (base, offset) = inside.split_once('+').unwrap_or((inside, "0"));
    offset.parse::<i64>().ok()?;
    (known && instruction.guard.is_none() && is_register(base)).then(|| {
        format!(
            "{{\n.reg .pred %accord_global;\n.reg .u64 %accord_at;\n\
             add.u64 %accord_at,{base},{offset};\n\
             isspacep.global %accord_global,%accord_at;\n\
             @!%accord_global red.{what} [%accord_at],{value};\n\
             @%accord_global cvta.to.global.u64 %accord_at,%accord_at;\n\
             @%accord_global red.global.{what} [%accord_at],{value};\n}}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(line: &str) -> Option<String> {
        let mut changes = global_updates(&["{", line, "}"], 0..3);
        assert!(changes.iter().all(|(at, _)| *at == 1));
        changes.pop().map(|(_, text)| text)
    }

    #[test]
    fn an_unused_result_is_not_fetched() {
        let text = changed("\tatom.add.u32\t_,[%r81],1;").expect("an update");
        assert!(text.contains("@%accord_global red.global.add.u32 [%accord_at],1;"), "{text}");
        assert!(text.contains("@!%accord_global red.add.u32 [%accord_at],1;"), "{text}");
        let text = changed("atom.min.s64 _,[%r81+-8],%r7;").expect("an update");
        assert!(text.contains("add.u64 %accord_at,%r81,-8;") && text.contains("red.global.min.s64 [%accord_at],%r7;"));
    }

    #[test]
    fn everything_else_stays() {
        for line in [
            "atom.add.u32 %r5,[%r81],1;",
            "@ %r3 atom.add.u32 _,[%r81],1;",
            "atom.shared.add.u32 _,[%r81],1;",
            "atom.global.add.u32 _,[%r81],1;",
            "atom.exch.b32 _,[%r81],0;",
            "atom.cas.b32 _,[%r81],0,1;",
            "atom.add.noftz.f16 _,[%r81],%r2;",
            "atom.add.u32 _,[table],1;",
            "atom.add.u32 _,[%frame+8],1;",
            "st.u32 [%r81],%r2;",
        ] {
            assert_eq!(changed(line), None, "{line}");
        }
    }
}
