//! Generates random Fortran programs: subroutines with one region each, over arrays of a module. The run of a region's version for the host records its
//! expected result, so that no other version is needed.

use super::random::Random;
use super::regions::{Call, Loops, dims, level};
use std::fmt::Write as _;

/// Types, with the prefixes of their arrays' names.
const TYPES: [(&str, &str); 4] = [("integer(4)", "i4"), ("integer(8)", "i8"), ("real(4)", "r4"), ("real(8)", "r8")];

/// Returns one file with so many programs.
pub(crate) fn source(seed: u64, count: usize) -> String {
    let mut random = Random::new(seed);
    let mut out = format!("! Seed {seed}.\nmodule arrays\n  implicit none\n  integer(4) :: order(320)\n");
    for (of, name) in TYPES {
        let _ = writeln!(out, "  {of} :: {name}_o(320), {name}_a(320), {name}_b(320), {name}_h(16), {name}_m(16, 20)");
    }
    out.push_str(
        "contains\n  subroutine fill(seed)\n    integer, intent(in) :: seed\n    integer :: i\n    do i = 1, 320\n",
    );
    for (_, name) in TYPES {
        let _ = writeln!(out, "      {name}_o(i) = mod(seed + i*7, 13)\n      {name}_a(i) = mod(seed + i*5, 11)");
        let _ = writeln!(out, "      {name}_b(i) = mod(seed/3 + i*3, 9)\n      {name}_h(mod(i, 16) + 1) = mod(i, 16)");
        let _ = writeln!(out, "      {name}_m(mod(i, 16) + 1, (i + 15)/16) = mod(seed + i, 10)");
    }
    out.push_str("      order(i) = mod(i*77 + seed, 320) + 1\n    end do\n  end subroutine\nend module\n");
    for number in 0..count {
        out.push_str(&Writer { random: &mut random, number }.program());
    }
    out.push_str("program main\n  use arrays\n  implicit none\n");
    for number in 0..count {
        let Call { fill, n, gangs } = Call::new(&mut random);
        let _ = writeln!(out, "  call fill({fill})\n  call region_{number}({n}, {gangs}, 3)");
    }
    out.push_str("end program\n");
    out
}

struct Writer<'r> {
    random: &'r mut Random,
    number: usize,
}

impl Writer<'_> {
    fn program(mut self) -> String {
        let at = self.random.below(TYPES.len() as u64) as usize;
        let ((of, name), dims) = (TYPES[at], dims(self.random));
        let whole = of.starts_with("integer");
        let Loops { clauses, text } = match self.random.below(7) {
            0 => self.map(name, whole),
            1 | 2 => self.reduction(name, whole),
            3 => self.atomics(name, whole),
            4 => self.columns(name, whole),
            5 => self.sums(name, whole),
            _ => self.scattered(name),
        };
        let number = self.number;
        format!(
            "subroutine region_{number}(n, g, s0)\n  use arrays\n  implicit none\n  integer, intent(in) :: n, g, s0\n  \
             integer :: i, j, k\n  {of} :: r, s, t\n  r = 1\n  s = s0\n!$acc parallel loop {clauses} {dims} &\n\
             !$acc copy({name}_o, {name}_h, {name}_m, r) copyin({name}_a, {name}_b, order)\n{text}\nend subroutine\n"
        )
    }

    /// Returns a loop's head over i, whose values are in 9..300.
    fn head(&mut self) -> &'static str {
        self.random.from(&["do i = 9, 200", "do i = 10, n, 3", "do i = n, 9, -1", "do i = 9, n", "do i = 9, n, g"])
    }

    /// A value of a type, between -4000 and 4000.
    fn value(&mut self, name: &str, whole: bool, index: &str) -> String {
        let (one, other) = (self.leaf(name, index), self.leaf(name, index));
        match self.random.below(8) {
            0 => one,
            1 => format!("{one} + {other}"),
            2 => format!("{one}*{other}"),
            3 => format!("{one} - {other}*s"),
            4 => format!("merge({one}, {other}, {one} > {other})"),
            5 if whole => format!("ieor({one}, {other})"),
            5 => format!("{one}*0.25 + {other}"),
            6 => format!("max({one}, {other})"),
            _ => format!("abs({one} - {other})"),
        }
    }

    fn leaf(&mut self, name: &str, index: &str) -> String {
        match self.random.below(5) {
            0 => format!("{name}_a({index})"),
            1 => format!("{name}_b({index})"),
            2 => format!("{name}_a({index} + {})", self.random.below(8)),
            3 => format!("{name}_b({index} - {})", self.random.below(8)),
            _ => String::from("s"),
        }
    }

    fn map(&mut self, name: &str, whole: bool) -> Loops {
        let (clauses, head) = (level(self.random), self.head());
        let (value, other) = (self.value(name, whole, "i"), self.value(name, whole, "i"));
        let body = match self.random.below(4) {
            0 => format!("if ({name}_a(i) > 4) {name}_o(i) = {value}"),
            1 => format!("{name}_o(i) = {name}_o(i) + {value}"),
            2 => format!("t = {value}\n    do k = 1, 3\n      t = t + {other}\n    end do\n    {name}_o(i) = t"),
            _ => format!("{name}_o(i) = {value}"),
        };
        Loops { clauses: format!("{clauses} private(t)"), text: format!("  {head}\n    {body}\n  end do") }
    }

    fn reduction(&mut self, name: &str, whole: bool) -> Loops {
        let (clauses, head, value) = (level(self.random), self.head(), self.value(name, whole, "i"));
        let (operator, body) = match self.random.below(if whole { 6 } else { 3 }) {
            0 => ("+", format!("r + {value}")),
            1 => ("max", format!("max(r, {value})")),
            2 => ("min", format!("min(r, {value})")),
            3 => ("ior", format!("ior(r, {value})")),
            4 => ("ieor", format!("ieor(r, {value})")),
            _ => ("iand", format!("iand(r, {value})")),
        };
        Loops {
            clauses: format!("{clauses} reduction({operator}:r)"),
            text: format!("  {head}\n    r = {body}\n  end do"),
        }
    }

    fn atomics(&mut self, name: &str, whole: bool) -> Loops {
        let (clauses, head, value) = (level(self.random), self.head(), self.value(name, whole, "i"));
        let place = self.random.from(&["mod(i, 16) + 1", "mod(i*3, 16) + 1", "5"]);
        let operator = self.random.from(&["+", "-"]);
        let update = format!("{name}_h({place}) = {name}_h({place}) {operator} ({value})");
        Loops { clauses, text: format!("  {head}\n!$acc atomic update\n    {update}\n  end do") }
    }

    /// Returns loops over columns of a matrix by gangs, whose elements are divided further.
    fn columns(&mut self, name: &str, whole: bool) -> Loops {
        let inner = self.random.from(&["vector", "worker", "worker vector", "seq"]);
        let value = self.value(name, whole, "(i*8 + j)");
        let text = format!(
            "  do i = 2, 19\n!$acc loop {inner}\n    do j = 1, 16\n      {name}_m(j, i) = {name}_m(j, i) + {value}\n    end do\n  end do"
        );
        Loops { clauses: "gang".to_owned(), text }
    }

    /// Returns loops that sum columns.
    fn sums(&mut self, name: &str, whole: bool) -> Loops {
        let inner = self.random.from(&["seq", "vector reduction(+:t)", "worker reduction(+:t)"]);
        let value = self.value(name, whole, "(i*8 + j)");
        let text = format!(
            "  do i = 2, 19\n    t = 2\n!$acc loop {inner}\n    do j = 1, 16\n      t = t + {name}_m(j, i) + {value}\n    end do\n    \
             {name}_o(i) = t\n  end do"
        );
        Loops { clauses: "gang private(t)".to_owned(), text }
    }

    fn scattered(&mut self, name: &str) -> Loops {
        let clauses = level(self.random);
        let body = self.random.from(&["o(i) = @a(order(i))", "o(order(i)) = @a(i) + @b(order(i))"]);
        let body = format!("{name}_{}", body.replace('@', &format!("{name}_")));
        Loops { clauses, text: format!("  do i = 1, n\n    {body}\n  end do") }
    }
}
