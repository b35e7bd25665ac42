//! Tests loops that do several rounds at a time by simulating a thread.

use super::ptx::{Line, is_register};
use super::tests::{compile_with, functions};
use super::unroll::unroll;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A thread's state at a loop's end.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Thread {
    registers: BTreeMap<String, u64>,
    /// Bytes that were stored.
    memory: BTreeMap<u64, u8>,
    loads: usize,
}

impl Thread {
    fn value(&self, operand: &str) -> u64 {
        let number = operand.parse::<i64>().map(i64::cast_unsigned);
        number.unwrap_or_else(|_| self.registers.get(operand).copied().unwrap_or(0))
    }

    fn place(&self, operand: &str) -> u64 {
        let inner = operand.trim_matches(['[', ']']);
        let (base, offset) = inner.split_once('+').unwrap_or((inner, "0"));
        self.value(base).wrapping_add(self.value(offset))
    }

    /// Runs a text with the instructions that the tests use.
    fn run(mut self, text: &str) -> Self {
        let lines: Vec<Line<'_>> = text.lines().map(Line::read).collect();
        let (mut at, mut steps) = (0, 0);
        while let Some(line) = lines.get(at) {
            at += 1;
            steps += 1;
            assert!(steps < 100_000, "it does not end:\n{text}");
            let Line::Instruction(instruction) = line else { continue };
            if instruction.guard.is_some_and(|guard| (self.value(guard) == 0) != instruction.unless) {
                continue;
            }
            if let Some(target) = instruction.target() {
                at = lines.iter().position(|line| *line == Line::Label(target)).expect("a label");
                continue;
            }
            let operands = &instruction.operands;
            let values: Vec<u64> = operands.iter().map(|operand| self.value(operand)).collect();
            let result = match instruction.name {
                "ret" => break,
                "st.u64" => {
                    let place = self.place(operands[0]);
                    self.memory
                        .extend((0..).zip(values[1].to_le_bytes()).map(|(at, byte)| (place.wrapping_add(at), byte)));
                    continue;
                }
                "ld.u64" => {
                    self.loads += 1;
                    let place = self.place(operands[1]);
                    // Bytes that were never stored differ by address.
                    let byte = |at: u64| self.memory.get(&at).copied().unwrap_or(at.wrapping_mul(7) as u8);
                    u64::from_le_bytes(std::array::from_fn(|at| byte(place.wrapping_add(at as u64))))
                }
                "mov.u64" | "mov.pred" => values[1],
                "add.u64" => values[1].wrapping_add(values[2]),
                "sub.u64" => values[1].wrapping_sub(values[2]),
                "xor.b64" => values[1] ^ values[2],
                "mul.lo.u64" => values[1].wrapping_mul(values[2]),
                "shl.b64" => values[1] << values[2],
                "setp.ne.u64" => (values[1] != values[2]).into(),
                "setp.lt.u64" => (values[1] < values[2]).into(),
                "setp.le.u64" => (values[1] <= values[2]).into(),
                "setp.ge.u64" => (values[1] >= values[2]).into(),
                name => panic!("{name}"),
            };
            self.registers.insert(operands[0].to_owned(), result);
        }
        self.registers.retain(|name, _| is_register(name));
        self
    }
}

/// Returns a loop with all registers that it names; %r9 is the test.
fn body(instructions: &[String]) -> String {
    let mut text: String = (1..60).filter(|number| *number != 9).map(|r| format!(".reg .u64 %r{r};\n")).collect();
    text += ".reg .pred %r9;\n$L3:\n";
    text.extend(instructions.iter().map(|instruction| format!("{instruction};\n")));
    text + "setp.ne.u64 %r9,%r8,%r1;\n@ %r9 bra $L3;\n$L4:\nret;\n"
}

fn unrolled(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let (count, changes) = unroll(&lines, 0..lines.len(), &BTreeMap::new());
    assert_eq!(changes.len(), 2 * count as usize);
    if count == 0 {
        return None;
    }
    let changes: BTreeMap<usize, String> = changes.into_iter().collect();
    let new = lines.iter().enumerate().map(|(at, line)| changes.get(&at).map_or(*line, |text| text));
    Some(new.collect::<Vec<_>>().join("\n"))
}

fn same(text: &str, thread: &Thread) -> bool {
    let Some(new) = unrolled(text) else { return false };
    assert_eq!(thread.clone().run(text), thread.clone().run(&new), "{text}\nbecame\n{new}");
    true
}

fn thread(values: &[(u32, u64)]) -> Thread {
    let registers = values.iter().map(|(number, value)| (format!("%r{number}"), *value)).collect();
    Thread { registers, ..Thread::default() }
}

fn lines(text: &str) -> Vec<String> {
    text.split(';').map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// The loop `a[i] = b[i] * r7`.
const SCALE: &str = "ld.u64 %r20,[%r1]; mul.lo.u64 %r21,%r20,%r7; st.u64 [%r2+16],%r21; add.u64 %r1,%r1,32; \
                     add.u64 %r2,%r2,32";

#[test]
fn a_loop_does_the_same_whatever_it_has_left_and_wherever_it_stores() {
    let text = body(&lines(SCALE));
    for rounds in 1..20 {
        for behind in (-200i64..200).step_by(3).chain([1 << 20, -(1 << 20), i64::MAX, i64::MIN]) {
            let from = 1u64 << 40;
            let to = from.wrapping_add_signed(behind);
            assert!(same(&text, &thread(&[(1, from), (2, to), (7, 3), (8, from + 32 * rounds)])));
        }
    }
}

#[test]
fn several_rounds_load_before_they_store() {
    let new = unrolled(&body(&lines(SCALE))).expect("a loop");
    let names: Vec<&str> = new
        .lines()
        .skip_while(|line| !line.starts_with("$accord_rounds"))
        .take_while(|line| !line.contains("bra $accord_rounds"))
        .filter_map(|line| ["ld.u64", "st.u64"].into_iter().find(|name| line.starts_with(name)))
        .collect();
    assert_eq!(names, [["ld.u64"; 4], ["st.u64"; 4]].concat(), "{new}");
    // With declarations in between, and line directives.
    let text = body(&lines(SCALE)).replace("$L3:\n", "$L3:\n.loc 1 5 3\n.reg .u64 %r70;\n// here\n");
    assert!(unrolled(&text).is_some());
}

#[test]
fn unrecognised_loops_are_not_unrolled() {
    for (from, to) in [
        ("add.u64 %r1,%r1,32", "add.u64 %r1,%r1,-32"),
        ("add.u64 %r1,%r1,32", "add.u64 %r1,%r1,%r7"),
        ("add.u64 %r1,%r1,32", "add.u64 %r1,%r1,32; add.u64 %r1,%r1,32"),
        ("add.u64 %r1,%r1,32", "add.u64 %r1,%r1,32; add.u64 %r8,%r8,1"),
        ("add.u64 %r1,%r1,32", "@ %r7 add.u64 %r1,%r1,32"),
        ("add.u64 %r2,%r2,32", "add.u64 %r2,%r2,64"),
        ("add.u64 %r2,%r2,32", "mul.lo.u64 %r2,%r2,3"),
        ("add.u64 %r2,%r2,32", "mov.u64 %r2,%r20"),
        ("add.u64 %r2,%r2,32", "add.cc.u64 %r2,%r2,32"),
        ("ld.u64", "ld.volatile.u64"),
        ("ld.u64", "ld.acquire.gpu.u64"),
        ("ld.u64", "ld.shared.u64"),
        ("ld.u64 %r20,[%r1]", "ld.v2.u64 {%r20,%r21},[%r1]"),
        ("ld.u64 %r20,[%r1]", "ld.u64 %r20,[table+8]"),
        ("ld.u64 %r20,[%r1]", "mov.u64 %r20,%r1"),
        ("st.u64 [%r2+16],%r21", "red.add.u64 [%r2+16],%r21"),
        ("st.u64 [%r2+16],%r21", "st.u64 [%frame+16],%r21"),
        ("st.u64 [%r2+16],%r21", "st.u64 [%r20],%r21"),
        ("st.u64 [%r2+16],%r21", "st.u64 [%r2+16],%r9"),
        ("mul.lo.u64 %r21,%r20,%r7", "mov.u64 %r21,%clock64"),
        ("mul.lo.u64 %r21,%r20,%r7", "mov.u64 %r21,%r99"),
        ("mul.lo.u64 %r21,%r20,%r7", "call f"),
        ("mul.lo.u64 %r21,%r20,%r7", "bar.warp.sync 0xffffffff"),
        ("mul.lo.u64 %r21,%r20,%r7", "shfl.sync.idx.b32 %r21,%r20,0,31,0xffffffff"),
        ("mul.lo.u64 %r21,%r20,%r7", "@ %r9 bra $L4"),
    ] {
        assert!(SCALE.contains(from), "{from}");
        assert_eq!(unrolled(&body(&lines(&SCALE.replacen(from, to, 1)))), None, "{to}");
    }
    let text = body(&lines(SCALE));
    for (from, to) in [
        ("setp.ne.u64", "setp.lt.u64"),
        ("setp.ne.u64 %r9,%r8,%r1", "setp.ne.u64 %r9,%r8,%r7"),
        ("setp.ne.u64 %r9,%r8,%r1", "setp.ne.u64 %r9,80,%r1"),
        ("@ %r9 bra", "@ ! %r9 bra"),
        ("@ %r9 bra", "bra"),
        ("add.u64 %r1", "$L5:\nadd.u64 %r1"),
        ("add.u64 %r1", "{\nadd.u64 %r1"),
        (".reg .u64 %r21;", ""),
        (".reg .u64 %r21;", ".reg .u64 %r21;\n.reg .u32 %r21;"),
        (".reg .u64 %r1;", ".reg .u32 %r1;"),
    ] {
        assert!(text.contains(from), "{from}");
        assert_eq!(unrolled(&text.replacen(from, to, 1)), None, "{to}");
    }
}

#[test]
fn loops_with_lines_that_have_new_text_stay() {
    let text = body(&lines(SCALE));
    let lines: Vec<&str> = text.lines().collect();
    let load = lines.iter().position(|line| line.starts_with("ld.u64")).expect("the load");
    let count = |changed: usize| unroll(&lines, 0..lines.len(), &[(changed, String::new())].into()).0;
    assert_eq!([count(load), count(0)], [0, 1]);
}

#[test]
fn loops_that_only_load_are_taken_if_they_are_small_or_load_by_what_they_load() {
    let gather = "ld.u64 %r20,[%r1]; shl.b64 %r21,%r20,3; add.u64 %r22,%r21,%r6; ld.u64 %r23,[%r22]; \
                  add.u64 %r5,%r5,%r23; add.u64 %r1,%r1,8";
    for rounds in 1..12 {
        assert!(same(&body(&lines(gather)), &thread(&[(1, 4096), (6, 64), (8, 4096 + 8 * rounds)])));
    }
    let sum = "ld.u64 %r20,[%r1]; add.u64 %r5,%r5,%r20; add.u64 %r1,%r1,8";
    let new = unrolled(&body(&lines(sum))).expect("a sum");
    assert_eq!(new.matches("ld.u64").count(), 9, "{new}");
    for rounds in 1..30 {
        assert!(same(&body(&lines(sum)), &thread(&[(1, 4096), (8, 4096 + 8 * rounds)])));
    }
    let large =
        "ld.u64 %r20,[%r1]; ld.u64 %r21,[%r1+8]; ld.u64 %r22,[%r1+16]; add.u64 %r5,%r20,%r21; add.u64 %r1,%r1,8";
    assert_eq!(unrolled(&body(&lines(large))), None);
}

/// Generates an instruction of a random loop: registers 10 to 14 are addresses that grow, 15 and 16 are derived from them, 20 to 29 are values.
fn instruction() -> impl Strategy<Value = String> {
    let value = || (20..30u32).prop_map(|register| format!("%r{register}"));
    let place = || (10..17u32, -3..4i32).prop_map(|(base, words)| format!("[%r{base}+{}]", words * 8));
    prop_oneof![
        3 => (value(), place()).prop_map(|(to, place)| format!("ld.u64 {to},{place}")),
        2 => (place(), value()).prop_map(|(place, from)| format!("st.u64 {place},{from}")),
        2 => (value(), value(), value()).prop_map(|(to, a, b)| format!("add.u64 {to},{a},{b}")),
        1 => (value(), value(), value()).prop_map(|(to, a, b)| format!("xor.b64 {to},{a},{b}")),
        1 => (15..17u32, 10..15u32, 1..30u32).prop_map(|(to, a, b)| format!("add.u64 %r{to},%r{a},%r{b}")),
        1 => (15..17u32, 10..15u32, 10..15u32).prop_map(|(to, a, b)| format!("sub.u64 %r{to},%r{a},%r{b}")),
        1 => (10..15u32).prop_map(|register| format!("add.u64 %r{register},%r{register},16")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn random_loops_do_the_same(
        first in prop::collection::vec(instruction(), 1..8),
        then in prop::collection::vec(instruction(), 0..4),
        bases in prop::collection::vec(0..48u64, 5),
        rounds in 1..14u64,
    ) {
        let grow = (10..15).map(|register| format!("add.u64 %r{register},%r{register},16"));
        let counter = "add.u64 %r1,%r1,16".to_owned();
        let text = body(&first.into_iter().chain([counter]).chain(grow).chain(then).collect::<Vec<_>>());
        let mut values = vec![(1, 0), (8, 16 * rounds), (15, 4096), (16, 4200)];
        values.extend((10..15).zip(bases.iter().map(|base| 4096 + base * 4)));
        values.extend((20..30).map(|register| (register, u64::from(register) * 1_000_003)));
        prop_assume!(same(&text, &thread(&values)));
    }
}

/// Returns the number of unrolled loops of each region.
fn counts(level: &str) -> Option<BTreeMap<String, u32>> {
    let text = compile_with("gang_blocks.c", &[level, "-w", "-g"])?;
    assert!(!functions(&text).is_empty());
    let kernels = rewrite(&text, 90).kernels;
    let name = |kernel: &Kernel| kernel.name.split('$').next().unwrap_or("").to_owned();
    Some(kernels.iter().map(|kernel| (name(kernel), kernel.unrolled)).collect())
}

#[test]
fn todays_compiler_writes_loops_that_are_known() {
    let Some(counts) = counts("-O2") else { return };
    for name in ["triad", "rows", "calls", "long_vectors", "sum"] {
        assert_eq!(counts[name], 1, "{name}: {counts:?}");
    }
    assert_eq!(counts["counts"], 0, "{counts:?}");
}
