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
pub mod source;
#[cfg(test)]
mod tests;
mod walk;

use analysis::Rules;
use edits::Edits;
use emit::clauses::around;
use plan::Note;
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
    let (mut edits, mut notes, mut opened) = (Edits::default(), Vec::<Note>::new(), false);
    for construct in &constructs {
        let planned = plan::plan(construct, rules).and_then(|plan| match around(&plan) {
            Ok(around) => Ok((plan, around)),
            Err(note) => Err(vec![note]),
        });
        match planned {
            Ok((plan, around)) => {
                opened = true;
                notes.extend(plan.notes.iter().cloned());
                match mode {
                    Mode::Parallel => emit::c::emit(&source, &plan, &around, &mut edits),
                    Mode::Check => emit::check::emit(&source, &plan, &mut edits),
                }
            }
            Err(reasons) => notes.extend(reasons),
        }
    }
    if opened && mode == Mode::Check {
        edits.insert(0, format!("{}# 1 \"{name}\"\n", emit::check::PROLOGUE));
    }
    let messages = notes.into_iter().map(|note| Message {
        place: source.place(note.at).0,
        text: note.text,
        refused: note.refused,
    });
    let messages = messages.collect();
    Rewritten { text: opened.then(|| edits.apply(text)), messages }
}

/// Rewrites Fortran after the preprocessor.
pub fn rewrite_fortran(input: &Input<'_>, mode: Mode, rules: Rules) -> Rewritten {
    let expanded = fortran::expand::expand(input);
    let input = Input { text: expanded.as_deref().unwrap_or(input.text), ..*input };
    let source = fortran::source::Source::new(input.text, input.form, input.name);
    let constructs = fortran::constructs::constructs(&source, &input);
    let (mut edits, mut notes, mut opened) = (Edits::default(), Vec::<Note>::new(), false);
    for construct in &constructs {
        let planned = plan::plan(construct, rules).and_then(|plan| match around(&plan) {
            Ok(around) => Ok((plan, around)),
            Err(note) => Err(vec![note]),
        });
        match planned {
            Ok((plan, around)) => {
                opened = true;
                notes.extend(plan.notes.iter().cloned());
                match mode {
                    Mode::Parallel => emit::fortran::emit(&source, &plan, &around, &mut edits),
                    Mode::Check => emit::fortran_check::emit(&source, &plan, &mut edits),
                }
            }
            Err(reasons) => notes.extend(reasons),
        }
    }
    let messages = notes.into_iter().map(|note| Message {
        place: source.place(note.at).0,
        text: note.text,
        refused: note.refused,
    });
    let messages = messages.collect();
    let text = opened.then(|| format!("# 1 \"{}\"\n{}", input.name, edits.apply(input.text)));
    Rewritten { text, messages }
}
