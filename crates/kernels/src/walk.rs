//! Visits statements of the intermediate representation.

use crate::ir::{Access, Effect, Kind, Loop, Statement};

/// Calls `visit` with all accesses, in the order of the text; not with loops' variables, which loops write.
pub(crate) fn accesses<'a>(statements: &'a [Statement], visit: &mut dyn FnMut(&'a Access)) {
    for statement in statements {
        match &statement.kind {
            Kind::Loop(inner) => {
                inner.header.iter().for_each(&mut *visit);
                accesses(&inner.body, visit);
            }
            Kind::Repeat { accesses: own, body, .. } => {
                own.iter().for_each(&mut *visit);
                accesses(body, visit);
            }
            Kind::Branch { condition, arms } => {
                condition.iter().for_each(&mut *visit);
                arms.iter().for_each(|arm| accesses(arm, visit));
            }
            Kind::Block(body) => accesses(body, visit),
            Kind::Effect(effect) => effect.accesses.iter().for_each(&mut *visit),
            Kind::Obstacle { accesses: own, .. } => own.iter().for_each(&mut *visit),
            Kind::Jump { .. } => {}
        }
    }
}

/// Calls `visit` with all loops, from the outside inwards.
pub(crate) fn loops<'a>(statements: &'a [Statement], visit: &mut dyn FnMut(&'a Loop)) {
    for statement in statements {
        match &statement.kind {
            Kind::Loop(inner) => {
                visit(inner);
                loops(&inner.body, visit);
            }
            Kind::Repeat { body, .. } | Kind::Block(body) => loops(body, visit),
            Kind::Branch { arms, .. } => arms.iter().for_each(|arm| loops(arm, visit)),
            Kind::Effect(_) | Kind::Obstacle { .. } | Kind::Jump { .. } => {}
        }
    }
}

/// Calls `visit` with all statements, from the outside inwards.
pub(crate) fn statements<'a>(all: &'a [Statement], visit: &mut dyn FnMut(&'a Statement)) {
    for statement in all {
        visit(statement);
        match &statement.kind {
            Kind::Loop(inner) => statements(&inner.body, visit),
            Kind::Repeat { body, .. } | Kind::Block(body) => statements(body, visit),
            Kind::Branch { arms, .. } => arms.iter().for_each(|arm| statements(arm, visit)),
            Kind::Effect(_) | Kind::Obstacle { .. } | Kind::Jump { .. } => {}
        }
    }
}

/// Whether a statement ends an iteration of a loop around it.
pub(crate) fn jumps_out(statement: &Statement) -> bool {
    fn any(list: &[Statement], in_loop: bool) -> bool {
        list.iter().any(|statement| match &statement.kind {
            Kind::Jump { innermost } => !(in_loop && *innermost),
            Kind::Loop(inner) => any(&inner.body, true),
            Kind::Repeat { body, .. } => any(body, true),
            Kind::Block(body) => any(body, in_loop),
            Kind::Branch { arms, .. } => arms.iter().any(|arm| any(arm, in_loop)),
            Kind::Effect(_) | Kind::Obstacle { .. } => false,
        })
    }
    any(std::slice::from_ref(statement), false)
}

/// Calls `visit` with all effects.
pub(crate) fn effects<'a>(all: &'a [Statement], visit: &mut dyn FnMut(&'a Effect)) {
    statements(all, &mut |statement| {
        if let Kind::Effect(effect) = &statement.kind {
            visit(effect);
        }
    });
}
