//! C: emits plain host loops whose iterations run in another order, to reveal a wrong plan.
//!
//! Each parallel loop runs its iterations reversed or in a random order. Privates have another value before each iteration.
//! Scalars that are only read have a copy in each iteration that must not change. Reductions are combined from groups. Data clauses are left
//! out: the program has to run with host devices.

use super::c::{closing, keep, opening, serial, storing};
use super::private;
use crate::edits::Edits;
use crate::ir::{Shape, VarId};
use crate::plan::{Nest, Part, Plan, Planned};
use crate::source::Source;
use std::fmt::Write;

/// Groups of a reduction.
const GROUPS: usize = 3;

/// The text at the beginning of the source: the orders of iterations. `KERNELS_CHECK_SEED` chooses them.
pub(crate) const PROLOGUE: &str = "extern char *accord_getenv(const char *) __asm__(\"getenv\"); \
static unsigned long long accord_random_state; \
static __attribute__((__unused__)) unsigned long long accord_random(void) { \
if (!accord_random_state) { const char *s = accord_getenv(\"KERNELS_CHECK_SEED\"); accord_random_state = 88172645463325252ull; \
while (s && *s) accord_random_state = accord_random_state * 1099511628211ull + (unsigned char)*s++; } \
accord_random_state ^= accord_random_state << 13; accord_random_state ^= accord_random_state >> 7; \
accord_random_state ^= accord_random_state << 17; return accord_random_state; } \
static __attribute__((__unused__)) unsigned long long accord_step(unsigned long long n) { \
if (n < 3 || accord_random() % 3 == 0) return n ? n - 1 : 0; \
for (;;) { unsigned long long a = accord_random() % (n - 1) + 1, b = n, c = a; \
while (c) { unsigned long long t = b % c; b = c; c = t; } if (b == 1) return a; } } \
static __attribute__((__unused__)) void accord_poison(void *p, unsigned long n) { \
unsigned char *c = (unsigned char *)p; while (n--) *c++ = 0x5b; } \
extern int accord_dprintf(int, const char *, ...) __asm__(\"dprintf\"); \
static __attribute__((__unused__)) void accord_read(int *said, const char *where, const char *name, const void *p, const void *q, unsigned long n) { \
if (!*said && __builtin_memcmp(p, q, n)) { *said = 1; \
accord_dprintf(2, \"%s: error: %s is written in a loop that may only read it\\n\", where, name); } }\n";

/// Emits the edits for one construct.
pub(crate) fn emit(source: &Source<'_>, plan: &Plan<'_>, edits: &mut Edits) {
    let construct = plan.construct;
    let inside = construct.directive.span.start..construct.span.end;
    // Loops that run in order remain regions, on the host: GCC gives them their private variables.
    let stay = private::in_order(plan);
    for directive in source.directives.iter().filter(|directive| inside.contains(&directive.span.start)) {
        let at = directive.span.start;
        if !stay.iter().any(|(span, own)| span.contains(&at) || own.is_some_and(|own| own.start == at)) {
            edits.blank(source, directive.span.clone());
        }
    }
    let copied = |id: VarId| matches!(construct.variables[id.0].shape, Shape::Scalar | Shape::Array);
    private::in_check(plan, &copied).iter().for_each(|one| keep(one, edits));
    stay.iter().for_each(|(span, own)| serial(source, span, "kernels", *own, edits));
    for part in &plan.parts {
        let Part::Nest(nest) = part else { continue };
        for (at, planned) in nest.loops.iter().enumerate().filter(|(_, planned)| planned.parallel.is_some()) {
            one(source, plan, planned, (at == 0).then_some(nest), edits);
        }
    }
}

fn one(source: &Source<'_>, plan: &Plan<'_>, planned: &Planned<'_>, outermost: Option<&Nest<'_>>, edits: &mut Edits) {
    let (of, Some(parallel)) = (planned.of, &planned.parallel) else { return };
    let construct = plan.construct;
    let name = |id: &VarId| construct.variables[id.0].name.as_str();
    let code = |span: &crate::ir::Span| source.code[span.clone()].replace('\n', " ");
    let (first, bound) = (code(&of.text.first), code(&of.text.bound));
    let step = of.step.unsigned_abs();
    let (from, to) = if of.step > 0 { ("f", "b") } else { ("b", "f") };
    let more = if of.exclusive { step - 1 } else { step };
    let mut text = String::new();
    let open = outermost.map_or_else(String::new, |nest| opening(plan, nest));
    let _ = write!(
        text,
        "{open}{{ long long accord_f = ({first}), accord_b = ({bound}); \
         unsigned long long accord_n = accord_{from} {} accord_{to} ? (unsigned long long)(accord_{to} - accord_{from} + {more}) / {step} : 0, \
         accord_s = accord_step(accord_n), accord_o = accord_n ? accord_random() % accord_n : 0, accord_k; ",
        if of.exclusive { "<" } else { "<=" }
    );
    for (id, operator) in &parallel.scalars.reductions {
        let name = name(id);
        let identity = identity(operator, name);
        let _ = write!(text, "__typeof__({name}) accord_r_{name}[{GROUPS}] = {{{identity}, {identity}, {identity}}}; ");
    }
    let read: Vec<&str> =
        parallel.scalars.read.iter().filter(|id| construct.variables[id.0].shape == Shape::Scalar).map(name).collect();
    if !read.is_empty() {
        text += "static int accord_w; ";
    }
    for name in &read {
        let _ = write!(text, "__typeof__({name}) accord_c_{name} = {name}; ");
    }
    text += "for (accord_k = 0; accord_k < accord_n; accord_k++, accord_o = (accord_o + accord_s) % accord_n) { ";
    if !parallel.scalars.reductions.is_empty() {
        let _ = write!(text, "unsigned accord_g = accord_random() % {GROUPS}; ");
    }
    let arrays = of.private.iter().filter(|id| construct.variables[id.0].shape == Shape::Array);
    for id in parallel.scalars.private.iter().filter(|id| **id != of.variable).chain(arrays) {
        let name = name(id);
        let _ = write!(text, "__typeof__({name}) {name}; accord_poison(&{name}, sizeof {name}); ");
    }
    for name in &read {
        let _ = write!(text, "__typeof__({name}) {name} = accord_c_{name}; ");
    }
    for id in parallel.scalars.reductions.keys() {
        let name = name(id);
        let _ = write!(text, "__typeof__({name}) {name} = accord_r_{name}[accord_g]; ");
    }
    let sign = if of.step > 0 { '+' } else { '-' };
    let value = format!("accord_f {sign} (long long)accord_o * {step}");
    let variable = name(&of.variable);
    if of.declares {
        let open = planned.span.start + source.code[planned.span.start..].find('(').map_or(0, |at| at + 1);
        let declaration = source.code[open..of.text.first.start].replace('\n', " ");
        let _ = write!(text, "{declaration} {value}; ");
    } else {
        let _ = write!(text, "__typeof__({variable}) {variable} = {value}; ");
    }
    text += "do ";
    let breaks = source.text[planned.span.start..of.text.body.start].matches('\n').count();
    let kept = if breaks > 0 { super::c::back(source, of.text.body.start) } else { String::new() };
    edits.replace(planned.span.start..of.text.body.start, text + &kept);
    let mut end = String::from(" while (0); ");
    if let Some(nest) = outermost.filter(|nest| !nest.stored.is_empty()) {
        end += &storing(source, plan, nest);
    }
    let line = source.place(planned.span.start).0;
    let place = format!("{}:{}", line.file, line.number);
    for name in &read {
        let _ =
            write!(end, "accord_read(&accord_w, \"{place}\", \"{name}\", &{name}, &accord_c_{name}, sizeof {name}); ");
    }
    for id in parallel.scalars.reductions.keys() {
        let name = name(id);
        let _ = write!(end, "accord_r_{name}[accord_g] = {name}; ");
    }
    end += "} ";
    for (id, operator) in &parallel.scalars.reductions {
        let name = name(id);
        for group in (0..GROUPS).rev() {
            let part = format!("accord_r_{name}[{group}]");
            let _ = match operator.as_str() {
                "max" => write!(end, "if ({part} > {name}) {name} = {part}; "),
                "min" => write!(end, "if ({part} < {name}) {name} = {part}; "),
                operator => write!(end, "{name} = {name} {operator} {part}; "),
            };
        }
    }
    end += "}";
    if let Some(nest) = outermost {
        end += &closing(source, plan, nest, None);
    }
    edits.close(of.text.body.end, end);
}

/// Returns the neutral element of an operator.
fn identity(operator: &str, name: &str) -> String {
    match operator {
        "*" | "&&" => "1".into(),
        "&" => "-1".into(),
        // Each group starts with the variable's own value, which an extremum may count twice.
        "max" | "min" => name.into(),
        _ => "0".into(),
    }
}
