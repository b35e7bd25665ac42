//! Generates random OpenACC programs: a file of many regions, each with the same loops for the host.
//!
//! All values are small whole numbers or quarters, so that sums are the same in any order.

use super::random::Random;
use super::regions::{Call, Loops, dims, level};
use std::fmt::Write as _;

/// Elements of each array.
const LENGTH: u64 = 320;
const TYPES: [&str; 5] = ["int", "unsigned", "long", "float", "double"];

const HEAD: &str = "\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef RECORDER
#include RECORDER
#endif
#define N 320
#define ARRAYS(T) T T##_o[N], T##_a[N], T##_b[N], T##_h[16]; static T T##_o_was[N], T##_h_was[16];
ARRAYS(int) ARRAYS(unsigned) ARRAYS(long) ARRAYS(float) ARRAYS(double)
int order[N];
#define EACH(DO) DO(int) DO(unsigned) DO(long) DO(float) DO(double)

static void fill(unsigned seed)
{
    for (int i = 0; i < N; i++) {
#define FILL(T) T##_o[i] = (seed + i * 7) % 13; T##_a[i] = (seed + i * 5) % 11; T##_b[i] = (seed / 3 + i * 3) % 9; T##_h[i % 16] = i % 16;
        EACH(FILL)
        order[i] = (i * 77 + seed % N) % N;
    }
}

static void keep(void)
{
#define KEEP(T) memcpy(T##_o_was, T##_o, sizeof T##_o); memcpy(T##_h_was, T##_h, sizeof T##_h);
    EACH(KEEP)
}

static int differs(void)
{
    int wrong = 0;
#define DIFFERS(T) wrong |= memcmp(T##_o_was, T##_o, sizeof T##_o) != 0 || memcmp(T##_h_was, T##_h, sizeof T##_h) != 0;
    EACH(DIFFERS)
    return wrong;
}

";

/// Returns one file with so many programs.
pub(crate) fn source(seed: u64, count: usize) -> String {
    let mut random = Random::new(seed);
    let mut out = format!("/* Seed {seed}. */\n{HEAD}");
    for number in 0..count {
        let (pragma, plain) = Writer { random: &mut random, number }.program();
        let _ = write!(out, "{pragma}\n{plain}\n");
    }
    out.push_str("int main(void)\n{\n    int wrong = 0;\n    double result;\n");
    for number in 0..count {
        let Call { fill, n, gangs: g } = Call::new(&mut random);
        let _ = write!(
            out,
            "    fill({fill});\n    result = region_{number}({n}, {g}, 3);\n    keep();\n    fill({fill});\n    \
             if (result != plain_{number}({n}, {g}, 3) || differs())\n        wrong++, puts(\"region_{number} is wrong\");\n"
        );
    }
    let _ = write!(out, "    printf(\"programs %d, wrong %d\\n\", {count}, wrong);\n    return wrong != 0;\n}}\n");
    out
}

/// A writer of loops. `@` marks the lines of directives on inner loops.
struct Writer<'r> {
    random: &'r mut Random,
    number: usize,
}

impl Writer<'_> {
    fn program(mut self) -> (String, String) {
        let kind = self.random.from(&TYPES);
        let (number, dims) = (self.number, dims(self.random));
        let Loops { clauses, text } = match self.random.below(10) {
            0 | 1 => self.map(kind),
            2 | 3 => self.reduction(kind),
            4 => self.atomics(kind),
            5 => self.rows(kind),
            6 => self.sums(kind),
            7 => self.carried(kind),
            8 => self.scattered(kind),
            _ => self.collapsed(kind),
        };
        let head = |name: &str| format!("double {name}_{number}(int n, int g, {kind} s)\n{{\n    {kind} r = 1;\n");
        let data = format!("copy({kind}_o, {kind}_h, r) copyin({kind}_a, {kind}_b, order)");
        let mut region = format!("__attribute__((noinline)) {}", head("region"));
        let _ = writeln!(region, "#pragma acc parallel loop {clauses} {dims} {data}");
        let mut plain = format!("__attribute__((noinline)) {}", head("plain"));
        for line in text.lines() {
            match line.trim_start().strip_prefix('@') {
                Some(directive) => {
                    let _ = writeln!(region, "#pragma acc {directive}");
                }
                None => {
                    let _ = writeln!(region, "    {line}");
                    let _ = writeln!(plain, "    {line}");
                }
            }
        }
        region.push_str("    return r;\n}\n");
        plain.push_str("    return r;\n}\n");
        (region, plain)
    }

    /// Returns a loop's head over i, whose values are in 8..300.
    fn head(&mut self) -> String {
        match self.random.below(6) {
            0 => "for (int i = 8; i < 200; i++)".to_owned(),
            1 => format!("for (int i = 9; i < n; i += {})", 1 + self.random.below(4)),
            2 => "for (int i = n; i > 8; i--)".to_owned(),
            3 => format!("for (long i = 8; i < n; i += {})", 1 + self.random.below(3)),
            4 => "for (unsigned i = 8; i < (unsigned)n; i++)".to_owned(),
            _ => "for (int i = 8; i < n; i++)".to_owned(),
        }
    }

    /// Returns a value of a type, between -4000 and 4000, or not negative if the type is unsigned.
    fn value(&mut self, kind: &str, index: &str) -> String {
        let one = self.leaf(kind, index);
        let other = self.leaf(kind, index);
        let whole = !matches!(kind, "float" | "double");
        match self.random.below(9) {
            0 => one,
            1 | 2 => format!("{one} + {other}"),
            3 => format!("{one} * {other}"),
            4 if kind != "unsigned" => format!("{one} - {other} * s"),
            5 => format!("({one} > {other} ? {one} : {other})"),
            6 if whole => format!("({one} ^ {other})"),
            7 if whole => format!("(({one} | {other}) >> 1)"),
            8 if !whole => format!("{one} * ({kind})0.25 + {other}"),
            _ => format!("({one} < 5 ? {other} : {one} + s)"),
        }
    }

    fn leaf(&mut self, kind: &str, index: &str) -> String {
        match self.random.below(6) {
            0 => format!("{kind}_a[{index}]"),
            1 => format!("{kind}_b[{index}]"),
            2 => format!("{kind}_a[{index} + {}]", self.random.below(8)),
            3 => format!("{kind}_b[{index} - {}]", self.random.below(8)),
            4 => format!("({kind})({index} % 16)"),
            _ => format!("({kind}){}", 1 + self.random.below(9)),
        }
    }

    fn map(&mut self, kind: &str) -> Loops {
        let (clauses, head, value) = (level(self.random), self.head(), self.value(kind, "i"));
        let other = self.value(kind, "i");
        let body = match self.random.below(4) {
            0 => format!("if ({kind}_a[i] > 4)\n        {kind}_o[i] = {value};"),
            1 => format!("{kind}_o[i] += {value};"),
            2 => format!(
                "{{\n    {kind} t = {value};\n    for (int k = 0; k < 3; k++)\n        t += {other};\n    {kind}_o[i] = t;\n}}"
            ),
            _ => format!("{kind}_o[i] = {value};"),
        };
        Loops { clauses, text: format!("{head}\n    {body}") }
    }

    fn reduction(&mut self, kind: &str) -> Loops {
        let (clauses, head, value) = (level(self.random), self.head(), self.value(kind, "i"));
        let whole = !matches!(kind, "float" | "double");
        let (operator, body) = match self.random.below(if whole { 6 } else { 3 }) {
            0 => ("+", format!("r += {value};")),
            1 => ("max", format!("r = r > {value} ? r : {value};")),
            2 => ("min", format!("r = r < {value} ? r : {value};")),
            3 => ("|", format!("r |= {value};")),
            4 => ("^", format!("r ^= {value};")),
            _ => ("&", format!("r &= {value};")),
        };
        Loops { clauses: format!("{clauses} reduction({operator}:r)"), text: format!("{head}\n    {body}") }
    }

    fn atomics(&mut self, kind: &str) -> Loops {
        let (clauses, head, value) = (level(self.random), self.head(), self.value(kind, "i"));
        let whole = !matches!(kind, "float" | "double");
        let place = self.random.from(&["i % 16", "(i * 3) % 16", "5"]);
        let operator = if whole { self.random.from(&["+", "-", "|", "^", "&"]) } else { self.random.from(&["+", "-"]) };
        Loops { clauses, text: format!("{head} {{\n@atomic update\n    {kind}_h[{place}] {operator}= {value};\n}}") }
    }

    /// Returns loops over rows by gangs, whose elements are divided further.
    fn rows(&mut self, kind: &str) -> Loops {
        let outer = self.random.from(&["gang", "gang(static:1)", "gang(static:2)", "gang worker"]);
        let inner = self.random.from(if outer == "gang worker" {
            &["vector"][..]
        } else {
            &["vector", "worker", "worker vector", ""][..]
        });
        let value = self.value(kind, "(i * 16 + j)");
        let rows = self.random.from(&["17", "n / 16"]);
        let text = format!(
            "for (int i = 1; i < {rows}; i++) {{\n    {kind} t = {kind}_a[i];\n@loop {inner}\n    for (int j = 0; j < 16; j++)\n        \
             {kind}_o[i * 16 + j] = t + {value};\n}}"
        );
        Loops { clauses: outer.to_owned(), text }
    }

    /// Returns loops that sum rows.
    fn sums(&mut self, kind: &str) -> Loops {
        let outer = self.random.from(&["gang", "gang(static:1)", "gang(static:3)"]);
        let inner = self.random.from(&[
            "seq",
            "vector reduction(+:t)",
            "worker reduction(+:t)",
            "worker vector reduction(+:t)",
        ]);
        let value = self.value(kind, "(i * 16 + j)");
        let text = format!(
            "for (int i = 1; i < n / 16; i++) {{\n    {kind} t = 2;\n@loop {inner}\n    for (int j = 0; j < 16; j++)\n        t += {value};\n    \
             {kind}_o[i] = t;\n}}"
        );
        Loops { clauses: outer.to_owned(), text }
    }

    /// Returns loops of one thread each, in which an iteration may read what an earlier one has stored.
    fn carried(&mut self, kind: &str) -> Loops {
        let outer = self.random.from(&["gang", "gang vector", "gang worker", "gang(static:1) vector"]);
        let distance = 1 + self.random.below(8);
        let len = self.random.from(&["24", "n / 8 + 1"]);
        let start = self.random.from(&["8", "9"]);
        let from = self
            .random
            .from(&[
                format!("{kind}_o[i * 40 + j - {distance}]").as_str(),
                format!("{kind}_o[i * 40 + j + {distance}]").as_str(),
                format!("{kind}_a[j + {distance}]").as_str(),
            ])
            .to_owned();
        let text = format!(
            "for (int i = 0; i < 7; i++) {{\n@loop seq\n    for (int j = {start}; j < {len}; j++)\n        \
             {kind}_o[i * 40 + j] = {from} + {kind}_b[j];\n}}"
        );
        Loops { clauses: outer.to_owned(), text }
    }

    fn scattered(&mut self, kind: &str) -> Loops {
        let clauses = level(self.random);
        let body = match self.random.below(3) {
            0 => format!("{kind}_o[i] = {kind}_a[order[i]];"),
            1 => format!("{kind}_o[order[i]] = {kind}_a[i] + {kind}_b[order[i]];"),
            _ => format!(
                "{{\n    {kind} t = 0;\n    for (int k = 0; k < i % 7; k++)\n        t += {kind}_a[order[i + k]];\n    {kind}_o[i] = t;\n}}"
            ),
        };
        Loops { clauses, text: format!("for (int i = 0; i < n; i++)\n    {body}") }
    }

    fn collapsed(&mut self, kind: &str) -> Loops {
        let clauses = format!("{} collapse(2)", level(self.random));
        let value = self.value(kind, "(i * 16 + j)");
        let columns = self.random.from(&["16", "n % 16 + 1"]);
        let text = format!(
            "for (int i = 1; i < 18; i++)\n    for (int j = 0; j < {columns}; j++)\n        {kind}_o[i * 16 + j] = {value};"
        );
        const { assert!(18 * 16 + 8 < LENGTH) };
        Loops { clauses, text }
    }
}
