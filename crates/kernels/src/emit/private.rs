//! Preserves the source's values of variables that a loop makes private and that runs in order.

use crate::ir::{Construct, Kind, Loop, Span, VarId};
use crate::plan::{Part, Plan};
use crate::walk;
use std::collections::BTreeSet;

/// A loop around which values are kept, with its statement.
pub(super) struct Keeping<'a> {
    pub(super) span: &'a Span,
    /// Names of the variables.
    pub(super) names: BTreeSet<&'a str>,
}

/// Returns loops of the host, from the outside inwards.
pub(super) fn on_host<'a>(plan: &Plan<'a>) -> Vec<Keeping<'a>> {
    let is_on_host = |of: &Loop| plan.host.iter().any(|host| std::ptr::eq(*host, of));
    keeping(plan.construct, &|of, _| is_on_host(of))
}

/// Returns the loops of a plan that run in order, each with its directive.
pub(super) fn in_order<'a>(plan: &'a Plan<'_>) -> Vec<(&'a Span, Option<&'a Span>)> {
    let loops = plan.parts.iter().filter_map(|part| match part {
        Part::Serial { span, is_loop: true, directive, .. } => Some((span, directive.as_ref())),
        Part::Serial { .. } | Part::Nest(_) => None,
    });
    loops.collect()
}

/// Returns all other loops whose privates have no copies of their own in a program that checks decisions, from the outside inwards.
pub(super) fn in_check<'a>(plan: &Plan<'a>, copied: &dyn Fn(VarId) -> bool) -> Vec<Keeping<'a>> {
    let is_parallel = |of: &Loop| {
        plan.parts.iter().any(|part| match part {
            Part::Nest(nest) => nest.loops.iter().any(|one| one.parallel.is_some() && std::ptr::eq(one.of, of)),
            Part::Serial { .. } => false,
        })
    };
    let mut all = keeping(plan.construct, &|of, id| !is_parallel(of) || !copied(id));
    let stays = in_order(plan);
    all.retain(|one| !stays.iter().any(|(span, _)| span.start <= one.span.start && one.span.end <= span.end));
    all
}

/// Returns loops inside a statement, from the outside inwards.
pub(super) fn inside<'a>(construct: &'a Construct, span: &Span, with_outermost: bool) -> Vec<Keeping<'a>> {
    let mut all = keeping(construct, &|_, _| true);
    all.retain(|one| span.start <= one.span.start && one.span.end <= span.end && (with_outermost || one.span != span));
    all
}

fn keeping<'a>(construct: &'a Construct, wanted: &dyn Fn(&Loop, VarId) -> bool) -> Vec<Keeping<'a>> {
    let mut all = Vec::new();
    walk::statements(&construct.body, &mut |statement| {
        let Kind::Loop(of) = &statement.kind else { return };
        let ids = of.private.iter().filter(|id| is_used(construct, **id) && wanted(of, **id));
        let names: BTreeSet<&str> = ids.map(|id| construct.variables[id.0].name.as_str()).collect();
        if !names.is_empty() {
            all.push(Keeping { span: &statement.span, names });
        }
    });
    all
}

/// Whether the source's variable that a private one replaces may be read.
fn is_used(construct: &Construct, private: VarId) -> bool {
    let Some(of) = construct.variables[private.0].private_of else { return false };
    let variable = &construct.variables[of.0];
    let mut used = variable.live_after || variable.private_of.is_some();
    walk::accesses(&construct.body, &mut |access| used |= access.variable == of);
    used
}
