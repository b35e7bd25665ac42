//! Random loop nests in C. All values are unsigned, so that any order of a sum has the same result.

use super::support::Random;
use std::fmt::Write;

/// Text around all cases of a file.
const PROLOGUE: &str = "\
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
typedef unsigned u;
static u buffer[3][8192], kept[3][8192], ga[8192], gb[8192], rows[64][64], cols[64][64];
static u keptga[8192], keptgb[8192], keptrows[64][64], keptcols[64][64];
static int index_of[64];
static u result[16], keptresult[16];
static u glob;
static u twice(u x) { return x * 2 + 1; }
static void fill(u seed) {
    int i, j;
    for (i = 0; i < 8192; i++) { buffer[0][i] = seed * 7 + i; buffer[1][i] = seed ^ (i * 13); buffer[2][i] = i * i + seed; ga[i] = i + 5 * seed; gb[i] = 3 * i; }
    for (i = 0; i < 64; i++) { index_of[i] = (i * 5 + 3) % 16; for (j = 0; j < 64; j++) { rows[i][j] = i * 31 + j * seed; cols[i][j] = i ^ j; } }
    memset(result, 0, sizeof result); glob = seed;
}
static void keep(void) {
    memcpy(kept, buffer, sizeof kept); memcpy(keptga, ga, sizeof ga); memcpy(keptgb, gb, sizeof gb);
    memcpy(keptrows, rows, sizeof rows); memcpy(keptcols, cols, sizeof cols); memcpy(keptresult, result, sizeof result);
}
static int same(void) {
    return !memcmp(kept, buffer, sizeof kept) && !memcmp(keptga, ga, sizeof ga) && !memcmp(keptgb, gb, sizeof gb)
        && !memcmp(keptrows, rows, sizeof rows) && !memcmp(keptcols, cols, sizeof cols) && !memcmp(keptresult, result, sizeof result);
}
";

/// Returns a file of cases; each is a function twice, once without directives, and `main` names those that differ.
pub(super) fn file(cases: &[Case]) -> String {
    let mut text = String::from(PROLOGUE);
    for (at, case) in cases.iter().enumerate() {
        let _ = write!(text, "{}", case.function(&format!("serial_{at}"), false));
        let _ = write!(text, "{}", case.function(&format!("kernels_{at}"), true));
    }
    text += "int main(void) {\n    int round, bad = 0;\n";
    for (at, case) in cases.iter().enumerate() {
        let [x, y, z] = &case.arguments;
        let _ = writeln!(
            text,
            "    for (round = 0; round < 2; round++) {{ int n = {n} + round; fill({at} + round); serial_{at}({x}, {y}, {z}, n, n + 1); keep(); \
             fill({at} + round);\n_Pragma(\"acc data copy(buffer, ga, gb, rows, cols)\")\nkernels_{at}({x}, {y}, {z}, n, n + 1);\nif (!same()) {{ printf(\"case {at}\\n\"); bad = 1; break; }} }}\n",
            n = case.trips
        );
    }
    text + "    return bad;\n}\n"
}

/// A function with one construct.
#[derive(Clone, Debug)]
pub(super) struct Case {
    parameters: [&'static str; 3],
    arguments: [&'static str; 3],
    trips: u64,
    before: String,
    /// The construct's statement, with lines of directives that the serial version leaves out.
    pub(super) body: String,
    after: String,
}

impl Case {
    fn function(&self, name: &str, directives: bool) -> String {
        let [x, y, z] = self.parameters;
        let lines: Vec<&str> = self.body.lines().collect();
        let own = |at: usize| own(lines[at], lines.get(at + 1).copied().unwrap_or_default());
        let line = |at: usize| if directives { lines[at].to_owned() } else { own(at).unwrap_or(lines[at].to_owned()) };
        let body: String = (0..lines.len()).map(|at| line(at) + "\n").collect();
        format!(
            "static void {name}({x}, {y}, {z}, int n, int m)\n{{\n    int i = 0, j = 0, k = 0, l = 0, q = 0;\n    u t = 1, s = 2, r = 3, w = 4, v = 5;\n    {}\n{body}    {}\n}}\n",
            self.before, self.after
        )
    }
}

/// Returns the serial version of a directive: declarations of what it makes private, in the block around the loop.
fn own(line: &str, next: &str) -> Option<String> {
    let directive = line.trim_start().strip_prefix("#pragma acc")?;
    let mut text = String::new();
    if let Some(variable) = next.trim_start().strip_prefix("for (").filter(|_| directive.contains(" loop"))
        && !variable.starts_with("int ")
    {
        text += &format!("int {}; ", variable.split(' ').next().unwrap_or_default());
    }
    for (name, kind) in [("t", "u"), ("q", "int")] {
        let list = directive.split("private(").nth(1).and_then(|rest| rest.split(')').next());
        if list.is_some_and(|list| list.split(", ").any(|one| one == name)) {
            text += &format!("{kind} {name}; ");
        }
    }
    Some(text)
}

const VARIABLES: [&str; 4] = ["i", "j", "k", "l"];

/// Makes one case.
pub(super) fn case(random: &mut Random) -> Case {
    let restrict = random.chance(60);
    let parameters = match restrict {
        true => ["u *restrict x", "u *restrict y", "const u *restrict z"],
        false => ["u *x", "u *y", "const u *z"],
    };
    let overlap = !restrict && random.chance(50);
    let arguments = match overlap {
        true => ["buffer[0] + 2048", "buffer[0] + 2049", "buffer[0] + 2051"],
        false => ["buffer[0] + 2048", "buffer[1] + 2048", "buffer[2] + 2048"],
    };
    let depth = 1 + random.below(4);
    let trips = match depth {
        1 => 9 + random.below(5),
        2 => 5 + random.below(5),
        3 => 4 + random.below(2),
        _ => 3,
    };
    let mut writer = Writer {
        random,
        text: String::new(),
        used: Vec::new(),
        own: None,
        arrays: restrict,
        private: false,
        may_promise: !overlap,
        depth: 2,
    };
    let nests = 1 + writer.random.below(2);
    writer.line("#pragma acc kernels");
    writer.line("{");
    for nest in 0..nests {
        if nest > 0 && writer.random.chance(40) {
            let between =
                *writer.random.of(&["x[3] = y[2] + 1;", "r = r * 3;", "ga[5] = 9;", "q = n - 2;", "glob = x[1];"]);
            writer.line(between);
        }
        let guard = writer.random.chance(15);
        if guard {
            let condition = *writer.random.of(&["if (n > 3) {", "if (q < 2) {", "if (s != 7) {"]);
            writer.line(condition);
        }
        writer.nest(depth);
        if guard {
            writer.line("}");
        }
    }
    writer.line("}");
    let body = writer.text;
    let after = match random.below(5) {
        0 => "result[0] = s; result[1] = r; result[2] = (u)i;",
        1 => "result[0] = t; result[1] = w; result[3] = (u)j;",
        2 => "result[0] = s; result[1] = r + v; result[2] = glob; result[4] = (u)k;",
        3 => "t = 0; i = 7; result[0] = s + (u)i; result[1] = r; result[5] = (u)q;",
        _ => "result[0] = s; result[1] = r; result[2] = w; result[3] = v;",
    };
    let before = if random.chance(30) { "q = 1; t = x[0];" } else { "" };
    Case { parameters, arguments, trips, before: before.into(), body, after: after.into() }
}

struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    /// Surrounding loops, from the outside inwards.
    used: Vec<&'static str>,
    /// In a loop asserted independent: the target, and the index that belongs to the iteration.
    own: Option<String>,
    /// Whether the parameters are `restrict`.
    arrays: bool,
    /// Whether a loop around has private scalars, which have no value at first.
    private: bool,
    /// Whether a loop may be promised: none of the parameters overlap.
    may_promise: bool,
    depth: usize,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "    ".repeat(self.depth));
    }

    fn nest(&mut self, depth: u64) {
        let promised = self.may_promise && self.random.chance(30);
        self.directed(0, promised, depth, if promised { " independent" } else { "" });
    }

    /// Writes a loop with or without a directive of its own: with `words`, or by chance.
    fn directed(&mut self, level: usize, promised: bool, depth: u64, words: &'static str) {
        let private = if self.random.chance(20) { *self.random.of(&["t", "q", "t, q"]) } else { "" };
        let words = match words {
            "" if private.is_empty() && !self.random.chance(10) => return self.open(level, promised, depth),
            "" if self.random.chance(30) => " seq",
            words => words,
        };
        let clause = if private.is_empty() { String::new() } else { format!(" private({private})") };
        // The serial version declares in this block what is private.
        self.line("{");
        self.line(&format!("#pragma acc loop{words}{clause}"));
        let kept = self.private;
        self.private |= !private.is_empty();
        self.open(level, promised, depth);
        self.private = kept;
        self.line("}");
    }

    fn open(&mut self, level: usize, promised: bool, depth: u64) {
        let variable = VARIABLES[level];
        let own = self.random.chance(15);
        let name = if own { format!("int {variable}") } else { variable.to_owned() };
        let header = match self.random.below(7) {
            0 => format!("for ({name} = 1; {variable} < n - 1; {variable}++)"),
            1 => format!("for ({name} = n - 1; {variable} >= 0; {variable}--)"),
            2 => format!("for ({name} = 0; {variable} < n; {variable} += 2)"),
            3 if level > 0 && !promised => {
                format!("for ({name} = 0; {variable} <= {}; {variable}++)", self.used[level - 1])
            }
            4 => format!("for ({name} = 0; m > {variable}; ++{variable})"),
            5 => format!("for ({name} = 2; {variable} < 1; {variable}++)"),
            _ => format!("for ({name} = 0; {variable} < n; {variable}++)"),
        };
        self.line(&format!("{header} {{"));
        self.used.push(variable);
        self.depth += 1;
        if promised && self.own.is_none() {
            self.own = Some(format!("{variable} * 16"));
        }
        let statements = if level as u64 + 1 < depth { self.random.below(2) } else { 1 + self.random.below(3) };
        (0..statements).for_each(|_| self.statement(2));
        if (level as u64) + 1 < depth {
            self.directed(level + 1, promised, depth, "");
            if self.random.chance(25) {
                self.statement(1);
            }
        }
        self.used.pop();
        self.depth -= 1;
        if level == 0 {
            self.own = None;
        }
        self.line("}");
    }

    fn statement(&mut self, nested: u64) {
        let value = self.expression(2);
        match self.random.below(if self.own.is_some() { 8 } else { 14 }) {
            0..=2 => {
                let target = self.target();
                self.line(&format!("{target} = {value};"));
            }
            3 => {
                self.line(&format!("t = {value};"));
                let target = self.target();
                self.line(&format!("{target} = t * 3 + 1;"));
            }
            4 => {
                let all = ["+", "^", "*", "|"];
                let operator = if self.own.is_some() { "+" } else { *self.random.of(&all) };
                self.line(&format!("s {operator}= {value};"));
            }
            5 if nested > 0 => {
                let condition = self.expression(1);
                self.line(&format!("if ({condition} & 1) {{"));
                self.depth += 1;
                self.statement(nested - 1);
                self.depth -= 1;
                if self.random.chance(40) {
                    self.line("} else {");
                    self.depth += 1;
                    self.statement(nested - 1);
                    self.depth -= 1;
                }
                self.line("}");
            }
            5 | 6 => {
                let target = self.target();
                self.line(&format!("{{ u d = {value}; d ^= 5; {target} = d; }}"));
            }
            7 => {
                let index = self.index();
                self.line(&format!("q = {index};"));
                let target = if self.own.is_some() { self.target() } else { "x[q]".into() };
                self.line(&format!("{target} = {value} + (u)q;"));
            }
            8 => {
                let target = self.target();
                self.line(&format!("{target} += {value};"));
            }
            9 => {
                let value = self.expression(0);
                self.line(&format!("if ({value} > w) w = {value};"));
            }
            10 => self.line(&format!("v = {value} < v ? {value} : v;")),
            11 => self.line(&format!("r = {value} + r;")),
            12 if !self.private => self.line(&format!("t = t + {value};")),
            _ => {
                let target = self.target();
                self.line(&format!("{target} = twice({value});"));
            }
        }
    }

    /// Returns the target of a statement.
    fn target(&mut self) -> String {
        if let Some(own) = self.own.clone() {
            // Of the iteration's own sixteen elements.
            let inner = self.used.get(1).copied().unwrap_or("0");
            return format!("x[{own} + {inner}]");
        }
        match self.random.below(6) {
            0 => self.two("rows"),
            1 => self.two("cols"),
            2 => format!("ga[{} + 2048]", self.index()),
            3 => format!("y[{}]", self.index()),
            _ => format!("x[{}]", self.index()),
        }
    }

    fn two(&mut self, array: &str) -> String {
        let (first, second) = (*self.random.of(&self.used), *self.random.of(&self.used));
        let (a, b) = (self.random.below(3), self.random.below(3));
        format!("{array}[{first} + {a}][{second} + {b}]")
    }

    fn index(&mut self) -> String {
        let offset = self.random.below(5) as i64 - 2;
        let last = self.used.last().copied().unwrap_or("0");
        match self.random.below(6) {
            0 => format!("{last} + {offset}"),
            1 => format!("2 * {last} + {offset}"),
            2 => format!("{offset} - {last}"),
            3 => {
                let one = *self.random.of(&self.used);
                format!("{one} + {offset}")
            }
            4 if self.used.len() > 2 => format!("({} * m + {}) * m + {}", self.used[0], self.used[1], self.used[2]),
            _ if self.used.len() > 1 => format!("{} * m + {} + {offset}", self.used[0], self.used[1]),
            _ => format!("{last} + {offset}"),
        }
    }

    fn expression(&mut self, depth: u64) -> String {
        if depth > 0 && self.random.chance(60) {
            let operator = *self.random.of(&["+", "*", "^", "-"]);
            return format!("({} {operator} {})", self.expression(depth - 1), self.expression(depth - 1));
        }
        match self.random.below(9) {
            0 => format!("z[{}]", self.index()),
            1 if self.own.is_none() => format!("x[{}]", self.index()),
            2 if self.own.is_none() || self.arrays => format!("y[{}]", self.index()),
            3 if self.own.is_none() => self.two("rows"),
            4 => format!("gb[index_of[{}] + 20]", self.random.of(&self.used)),
            5 => format!("(u){}", self.random.of(&self.used)),
            6 => "glob".into(),
            7 if self.own.is_none() => format!("ga[{} + 2048]", self.index()),
            _ => format!("{}u", self.random.below(9)),
        }
    }
}

impl Case {
    /// Returns a case with one nest, whose scalars `w` and `s` are used afterwards.
    pub(super) fn of(nest: &str, promised: bool) -> Self {
        let directive = if promised { "#pragma acc loop independent\n" } else { "" };
        Self {
            parameters: ["u *restrict x", "u *restrict y", "const u *restrict z"],
            arguments: ["buffer[0] + 2048", "buffer[1] + 2048", "buffer[2] + 2048"],
            trips: 11,
            before: String::new(),
            body: format!("#pragma acc kernels\n{{\n{directive}{nest}\n}}"),
            after: "result[0] = w; result[1] = s;".into(),
        }
    }
}
