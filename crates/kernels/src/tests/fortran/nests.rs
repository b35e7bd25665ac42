//! Random nests of Fortran: the host loops of a plan, in another order, compute what the source does.
//!
//! All values are integers, so that sums don't depend on their order. `ACCORD_TEST_PROGRAMS` sets the number of nests,
//! `ACCORD_TEST_SEED` the first seed. With `ACCORD_TEST_WRITE` the sources are written into that folder, for `accord fc` and a GPU, and not run.

use super::super::support::{Random, number, seeds, written};
use super::built::{compiled, printed, rewritten};
use crate::{Form, Mode};
use std::fmt::Write;

/// Nests of one file.
pub(super) const NESTS: usize = 50;

/// Writes one nest.
struct Nest<'r> {
    random: &'r mut Random,
    text: String,
    /// Variables of surrounding loops, outer ones first.
    loops: Vec<&'static str>,
    indent: usize,
}

const LOOPS: [&str; 4] = ["i", "j", "k", "l"];
const HEADERS: &[&str] = &["1, n", "n, 1, -1", "2, n - 1", "1, n, 2", "n, 2, -3", "3, 2", "lo, n", "0, n"];

impl Nest<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}{text}", " ".repeat(self.indent));
    }

    fn subscript(&mut self) -> String {
        if self.loops.is_empty() || self.random.chance(10) {
            return (*self.random.of(&["1", "n", "lo", "5"])).to_owned();
        }
        let variable = *self.random.of(&self.loops);
        match self.random.below(10) {
            0..5 => variable.to_owned(),
            5 => format!("{variable} - 1"),
            6 => format!("{variable} + 1"),
            7 => format!("n + 1 - {variable}"),
            8 => format!("2*{variable}"),
            _ => format!("{variable} + lo"),
        }
    }

    fn element(&mut self) -> String {
        if self.random.chance(50) {
            format!("{}({})", *self.random.of(&["a", "b", "p", "q"]), self.subscript())
        } else {
            format!("{}({}, {})", *self.random.of(&["c", "d"]), self.subscript(), self.subscript())
        }
    }

    fn expression(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 5 } else { 8 }) {
            0..2 => self.element(),
            2 => (*self.random.of(&["s", "t", "u", "x%v"])).to_owned(),
            3 => match self.loops.last() {
                Some(variable) => (*variable).to_owned(),
                None => "n".to_owned(),
            },
            4 => (*self.random.of(&["1", "7", "-3"])).replace("-3", "(-3)"),
            5 => format!("max({}, {})", self.expression(depth - 1), self.expression(depth - 1)),
            6 => format!("{} + {}", self.expression(depth - 1), self.expression(depth - 1)),
            _ => format!("twice({})", self.expression(depth - 1)),
        }
    }

    fn condition(&mut self) -> String {
        let operator = *self.random.of(&[">", "<=", "/="]);
        let (left, right) = (self.expression(0), self.expression(0));
        format!("{left} {operator} {right}")
    }

    fn section(&mut self) -> String {
        let first = *self.random.of(&["1", "2", "3"]);
        let last = format!("{first} + n - 1");
        match self.random.below(4) {
            0..2 => format!("{}({first}:{last})", *self.random.of(&["a", "b", "p"])),
            2 => {
                let at = self.subscript();
                format!("{}({first}:{last}, {at})", *self.random.of(&["c", "d"]))
            }
            _ => {
                let at = self.subscript();
                format!("{}({at}, {first}:{last})", *self.random.of(&["c", "d"]))
            }
        }
    }

    fn statement(&mut self, depth: usize) {
        let chosen = self.random.below(100);
        match chosen {
            0..30 => {
                let (left, right) = (self.element(), self.expression(2));
                self.line(&format!("{left} = mod({right}, 997)"));
            }
            30..45 => {
                let (left, right) = (*self.random.of(&["s", "t", "u"]), self.expression(2));
                self.line(&format!("{left} = mod({right}, 997)"));
            }
            45..53 => {
                let right = self.expression(1);
                let form = self.random.below(4);
                self.line(&match form {
                    0 => format!("r = r + {right}"),
                    1 => format!("m = max(m, {right})"),
                    2 => format!("if ({right} < w) w = {right}"),
                    _ => format!("r = r - ({right})"),
                });
            }
            53..60 => {
                let (left, right, other) = (self.section(), self.section(), self.expression(0));
                self.line(&format!("{left} = mod({right} + {other}, 997)"));
            }
            60..63 => {
                let (left, right) = (self.section(), self.section());
                self.line(&format!("where ({left} > 100) {left} = {right} - 50"));
            }
            63..66 => {
                let right = self.section();
                let left = *self.random.of(&["t", "r"]);
                self.line(&format!("{left} = sum({right})"));
            }
            66..70 if !self.loops.is_empty() => {
                let condition = self.condition();
                self.line(&format!("if ({condition}) cycle"));
            }
            70..82 => {
                let condition = self.condition();
                self.line(&format!("if ({condition}) then"));
                self.indent += 1;
                self.statement(depth.saturating_sub(1));
                if self.random.chance(50) {
                    self.indent -= 1;
                    self.line("else");
                    self.indent += 1;
                    self.statement(depth.saturating_sub(1));
                }
                self.indent -= 1;
                self.line("end if");
            }
            _ if depth > 0 && self.loops.len() < LOOPS.len() => self.r#loop(depth - 1),
            _ => {
                let (left, right) = (self.element(), self.expression(1));
                self.line(&format!("{left} = mod({right}, 997)"));
            }
        }
    }

    fn r#loop(&mut self, depth: usize) {
        let variable = LOOPS[self.loops.len()];
        let triangular = self.loops.last().filter(|_| self.random.chance(20)).map(|outer| format!("{outer}, n"));
        let header = triangular.unwrap_or_else(|| (*self.random.of(HEADERS)).to_owned());
        let private = Some(*self.random.of(&["s", "t", "u"])).filter(|_| self.random.chance(20));
        match private {
            Some(name) => {
                let words = *self.random.of(&["loop", "loop seq"]);
                self.line(&format!("!$acc {words} private({name})"));
            }
            None if self.random.chance(10) => self.line("!$acc loop"),
            None => {}
        }
        self.line(&format!("do {variable} = {header}"));
        self.loops.push(variable);
        self.indent += 1;
        if let Some(name) = private {
            // It has no value before.
            let value = self.element();
            self.line(&format!("{name} = mod({value}, 997)"));
        }
        for _ in 0..1 + self.random.below(3) {
            self.statement(depth);
        }
        self.indent -= 1;
        self.loops.pop();
        self.line("end do");
    }
}

pub(super) fn source(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut text = String::from(
        "module nests\n implicit none\n type rec\n  integer :: v\n end type\n integer, parameter :: top = 60\n integer :: s = 3\n type(rec) :: x = rec(5)\n\
         contains\n pure elemental integer function twice(i)\n!$acc routine seq\n  integer, intent(in) :: i\n  twice = mod(2*i, 1009)\n end function\n",
    );
    for number in 0..NESTS {
        let mut nest = Nest { random: &mut random, text: String::new(), loops: Vec::new(), indent: 2 };
        for _ in 0..1 + nest.random.below(3) {
            if nest.random.chance(80) {
                nest.r#loop(3);
            } else {
                nest.statement(3);
            }
        }
        let Nest { text: body, .. } = nest;
        let live: Vec<&str> = ["t", "u", "r", "m", "w", "i", "j"].into_iter().filter(|_| random.chance(60)).collect();
        let live = live.iter().map(|name| format!("\n  h = mod(h*31 + {name}, 1000003_8)")).collect::<String>();
        let combined = random.chance(10)
            && body.lines().filter(|line| line.starts_with("  do ")).count() == 1
            && body.starts_with("  do ")
            && body.ends_with("  end do\n");
        let single =
            combined && body.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).count() == 2;
        let (open, close) = if single { ("kernels loop", "") } else { ("kernels", "!$acc end kernels\n") };
        let pointers = *random.of(&[
            "integer, intent(inout) :: p(-top:top), q(-top:top)",
            "integer, target, intent(inout) :: p(-top:top), q(-top:top)",
        ]);
        let _ = write!(
            text,
            " subroutine nest{number}(n, lo, a, b, c, d, p, q, h)\n  integer, intent(in) :: n, lo\n  integer, intent(inout) :: a(-top:top), b(-top:top), c(-top:top, -top:top), d(-top:top, -top:top)\n  \
             {pointers}\n  integer(8), intent(inout) :: h\n  integer :: i, j, k, l, t, u, r, m, w\n  i = 1; j = 2; k = 3; l = 4; t = 5; u = 6; r = 7; m = -100; w = 100\n\
             !$acc {open}\n{body}{close}  h = mod(h*31 + s, 1000003_8){live}\n end subroutine\n"
        );
    }
    text += "end module\nprogram main\n use nests\n integer :: a(-top:top), b(-top:top), c(-top:top, -top:top), d(-top:top, -top:top), p(-top:top), q(-top:top)\n integer(8) :: h\n integer :: e\n";
    for number in 0..NESTS {
        let _ = writeln!(
            text,
            " call fill()\n call nest{number}(10, 2, a, b, c, d, p, q, h)\n print *, {number}, h, weighed()"
        );
    }
    text += "contains\n subroutine fill()\n  integer :: e, f\n  h = 17; s = 3\n  do e = -top, top\n   a(e) = mod(e*7 + 300, 211)\n   b(e) = mod(e*13 + 500, 197)\n   \
             p(e) = mod(e*5 + 400, 101)\n   q(e) = e\n   do f = -top, top\n    c(f, e) = mod(e*3 + f*11 + 900, 307)\n    d(f, e) = mod(e*17 + f*5 + 1800, 401)\n   end do\n  end do\n end subroutine\n\
             integer(8) function weighed()\n  integer :: e\n  weighed = 0\n  do e = -top, top\n   weighed = mod(weighed*7 + a(e) + 3*b(e) + 5*p(e) + 11*q(e) + sum(c(:, e)*13_8) + sum(d(e, :)*3_8), 1000000007_8)\n  end do\n \
             end function\nend program\n";
    text
}

#[test]
fn plans_of_random_nests_compute_what_the_source_does() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = seeds(NESTS, 50, 5_000);
    if written(seeds.clone(), "f90", source) {
        return;
    }
    let nests = (seeds.end - seeds.start) * NESTS as u64;
    let mut opened = 0;
    for seed in seeds {
        let text = source(seed);
        let new = rewritten(&text, Form::Free, "nests.f90", Mode::Check);
        opened += new.messages.iter().filter(|message| !message.refused).count();
        let host = printed(&compiled(folder.path(), "host.f90", &text, &[]), 0);
        let check = compiled(folder.path(), "check.f90", &new.text.expect("no nest is opened"), &[]);
        for order in 0..4 {
            let other = printed(&check, order);
            if let Some(at) = host.lines().zip(other.lines()).position(|(one, two)| one != two) {
                let nest = text.split(" subroutine nest").find(|nest| nest.starts_with(&format!("{at}(")));
                panic!("seed {seed}, order {order}, nest {}", nest.unwrap_or_default());
            }
        }
    }
    // The nests must not pass because none of them is rewritten.
    assert!(opened as u64 > nests / 5, "{opened} loops of {nests} nests opened");
}

/// Checks that another order reveals the one fault in each of these nests, with random numbers.
#[test]
fn planted_faults_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(number("ACCORD_TEST_SEED").unwrap_or(1));
    let (mut text, mut calls) = (String::from("module faults\n implicit none\ncontains\n"), String::new());
    let faults = 40;
    for at in 0..faults {
        let (near, factor) = (1 + random.below(3), 2 + random.below(9));
        let body = match at % 4 {
            // Iterations that depend on each other, asserted independent.
            0 => format!(
                "!$acc loop independent\n  do i = 4, 50\n   a(i) = mod(a(i - {near})*{factor} + b(i), 997)\n  end do"
            ),
            1 => format!(
                "!$acc loop independent\n  do i = 4, 50\n   a(i - {near}) = mod(a(i)*{factor} + b(i), 997)\n  end do"
            ),
            // A scalar that carries a value, said to be private.
            2 => format!(
                "!$acc loop independent private(t)\n  do i = 4, 50\n   t = mod(t*{factor} + b(i), 997)\n   a(i) = t\n  end do"
            ),
            // A value that is read between its updates, said to be a reduction.
            _ => format!(
                "!$acc loop independent reduction(+:t)\n  do i = 4, 50\n   t = t + b(i)*{factor}\n   a(i) = mod(t, 997)\n  end do"
            ),
        };
        let _ = write!(
            text,
            " subroutine fault{at}(a, b)\n  integer :: a(50), b(50), i, t\n  t = 1\n!$acc kernels\n{body}\n!$acc end kernels\n end subroutine\n"
        );
        let _ = writeln!(
            calls,
            " a = [(mod(i*i, 101), i = 1, 50)]\n b = [(mod(i*7, 43), i = 1, 50)]\n call fault{at}(a, b)\n print *, a"
        );
    }
    let _ = write!(
        text,
        "end module\nprogram main\n use faults\n implicit none\n integer :: a(50), b(50), i\n{calls}end program\n"
    );
    let new = rewritten(&text, Form::Free, "faults.f90", Mode::Check);
    let host = printed(&compiled(folder.path(), "host.f90", &text, &[]), 0);
    let check = compiled(folder.path(), "check.f90", &new.text.unwrap(), &[]);
    let orders: Vec<String> = (0..4).map(|order| printed(&check, order)).collect();
    let lines = host.lines().count() / faults;
    let part = |text: &str, at: usize| text.lines().skip(at * lines).take(lines).collect::<String>();
    let missed = (0..faults).filter(|at| orders.iter().all(|other| part(other, *at) == part(&host, *at)));
    assert_eq!(missed.collect::<Vec<_>>(), Vec::<usize>::new());
}
