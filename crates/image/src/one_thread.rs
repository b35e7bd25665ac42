//! Finds regions that run on one thread: one gang with one worker, whose code uses thread numbers only to exclude all threads of its warp except
//! one.

use super::Image;
use super::definitions::definitions;
use super::ptx::{Line, code};
use std::collections::{BTreeMap, BTreeSet};

/// A kernel or function of the PTX.
#[derive(Default)]
struct Code<'a> {
    /// Whether the code uses thread numbers.
    threads: bool,
    /// Whether the code has a loop.
    loops: bool,
    calls: BTreeSet<&'a str>,
}

/// Returns, for each region of an image, whether it has a loop and runs on one thread.
pub fn on_one_thread(image: &Image) -> Vec<bool> {
    let texts: Vec<_> = image.objects.iter().map(|object| String::from_utf8_lossy(object)).collect();
    let mut known = BTreeMap::new();
    for text in &texts {
        read(text, &mut known);
    }
    let alone = |name: &str| {
        let mut seen = BTreeSet::new();
        let mut next = vec![name];
        while let Some(name) = next.pop() {
            // A function in no text is the driver's, and uses no thread number.
            let Some(code) = known.get(name).filter(|_| seen.insert(name)) else { continue };
            if code.threads {
                return false;
            }
            next.extend(&code.calls);
        }
        known.get(name).is_some_and(|code: &Code<'_>| code.loops)
    };
    let one = |function: &super::ImageFunction| matches!(function.dims, [1, 1, _]) && alone(&function.name);
    image.functions.iter().map(one).collect()
}

fn read<'a>(text: &'a str, known: &mut BTreeMap<&'a str, Code<'a>>) {
    let lines: Vec<&str> = text.lines().collect();
    for definition in definitions(&lines) {
        let Some(name) = definition.name() else { continue };
        let (body, mut labels) = (known.entry(name).or_default(), BTreeSet::new());
        let mut lines = lines[definition.body].iter().map(|line| code(line)).peekable();
        while let Some(line) = lines.next() {
            match Line::read(line) {
                Line::Label(label) => {
                    labels.insert(label);
                }
                Line::Instruction(instruction) => {
                    body.loops |= instruction.target().is_some_and(|target| labels.contains(target));
                    body.calls.extend(instruction.called());
                    let read = instruction.operands.get(1).is_some_and(|from| from.starts_with("%tid."));
                    body.threads |=
                        line.contains("%tid.") && !(read && keeps_out(instruction.operands[0], lines.peek()));
                }
                _ => {}
            }
        }
    }
}

/// Whether the line after `mov.u32 %x,%tid.x;` only tests for the first thread, and the register is not used outside the braces around both.
fn keeps_out(register: &str, next: Option<&&str>) -> bool {
    let Some(Line::Instruction(next)) = next.map(|line| Line::read(line)) else { return false };
    let first = next.operands.get(1..) == Some(&[register, "0"]);
    matches!(register, "%x" | "%y") && first && matches!(next.name, "setp.ne.u32" | "setp.eq.u32")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{compile_with, functions};
    use super::*;

    /// Returns the compiler's names of regions, and whether they run on one thread.
    fn reported(source: &str, level: &str) -> Option<BTreeMap<String, bool>> {
        let text = compile_with(source, &[level, "-w"])?;
        let functions = functions(&text);
        let image = Image { objects: vec![text.clone().into_bytes()], functions, variables: Vec::new() };
        let reported = on_one_thread(&image);
        let names = image.functions.iter().map(|function| function.name.split('$').next().unwrap_or("").to_owned());
        Some(names.zip(reported).collect())
    }

    fn with(reported: &BTreeMap<String, bool>, one: bool) -> Vec<&str> {
        reported.iter().filter(|(_, is)| **is == one).map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn regions_on_one_thread_are_told_from_others_in_c() {
        let Some(reported) = reported("one_thread.c", "-O2") else { return };
        let one = ["aliased", "called", "carried", "dependent", "in_order", "without_loop_clause"];
        assert_eq!(with(&reported, true), one);
        let more = ["gangs", "no_loop", "threads_of_a_routine", "vectors", "workers"];
        assert_eq!(with(&reported, false), more);
    }

    #[test]
    fn regions_on_one_thread_are_told_from_others_in_fortran() {
        let Some(reported) = reported("one_thread.f90", "-O2") else { return };
        assert_eq!(with(&reported, true), ["__regions_MOD_carried", "__regions_MOD_in_order"]);
        assert_eq!(with(&reported, false), ["__regions_MOD_gangs", "__regions_MOD_no_loop", "__regions_MOD_vectors"]);
    }

    #[test]
    fn without_optimization_kernels_run_on_one_thread() {
        let Some(reported) = reported("one_thread.c", "-O0") else { return };
        for name in ["aliased", "carried", "dependent", "in_order"] {
            assert!(reported[name], "{reported:?}");
        }
        for name in ["gangs", "threads_of_a_routine", "vectors", "workers"] {
            assert!(!reported[name], "{reported:?}");
        }
    }
}
