//! Random Fortran programs. An array of some type, rank, bounds and attribute passes through random data constructs. A
//! model accompanies it: two plain arrays for the values on the host and on the device, which are one if memory is
//! shared.
//!
//! `ACCORD_TEST_SEED` replaces the first seed, and `ACCORD_TEST_PROGRAMS` the number of programs.
#![forbid(unsafe_code)]

use accord_test_tier::splitmix64;
use accord_tests::{Job, Language, Optimize, Program, Result, Tool, Variant, compile, libacc, tool};
use std::fmt::Write as _;

/// Number of programs in the short tier and in the long one; each is compiled once, and runs in-process and remotely.
const SHORT: u64 = 1;
const LONG: u64 = 8;
/// Procedures of one program, each with a variable of its own.
const CASES: usize = 24;
/// Statements on the variable in one procedure.
const STATEMENTS: usize = 14;
const FIRST_SEED: u64 = 1;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (splitmix64(&mut self.0) % bound as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

/// The kind of a procedure's variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Local,
    Allocatable,
    Pointer,
    Module,
    Component,
    /// A dummy argument with this attribute; the caller has the array.
    Dummy(Shape),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Explicit,
    Assumed,
    Allocatable,
    Pointer,
}

/// One procedure being written.
struct Case<'r> {
    random: &'r mut Random,
    text: String,
    /// Declarations for the module.
    outside: String,
    index: usize,
    kind: &'static str,
    holder: Holder,
    bounds: Vec<(i32, i32)>,
    name: String,
    /// Number of `enter data` without `exit data` so far.
    dynamic: usize,
    /// Open data constructs: whether each copies out.
    open: Vec<bool>,
    /// Queue of the last statement.
    queue: Option<usize>,
}

const KINDS: [&str; 6] = ["integer(4)", "integer(8)", "integer(2)", "real(4)", "real(8)", "complex(8)"];

impl Case<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.text, "    {}", text.as_ref());
    }

    fn present(&self) -> bool {
        self.dynamic > 0 || !self.open.is_empty()
    }

    fn colons(&self) -> String {
        vec![":"; self.bounds.len()].join(",")
    }

    fn extents(&self) -> String {
        self.bounds.iter().map(|(low, high)| format!("{low}:{high}")).collect::<Vec<_>>().join(",")
    }

    fn fresh_bounds(&mut self) {
        for bound in &mut self.bounds {
            let low = [-3, 0, 1, 5][self.random.below(4)];
            *bound = (low, low + [0, 1, 3, 4, 8][self.random.below(5)]);
        }
    }

    /// Writes an assignment to all elements of `name`; `reads` says whether it uses the old values.
    fn loops(&mut self, name: &str, reads: bool, by: usize) {
        let rank = self.bounds.len();
        for at in (1..=rank).rev() {
            self.line(format!("do i{at} = lbound({name},{at}), ubound({name},{at})"));
        }
        let index = (1..=rank).map(|at| format!("i{at}")).collect::<Vec<_>>().join(",");
        let sum = (1..=rank).map(|at| format!("{at}*i{at}")).collect::<Vec<_>>().join("+");
        let old = format!("{name}({index})");
        let (kind, value) = (self.kind, format!("{sum}+{by}"));
        let right = match (kind.as_bytes()[0], reads) {
            (b'i', true) => format!("int(mod(3*int({old},8)+{value}, 997_8),kind({old}))"),
            (b'i', false) => format!("int({value},kind({old}))"),
            (b'c', true) => format!("0.5d0*{old}+cmplx({value},{by},8)"),
            (b'c', false) => format!("cmplx({value},{by},8)"),
            (_, true) => format!("0.5*{old}+({value})"),
            (_, false) => format!("real({value},kind({old}))"),
        };
        self.line(format!("{old} = {right}"));
        for _ in 0..rank {
            self.line("end do");
        }
    }

    /// Returns the queue clause of the next statement, after a wait for the previous one if that is in another queue.
    fn queue(&mut self) -> String {
        let next = self.random.chance(2).then(|| 1 + self.random.below(3));
        if self.queue.is_some() && self.queue != next {
            match (self.queue, next) {
                (Some(last), Some(next)) if self.random.chance(2) => {
                    self.line(format!("!$acc wait({last}) async({next})"));
                }
                _ => self.line("!$acc wait"),
            }
        }
        self.queue = next;
        next.map_or(String::new(), |queue| format!(" async({queue})"))
    }

    fn settle(&mut self) {
        if self.queue.take().is_some() {
            self.line("!$acc wait");
        }
    }

    /// Writes a region that updates the variable, or overwrites all of it.
    fn region(&mut self, clause: &str, reads: bool, model: &str) {
        let (name, by, queue) = (self.name.clone(), self.random.below(50), self.queue());
        let (rank, component) = (self.bounds.len(), self.holder == Holder::Component);
        let clause = match clause {
            "present" if component => "present(x)".to_owned(),
            "present" => self
                .random
                .one(&["default(present)", "present(V)", "copy(V)", "copyin(V)", "create(V)"])
                .replace('V', &name),
            other => other.replace('V', &name),
        };
        let (begin, end) = match self.random.below(4) {
            0 => (format!("!$acc kernels {clause}{queue}"), "!$acc end kernels"),
            1 => (format!("!$acc serial {clause}{queue}"), "!$acc end serial"),
            2 if rank > 1 => (format!("!$acc parallel loop collapse({rank}) {clause}{queue}"), ""),
            _ => (format!("!$acc parallel loop {clause}{queue}"), ""),
        };
        self.line(begin);
        self.loops(&name, reads, by);
        if !end.is_empty() {
            self.line(end);
        }
        self.loops(model, reads, by);
    }

    /// Returns the whole variable, or planes of its last dimension, and the same section of the model's array.
    fn section(&mut self) -> (String, String) {
        let (low, high) = self.bounds[self.bounds.len() - 1];
        if self.random.chance(2) {
            return (self.name.clone(), String::new());
        }
        let from = low + self.random.below((high - low + 1) as usize) as i32;
        let upto = from + self.random.below((high - from + 1) as usize) as i32;
        let section = format!("({}{from}:{upto})", ":,".repeat(self.bounds.len() - 1));
        (format!("{}{section}", self.name), section)
    }

    fn becomes_present(&mut self, was: bool) {
        if !was {
            self.line("d = h");
        }
    }

    fn statement(&mut self) {
        let (name, was) = (self.name.clone(), self.present());
        match self.random.below(12) {
            0 | 1 => {
                self.settle();
                let by = self.random.below(50);
                self.loops(&name, true, by);
                self.loops("h", true, by);
            }
            2 => {
                let (kind, queue) = (self.random.one(&["copyin", "create"]), self.queue());
                self.line(format!("!$acc enter data {kind}({name}){queue}"));
                if kind == "create" && !was {
                    self.line(format!("!$acc update device({name}){queue}"));
                }
                self.becomes_present(was);
                self.dynamic += 1;
            }
            3 if self.dynamic > 0 => {
                let (kind, queue) = (self.random.one(&["copyout", "delete"]), self.queue());
                // finalize of a component ends its object, too (docs/design/data.md).
                let finalize = self.random.chance(4) && self.holder != Holder::Component;
                let words = if finalize { " finalize" } else { "" };
                self.line(format!("!$acc exit data {kind}({name}){words}{queue}"));
                self.dynamic = if finalize { 0 } else { self.dynamic - 1 };
                if !self.present() && kind == "copyout" {
                    self.line("h = d");
                }
            }
            4 | 5 => {
                let ((section, of), queue) = (self.section(), self.queue());
                let (self_, skip) = (self.random.chance(2), if was { "" } else { " if_present" });
                let way = if self_ { "self" } else { "device" };
                self.line(format!("!$acc update {way}({section}){skip}{queue}"));
                if was {
                    self.line(if self_ { format!("h{of} = d{of}") } else { format!("d{of} = h{of}") });
                }
            }
            6 if self.open.len() < 3 => {
                self.settle();
                let clause = self.random.one(&["copy", "copyin", "copyout", "create", "no_create", "present"]);
                if !was && (clause == "no_create" || clause == "present") {
                    return;
                }
                self.line(format!("!$acc data {clause}({name})"));
                self.open.push(clause == "copy" || clause == "copyout");
                if !was && (clause == "copyout" || clause == "create") {
                    self.region("present", false, "d");
                    if self.holder == Holder::Component {
                        return;
                    }
                }
                self.becomes_present(was || clause == "copyout" || clause == "create");
            }
            7 if !self.open.is_empty() => self.close(),
            8 if !was => self.anew(),
            9 => {
                self.settle();
                self.line(format!(
                    "s = 0; t = 0\n    !$acc parallel copyin({name}) copy(s)\n    s = nint(real(sum({name}),8))"
                ));
                self.line(format!("!$acc end parallel\n    t = nint(real(sum({}),8))", if was { "d" } else { "h" }));
                self.line(format!("if (s /= t) call differ({}, 'a sum')", self.index));
            }
            _ if was => self.region("present", true, "d"),
            _ => self.region("copy(V)", true, "h"),
        }
    }

    fn close(&mut self) {
        self.settle();
        let copies = self.open.pop() == Some(true);
        self.line("!$acc end data");
        if copies && !self.present() {
            self.line("h = d");
        }
    }

    /// Replaces the array by a new one, where the attribute allows it.
    fn anew(&mut self) {
        use Holder::{Allocatable, Component, Dummy, Module, Pointer};
        if matches!(
            self.holder,
            Allocatable | Module | Pointer | Component | Dummy(Shape::Allocatable | Shape::Pointer)
        ) {
            self.settle();
            if self.holder == Component {
                // The object on the device has the old descriptor.
                return;
            }
            self.fresh_bounds();
            let (name, extents) = (self.name.clone(), self.extents());
            self.line(format!("deallocate({name})\n    allocate({name}({extents}))"));
            self.model();
        }
    }

    /// Writes the model's arrays, and initial values of all arrays.
    fn model(&mut self) {
        let (name, extents, by) = (self.name.clone(), self.extents(), self.random.below(50));
        self.line(format!("allocate(h({extents}))\n    d => h\n    if (separate()) allocate(d({extents}))"));
        self.loops(&name, false, by);
        self.loops("h", false, by);
        self.line("d = h");
    }

    fn write(mut self) -> (String, String) {
        let (index, kind, colons) = (self.index, self.kind, self.colons());
        self.fresh_bounds();
        let (extents, rank) = (self.extents(), self.bounds.len());
        let dummy = |attribute: &str, shape: &str| format!("{kind}{attribute} :: a({shape})");
        let (declared, caller) = match self.holder {
            Holder::Local => (dummy("", &extents), None),
            Holder::Allocatable => (dummy(", allocatable", &colons), None),
            Holder::Pointer => (dummy(", pointer", &colons), None),
            Holder::Module => {
                self.name = format!("m{index}");
                let _ = writeln!(self.outside, "  {kind}, allocatable :: m{index}({colons})");
                (String::new(), None)
            }
            Holder::Component => {
                self.name = "x%v".to_owned();
                let _ = writeln!(
                    self.outside,
                    "  type t{index}\n    integer :: head\n    {kind}, allocatable :: v({colons})\n  end type"
                );
                (format!("type(t{index}) :: x"), None)
            }
            Holder::Dummy(Shape::Explicit) => (dummy("", &extents), Some(dummy("", &extents))),
            Holder::Dummy(Shape::Assumed) => {
                let low: Vec<_> = self.bounds.iter().map(|(low, _)| format!("{low}:")).collect();
                (dummy("", &low.join(",")), Some(dummy("", &extents)))
            }
            Holder::Dummy(Shape::Allocatable) => {
                (dummy(", allocatable", &colons), Some(dummy(", allocatable", &colons)))
            }
            Holder::Dummy(Shape::Pointer) => (dummy(", pointer", &colons), Some(dummy(", pointer", &colons))),
        };
        let allocates = !matches!(self.holder, Holder::Local | Holder::Dummy(Shape::Explicit | Shape::Assumed));
        let name = self.name.clone();
        let allocate = if allocates { format!("    allocate({name}({extents}))\n") } else { String::new() };
        let argument = if caller.is_some() { "a" } else { "" };
        self.text = format!(
            "  subroutine case{index}({argument})\n    {declared}\n    {kind}, pointer :: h({colons}), d({colons})\n    integer :: i1, i2, i3\n    integer(8) :: s, t\n"
        );
        if caller.is_none() {
            self.text += &allocate;
        }
        self.model();
        let component = self.holder == Holder::Component;
        if component {
            self.line("!$acc enter data copyin(x)");
        }
        for _ in 0..STATEMENTS {
            self.statement();
        }
        while !self.open.is_empty() {
            self.close();
        }
        self.settle();
        if self.dynamic > 0 {
            for _ in 0..self.dynamic {
                self.line(format!("!$acc exit data copyout({name})"));
            }
            self.line("h = d");
        }
        if component {
            self.line("!$acc exit data delete(x)");
        }
        self.line(format!("if (any({name} /= h)) call differ({index}, 'the host''s array')"));
        self.line(format!(
            "if (separate() .and. acc_is_present({name}(lbound({name},1){}))) call differ({index}, 'presence')",
            (2..=rank).fold(String::new(), |all, at| all + &format!(",lbound({name},{at})"))
        ));
        self.text += &format!("  end subroutine\n  subroutine run{index}()\n");
        if let Some(caller) = caller {
            self.text += &format!("    {caller}\n{allocate}    call case{index}(a)\n  end subroutine\n");
        } else {
            self.text += &format!("    call case{index}()\n  end subroutine\n");
        }
        (self.outside, self.text)
    }
}

/// Returns the program of a seed.
fn program(seed: u64) -> String {
    let mut random = Random(seed);
    let (mut outside, mut inside, mut calls) = (String::new(), String::new(), String::new());
    for index in 1..=CASES {
        let kind = KINDS[random.below(KINDS.len())];
        let shape = [Shape::Explicit, Shape::Assumed, Shape::Allocatable, Shape::Pointer][random.below(4)];
        use Holder::{Allocatable, Component, Dummy, Local, Module, Pointer};
        let holder =
            [Local, Allocatable, Pointer, Module, Component, Dummy(shape), Dummy(shape), Dummy(shape)][random.below(8)];
        let bounds = vec![(1, 1); 1 + random.below(3)];
        let case = Case {
            random: &mut random,
            text: String::new(),
            outside: String::new(),
            index,
            kind,
            holder,
            bounds,
            name: "a".to_owned(),
            dynamic: 0,
            open: Vec::new(),
            queue: None,
        };
        let (declarations, procedures) = case.write();
        outside += &declarations;
        inside += &procedures;
        let _ = writeln!(calls, "  call run{index}()");
    }
    format!(
        "! BUILD flags=-ffree-line-length-none\nmodule cases\n  use check\n  implicit none\n{outside}contains\n{inside}  subroutine differ(index, what)\n    \
         integer, intent(in) :: index\n    character(*), intent(in) :: what\n    write (*, '(a,i0,2a)') 'FAIL case', index, ' differs in ', what\n    \
         flush (6)\n    stop 1\n  end subroutine\nend module\nprogram main\n  use cases\n  implicit none\n{calls}  call pass()\nend program\n"
    )
}

/// Returns the procedure that a report names, or else the whole program.
fn displayed(text: &str, report: &str) -> String {
    let index = report.split("FAIL case").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("");
    match text.split_once(&format!("subroutine case{index}(")) {
        Some((_, rest)) if !index.is_empty() => {
            let body = rest.split_once("  end subroutine\n  subroutine case").map_or(rest, |(body, _)| body);
            format!("subroutine case{index}({body}")
        }
        _ => text.to_owned(),
    }
}

/// Runs it without libacc, with libacc in the process, and on a device of another node.
fn check(seed: u64) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (text, path) = (program(seed), folder.path().join("random.f90"));
    std::fs::write(&path, &text).map_err(|error| error.to_string())?;
    let optimize = if seed.is_multiple_of(2) { Optimize::No } else { Optimize::Yes };
    let variant = Variant { optimize, offload: false, linked: false };
    let failed = |how: &str, why: String| {
        format!("ACCORD_TEST_SEED={seed}, {how}, {variant}: {why}\n{}", displayed(&text, &why))
    };
    let built = compile(&Program::read(path, Language::Fortran)?, variant).map_err(|why| failed("compiling", why))?;
    let local =
        || -> Result<Job> { Ok(Job::new(&built.program).env("LD_PRELOAD", libacc()?).env("ACCORD_CPU_DEVICES", "1")) };
    let remote = || -> Result<Job> {
        let job = Job::new(tool(Tool::Accord)?).args(["run", "--local-cluster", "2x1", "--loopback", "--"]);
        Ok(job.arg(&built.program).env("ACC_DEVICE_NUM", "1"))
    };
    let here = |job: Job| -> Result<Job> {
        Ok(job.env("ACCORD_CPU_MEMORY", "512M").env("ACCORD_LIBACC", libacc()?).env("ACCORD_TEST_SEPARATE", "1"))
    };
    let jobs = [("stock", Job::new(&built.program)), ("in-process", here(local()?)?), ("remote", here(remote()?)?)];
    for (how, job) in jobs {
        let finished = job.run()?.success().map_err(|why| failed(how, why))?;
        if !finished.stdout.lines().any(|line| line == "PASS") {
            return Err(failed(how, finished.report()));
        }
    }
    std::fs::remove_file(&built.program).map_err(|error| error.to_string())
}

#[test]
fn random_programs_agree_with_the_model() {
    let first = number("ACCORD_TEST_SEED", FIRST_SEED + accord_test_tier::first_seed(SHORT));
    for seed in first..first + number("ACCORD_TEST_PROGRAMS", accord_test_tier::pick(SHORT, LONG)) {
        if let Err(why) = check(seed) {
            panic!("{why}");
        }
    }
}
