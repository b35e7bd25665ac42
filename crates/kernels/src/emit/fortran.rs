//! Fortran: `parallel loop` in place of `kernels`.

use super::clauses::{Around, of_loop, of_nest, of_serial};
use crate::edits::Edits;
use crate::fortran::lines::{Line, directive, insert_after, insert_before, insert_before_as};
use crate::fortran::source::Source;
use crate::plan::{Nest, Part, Plan};

/// Edits for one construct.
pub(crate) fn emit(source: &Source<'_>, plan: &Plan<'_>, around: &Around, edits: &mut Edits) {
    let construct = plan.construct;
    let (open, close) = match around {
        Around::Nothing => (None, None),
        Around::Data(clauses) => (Some(format!("data{clauses}")), Some("end data".to_owned())),
        Around::Dynamic { enter, exit } => (Some(format!("enter data{enter}")), Some(format!("exit data{exit}"))),
    };
    directive(source, construct.directive.span.clone(), open.as_deref(), edits);
    match (&construct.end, close) {
        (Some(end), close) => directive(source, end.clone(), close.as_deref(), edits),
        (None, Some(close)) => insert_after(source, construct.span.end, &[Line::Directive(close)], edits),
        (None, None) => {}
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
                let text = of_serial(plan, scalars, arrays, *is_loop, around);
                let name = text.split(' ').next().unwrap_or_default().to_owned();
                let start = source.first_directive(span.start, construct.directive.span.end);
                insert_before(source, start, &[Line::Directive(text)], edits);
                insert_after(source, span.end, &[Line::Directive(format!("end {name}"))], edits);
            }
        }
    }
}

fn nest(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>, around: &Around, edits: &mut Edits) {
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
        insert_before_as(source, planned.span.start, &[Line::Directive(text)], &place, edits);
    }
    if nest.last_value {
        insert_after(source, nest.loops[0].span.end, &[Line::Code(last_value(source, plan, nest))], edits);
    }
}

/// The value that the outermost loop leaves in its variable.
pub(super) fn last_value(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>) -> String {
    let of = nest.loops[0].of;
    let name = &plan.construct.variables[of.variable.0].name;
    let (first, bound) = (source.statement(&of.first), source.statement(&of.bound));
    let step = of.step;
    format!("{name} = ({first}) + max(0, (({bound}) - ({first}) + ({step})) / ({step})) * ({step})")
}
