//! Fortran: emits plain host loops whose iterations run in another order, to reveal a wrong plan.
//!
//! Each parallel loop runs its iterations reversed or in a random order. Privates have another value before each iteration and their
//! old one after the loop. Scalars that are only read must not change. Reductions are combined from groups. Data clauses are left out.

use super::fortran::{declared, declaring, keep, last_value, restoring, serial, storing};
use super::private;
use crate::edits::Edits;
use crate::fortran::lines::{Line, directive, insert_after, insert_before};
use crate::fortran::source::Source;
use crate::ir::{Construct, Element, Shape, Span, VarId};
use crate::plan::{Part, Plan, Planned};

/// Groups of a reduction.
const GROUPS: usize = 3;

/// Emits the edits for one construct.
pub(crate) fn emit(source: &Source<'_>, plan: &Plan<'_>, edits: &mut Edits) {
    let construct = plan.construct;
    let copied = |id: VarId| construct.variables[id.0].shape == Shape::Scalar;
    private::in_check(plan, &copied).iter().for_each(|one| keep(source, construct, one, edits));
    directive(source, plan.construct.directive.span.clone(), None, edits);
    if let Some(end) = &plan.construct.end {
        directive(source, end.clone(), None, edits);
    }
    let lines = plan.construct.directive.span.end..plan.construct.span.end;
    // Loops that run in order remain regions, on the host: GCC gives them their private variables.
    let stay = private::in_order(plan);
    for own in source.directives.iter().filter(|placed| lines.contains(&placed.directive.span.start)) {
        let at = own.directive.span.start;
        let begins = |span: &Span| source.first_directive(span.start, construct.directive.span.end);
        if !stay.iter().any(|(span, _)| (begins(span)..span.end).contains(&at)) {
            directive(source, own.directive.span.clone(), None, edits);
        }
    }
    stay.iter().for_each(|(span, _)| serial(source, construct, span, "kernels".into(), edits));
    for part in &plan.parts {
        let Part::Nest(nest) = part else { continue };
        for (at, planned) in nest.loops.iter().enumerate() {
            if planned.parallel.is_some() {
                let mut around = AroundLoop::default();
                if at == 0 {
                    around.ahead = declaring(source, plan, nest);
                    around.at_end = if nest.stored.is_empty() { Vec::new() } else { storing(source, plan, nest) };
                    around.behind = restoring(plan, nest);
                    around.behind.extend(nest.last_value.then(|| Line::Code(last_value(source, plan, nest))));
                }
                one(source, plan.construct, planned, around, edits);
            }
        }
    }
}

/// A value that no right program depends on.
fn poison(construct: &Construct, id: VarId) -> String {
    let variable = &construct.variables[id.0];
    let name = &variable.name;
    match variable.element {
        Element::Logical => format!("{name} = mod(accord_k, 2_8) == 0"),
        Element::Complex(_) => format!("{name} = -huge(real({name}))"),
        _ => format!("{name} = -huge({name})"),
    }
}

/// Lines of a nest's outermost loop.
#[derive(Default)]
struct AroundLoop {
    ahead: Vec<Line>,
    /// In each iteration.
    at_end: Vec<Line>,
    behind: Vec<Line>,
}

fn one(source: &Source<'_>, construct: &Construct, planned: &Planned<'_>, around: AroundLoop, edits: &mut Edits) {
    let (of, Some(parallel)) = (planned.of, &planned.parallel) else { return };
    let name = |id: &VarId| construct.variables[id.0].name.as_str();
    let (first, bound, step) = (source.statement(&of.text.first), source.statement(&of.text.bound), of.step);
    let privates: Vec<VarId> = parallel.scalars.private.iter().copied().filter(|id| *id != of.variable).collect();
    let reductions: Vec<(VarId, &str)> =
        parallel.scalars.reductions.iter().map(|(id, operator)| (*id, operator.as_str())).collect();
    let read: Vec<VarId> = parallel.scalars.read.iter().copied().collect();
    let kept: Vec<VarId> =
        privates.iter().chain(reductions.iter().map(|(id, _)| id)).chain([&of.variable]).copied().collect();
    let mut lines = vec![
        "block".to_owned(),
        "integer(8), save :: accord_state = 0".into(),
        "integer(8) :: accord_f, accord_n, accord_s, accord_o, accord_k, accord_a, accord_b, accord_c".into(),
        "integer :: accord_g, accord_e".into(),
        "character(64) :: accord_seed".into(),
    ];
    lines.extend(kept.iter().map(|id| declared(source, construct, *id, &format!("accord_p_{}", name(id)))));
    lines.extend(
        reductions
            .iter()
            .map(|(id, _)| declared(source, construct, *id, &format!("accord_r_{}(0:{})", name(id), GROUPS - 1))),
    );
    lines.extend(read.iter().map(|id| declared(source, construct, *id, &format!("accord_c_{}", name(id)))));
    if !read.is_empty() {
        lines.push("logical, save :: accord_w = .false.".into());
    }
    // The generator is xorshift; its initial state is the seed's.
    lines.extend(
        [
            "if (accord_state == 0) then",
            "accord_state = 88172645463325252_8",
            "call get_environment_variable('KERNELS_CHECK_SEED', accord_seed)",
            "do accord_e = 1, len_trim(accord_seed)",
            "accord_state = ieor(ishft(accord_state, 7), ieor(ishft(accord_state, -9), int(ichar(accord_seed(accord_e:accord_e)), 8) + accord_state))",
            "end do",
            "end if",
        ]
        .map(str::to_owned),
    );
    lines.extend(read.iter().map(|id| format!("accord_c_{0} = {0}", name(id))));
    lines.push(format!("accord_f = {first}"));
    lines.push(format!("accord_n = max(0_8, (({bound}) - accord_f + ({step})) / ({step}))"));
    lines.extend(kept.iter().map(|id| format!("accord_p_{0} = {0}", name(id))));
    for (id, operator) in &reductions {
        lines.push(format!("accord_r_{} = {}", name(id), identity(operator, name(id))));
    }
    // A distance of successive iterations that has no divisor in common with their number.
    lines.extend(random());
    lines.extend(
        ["accord_s = max(accord_n - 1, 0_8)", "if (accord_n > 2 .and. mod(accord_b, 3_8) /= 0) then", "do"]
            .map(str::to_owned),
    );
    lines.extend(random());
    lines.extend(
        [
            "accord_s = mod(accord_b, accord_n - 1) + 1",
            "accord_a = accord_n",
            "accord_b = accord_s",
            "do while (accord_b /= 0)",
            "accord_c = mod(accord_a, accord_b)",
            "accord_a = accord_b",
            "accord_b = accord_c",
            "end do",
            "if (accord_a == 1) exit",
            "end do",
            "end if",
        ]
        .map(str::to_owned),
    );
    lines.extend(random());
    lines.push("accord_o = mod(accord_b, max(accord_n, 1_8))".into());
    lines.push("do accord_k = 1, accord_n".into());
    let arrays = of.private.iter().filter(|id| {
        let variable = &construct.variables[id.0];
        variable.shape != Shape::Scalar && variable.element != Element::Other
    });
    lines.extend(privates.iter().chain(arrays).map(|id| poison(construct, *id)));
    if !reductions.is_empty() {
        lines.extend(random());
        lines.push(format!("accord_g = int(mod(accord_b, {GROUPS}_8))"));
    }
    lines.extend(reductions.iter().map(|(id, _)| format!("{0} = accord_r_{0}(accord_g)", name(id))));
    lines.push(format!("{} = accord_f + accord_o * ({step})", name(&of.variable)));
    insert_before(source, planned.span.start, &[around.ahead, joined(lines)].concat(), edits);
    // `cycle` ends the inner loop, which has one iteration.
    let header = source.text[planned.span.start..of.text.body.start].to_owned();
    let label = header
        .split_once(':')
        .map(|(label, _)| label.trim())
        .filter(|label| label.chars().all(|c| c.is_alphanumeric() || c == '_'));
    let label = label.map(|label| format!("{label}: ")).unwrap_or_default();
    edits.replace(planned.span.start..of.text.body.start, format!("{label}do accord_e = 1, 1"));
    let mut end: Vec<String> = Vec::new();
    let line = source.place(planned.span.start).0;
    for id in &read {
        let name = name(id);
        let differs = match construct.variables[id.0].element {
            Element::Logical => format!("({name} .neqv. accord_c_{name})"),
            // Not a number compares equal to itself here.
            _ => format!("{name} /= accord_c_{name} .and. ({name} == {name} .or. accord_c_{name} == accord_c_{name})"),
        };
        end.push(format!("if (.not. accord_w .and. {differs}) then"));
        end.push(format!(
            "write (0, '(a)') '{}:{}: error: {name} is written in a loop that may only read it'",
            line.file.replace('\'', ""),
            line.number
        ));
        end.extend(["accord_w = .true.".to_owned(), "end if".to_owned()]);
    }
    end.extend(reductions.iter().map(|(id, _)| format!("accord_r_{0}(accord_g) = {0}", name(id))));
    end.push("accord_o = mod(accord_o + accord_s, accord_n)".into());
    end.push("end do".into());
    end.extend(kept.iter().map(|id| format!("{0} = accord_p_{0}", name(id))));
    for (id, operator) in &reductions {
        for group in (0..GROUPS).rev() {
            end.push(combined(operator, name(id), &format!("accord_r_{}({group})", name(id))));
        }
    }
    end.push("end block".into());
    insert_after(source, planned.span.end, &[around.at_end, joined(end), around.behind].concat(), edits);
}

/// A next random number in `accord_b`, not negative.
fn random() -> Vec<String> {
    [
        "accord_state = ieor(accord_state, ishft(accord_state, 13))",
        "accord_state = ieor(accord_state, ishft(accord_state, -7))",
        "accord_state = ieor(accord_state, ishft(accord_state, 17))",
        "accord_b = ishft(accord_state, -1)",
    ]
    .map(str::to_owned)
    .into()
}

/// Returns statements on lines of their own.
fn joined(lines: Vec<String>) -> Vec<Line> {
    lines.into_iter().map(Line::Code).collect()
}

/// Returns the neutral element of an operator.
fn identity(operator: &str, name: &str) -> String {
    match operator {
        "*" => "1".into(),
        "iand" => "-1".into(),
        ".and." | ".eqv." => ".true.".into(),
        ".or." | ".neqv." => ".false.".into(),
        // Each group starts with the variable's own value, which an extremum may count twice.
        "max" | "min" => name.into(),
        _ => "0".into(),
    }
}

fn combined(operator: &str, name: &str, part: &str) -> String {
    match operator {
        "max" | "min" | "iand" | "ior" | "ieor" => format!("{name} = {operator}({name}, {part})"),
        operator => format!("{name} = {name} {operator} {part}"),
    }
}
