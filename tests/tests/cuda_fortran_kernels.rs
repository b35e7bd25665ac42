//! Random kernels of CUDA Fortran with barriers, on CPU devices, compared with an interpreter that runs the threads of a block in random order between
//! barriers. Barriers are in uniform control flow, most of which the compiler cuts; loops with a condition run as fibers. Skipped, with a message, without
//! LLVM 22.
//!
//! `ACCORD_TEST_SEED` replaces the first seed, and `ACCORD_TEST_PROGRAMS` the number of programs.
#![forbid(unsafe_code)]

use accord_test_tier::splitmix64;
use accord_tests::{Job, Result, Tool, libacc, tool};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const FLANG: &str = "/usr/lib/llvm-22/bin/flang";
/// Number of programs in the short tier and in the long one.
const SHORT: u64 = 1;
const LONG: u64 = 12;
const FIRST_SEED: u64 = 1;
/// Kernels of one program.
const KERNELS: usize = 8;
/// Blocks of a launch.
const BLOCKS: usize = 2;
/// Threads of a block in each dimension.
const SHAPES: &[[usize; 3]] = &[[32, 1, 1], [16, 4, 1], [8, 8, 1], [7, 5, 1], [64, 1, 1], [5, 3, 2], [1, 1, 1]];
/// Results of assignments are this many bits, so that no sum overflows.
const MASK: i32 = 0xffff;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (splitmix64(&mut self.0) % bound as u64) as usize
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

/// Arrays of a block: two in shared memory, and its part of the argument.
const ARRAYS: [&str; 3] = ["s1", "s2", "g"];
/// Local variables: three that differ between threads, then one that does not.
const VARIABLES: [&str; 4] = ["x", "y", "z", "u"];
const UNIFORM: usize = 3;
/// Elements of the local array.
const LOCAL: usize = 4;

#[derive(Clone, Debug)]
enum Expression {
    Constant(i32),
    /// The thread's number in its block, from 0.
    Thread,
    /// The block's number, from 0.
    Block,
    N,
    Variable(usize),
    /// The variable of a loop, by depth.
    Loop(usize),
    Element(usize, Box<Self>),
    LocalElement(Box<Self>),
    Binary(&'static str, Box<Self>, Box<Self>),
}

#[derive(Clone, Debug)]
enum Statement {
    Assign(usize, Expression),
    AssignLocal(Expression, Expression),
    /// Writes an element of an array: the thread's own, or that of the thread this many numbers on.
    Write(usize, usize, Expression),
    /// Both conditions are `expression > constant`.
    If(Expression, i32, Vec<Self>, Vec<Self>),
    /// A loop with a number of iterations that is known before.
    Do(usize, Expression, Vec<Self>),
    /// A loop with a condition: as many iterations as the constant.
    While(usize, i32, Vec<Self>),
    Barrier,
}

/// A kernel's generator.
struct Generator {
    random: Random,
    threads: usize,
    depth: usize,
}

impl Generator {
    /// Returns an expression. `written` is the array that other threads may write now.
    fn expression(&mut self, depth: usize, written: Option<usize>, is_uniform: bool) -> Expression {
        if depth > 0 && !self.random.chance(3) {
            let operator = ["+", "-", "ieor", "iand", "max", "min"][self.random.below(6)];
            let left = self.expression(depth - 1, written, is_uniform);
            let right = self.expression(depth - 1, written, is_uniform);
            return Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        match self.random.below(if is_uniform { 5 } else { 10 }) {
            0 => Expression::Constant(self.random.below(100) as i32),
            1 => Expression::N,
            2 => Expression::Block,
            3 => Expression::Variable(UNIFORM),
            4 if self.depth > 0 => Expression::Loop(self.random.below(self.depth)),
            4 => Expression::Constant(7),
            5 => Expression::Thread,
            6 => Expression::Variable(self.random.below(UNIFORM)),
            7 => Expression::LocalElement(self.index()),
            _ => {
                let array = (written.unwrap_or(0) + 1 + self.random.below(2)) % 3;
                Expression::Element(array, self.index())
            }
        }
    }

    /// Returns an index, which is no element of an array: flang takes minutes for deeper expressions.
    fn index(&mut self) -> Box<Expression> {
        let constant = Expression::Constant(self.random.below(100) as i32);
        let value = match self.random.below(4) {
            0 => Expression::N,
            1 => Expression::Variable(self.random.below(VARIABLES.len())),
            2 if self.depth > 0 => Expression::Loop(self.random.below(self.depth)),
            _ => Expression::Thread,
        };
        Box::new(Expression::Binary("+", Box::new(value), Box::new(constant)))
    }

    /// Returns statements without barriers. Threads write to one array, each to one element.
    fn work(&mut self, array: usize, shift: usize, count: usize, depth: usize) -> Vec<Statement> {
        (0..count).map(|_| self.statement(array, shift, depth)).collect()
    }

    fn statement(&mut self, array: usize, shift: usize, depth: usize) -> Statement {
        let value = self.expression(2, Some(array), false);
        match self.random.below(if depth > 0 { 7 } else { 5 }) {
            0 | 1 => Statement::Write(array, shift, value),
            2 | 3 => Statement::Assign(self.random.below(UNIFORM), value),
            4 => Statement::AssignLocal(*self.index(), value),
            5 => {
                let then = self.work(array, shift, 2, depth - 1);
                let otherwise = self.work(array, shift, 1, depth - 1);
                Statement::If(value, self.random.below(60_000) as i32, then, otherwise)
            }
            _ => {
                let index = self.depth;
                self.depth += 1;
                let body = self.work(array, shift, 2, depth - 1);
                self.depth -= 1;
                let count = Expression::Binary("iand", Box::new(value), Box::new(Expression::Constant(3)));
                Statement::Do(index, count, body)
            }
        }
    }

    /// Returns statements that end with a barrier.
    fn rounds(&mut self, count: usize, depth: usize) -> Vec<Statement> {
        let mut list = Vec::new();
        for _ in 0..count {
            match self.random.below(if depth > 0 { 6 } else { 3 }) {
                3 => {
                    let condition = self.expression(1, None, true);
                    let (then, otherwise) = (self.rounds(1, depth - 1), self.rounds(1, depth - 1));
                    list.push(Statement::If(condition, self.random.below(40) as i32, then, otherwise));
                }
                kind @ (4 | 5) => {
                    let index = self.depth;
                    self.depth += 1;
                    let body = self.rounds(1, depth - 1);
                    self.depth -= 1;
                    let count = self.expression(0, None, true);
                    let count = Expression::Binary("iand", Box::new(count), Box::new(Expression::Constant(3)));
                    list.push(if kind == 5 && self.random.chance(2) {
                        Statement::While(index, 1 + self.random.below(3) as i32, body)
                    } else {
                        Statement::Do(index, count, body)
                    });
                }
                _ => {
                    let (array, shift) = (self.random.below(3), self.random.below(self.threads));
                    if self.random.chance(3) {
                        list.push(Statement::Assign(UNIFORM, self.expression(2, None, true)));
                    }
                    let count = 1 + self.random.below(4);
                    list.extend(self.work(array, shift, count, 2));
                    list.push(Statement::Barrier);
                }
            }
        }
        list
    }

    fn kernel(&mut self) -> Vec<Statement> {
        let mut list: Vec<_> = (0..VARIABLES.len())
            .map(|variable| {
                let start = if variable == UNIFORM { Expression::N } else { Expression::Thread };
                Statement::Assign(variable, start)
            })
            .collect();
        let thread = || Box::new(Expression::Thread);
        let all = (0..LOCAL as i32).map(|at| Statement::AssignLocal(Expression::Constant(at), Expression::Thread));
        list.extend(all);
        for array in 0..2 {
            let value = Expression::Binary("+", thread(), Box::new(Expression::Constant(array as i32 * 10)));
            list.extend([Statement::Write(array, 0, value), Statement::Barrier]);
        }
        list.extend(self.rounds(4, 2));
        let own = Statement::Write(
            2,
            0,
            Expression::Binary("+", Box::new(Expression::Variable(0)), Box::new(Expression::Element(0, thread()))),
        );
        list.push(own);
        list
    }
}

impl Expression {
    fn text(&self, threads: usize) -> String {
        let index = |of: &Self, count: usize| format!("mod(iand({}, {MASK}), {count}) + 1", of.text(threads));
        match self {
            Self::Constant(value) => value.to_string(),
            Self::Thread => "t".to_owned(),
            Self::Block => "b".to_owned(),
            Self::N => "n".to_owned(),
            Self::Variable(at) => VARIABLES[*at].to_owned(),
            Self::Loop(depth) => format!("i{depth}"),
            Self::Element(2, at) => format!("g(b * {threads} + {})", index(at, threads)),
            Self::Element(array, at) => format!("{}({})", ARRAYS[*array], index(at, threads)),
            Self::LocalElement(at) => format!("w({})", index(at, LOCAL)),
            Self::Binary(operator @ ("+" | "-"), left, right) => {
                format!("({} {operator} {})", left.text(threads), right.text(threads))
            }
            Self::Binary(function, left, right) => {
                format!("{function}({}, {})", left.text(threads), right.text(threads))
            }
        }
    }
}

fn print(list: &[Statement], threads: usize, indent: usize, out: &mut String) {
    let pad = "  ".repeat(indent);
    for statement in list {
        let _ = match statement {
            Statement::Assign(at, value) => {
                writeln!(out, "{pad}{} = iand({}, {MASK})", VARIABLES[*at], value.text(threads))
            }
            Statement::AssignLocal(at, value) => {
                let index = Expression::LocalElement(Box::new(at.clone())).text(threads);
                writeln!(out, "{pad}{index} = iand({}, {MASK})", value.text(threads))
            }
            Statement::Write(array, shift, value) => {
                let index = format!("mod(t + {shift}, {threads}) + 1");
                let base = if *array == 2 { format!("b * {threads} + ") } else { String::new() };
                writeln!(out, "{pad}{}({base}{index}) = iand({}, {MASK})", ARRAYS[*array], value.text(threads))
            }
            Statement::If(condition, bound, then, otherwise) => {
                let _ = writeln!(out, "{pad}if ({} > {bound}) then", condition.text(threads));
                print(then, threads, indent + 1, out);
                let _ = writeln!(out, "{pad}else");
                print(otherwise, threads, indent + 1, out);
                writeln!(out, "{pad}end if")
            }
            Statement::Do(index, count, body) => {
                let _ = writeln!(out, "{pad}do i{index} = 1, {}", count.text(threads));
                print(body, threads, indent + 1, out);
                writeln!(out, "{pad}end do")
            }
            Statement::While(index, count, body) => {
                let _ = writeln!(out, "{pad}i{index} = 1\n{pad}do while (i{index} <= {count})");
                print(body, threads, indent + 1, out);
                writeln!(out, "{pad}  i{index} = i{index} + 1\n{pad}end do")
            }
            Statement::Barrier => writeln!(out, "{pad}call syncthreads()"),
        };
    }
}

/// An instruction of the interpreter.
enum Instruction {
    Statement(Statement),
    /// Sets a loop's variable, and its bound if there is one.
    Begin(usize, Option<Expression>),
    /// Adds one to a loop's variable.
    Next(usize),
    /// Goes on at the second place if the loop is over.
    IfOver(usize, usize),
    IfNot(Expression, i32, usize),
    Jump(usize),
}

fn flatten(list: &[Statement], code: &mut Vec<Instruction>) {
    for statement in list {
        match statement {
            Statement::If(condition, bound, then, otherwise) => {
                let test = code.len();
                code.push(Instruction::Jump(0));
                flatten(then, code);
                let end = code.len();
                code.push(Instruction::Jump(0));
                code[test] = Instruction::IfNot(condition.clone(), *bound, code.len());
                flatten(otherwise, code);
                code[end] = Instruction::Jump(code.len());
            }
            Statement::Do(index, _, body) | Statement::While(index, _, body) => {
                let bound = match statement {
                    Statement::Do(_, count, _) => count.clone(),
                    Statement::While(_, count, _) => Expression::Constant(*count),
                    _ => continue,
                };
                code.push(Instruction::Begin(*index, Some(bound)));
                let test = code.len();
                code.push(Instruction::Jump(0));
                flatten(body, code);
                code.extend([Instruction::Next(*index), Instruction::Jump(test)]);
                code[test] = Instruction::IfOver(*index, code.len());
            }
            _ => code.push(Instruction::Statement(statement.clone())),
        }
    }
}

#[derive(Clone, Default)]
struct Thread {
    at: usize,
    variables: [i32; VARIABLES.len()],
    local: [i32; LOCAL],
    loops: [i32; 16],
    bounds: [i32; 16],
    waits: bool,
}

/// One block's run by the interpreter.
struct Block {
    number: usize,
    n: i32,
    threads: usize,
    arrays: [Vec<i32>; 3],
}

impl Block {
    fn value(&self, thread: &Thread, number: usize, of: &Expression) -> i32 {
        let index = |at: &Expression, count: usize| (self.value(thread, number, at) & MASK) as usize % count;
        match of {
            Expression::Constant(value) => *value,
            Expression::Thread => number as i32,
            Expression::Block => self.number as i32,
            Expression::N => self.n,
            Expression::Variable(at) => thread.variables[*at],
            Expression::Loop(depth) => thread.loops[*depth],
            Expression::Element(array, at) => self.arrays[*array][index(at, self.threads)],
            Expression::LocalElement(at) => thread.local[index(at, LOCAL)],
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(thread, number, left), self.value(thread, number, right));
                match *operator {
                    "+" => left + right,
                    "-" => left - right,
                    "ieor" => left ^ right,
                    "iand" => left & right,
                    "max" => left.max(right),
                    _ => left.min(right),
                }
            }
        }
    }

    fn step(&mut self, thread: &mut Thread, number: usize, code: &[Instruction]) {
        thread.at += 1;
        match &code[thread.at - 1] {
            Instruction::Statement(Statement::Assign(at, value)) => {
                thread.variables[*at] = self.value(thread, number, value) & MASK;
            }
            Instruction::Statement(Statement::AssignLocal(at, value)) => {
                let index = (self.value(thread, number, at) & MASK) as usize % LOCAL;
                thread.local[index] = self.value(thread, number, value) & MASK;
            }
            Instruction::Statement(Statement::Write(array, shift, value)) => {
                self.arrays[*array][(number + shift) % self.threads] = self.value(thread, number, value) & MASK;
            }
            Instruction::Statement(_) => thread.waits = true,
            Instruction::Begin(index, bound) => {
                let bound = bound.as_ref().map_or(0, |bound| self.value(thread, number, bound));
                (thread.loops[*index], thread.bounds[*index]) = (1, bound);
            }
            Instruction::Next(index) => thread.loops[*index] += 1,
            Instruction::IfOver(index, to) if thread.loops[*index] > thread.bounds[*index] => thread.at = *to,
            Instruction::IfNot(condition, bound, to) if self.value(thread, number, condition) <= *bound => {
                thread.at = *to;
            }
            Instruction::Jump(to) => thread.at = *to,
            Instruction::IfOver(..) | Instruction::IfNot(..) => {}
        }
    }

    /// Runs all threads, a random one for some steps at a time.
    fn run(&mut self, code: &[Instruction], random: &mut Random) {
        let mut threads = vec![Thread::default(); self.threads];
        loop {
            let ready: Vec<usize> =
                (0..self.threads).filter(|at| !threads[*at].waits && threads[*at].at < code.len()).collect();
            if ready.is_empty() {
                if threads.iter().all(|thread| thread.at >= code.len()) {
                    return;
                }
                threads.iter_mut().for_each(|thread| thread.waits = false);
                continue;
            }
            let number = ready[random.below(ready.len())];
            let mut thread = std::mem::take(&mut threads[number]);
            for _ in 0..1 + random.below(20) {
                if thread.waits || thread.at >= code.len() {
                    break;
                }
                self.step(&mut thread, number, code);
            }
            threads[number] = thread;
        }
    }
}

/// The argument's element with this index before the launch.
fn initial(index: usize) -> i32 {
    (index * 37 % 101) as i32
}

/// Returns a program, and the lines that it has to print.
fn program(seed: u64) -> (String, Vec<String>) {
    let (mut kernels, mut calls, mut wanted) = (String::new(), String::new(), Vec::new());
    for index in 0..KERNELS {
        let mut random = Random(seed.wrapping_mul(1009).wrapping_add(index as u64));
        let shape = SHAPES[random.below(SHAPES.len())];
        let threads: usize = shape.iter().product();
        let n = random.below(50) as i32;
        let mut generator = Generator { random, threads, depth: 0 };
        let list = generator.kernel();
        let _ = writeln!(
            kernels,
            "  attributes(global) subroutine k{index}(g, n)\n    integer :: g(*)\n    integer, value :: n\n    integer, shared :: s1({threads}), s2({threads})\n    \
             integer :: x, y, z, u, w({LOCAL}), t, b, i0, i1, i2, i3, i4, i5, i6, i7\n    \
             t = threadidx%x - 1 + blockdim%x * (threadidx%y - 1 + blockdim%y * (threadidx%z - 1))\n    b = blockidx%x - 1"
        );
        print(&list, threads, 2, &mut kernels);
        kernels.push_str("  end subroutine\n");
        let [x, y, z] = shape;
        let all = threads * BLOCKS;
        let _ = writeln!(
            calls,
            "  h(1:{all}) = [(mod(i * 37, 101), i = 0, {all} - 1)]\n  g = h\n  call k{index}<<<{BLOCKS}, dim3({x}, {y}, {z})>>>(g, {n})\n  h = g\n  \
             print '(a,*(1x,i0))', 'k{index}', h(1:{all})"
        );
        let mut code = Vec::new();
        flatten(&list, &mut code);
        let mut line = format!("k{index}");
        for number in 0..BLOCKS {
            let own = (number * threads..(number + 1) * threads).map(initial).collect();
            let arrays = [vec![0; threads], vec![0; threads], own];
            let mut block = Block { number, n, threads, arrays };
            block.run(&code, &mut generator.random);
            block.arrays[2].iter().for_each(|value| {
                let _ = write!(line, " {value}");
            });
        }
        wanted.push(line);
    }
    let text = format!(
        "module kernels\ncontains\n{kernels}end module\nprogram p\n  use cudafor\n  use kernels\n  integer, device :: g({0})\n  integer :: h({0}), i\n  h = 0\n{calls}end program\n",
        64 * BLOCKS
    );
    (text, wanted)
}

/// Runs a program in-process, and on a device of another node.
fn check(seed: u64) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (text, wanted) = program(seed);
    let source = folder.path().join("random.cuf");
    std::fs::write(&source, &text).map_err(|error| error.to_string())?;
    let path = folder.path().join("random");
    let failed = |how: &str, why: &str| format!("ACCORD_TEST_SEED={seed}, {how}: {why}\n{text}");
    libacc()?;
    let mut command = Command::new(tool(Tool::Accord)?);
    command.arg("cuf").arg(&source).arg("-o").arg(&path).current_dir(folder.path()).env_remove("ACCORD_LIBACC");
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(failed("compiling", &String::from_utf8_lossy(&output.stderr)));
    }
    for cluster in [&["1x1"][..], &["2x1", "--remote-only"]] {
        let job = Job::new(tool(Tool::Accord)?).args(["run", "--local-cluster"]).args(cluster.iter().copied());
        let job = job.arg("--").arg(&path).env("ACCORD_CPU_MEMORY", "64M").env("ACCORD_LIBACC", libacc()?);
        let finished = job.run()?.success().map_err(|why| failed(cluster[0], &why))?;
        let lines: Vec<&str> = finished.stdout.lines().map(str::trim).filter(|line| line.starts_with('k')).collect();
        if let Some((printed, wanted)) = lines.iter().zip(&wanted).find(|(line, wanted)| *line != wanted) {
            return Err(failed(cluster[0], &format!("printed\n{printed}\nin place of\n{wanted}")));
        }
        if lines.len() != wanted.len() {
            return Err(failed(cluster[0], &finished.report()));
        }
    }
    Ok(())
}

#[test]
fn random_kernels_agree_with_the_interpreter() {
    if !Path::new(FLANG).is_file() {
        println!("skipped: no {FLANG}: install flang-22 and llvm-22");
        return;
    }
    let first = number("ACCORD_TEST_SEED", FIRST_SEED + accord_test_tier::first_seed(SHORT));
    for seed in first..first + number("ACCORD_TEST_PROGRAMS", accord_test_tier::pick(SHORT, LONG)) {
        if let Err(why) = check(seed) {
            panic!("{why}");
        }
    }
}
