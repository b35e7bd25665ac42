//! Tests rewritten updates of shared results, with PTX of the real compiler and by simulating threads.

use super::reduce::{Updates, rewrite_updates};
use super::tests::compile;
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const REDUCTIONS: &str = include_str!("fixtures/reductions.ptx");

/// Returns old and new text of the changed lines in the kernel with this number of the fixture's source.
fn changes(number: usize) -> Vec<(&'static str, String)> {
    let start = format!("\n.entry main$_omp_fn${number} (.param .u64 %in_ar0)\n");
    let body = REDUCTIONS.split(&start).nth(1).expect("a kernel").split("\n.entry ").next().expect("its body");
    let lines: Vec<&str> = body.lines().collect();
    let (_, changes) = rewrite_updates(&lines, 0..lines.len());
    changes.into_iter().map(|(line, text)| (lines[line], text)).collect()
}

#[test]
fn a_sum_is_one_operation_for_each_gang() {
    let [(old, new)] = &changes(0)[..] else { panic!("{:?}", changes(0)) };
    assert_eq!(*old, "atom.cas.b64 %r76,[%r40],%r75,%r77;");
    assert_eq!(new, "red.add.f64 [%r40],%r74;\nmov.b64 %r76,%r75;");
}

#[test]
fn emulated_atomic_writes_only_changed_values() {
    let [(old, new)] = &changes(1)[..] else { panic!("{:?}", changes(1)) };
    assert_eq!(*old, "atom.cas.b64 %r75,[%r42],%r74,%r76;");
    // The number is infinity, the compiler's guess.
    assert_eq!(
        new,
        "{\n.reg .pred %accord_same;\n\
         setp.eq.b64 %accord_same,%r74,%r76;\n\
         setp.ne.and.b64 %accord_same,%r74,9218868437227405312,%accord_same;\n\
         @%accord_same mov.b64 %r75,%r74;\n\
         @!%accord_same atom.cas.b64 %r75,[%r42],%r74,%r76;\n}"
    );
}

#[test]
fn workers_reduce_in_shared_memory_and_gangs_in_global() {
    let new: Vec<String> = changes(2).into_iter().map(|(_, new)| new).collect();
    assert_eq!(
        new,
        ["red.shared.max.s32 [__worker_red],%r72;\nmov.b32 %r75,%r74;", "red.max.s32 [%r37],%r36;\nmov.b32 %r80,%r23;"]
    );
}

#[test]
fn locks_stay_and_atomic_updates_of_doubles_are_one_operation() {
    assert_eq!(changes(3), []);
    assert_eq!(changes(4).len(), 1);
    assert!(changes(4)[0].1.starts_with("red.add.f64 "));
}

#[test]
fn nothing_else_of_an_object_changes() {
    let rewritten = rewrite(REDUCTIONS, 90);
    let counts: Vec<(u32, u32)> =
        rewritten.kernels.iter().map(|kernel| (kernel.updates.hardware, kernel.updates.loops)).collect();
    assert_eq!(counts, [(1, 0), (0, 1), (2, 0), (0, 1), (1, 0)]);
    let mut back = rewritten.text.replace("7.7\n.target sm_70", "6.0\n.target sm_30");
    for (old, new) in (0..5).flat_map(changes) {
        assert!(back.contains(&new));
        back = back.replacen(&new, old, 1);
    }
    // Other changes are the slots, the numbers of gangs, and loops that only load, whose text names what it adds. A loop's branch back
    // has another target, and its test occurs twice.
    let other = |line: &&str| {
        let slots = line.contains("ar0") || line.contains("accord_") || line.starts_with("ld.u64 ");
        !slots && !line.contains("ctaid.x") && !matches!(*line, "{" | "}")
    };
    let body = |text: &str| text.lines().filter(other).count();
    assert_eq!(body(&back), body(REDUCTIONS));
    let old = rewrite(REDUCTIONS, 60);
    assert_eq!(old.text, REDUCTIONS);
    let counts: Vec<Updates> = old.kernels.iter().map(|kernel| kernel.updates).collect();
    assert_eq!(counts.iter().map(|count| count.loops).collect::<Vec<_>>(), [1, 1, 2, 1, 1]);
    assert!(counts.iter().all(|count| count.hardware == 0));
}

#[test]
fn reductions_are_rewritten_where_the_block_keeps_the_ordinary_way() {
    let text = changed(REDUCTIONS, "mov.u64 %r83,%ar0;", "mov.u64 %r83,%ar0;\nst.u64 [%frame+8],%r83;");
    let rewritten = rewrite(&text, 90);
    let first = &rewritten.kernels[0];
    assert_eq!(first.block, BlockPath::Memory(Refusal::OnStack));
    assert_eq!(first.updates, Updates { hardware: 1, loops: 0 });
    assert!(rewritten.text.contains("red.add.f64 [%r40],%r74;"));
}

#[test]
fn todays_compiler_still_writes_loops_that_are_known() {
    let Some(text) = compile("reductions.c", "-O2") else { return };
    let kernels = rewrite(&text, 90).kernels;
    assert_eq!(kernels.len(), 5);
    // A sum of doubles, a maximum of integers over workers and gangs, an atomic update.
    for (number, least) in [(0, 1), (2, 2), (4, 1)] {
        let kernel = kernels.iter().find(|kernel| kernel.name == format!("main$_omp_fn${number}")).expect("a kernel");
        assert!(kernel.updates.hardware >= least, "{kernel:?}");
    }
}

/// A loop as in the fixture: %r1 expected, %r2 found, %r5 new, %r8 address, %r9 value.
const SUM: &str = "mov.u64 %r1,0;
bra $L2;
$L1:
mov.u64 %r1,%r2;
$L2:
mov.b64 %r3,%r1;
add.f64 %r4,%r9,%r3;
mov.b64 %r5,%r4;
atom.cas.b64 %r2,[%r8],%r1,%r5;
setp.ne.u64 %r6,%r1,%r2;
@ %r6 bra $L1;
ret;
";

/// The loop with one register for the expected and the found value, which is saved before.
const SAVED: &str = "mov.u64 %r1,0;
$L1:
mov.u64 %r7,%r1;
mov.b64 %r3,%r1;
add.f64 %r4,%r9,%r3;
mov.b64 %r5,%r4;
atom.cas.b64 %r1,[%r8],%r1,%r5;
setp.ne.u64 %r6,%r7,%r1;
@ %r6 bra $L1;
ret;
";

/// Returns the swap's replacement: `red` or similar, "unless same", or "nothing".
fn outcome(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match &rewrite_updates(&lines, 0..lines.len()).1[..] {
        [] => "nothing".to_owned(),
        [(_, text)] if text.contains("%accord_same") => "unless same".to_owned(),
        [(_, text)] => text.lines().next().unwrap_or_default().to_owned(),
        more => format!("{more:?}"),
    }
}

fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no {from}");
    text.replacen(from, to, 1)
}

#[test]
fn only_operations_of_the_hardware_become_one() {
    for text in [SUM, SAVED] {
        assert_eq!(outcome(text), "red.add.f64 [%r8],%r9;");
        for (operation, red) in [
            ("add.f64 %r4,%r3,%r9;", "red.add.f64 [%r8],%r9;"),
            ("add.f64 %r4,%r3,0d3ff0000000000000;", "red.add.f64 [%r8],0d3ff0000000000000;"),
            ("max.f64 %r4,%r9,%r3;", "unless same"),
            ("min.f64 %r4,%r9,%r3;", "unless same"),
            ("mul.f64 %r4,%r9,%r3;", "unless same"),
            ("sub.f64 %r4,%r9,%r3;", "unless same"),
            ("add.f64 %r4,%r3,%r3;", "unless same"),
            ("add.f64 %r4,%r9,%r10;", "unless same"),
            ("add.f32 %r4,%r9,%r3;", "unless same"),
            ("div.rn.f64 %r4,%r9,%r3;", "nothing"),
            ("@ %r20 add.f64 %r4,%r9,%r3;", "nothing"),
        ] {
            assert_eq!(outcome(&changed(text, "add.f64 %r4,%r9,%r3;", operation)), red, "{operation}");
        }
        let bits = changed(text, "mov.b64 %r3,%r1;\n", "");
        let bits = changed(&bits, "add.f64 %r4,%r9,%r3;\nmov.b64 %r5,%r4;", "OPERATION %r5,%r1,%r9;");
        for (width, names) in [
            ("64", ["add.u64", "min.s64", "max.s64", "min.u64", "max.u64", "and.b64", "or.b64", "xor.b64"]),
            ("32", ["add.u32", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32", "xor.b32"]),
        ] {
            let bits = bits.replace("u64", &format!("u{width}")).replace("b64", &format!("b{width}"));
            for name in names {
                assert_eq!(outcome(&bits.replace("OPERATION", name)), format!("red.{name} [%r8],%r9;"));
            }
            let signed = format!("add.s{width}");
            assert_eq!(outcome(&bits.replace("OPERATION", &signed)), format!("red.add.u{width} [%r8],%r9;"));
            for other in [&format!("mul.lo.u{width}"), "add.u16", "sub.u64"] {
                assert_eq!(outcome(&bits.replace("OPERATION", other)), "unless same", "{other}");
            }
        }
        // Logical operations of Fortran test one bit of the value.
        let logical = bits.replace("OPERATION %r5,%r1,%r9;", "and.b64 %r4,%r1,1;\nor.b64 %r5,%r4,%r9;");
        assert_eq!(outcome(&logical), "unless same");
    }
}

#[test]
fn other_shapes_are_left_alone() {
    let swap = "atom.cas.b64 %r2,[%r8],%r1,%r5;";
    let product = SUM.replace("add.f64", "mul.f64");
    for (from, to, sum, other) in [
        // Other code uses the computed, found or expected value, or a copy.
        ("ret;", "st.u64 [%r10],%r5;\nret;", "unless same", "unless same"),
        ("ret;", "st.f64 [%r10],%r4;\nret;", "unless same", "unless same"),
        ("ret;", "st.f64 [%r10],%r3;\nret;", "unless same", "unless same"),
        ("ret;", "st.u64 [%r10],%r2;\nret;", "nothing", "nothing"),
        ("ret;", "st.u64 [%r10],%r1;\nret;", "nothing", "nothing"),
        ("ret;", "call f,(%r1);\nret;", "nothing", "nothing"),
        ("mov.u64 %r1,0;", "mov.u64 %r2,5;\nmov.u64 %r1,%r2;", "nothing", "nothing"),
        // The loop has other instructions.
        (swap, "call f;\natom.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "st.u64 [%r8],%r9;\natom.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "membar.gl;\natom.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "add.f64 %r9,%r9,%r9;\natom.cas.b64 %r2,[%r8],%r1,%r5;", "unless same", "unless same"),
        (swap, "add.u32 %r20,%r20,1;\natom.cas.b64 %r2,[%r8],%r1,%r5;", "unless same", "unless same"),
        (swap, "add.u64 %r8,%r8,8;\natom.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "mov.u64 %r1,0;\natom.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "{ mov.u64 %r20,0; }\natom.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "$L3:\natom.cas.b64 %r2,[%r8],%r1,%r5;", "unless same", "unless same"),
        (swap, "@ %r20 bra $L9;\natom.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "@ %r20 bra $L3;\n$L3:\natom.cas.b64 %r2,[%r8],%r1,%r5;", "unless same", "unless same"),
        (swap, "@ ! %r6 bra $L3;\n$L3:\natom.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        // Another form of swap.
        (swap, "@ %r20 atom.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "atom.sys.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "atom.acquire.cas.b64 %r2,[%r8],%r1,%r5;", "nothing", "nothing"),
        (swap, "atom.cas.b32 %r2,[%r8],%r1,%r5;", "unless same", "unless same"),
        (swap, "atom.cas.b64 %r2,[%r8],%r1,%r9;", "unless same", "unless same"),
        (swap, "atom.cas.b64 %r2,[%r8],%r20,%r5;", "nothing", "nothing"),
        (swap, "atom.cas.b64 %r2,[%r8],0,%r5;", "nothing", "nothing"),
        (swap, "atom.cas.b64 %r2,[%r2],%r1,%r5;", "nothing", "nothing"),
        (swap, "atom.cas.b64 %r2,[%frame],%r1,%r5;", "nothing", "nothing"),
        (swap, "atom.shared.cas.b64 %r2,[%r8],%r1,%r5;", "red.shared.add.f64 [%r8],%r9;", "nothing"),
        // Another test, or not immediately after the swap.
        ("setp.ne.u64 %r6,%r1,%r2;", "setp.ne.u64 %r6,%r1,%r5;", "unless same", "unless same"),
        ("setp.ne.u64 %r6,%r1,%r2;", "setp.eq.u64 %r6,%r1,%r2;", "unless same", "unless same"),
        ("setp.ne.u64 %r6,%r1,%r2;", "setp.ne.u32 %r6,%r1,%r2;", "unless same", "unless same"),
        ("setp.ne.u64 %r6,%r1,%r2;", "@ %r20 setp.ne.u64 %r6,%r1,%r2;", "nothing", "nothing"),
        // For a sum any guess is right: it does not affect the result.
        ("mov.u64 %r1,0;", "ld.u64 %r1,[%r8];", "red.add.f64 [%r8],%r9;", "nothing"),
        ("mov.u64 %r1,0;", "mov.u64 %r1,%r20;", "red.add.f64 [%r8],%r9;", "nothing"),
        ("mov.u64 %r1,0;", "mov.u64 %r1,0;\nmov.u64 %r1,1;", "red.add.f64 [%r8],%r9;", "nothing"),
        // An outer loop may change the address, with the value found at the previous one.
        ("ret;", "@ %r20 bra $L1;\nret;", "red.add.f64 [%r8],%r9;", "nothing"),
        ("ret;", "@ ! %r20 bra $L1;\nret;", "red.add.f64 [%r8],%r9;", "nothing"),
        ("ret;", "{ @%r20 bra $L1; }\nret;", "red.add.f64 [%r8],%r9;", "nothing"),
        ("ret;", "@ %r20 bra $L0;\nret;", "red.add.f64 [%r8],%r9;", "nothing"),
        ("ret;", "@ %r20 bra $L4;\n$L4:\nret;", "red.add.f64 [%r8],%r9;", "unless same"),
        // The loop continues for another reason.
        ("@ %r6 bra $L1;", "@ ! %r6 bra $L1;", "unless same", "unless same"),
        ("@ %r6 bra $L1;", "@ !%r6 bra $L1;", "unless same", "unless same"),
        ("@ %r6 bra $L1;", "@ %r20 bra $L1;", "unless same", "unless same"),
        ("@ %r6 bra $L1;", "bra $L1;", "unless same", "unless same"),
        ("@ %r6 bra $L1;", "setp.eq.u32 %r6,1,0;\n@ %r6 bra $L1;", "unless same", "unless same"),
        ("@ %r6 bra $L1;", "mov.pred %r6,%r20;\n@ %r6 bra $L1;", "unless same", "unless same"),
        ("@ %r6 bra $L1;", "mov.pred %r20,%r6;\n@ %r20 bra $L1;", "red.add.f64 [%r8],%r9;", "unless same"),
        (
            "@ %r6 bra $L1;",
            "selp.u32 %r20,1,0,%r6;\nst.shared.u32 [cell],%r20;\nbar.sync 0;\nld.shared.u32 %r21,[cell];\n\
          setp.ne.u32 %r6,%r21,0;\n@ %r6 bra $L1;",
            "red.add.f64 [%r8],%r9;",
            "unless same",
        ),
        (
            "@ %r6 bra $L1;",
            "selp.u32 %r20,1,0,%r6;\nst.shared.u32 [cell],%r20;\nbar.sync 0;\nld.shared.u32 %r21,[other];\n\
          setp.ne.u32 %r6,%r21,0;\n@ %r6 bra $L1;",
            "unless same",
            "unless same",
        ),
        ("@ %r6 bra $L1;", "@ %r20 bra $L3;\n$L3:\n@ %r6 bra $L1;", "unless same", "unless same"),
        // No loop.
        ("@ %r6 bra $L1;", "", "nothing", "nothing"),
    ] {
        assert_eq!(outcome(&changed(SUM, from, to)), sum, "a sum with {to}");
        assert_eq!(outcome(&changed(&product, from, to)), other, "a product with {to}");
    }
    // The copy for the test is used elsewhere, or copies another value.
    assert_eq!(outcome(&changed(SAVED, "ret;", "st.u64 [%r10],%r7;\nret;")), "unless same");
    assert_eq!(outcome(&changed(SAVED, "mov.u64 %r7,%r1;", "mov.u64 %r7,%r9;")), "unless same");
}

/// `max.f64` of PTX: -0.0 is less than 0.0, and the result is NaN only if both are.
fn max(a: u64, b: u64) -> u64 {
    let [x, y] = [a, b].map(f64::from_bits);
    match (x.is_nan(), y.is_nan()) {
        (true, true) => 0x7fff_ffff_ffff_ffff,
        (true, false) => b,
        (false, true) => a,
        _ if x.total_cmp(&y).is_gt() => a,
        _ => b,
    }
}

fn operate(name: &str, a: u64, b: u64) -> u64 {
    match name {
        "add.u64" => a.wrapping_add(b),
        "mul.lo.u64" => a.wrapping_mul(b),
        "and.b64" => a & b,
        "xor.b64" => a ^ b,
        "max.s64" => a.cast_signed().max(b.cast_signed()).cast_unsigned(),
        "max.f64" => max(a, b),
        _ => panic!("{name}"),
    }
}

/// One thread of a kernel, simulated one instruction at a time.
#[derive(Default)]
struct Thread {
    at: usize,
    registers: HashMap<String, u64>,
}

impl Thread {
    fn value(&self, operand: &str) -> u64 {
        operand.parse::<i64>().map_or_else(|_| self.registers.get(operand).copied().unwrap_or(0), i64::cast_unsigned)
    }

    /// Executes the next instruction. Returns `false` at the end.
    fn step(&mut self, lines: &[&str], memory: &mut u64) -> bool {
        let line = lines[self.at];
        self.at += 1;
        let text = line.trim_end_matches(';');
        let (guard, text) = match text.strip_prefix('@') {
            Some(text) => {
                let (guard, text) = text.trim_start().split_once(' ').unwrap();
                let (wanted, guard) = guard.strip_prefix('!').map_or((1, guard), |guard| (0, guard));
                (self.value(guard) == wanted, text)
            }
            None => (true, text),
        };
        if !guard || text.ends_with(':') || matches!(text, "{" | "}") || text.starts_with('.') {
            return true;
        }
        let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
        let operands: Vec<&str> = operands.split(',').collect();
        let values: Vec<u64> = operands.iter().map(|operand| self.value(operand)).collect();
        let result = match name {
            "ret" => return false,
            "bra" => {
                self.at = lines.iter().position(|line| line.trim_end_matches(':') == operands[0]).unwrap();
                return true;
            }
            "atom.cas.b64" => {
                let found = *memory;
                if found == values[2] {
                    *memory = values[3];
                }
                found
            }
            "setp.ne.u64" => (values[1] != values[2]).into(),
            "setp.eq.b64" => (values[1] == values[2]).into(),
            "setp.ne.and.b64" => u64::from(values[1] != values[2]) & values[3],
            _ if name.starts_with("mov.") => values[1],
            _ => match name.strip_prefix("red.") {
                Some(name) => {
                    *memory = operate(name, *memory, values[1]);
                    return true;
                }
                None => operate(name, values[1], values[2]),
            },
        };
        self.registers.insert(operands[0].to_owned(), result);
        true
    }
}

/// Generates values that are often equal, and special floating-point values.
fn value() -> impl Strategy<Value = u64> {
    let odd = [0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 5e-324].map(f64::to_bits);
    prop_oneof![prop::sample::select(odd.to_vec()), 0u64..4, (0u64..4).prop_map(u64::wrapping_neg), any::<u64>()]
}

proptest! {
    #[test]
    fn threads_get_the_same_in_any_order(
        name in prop::sample::select(&["add.u64", "mul.lo.u64", "and.b64", "xor.b64", "max.s64", "max.f64"][..]),
        saved: bool,
        guess in value(),
        start in value(),
        values in prop::collection::vec(value(), 1..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..200),
    ) {
        let text = if saved { SAVED } else { SUM };
        let text = text.replace("add.f64", name).replace("mov.u64 %r1,0;", &format!("mov.u64 %r1,{};", guess.cast_signed()));
        let lines: Vec<&str> = text.lines().collect();
        let (_, changes) = rewrite_updates(&lines, 0..lines.len());
        prop_assert_eq!(changes.len(), 1);
        let text = text.replace(lines[changes[0].0], &changes[0].1);
        let lines: Vec<&str> = text.lines().collect();
        let mut memory = start;
        let mut running: Vec<Thread> = values
            .iter()
            .map(|value| Thread { at: 0, registers: HashMap::from([("%r9".to_owned(), *value)]) })
            .collect();
        for index in order {
            if running.is_empty() {
                break;
            }
            let at = index.index(running.len());
            if !running[at].step(&lines, &mut memory) {
                running.swap_remove(at);
            }
        }
        for mut thread in running {
            let mut steps = 0;
            while thread.step(&lines, &mut memory) {
                steps += 1;
                prop_assert!(steps < 100, "it does not end: {text}");
            }
        }
        let want = values.iter().fold(start, |sum, value| operate(name, sum, *value));
        prop_assert_eq!(memory, want, "{}", text);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_loops_are_no_reason_to_panic(
        lines in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        add in "[{};%.a-z0-9 \\[\\]\\n,@/$:]{0,20}",
    ) {
        let mut damaged: Vec<&str> = REDUCTIONS.lines().collect();
        for index in lines {
            let at = index.index(damaged.len());
            damaged.insert(at, &add);
            damaged.swap_remove(index.index(damaged.len()));
        }
        rewrite(&damaged.join("\n"), 90);
    }
}
