//! Places of calls: before each call of the runtime, of MPI and of NVIDIA's libraries, host code stores file, procedure and line, which times and messages
//! name.

use super::registration::{region_name, text};
use super::{declare, ops};
use crate::mlir::{Module, Op};
use crate::refusal::{Error, SourceLocation, place};
use std::fmt::Write;

const FUNCTION: &str = "accord_cuf_at";
const KIND: &str = "(!llvm.ptr, !llvm.ptr, i32) -> ()";

/// Starts of the names of functions that use devices.
const CALLED: &[&str] = &[
    "accord_cuf_",
    "accord_cublas_",
    "_FortranACUF",
    "_FortranAAllocatableDeallocate",
    "_FortranAPointerDeallocate",
    "_QPmpi_",
    "cublas",
    "cufft",
    "curand",
    "cusolver",
    "cusparse",
];

/// Texts that calls pass, by their numbers in the names of globals.
#[derive(Default)]
struct Texts(Vec<String>);

impl Texts {
    fn name(number: usize) -> String {
        format!("accord_cuf_text_{number}")
    }

    fn number(&mut self, text: &str) -> usize {
        self.0.iter().position(|known| known == text).unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        })
    }
}

/// Adds the calls to the host's functions. `known` has the aliases of locations.
pub(super) fn add(list: &mut Vec<Op>, known: &Module) -> Result<(), Error> {
    let mut texts = Texts::default();
    let mut count = 0;
    for function in list.iter_mut().filter(|op| op.name == "func.func") {
        let procedure = region_name(function.symbol().unwrap_or_default());
        add_in(function, &procedure, known, &mut texts, &mut count)?;
    }
    for (number, value) in texts.0.iter().enumerate() {
        list.push(text(&Texts::name(number), value)?);
    }
    if count > 0 {
        declare(list, FUNCTION, KIND)?;
    }
    Ok(())
}

fn add_in(op: &mut Op, procedure: &str, known: &Module, texts: &mut Texts, count: &mut usize) -> Result<(), Error> {
    for block in op.regions.iter_mut().flatten() {
        let mut at = 0;
        while at < block.ops.len() {
            add_in(&mut block.ops[at], procedure, known, texts, count)?;
            let found = called(&block.ops[at]).then(|| place(known, &block.ops[at].location)).flatten();
            if let Some(SourceLocation { file, line, .. }) = found {
                let (file, procedure) = (texts.number(&file), texts.number(procedure));
                let new = ops(&block.ops[at].location, &call(*count, file, procedure, line))?;
                let length = new.len();
                block.ops.splice(at..at, new);
                *count += 1;
                at += length;
            }
            at += 1;
        }
    }
    Ok(())
}

fn called(op: &Op) -> bool {
    let callee = if op.name == "fir.call" { op.reference("callee") } else { None };
    callee.is_some_and(|name| CALLED.iter().any(|start| name.starts_with(start)))
}

fn call(n: usize, file: usize, procedure: usize, line: u32) -> String {
    let n = format!("%accord_at{n}");
    let mut text = String::new();
    for (end, number) in [("f", file), ("p", procedure)] {
        let _ = writeln!(
            text,
            "{n}{end} = \"llvm.mlir.addressof\"() <{{global_name = @{}}}> : () -> !llvm.ptr",
            Texts::name(number)
        );
    }
    let _ = write!(
        text,
        "{n}l = \"arith.constant\"() <{{value = {line} : i32}}> : () -> i32
\"fir.call\"({n}f, {n}p, {n}l) <{{callee = @{FUNCTION}}}> : {KIND}"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlir::module;

    #[test]
    fn calls_of_the_runtime_follow_one_with_their_place() {
        let text = r#""builtin.module"() ({
"func.func"() <{function_type = () -> (), sym_name = "_QMmPs"}> ({
"fir.call"() <{callee = @accord_cuf_synchronize}> : () -> () loc("a.cuf":7:3)
"fir.call"() <{callee = @other}> : () -> () loc("a.cuf":8:3)
"fir.call"() <{callee = @_QPmpi_send}> : () -> () loc("a.cuf":9:3)
"fir.call"() <{callee = @accord_cuf_synchronize}> : () -> () loc(unknown)
}) : () -> ()
}) : () -> ()"#;
        let mut whole = module(text).unwrap();
        let known = whole.clone();
        add(whole.op.list(), &known).unwrap();
        let printed = whole.to_string();
        assert_eq!(printed.matches("callee = @accord_cuf_at").count(), 2, "{printed}");
        assert!(printed.contains("value = 7 : i32") && printed.contains("value = 9 : i32"), "{printed}");
        assert!(printed.contains("value = \"a.cuf\\00\"") && printed.contains("value = \"m::s\\00\""), "{printed}");
    }
}
