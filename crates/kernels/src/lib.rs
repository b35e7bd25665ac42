//! Rewrites `kernels` constructs as parallel regions. Pure: its input and output are text.
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
mod privates;
mod remedy;
pub mod source;
#[cfg(test)]
mod tests;
pub mod text;
mod walk;

use analysis::Rules;
use edits::Edits;
use emit::clauses::{DataMapping, around};
use ir::{Construct, Span};
use plan::{Note, Part, Plan};
use source::{Line, Source};
use std::ops::Range;

pub use fortran::{Form, Input, Module};

/// The form into which constructs are rewritten.
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
    /// The line that it is about.
    pub place: Line,
    /// The text.
    pub text: String,
    /// Whether it is left to GCC.
    pub refused: bool,
    /// The lines of its construct, from the directive's to the end's.
    pub construct: Range<u32>,
}

/// A rewritten source.
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
    let decided = decide(&constructs, rules, &mut |plan, around| match mode {
        Mode::Parallel => emit::c::emit(&source, plan, around, &mut edits),
        Mode::Check => emit::check::emit(&source, plan, &mut edits),
    });
    let opened = decided.iter().any(|one| one.opened);
    if opened && mode == Mode::Check {
        edits.insert(0, format!("{}# 1 \"{name}\"\n", emit::check::PROLOGUE));
    }
    let messages = decided.iter().flat_map(|one| one.messages(&|at| source.place(at).0)).collect();
    Rewritten { text: opened.then(|| edits.apply(text)), messages }
}

/// Rewrites Fortran after the preprocessor.
pub fn rewrite_fortran(input: &Input<'_>, mode: Mode, rules: Rules) -> Rewritten {
    let expanded = fortran::expand::expand(input);
    let input = Input { text: expanded.text.as_deref().unwrap_or(input.text), ..*input };
    let source = fortran::source::Source::new(input.text, input.form, input.name);
    let constructs = fortran::constructs::constructs(&source, &input);
    let mut edits = Edits::default();
    let decided = decide(&constructs, rules, &mut |plan, around| match mode {
        Mode::Parallel => emit::fortran::emit(&source, plan, around, &mut edits),
        Mode::Check => emit::fortran_check::emit(&source, plan, &mut edits),
    });
    let opened = decided.iter().any(|one| one.opened);
    let text = opened.then(|| format!("# 1 \"{}\"\n{}", input.name, edits.apply(input.text)));
    let place = |at| source.place(at).0;
    let messages = decided.iter().flat_map(|one| one.with_statements(&expanded.refused, &place)).collect();
    Rewritten { text, messages }
}

/// The decision on a construct.
struct Decided {
    /// The construct, with its directives.
    span: Span,
    /// Whether a part of it is rewritten.
    opened: bool,
    notes: Vec<Note>,
    /// Parts that run in order on the device.
    in_order: Vec<Span>,
}

impl Decided {
    fn messages(&self, place: &dyn Fn(usize) -> Line) -> Vec<Message> {
        let construct = place(self.span.start).number..place(self.span.end.saturating_sub(1)).number;
        let message = |note: &Note| Message {
            place: place(note.at),
            text: note.text.clone(),
            refused: note.refused,
            construct: construct.clone(),
        };
        self.notes.iter().map(message).collect()
    }

    /// Returns the messages, including statements of arrays that run in order. `refused` has them all, with their reasons.
    fn with_statements(&self, refused: &[(Line, String)], place: &dyn Fn(usize) -> Line) -> Vec<Message> {
        let mut messages = self.messages(place);
        let construct = place(self.span.start).number..place(self.span.end.saturating_sub(1)).number;
        let lines = |span: &Span| (place(span.start), place(span.end.saturating_sub(1)));
        for (at, reason) in refused {
            let runs_in_order = self
                .in_order
                .iter()
                .map(lines)
                .any(|(first, last)| first.file == at.file && (first.number..=last.number).contains(&at.number));
            if !runs_in_order {
                continue;
            }
            let message =
                Message { place: at.clone(), text: reason.clone(), refused: true, construct: construct.clone() };
            messages.retain(|one| !one.refused || one.place != *at && one.text != plan::NO_LOOP);
            messages.push(message);
        }
        messages.sort_by_key(|message| message.place.number);
        messages
    }
}

/// Plans all constructs and emits those that are rewritten.
fn decide(constructs: &[Construct], rules: Rules, emit: &mut dyn FnMut(&Plan<'_>, &DataMapping)) -> Vec<Decided> {
    let decide = |construct: &Construct| {
        let end = construct.end.as_ref().map_or(construct.span.end, |end| end.end);
        let span = construct.directive.span.start..end.max(construct.directive.span.end);
        let planned = plan::plan(construct, rules).and_then(|plan| match around(&plan) {
            Ok(around) => Ok((plan, around)),
            Err(note) => Err(vec![note]),
        });
        match planned {
            Ok((plan, around)) => {
                emit(&plan, &around);
                let in_order = plan.parts.iter().filter_map(|part| match part {
                    Part::Serial { span, .. } => Some(span.clone()),
                    Part::Nest(_) => None,
                });
                Decided { span, opened: true, in_order: in_order.collect(), notes: plan.notes }
            }
            Err(notes) => Decided { in_order: vec![span.clone()], span, opened: false, notes },
        }
    };
    constructs.iter().map(decide).collect()
}
