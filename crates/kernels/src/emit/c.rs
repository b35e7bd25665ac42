//! C and C++: `parallel loop` in place of `kernels`.

use super::clauses::{Around, in_order, of_loop, of_nest, of_serial};
use crate::analysis::Extent;
use crate::edits::Edits;
use crate::ir::{Span, VarId};
use crate::plan::{Nest, Part, Plan};
use crate::source::Source;

/// Edits for one construct.
pub(crate) fn emit(source: &Source<'_>, plan: &Plan<'_>, around: &Around, edits: &mut Edits) {
    let construct = plan.construct;
    let directive = construct.directive.span.clone();
    let breaks = "\n".repeat(source.text[directive.clone()].matches('\n').count());
    match around {
        Around::Nothing => edits.blank(source, directive),
        Around::Data(clauses) => edits.replace(directive, format!("#pragma acc data{clauses}{breaks}")),
        Around::Dynamic { enter, exit } => {
            edits.blank(source, directive);
            edits.insert(
                construct.span.start,
                format!("{{{}", pragma(source, construct.span.start, &format!("enter data{enter}"))),
            );
            edits.close(
                construct.span.end,
                format!("{} }}", pragma(source, construct.span.end, &format!("exit data{exit}"))),
            );
        }
    }
    for directive in
        plan.host.iter().filter_map(|of| of.directive.as_ref()).filter(|own| own.span != construct.directive.span)
    {
        edits.blank(source, directive.span.clone());
    }
    for part in &plan.parts {
        match part {
            Part::Nest(nest) => self::nest(source, plan, nest, around, edits),
            Part::Serial { span, scalars, arrays, is_loop, directive } => {
                let text = of_serial(plan, scalars, arrays, *is_loop, around);
                edits.insert(span.start, format!("{}{{ ", pragma(source, span.start, &text)));
                // The loop's own directive comes behind that of its part.
                if let Some(directive) = directive {
                    edits.blank(source, directive.clone());
                    let own = source.text[directive.clone()].trim().to_owned();
                    edits.insert(span.start, format!("\n{own}{}", back(source, span.start)));
                }
                edits.close(span.end, " }");
            }
        }
    }
}

fn nest(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>, around: &Around, edits: &mut Edits) {
    for (at, planned) in nest.loops.iter().enumerate() {
        if let Some(directive) = &planned.of.directive
            && directive.span != plan.construct.directive.span
        {
            edits.blank(source, directive.span.clone());
        }
        if planned.collapsed {
            continue;
        }
        let text = match at {
            0 => of_nest(plan, nest, around),
            _ => format!("loop{}", of_loop(plan.construct, nest, at)),
        };
        let open = if at == 0 { opening(plan, nest) } else { String::new() };
        edits.insert(planned.span.start, format!("{open}{}", pragma(source, planned.span.start, &text)));
    }
    let in_order = in_order(plan, nest, around);
    edits.close(nest.loops[0].span.end, closing(source, nest, Some(&in_order)));
}

/// What stands ahead of a nest: the comparison of its pointers' ranges.
pub(super) fn opening(plan: &Plan<'_>, nest: &Nest<'_>) -> String {
    let name = |id: VarId| plan.construct.variables[id.0].name.clone();
    let end = |extent: &Extent, last: bool| {
        let (poly, past) = if last { (&extent.last, " + 1") } else { (&extent.first, "") };
        format!("(unsigned long)({} + ({}){past})", name(extent.pointer), poly.text(name))
    };
    let pair = |(one, other): &(Extent, Extent)| {
        format!("({} <= {} || {} <= {})", end(one, true), end(other, false), end(other, true), end(one, false))
    };
    let condition = nest.apart.iter().map(pair).collect::<Vec<_>>().join(" && ");
    let open = if nest.last_value { "{" } else { "" };
    if condition.is_empty() { open.to_owned() } else { format!("{open}if ({condition}) {{") }
}

/// What stands behind a nest: the same in order, where ranges overlap, and the last value of its variable.
pub(super) fn closing(source: &Source<'_>, nest: &Nest<'_>, in_order: Option<&str>) -> String {
    let span = nest.loops[0].span.clone();
    let mut text = String::new();
    if !nest.apart.is_empty() {
        let directive = match in_order {
            Some(directive) => pragma(source, span.start, directive),
            None => back(source, span.start),
        };
        text +=
            &format!(" }} else {{{directive}{{ {} }} }}{}", without_directives(source, &span), back(source, span.end));
    }
    if nest.last_value {
        text += &last_value(source, nest);
    }
    text
}

/// The text of a span with blank lines in place of directives.
fn without_directives(source: &Source<'_>, span: &Span) -> String {
    let inside = source.directives.iter().filter(|one| span.contains(&one.span.start));
    let mut edits = Edits::default();
    inside.for_each(|one| edits.blank(source, one.span.clone()));
    let mut text = edits.apply(&source.text[..span.end]);
    text.split_off(span.start)
}

/// The loop without its body, which leaves its variable what it would be, and the brace that closes the nest.
pub(super) fn last_value(source: &Source<'_>, nest: &Nest<'_>) -> String {
    let planned = &nest.loops[0];
    let header = source.code[planned.span.start..planned.of.body_span.start].replace('\n', " ");
    format!(" {header} ; }}")
}

/// A directive on a line of its own ahead of a byte, whose line and column stay.
pub(super) fn pragma(source: &Source<'_>, at: usize, text: &str) -> String {
    format!("\n#pragma acc {text}{}", back(source, at))
}

/// What makes the rest of a line stay where it is.
pub(super) fn back(source: &Source<'_>, at: usize) -> String {
    let (line, column) = source.place(at);
    format!("\n# {} \"{}\"\n{}", line.number, line.file, " ".repeat(column))
}
