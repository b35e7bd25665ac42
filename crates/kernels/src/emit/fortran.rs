//! Fortran: emits `parallel loop` instead of `kernels`.

use super::clauses::{DataMapping, kept, of_loop, of_nest, of_serial};
use super::private::{self, Keeping};
use crate::edits::Edits;
use crate::fortran::lines::{Line, directive, insert_after, insert_before, insert_before_as};
use crate::fortran::source::{Placed, Source};
use crate::ir::{Construct, Element, Shape, Span, VarId};
use crate::plan::{Nest, Part, Plan};

/// Emits the edits for one construct.
pub(crate) fn emit(source: &Source<'_>, plan: &Plan<'_>, around: &DataMapping, edits: &mut Edits) {
    let construct = plan.construct;
    let (open, close) = match around {
        DataMapping::Nothing => (None, None),
        DataMapping::Data(clauses) => (Some(format!("data{clauses}")), Some("end data".to_owned())),
        DataMapping::Dynamic { enter, exit } => (Some(format!("enter data{enter}")), Some(format!("exit data{exit}"))),
    };
    directive(source, construct.directive.span.clone(), open.as_deref(), edits);
    match (&construct.end, close) {
        (Some(end), close) => directive(source, end.clone(), close.as_deref(), edits),
        (None, Some(close)) => insert_after(source, construct.span.end, &[Line::Directive(close)], edits),
        (None, None) => {}
    }
    private::on_host(plan).iter().for_each(|one| keep(source, plan.construct, one, edits));
    for Placed { directive: own, .. } in &source.directives {
        if plan.idle.iter().any(|span| span.contains(&own.span.start)) {
            directive(source, own.span.clone(), None, edits);
        }
    }
    for own in plan.host.iter().filter_map(|of| of.directive.as_ref()) {
        if own.span != construct.directive.span {
            directive(source, own.span.clone(), None, edits);
        }
    }
    for part in &plan.parts {
        match part {
            Part::Nest(nest) => self::nest(source, plan, nest, around, edits),
            Part::Serial { span, scalars, arrays, is_loop, directive: _ } => {
                serial(source, construct, span, of_serial(plan, scalars, arrays, *is_loop, around), edits);
            }
        }
    }
}

/// Emits a part that runs in order, with its directive.
pub(super) fn serial(source: &Source<'_>, construct: &Construct, span: &Span, text: String, edits: &mut Edits) {
    let name = text.split(' ').next().unwrap_or_default().to_owned();
    let start = source.first_directive(span.start, construct.directive.span.end);
    insert_before(source, start, &[Line::Directive(text)], edits);
    insert_after(source, span.end, &[Line::Directive(format!("end {name}"))], edits);
}

/// Saves and restores values around a loop, as bytes.
pub(super) fn keep(source: &Source<'_>, construct: &Construct, of: &Keeping<'_>, edits: &mut Edits) {
    let (mut ahead, mut behind) = (vec!["block".to_owned()], Vec::new());
    ahead.extend(of.names.iter().map(|name| format!("integer(1), allocatable :: accord_o_{name}(:)")));
    for name in &of.names {
        ahead.push(format!("allocate (accord_o_{name}, source=transfer({name}, [0_1]))"));
        let is_scalar = |shape| shape == Shape::Scalar;
        let mut named = construct.variables.iter().filter(|variable| variable.name == **name);
        behind.push(match named.all(|variable| is_scalar(variable.shape)) {
            true => format!("{name} = transfer(accord_o_{name}, {name})"),
            false => format!("{name} = reshape(transfer(accord_o_{name}, {name}), shape({name}))"),
        });
    }
    behind.push("end block".into());
    let lines = |texts: Vec<String>| texts.into_iter().map(Line::Code).collect::<Vec<_>>();
    insert_before(source, source.first_directive(of.span.start, construct.directive.span.end), &lines(ahead), edits);
    insert_after(source, of.span.end, &lines(behind), edits);
}

fn nest(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>, around: &DataMapping, edits: &mut Edits) {
    for (at, planned) in nest.loops.iter().enumerate() {
        let own = planned.of.directive.as_ref();
        if let Some(own) = own.filter(|own| own.span != plan.construct.directive.span) {
            directive(source, own.span.clone(), None, edits);
        }
        if planned.collapsed {
            continue;
        }
        let text = match at {
            0 => of_nest(plan, nest, around),
            _ => format!("loop{}", of_loop(plan.construct, nest, at)),
        };
        let place = source.place(own.map_or(planned.span.start, |own| own.span.start)).0;
        if at == 0 {
            insert_before_as(source, planned.span.start, &declaring(source, plan, nest), &place, edits);
        }
        insert_before_as(source, planned.span.start, &[Line::Directive(text)], &place, edits);
    }
    if let Some(end) = nest.loops[0].of.text.open_end.filter(|_| !nest.stored.is_empty()) {
        insert_before(source, end, &storing(source, plan, nest), edits);
        insert_after(source, nest.loops[0].span.end, &restoring(plan, nest), edits);
    }
    if nest.last_value {
        insert_after(source, nest.loops[0].span.end, &[Line::Code(last_value(source, plan, nest))], edits);
    }
}

/// Returns the text before a nest whose last iteration stores values.
pub(super) fn declaring(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>) -> Vec<Line> {
    if nest.stored.is_empty() {
        return Vec::new();
    }
    let name = |id: &VarId| plan.construct.variables[id.0].name.as_str();
    let declared = nest.stored.iter().map(|id| declared(source, plan.construct, *id, &kept(name(id))));
    let values = nest.stored.iter().map(|id| format!("{} = {}", kept(name(id)), name(id)));
    ["block".to_owned()].into_iter().chain(declared).chain(values).map(Line::Code).collect()
}

/// Returns the statements at the end of a nest's last iteration.
pub(super) fn storing(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>) -> Vec<Line> {
    let of = nest.loops[0].of;
    let name = |id: &VarId| plan.construct.variables[id.0].name.as_str();
    let (i, bound) = (name(&of.variable), source.statement(&of.text.bound));
    let left = if of.step > 0 { format!("({bound}) - {i}") } else { format!("{i} - ({bound})") };
    let stores = nest.stored.iter().map(|id| format!("{} = {}", kept(name(id)), name(id)));
    let condition = format!("if ({left} < {}) then", of.step.abs());
    [condition].into_iter().chain(stores).chain(["end if".to_owned()]).map(Line::Code).collect()
}

/// Returns the text after a nest whose last iteration stores values.
pub(super) fn restoring(plan: &Plan<'_>, nest: &Nest<'_>) -> Vec<Line> {
    if nest.stored.is_empty() {
        return Vec::new();
    }
    let name = |id: &VarId| plan.construct.variables[id.0].name.as_str();
    let values = nest.stored.iter().map(|id| format!("{} = {}", name(id), kept(name(id))));
    values.chain(["end block".to_owned()]).map(Line::Code).collect()
}

/// A variable's declaration with another name.
pub(super) fn declared(source: &Source<'_>, construct: &Construct, id: VarId, as_name: &str) -> String {
    let variable = &construct.variables[id.0];
    let name = &variable.name;
    let (r#type, bits) = match variable.element {
        Element::Real(bits) => ("real", bits),
        Element::Complex(bits) => ("complex", bits / 2),
        Element::Logical => ("logical", 0),
        Element::Integer { bits, .. } => ("integer", bits),
        Element::Other => ("integer", 0),
    };
    // The intrinsic function, unless a variable has its name.
    if bits > 0 && declares_kind(&source.code) {
        return format!("{type}({}) :: {as_name}", bits / 8);
    }
    format!("{type}(kind({name})) :: {as_name}")
}

/// Whether a list of names has `kind`.
fn declares_kind(code: &str) -> bool {
    code.match_indices("kind").any(|(at, word)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        before.trim_end_matches(' ').ends_with([',', ':']) && after.trim_start_matches(' ').starts_with([',', '\n'])
    })
}

/// Returns the value that the outermost loop leaves in its variable.
pub(super) fn last_value(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>) -> String {
    let of = nest.loops[0].of;
    let name = &plan.construct.variables[of.variable.0].name;
    let (first, bound) = (source.statement(&of.text.first), source.statement(&of.text.bound));
    let step = of.step;
    format!("{name} = ({first}) + max(0, (({bound}) - ({first}) + ({step})) / ({step})) * ({step})")
}
