//! C and C++: `parallel loop` in place of `kernels`.

use super::Edits;
use super::clauses::{Around, of_loop, of_nest, of_serial};
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
        let open = if at == 0 && nest.last_value { "{" } else { "" };
        edits.insert(planned.span.start, format!("{open}{}", pragma(source, planned.span.start, &text)));
    }
    if nest.last_value {
        edits.close(nest.loops[0].span.end, last_value(source, nest));
    }
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
