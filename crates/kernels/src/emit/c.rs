//! C and C++: emits `parallel loop` instead of `kernels`.

use super::clauses::{DataMapping, in_order, kept, of_loop, of_nest, of_serial};
use super::private::{self, Keeping};
use crate::analysis::Extent;
use crate::edits::Edits;
use crate::ir::{Directive, Span, VarId};
use crate::plan::{Nest, Part, Plan};
use crate::source::Source;

/// Emits the edits for one construct.
pub(crate) fn emit(source: &Source<'_>, plan: &Plan<'_>, around: &DataMapping, edits: &mut Edits) {
    let construct = plan.construct;
    let directive = construct.directive.span.clone();
    let breaks = "\n".repeat(source.text[directive.clone()].matches('\n').count());
    match around {
        DataMapping::Nothing => edits.blank(source, directive),
        DataMapping::Data(clauses) => edits.replace(directive, format!("#pragma acc data{clauses}{breaks}")),
        DataMapping::Dynamic { enter, exit } => {
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
    private::on_host(plan).iter().for_each(|one| keep(one, edits));
    let is_idle = |directive: &&Directive| plan.idle.iter().any(|span| span.contains(&directive.span.start));
    source.directives.iter().filter(is_idle).for_each(|one| edits.blank(source, one.span.clone()));
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
                serial(source, span, &text, directive.as_ref(), edits);
            }
        }
    }
}

/// Emits a part that runs in order, with its directive. `own` is that of its loop.
pub(super) fn serial(source: &Source<'_>, span: &Span, text: &str, own: Option<&Span>, edits: &mut Edits) {
    edits.insert(span.start, format!("{}{{ ", pragma(source, span.start, text)));
    // The loop's own directive follows that of its part.
    if let Some(directive) = own {
        edits.blank(source, directive.clone());
        let own = source.text[directive.clone()].trim().to_owned();
        edits.insert(span.start, format!("\n{own}{}", back(source, span.start)));
    }
    edits.close(span.end, " }");
}

/// Saves and restores values around a loop.
pub(super) fn keep(of: &Keeping<'_>, edits: &mut Edits) {
    let (mut open, mut close) = (String::from("{ "), String::new());
    for name in &of.names {
        open += &format!(
            "unsigned char accord_o_{name}[sizeof ({name})]; __builtin_memcpy(accord_o_{name}, (const void *)&{name}, sizeof ({name})); "
        );
        close += &format!(" __builtin_memcpy((void *)&{name}, accord_o_{name}, sizeof ({name}));");
    }
    edits.insert(of.span.start, open);
    edits.close(of.span.end, close + " }");
}

fn nest(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>, around: &DataMapping, edits: &mut Edits) {
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
        if at == 0 && !nest.stored.is_empty() {
            edits.insert(planned.of.text.body.start, "{ ");
        }
    }
    let in_order = in_order(plan, nest, around);
    edits.close(nest.loops[0].span.end, closing(source, plan, nest, Some(&in_order)));
    if !nest.stored.is_empty() {
        edits.close(nest.loops[0].of.text.body.end, format!("{} }}", storing(source, plan, nest)));
    }
}

/// Returns the statements at the end of a nest's last iteration.
pub(super) fn storing(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>) -> String {
    let of = nest.loops[0].of;
    let name = |id: VarId| plan.construct.variables[id.0].name.as_str();
    let bound = source.code[of.text.bound.clone()].replace('\n', " ");
    let (i, relation) = (name(of.variable), if of.exclusive { "<=" } else { "<" });
    let left = if of.step > 0 { format!("({bound}) - {i}") } else { format!("{i} - ({bound})") };
    let stores = nest.stored.iter().map(|id| format!("{} = {}; ", kept(name(*id)), name(*id))).collect::<String>();
    format!(" if ({left} {relation} {}) {{ {stores}}}", of.step.abs())
}

/// Returns the text before a nest: the comparison of its pointers' ranges.
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
    let mut open = if nest.last_value { "{".to_owned() } else { String::new() };
    if !nest.stored.is_empty() {
        let declares = |id: &VarId| format!("__typeof__({0}) {1} = {0}; ", name(*id), kept(&name(*id)));
        open += &format!("{{ {}", nest.stored.iter().map(declares).collect::<String>());
    }
    if condition.is_empty() { open } else { format!("{open}if ({condition}) {{") }
}

/// Returns the text after a nest: the same in order, if ranges overlap, and the last value of its variable.
pub(super) fn closing(source: &Source<'_>, plan: &Plan<'_>, nest: &Nest<'_>, in_order: Option<&str>) -> String {
    let span = nest.loops[0].span.clone();
    let mut text = String::new();
    if !nest.apart.is_empty() {
        let directive = match in_order {
            Some(directive) => pragma(source, span.start, directive),
            None => back(source, span.start),
        };
        text += &format!(
            " }} else {{{directive}{{ {} }} }}{}",
            copy(source, plan, &span, in_order.is_none()),
            back(source, span.end)
        );
    }
    if !nest.stored.is_empty() {
        let name = |id: &VarId| plan.construct.variables[id.0].name.as_str();
        let restores = nest.stored.iter().map(|id| format!(" {} = {};", name(id), kept(name(id))));
        text += &format!("{} }}", restores.collect::<String>());
    }
    if nest.last_value {
        text += &last_value(source, nest);
    }
    text
}

/// Returns the text of a loop with blank lines instead of directives. `on_host` if no region has its private variables.
fn copy(source: &Source<'_>, plan: &Plan<'_>, span: &Span, on_host: bool) -> String {
    let inside = source.directives.iter().filter(|one| span.contains(&one.span.start));
    let mut edits = Edits::default();
    private::inside(plan.construct, span, on_host).iter().for_each(|one| keep(one, &mut edits));
    inside.for_each(|one| edits.blank(source, one.span.clone()));
    let mut text = edits.apply(&source.text[..span.end]);
    text.split_off(span.start)
}

/// Returns the loop without its body, which gives its variable the last value, and the brace that closes the nest.
pub(super) fn last_value(source: &Source<'_>, nest: &Nest<'_>) -> String {
    let planned = &nest.loops[0];
    let header = source.code[planned.span.start..planned.of.text.body.start].replace('\n', " ");
    format!(" {header} ; }}")
}

/// Returns a directive on a line of its own before a byte, whose line and column stay.
pub(super) fn pragma(source: &Source<'_>, at: usize, text: &str) -> String {
    format!("\n#pragma acc {text}{}", back(source, at))
}

/// Returns the text that moves a line's remaining code to its original column.
pub(super) fn back(source: &Source<'_>, at: usize) -> String {
    let (line, column) = source.place(at);
    format!("\n# {} \"{}\"\n{}", line.number, line.file, " ".repeat(column))
}
