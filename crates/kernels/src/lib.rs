//! Rewrites `kernels` constructs as parallel regions. Pure: text in, text out.
//!
//! A front end reads the source into the intermediate representation ([`ir`]), [`analysis`] decides for each loop, [`plan`] for each
//! construct, and the emitter edits the source's text.

#![forbid(unsafe_code)]

pub mod analysis;
mod c;
mod clause;
mod edits;
mod emit;
mod fortran;
pub mod ir;
pub mod plan;
pub mod poly;
mod remedy;
pub mod source;
#[cfg(test)]
mod tests;
pub mod text;
mod walk;

use analysis::Rules;
use edits::Edits;
use emit::clauses::{Around, around};
use ir::Construct;
use plan::{Note, Plan};
use source::{Line, Source};

pub use fortran::{Form, Input, Module};

/// What constructs become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// `parallel loop`.
    Parallel,
    /// Host loops in another order.
    Check,
}

/// A message about a loop or a construct.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Where.
    pub place: Line,
    /// What is said.
    pub text: String,
    /// Whether it stays as GCC has it.
    pub refused: bool,
}

/// What became of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewritten {
    /// The new text; `None` if no construct is opened.
    pub text: Option<String>,
    /// Messages, in the order of the text.
    pub messages: Vec<Message>,
}

/// Rewrites C or C++ after the preprocessor. `name` is the file's name until a line marker has another.
pub fn rewrite_c(text: &str, name: &str, cxx: bool, mode: Mode, rules: Rules) -> Rewritten {
    let source = Source::c(text, name);
    let constructs = c::constructs(&source, cxx);
    let mut edits = Edits::default();
    let (opened, notes) = decide(&constructs, rules, &mut |plan, around| match mode {
        Mode::Parallel => emit::c::emit(&source, plan, around, &mut edits),
        Mode::Check => emit::check::emit(&source, plan, &mut edits),
    });
    if opened && mode == Mode::Check {
        edits.insert(0, format!("{}# 1 \"{name}\"\n", emit::check::PROLOGUE));
    }
    Rewritten { text: opened.then(|| edits.apply(text)), messages: messages(notes, |at| source.place(at).0) }
}

/// Rewrites Fortran after the preprocessor.
pub fn rewrite_fortran(input: &Input<'_>, mode: Mode, rules: Rules) -> Rewritten {
    let expanded = fortran::expand::expand(input);
    let input = Input { text: expanded.as_deref().unwrap_or(input.text), ..*input };
    let source = fortran::source::Source::new(input.text, input.form, input.name);
    let constructs = fortran::constructs::constructs(&source, &input);
    let mut edits = Edits::default();
    let (opened, notes) = decide(&constructs, rules, &mut |plan, around| match mode {
        Mode::Parallel => emit::fortran::emit(&source, plan, around, &mut edits),
        Mode::Check => emit::fortran_check::emit(&source, plan, &mut edits),
    });
    let text = opened.then(|| format!("# 1 \"{}\"\n{}", input.name, edits.apply(input.text)));
    Rewritten { text, messages: messages(notes, |at| source.place(at).0) }
}

/// Plans all constructs and emits those that are opened; whether there is one, and what is said of all.
fn decide(constructs: &[Construct], rules: Rules, emit: &mut dyn FnMut(&Plan<'_>, &Around)) -> (bool, Vec<Note>) {
    let (mut opened, mut notes) = (false, Vec::new());
    for construct in constructs {
        let planned = plan::plan(construct, rules).and_then(|plan| match around(&plan) {
            Ok(around) => Ok((plan, around)),
            Err(note) => Err(vec![note]),
        });
        match planned {
            Ok((plan, around)) => {
                opened = true;
                notes.extend(plan.notes.iter().cloned());
                emit(&plan, &around);
            }
            Err(reasons) => notes.extend(reasons),
        }
    }
    (opened, notes)
}

fn messages(notes: Vec<Note>, place: impl Fn(usize) -> Line) -> Vec<Message> {
    notes.into_iter().map(|note| Message { place: place(note.at), text: note.text, refused: note.refused }).collect()
}
