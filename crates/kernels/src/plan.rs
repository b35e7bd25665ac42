//! Plans a construct: which nests run in parallel, what stays on the host, where scalars are stored.

mod frames;
mod inner;
mod liveness;
mod loops;

use crate::analysis::{self, Extent, Parallel, Rules, judge};
use crate::ir::{ATOMIC, Construct, Effect, Kind, Loop, Obstacle, Shape, Span, Statement, Storage, VarId};
use crate::walk;
use frames::Frame;
use loops::has_no_iterations;
pub(crate) use loops::{collapse, has_few_iterations};
use std::collections::BTreeSet;

/// The note on a construct without a parallel loop.
pub(crate) const NO_LOOP: &str = "no loop in it can run in parallel";

/// The plan for a construct.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The construct.
    pub construct: &'a Construct,
    /// Its parts, in order; what is between them stays on the host.
    pub parts: Vec<Part<'a>>,
    /// Scalars that stay on the device from one part to the next.
    pub device: BTreeSet<VarId>,
    /// Whether the only part is the whole construct.
    pub single: bool,
    /// Loops that run on the host, whose directives are removed.
    pub host: Vec<&'a Loop>,
    /// Loops without iterations, which have no directives inside either.
    pub idle: Vec<Span>,
    /// Reasons why loops are left to GCC, and findings on the others.
    pub notes: Vec<Note>,
}

/// A note about a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Offset in the text.
    pub at: usize,
    /// The text, in NVHPC's terms if it has any.
    pub text: String,
    /// Whether the loop is left to GCC.
    pub refused: bool,
}

/// A part of a construct that runs on the device.
#[derive(Debug)]
pub enum Part<'a> {
    /// A loop nest that runs in parallel.
    Nest(Nest<'a>),
    /// Statements that run in order.
    Serial {
        /// Their text.
        span: Span,
        /// Scalars that they name.
        scalars: BTreeSet<VarId>,
        /// Arrays that they name.
        arrays: BTreeSet<VarId>,
        /// Whether it is a loop that GCC may parallelize by itself.
        is_loop: bool,
        /// The directive of that loop.
        directive: Option<Span>,
    },
}

/// A loop nest that runs in parallel.
#[derive(Debug)]
pub struct Nest<'a> {
    /// Its loops that are parallel or have a directive, from the outside inwards, in the order of the text.
    pub loops: Vec<Planned<'a>>,
    /// Scalars that it only reads.
    pub read: BTreeSet<VarId>,
    /// Arrays and structures that it names.
    pub arrays: BTreeSet<VarId>,
    /// The value of the loop's variable is used afterwards.
    pub last_value: bool,
    /// Private scalars whose last value is used afterwards: the last iteration stores it.
    pub stored: BTreeSet<VarId>,
    /// Ranges that must not overlap; otherwise the nest runs in order.
    pub apart: BTreeSet<(Extent, Extent)>,
}

/// A loop of a nest.
#[derive(Debug)]
pub struct Planned<'a> {
    /// The loop.
    pub of: &'a Loop,
    /// Its statement.
    pub span: Span,
    /// Its parallelism; `None` if it runs in order.
    pub parallel: Option<Parallel>,
    /// Whether it belongs to an outer loop's `collapse`.
    pub collapsed: bool,
    /// Number of loops that its directive's `collapse` takes.
    pub collapse: usize,
}

/// Returns the plan of a construct, or why it is left to GCC.
pub fn plan(construct: &Construct, rules: Rules) -> Result<Plan<'_>, Vec<Note>> {
    let whole = |reason: &str, at: usize| vec![Note { at, text: reason.to_owned(), refused: true }];
    if let Some(obstacle) = &construct.obstacle {
        return Err(whole(&obstacle.reason, obstacle.span.start));
    }
    if construct.directive.clause("device_type").is_some() || construct.directive.clause("dtype").is_some() {
        return Err(whole("device_type of the construct", construct.directive.span.start));
    }
    let mut device: BTreeSet<VarId> = scalars(construct).filter(|id| construct.variables[id.0].mapped).collect();
    loop {
        let mut planner = Planner {
            construct,
            rules,
            device: device.clone(),
            on_device: BTreeSet::new(),
            private_on_device: BTreeSet::new(),
            notes: Vec::new(),
            host: Vec::new(),
            failed: None,
            jumps: false,
            idle: Vec::new(),
        };
        let parts = planner.list(&construct.body, &[]);
        let Planner { on_device, notes, host, failed, idle, .. } = planner;
        if !parts.iter().any(|part| matches!(part, Part::Nest(_))) && idle.is_empty() {
            return Err(match notes.is_empty() {
                true => whole(NO_LOOP, construct.directive.span.start),
                false => notes,
            });
        }
        if let Some((at, reason)) = failed {
            return Err(whole(&reason, at));
        }
        if !on_device.is_subset(&device) {
            device.extend(on_device);
            continue;
        }
        // Between a loop of the host and its part data would move in each iteration.
        let single = parts.len() == 1 && host.is_empty() && is_whole(construct);
        return Ok(Plan { construct, parts, device, single, host, idle, notes });
    }
}

/// Whether the construct consists of one loop.
fn is_whole(construct: &Construct) -> bool {
    fn only(list: &[Statement]) -> bool {
        match list {
            [one] => match &one.kind {
                Kind::Loop(_) => true,
                Kind::Block(body) => only(body),
                _ => false,
            },
            _ => false,
        }
    }
    only(&construct.body)
}

fn scalars(construct: &Construct) -> impl Iterator<Item = VarId> {
    let all = construct.variables.iter().enumerate();
    all.filter(|(_, variable)| variable.shape == Shape::Scalar).map(|(at, _)| VarId(at))
}

struct Planner<'a> {
    construct: &'a Construct,
    rules: Rules,
    /// Scalars that stay on the device, as known so far.
    device: BTreeSet<VarId>,
    /// Scalars that parts write.
    on_device: BTreeSet<VarId>,
    /// Private variables of loops around parts that these write.
    private_on_device: BTreeSet<VarId>,
    notes: Vec<Note>,
    host: Vec<&'a Loop>,
    failed: Option<(usize, String)>,
    /// Whether a part ends an iteration of a loop around it, which can't stay on the host then.
    jumps: bool,
    /// Loops without iterations, which are not run on the device.
    idle: Vec<Span>,
}

impl<'a> Planner<'a> {
    fn list(&mut self, list: &'a [Statement], around: &[Frame<'a>]) -> Vec<Part<'a>> {
        let mut parts: Vec<Part<'a>> = Vec::new();
        let mut open = false;
        for (at, statement) in list.iter().enumerate() {
            let frames = [around, &[Frame::Before(&list[at + 1..])]].concat();
            let own = self.statement(statement, &frames);
            // Neighbouring statements on the device are one part.
            if let (
                [Part::Serial { span, scalars, arrays, is_loop: false, .. }],
                true,
                Some(Part::Serial { span: to, scalars: all, arrays: every, is_loop: false, .. }),
            ) = (&*own, open, parts.last_mut())
            {
                to.end = span.end;
                all.extend(scalars);
                every.extend(arrays);
                continue;
            }
            open = matches!(own.last(), Some(Part::Serial { is_loop: false, .. }))
                && !matches!(statement.kind, Kind::Loop(_) | Kind::Block(_) | Kind::Branch { .. });
            parts.extend(own);
        }
        parts
    }

    fn statement(&mut self, statement: &'a Statement, around: &[Frame<'a>]) -> Vec<Part<'a>> {
        let known = self.notes.len();
        match &statement.kind {
            // GCC passes no arguments to a region that does nothing.
            Kind::Loop(of) if has_no_iterations(of) && !self.device.contains(&of.variable) => {
                self.host.push(of);
                self.idle.push(statement.span.clone());
                self.notes.push(Note {
                    at: statement.span.start,
                    text: "the loop has no iterations".into(),
                    refused: false,
                });
                Vec::new()
            }
            Kind::Jump { .. } => Vec::new(),
            Kind::Loop(of) => match self.nest(statement, of, around) {
                Ok(nest) => vec![Part::Nest(nest)],
                Err(obstacle) => {
                    self.notes.truncate(known);
                    self.notes.push(Note { at: statement.span.start, text: obstacle.reason, refused: true });
                    let on_host = of.header.iter().all(|access| self.is_on_host(access.variable));
                    if on_host && !self.device.contains(&of.variable) {
                        let inner = [around, &[Frame::Loop(of)]].concat();
                        let (kept, hosts) = (self.on_device.clone(), self.host.len());
                        let failed = self.failed.take();
                        let jumps = std::mem::take(&mut self.jumps);
                        let parts = self.list(&of.body, &inner);
                        let leaves_part = std::mem::replace(&mut self.jumps, jumps);
                        if parts.iter().any(|part| matches!(part, Part::Nest(_)))
                            && !leaves_part
                            && self.failed.is_none()
                            && self.has_private_on_host(of)
                        {
                            // It runs on the host, around parallel ones.
                            self.failed = failed;
                            self.notes[known].refused = false;
                            self.host.push(of);
                            return parts;
                        }
                        self.host.truncate(hosts);
                        self.on_device = kept;
                        self.failed = failed;
                        self.notes.truncate(known + 1);
                    }
                    self.serial(statement, true)
                }
            },
            Kind::Branch { condition, arms } => {
                let (kept, failed) = (self.on_device.clone(), self.failed.clone());
                if condition.iter().all(|access| self.is_on_host(access.variable)) {
                    let parts: Vec<Part<'a>> = arms.iter().flat_map(|arm| self.list(arm, around)).collect();
                    if parts.is_empty() || parts.iter().any(|part| matches!(part, Part::Nest(_))) {
                        return parts;
                    }
                    (self.on_device, self.failed) = (kept, failed);
                }
                self.serial(statement, true)
            }
            Kind::Block(body) => {
                let (kept, failed) = (self.on_device.clone(), self.failed.clone());
                let parts = self.list(body, around);
                if parts.iter().any(|part| matches!(part, Part::Nest(_))) || parts.is_empty() {
                    return parts;
                }
                (self.on_device, self.failed) = (kept, failed);
                self.serial(statement, true)
            }
            Kind::Effect(effect) if self.runs_on_host(effect) => Vec::new(),
            Kind::Effect(effect) => {
                if effect.calls.iter().any(|call| call.name == ATOMIC) {
                    self.failed.get_or_insert((statement.span.start, "an atomic update between loops".into()));
                }
                let declares = statement_declares(self.construct, statement);
                if let Some(variable) = declares {
                    let reason = format!(
                        "{} is declared in the construct and set on the device",
                        self.construct.variables[variable.0].name
                    );
                    self.failed.get_or_insert((statement.span.start, reason));
                }
                self.serial(statement, false)
            }
            Kind::Repeat { .. } | Kind::Obstacle { .. } => {
                let mut reason = match &statement.kind {
                    Kind::Repeat { reason, .. } => reason.clone(),
                    _ => None,
                };
                walk::statements(std::slice::from_ref(statement), &mut |one| {
                    if let Kind::Obstacle { obstacle, .. } = &one.kind {
                        reason.get_or_insert_with(|| obstacle.reason.clone());
                    }
                });
                let text = reason.unwrap_or_else(|| "the loop's trip count is not known before it starts".into());
                self.notes.push(Note { at: statement.span.start, text, refused: true });
                self.serial(statement, true)
            }
        }
    }

    /// A scalar that the host knows.
    fn is_on_host(&self, variable: VarId) -> bool {
        self.construct.variables[variable.0].shape == Shape::Scalar && !self.device.contains(&variable)
    }

    /// An effect on scalars that the host knows all.
    fn runs_on_host(&self, effect: &Effect) -> bool {
        effect.accesses.is_empty() && effect.calls.is_empty()
            || effect.only_scalars && effect.accesses.iter().all(|access| self.is_on_host(access.variable))
    }

    fn serial(&mut self, statement: &'a Statement, is_loop: bool) -> Vec<Part<'a>> {
        let (mut scalars, mut arrays) = (BTreeSet::new(), BTreeSet::new());
        self.jumps |= walk::jumps_out(statement);
        let one = std::slice::from_ref(statement);
        let mut written = BTreeSet::new();
        walk::accesses(one, &mut |access| {
            let scalar = self.construct.variables[access.variable.0].shape == Shape::Scalar;
            if scalar { &mut scalars } else { &mut arrays }.insert(access.variable);
            if scalar && access.write {
                written.insert(access.variable);
            }
        });
        walk::loops(one, &mut |inner| {
            if !inner.declares {
                written.insert(inner.variable);
                scalars.insert(inner.variable);
            }
        });
        let inside = |id: &VarId| {
            self.construct.variables[id.0].storage == Storage::Inside
                && !named_outside(self.construct, *id, &statement.span)
        };
        let mut made_inside: BTreeSet<VarId> = BTreeSet::new();
        walk::loops(one, &mut |inner| made_inside.extend(&inner.private));
        let is_private = |id: &&VarId| self.construct.variables[id.0].private_of.is_some();
        self.private_on_device.extend(written.iter().filter(is_private).filter(|id| !made_inside.contains(id)));
        scalars.retain(|id| !inside(id));
        written.retain(|id| !inside(id));
        self.on_device.extend(&written);
        let directive = match &statement.kind {
            Kind::Loop(of) => of.directive.as_ref().filter(|own| own.span != self.construct.directive.span),
            _ => None,
        };
        let directive = directive.map(|directive| directive.span.clone());
        vec![Part::Serial { span: statement.span.clone(), scalars, arrays, is_loop, directive }]
    }

    fn nest(&mut self, statement: &'a Statement, of: &'a Loop, around: &[Frame<'a>]) -> Result<Nest<'a>, Obstacle> {
        let parallel = judge(self.construct, of, self.rules, false, &frames::loops(around))?;
        let refuse =
            |reason: String| Err(Obstacle { span: statement.span.clone(), reason, remedy: None, promised_away: false });
        // A value that is used afterwards has to be the last iteration's.
        let private = parallel.scalars.private.iter().copied();
        let stored: BTreeSet<VarId> = private.filter(|variable| self.is_live(*variable, around)).collect();
        if let Some(variable) = stored.iter().find(|variable| !self.can_be_stored(**variable, of)) {
            return refuse(last_value_needed(&self.construct.variables[variable.0].name));
        }
        let last_value = !of.declares && self.is_live(of.variable, around);
        if last_value
            && (self.device.contains(&of.variable) || of.header.iter().any(|access| !self.is_on_host(access.variable)))
        {
            return refuse(format!(
                "the value of {} is used after the loop",
                self.construct.variables[of.variable.0].name
            ));
        }
        let mut arrays = BTreeSet::new();
        walk::accesses(std::slice::from_ref(statement), &mut |access| {
            if self.construct.variables[access.variable.0].shape != Shape::Scalar {
                arrays.insert(access.variable);
            }
        });
        let recognised = parallel.recognised.clone();
        self.on_device.extend(parallel.scalars.reductions.keys());
        let read = parallel.scalars.read.clone();
        let word = if parallel.promised { "loop is parallelizable (independent)" } else { "loop is parallelizable" };
        self.notes.push(Note { at: statement.span.start, text: word.into(), refused: false });
        for variable in recognised {
            let name = &self.construct.variables[variable.0].name;
            self.notes.push(Note {
                at: statement.span.start,
                text: format!("reduction of {name} recognised"),
                refused: false,
            });
        }
        let collapse = collapse(of);
        let overlaps = parallel.overlaps.clone();
        let (span, parallel) = (statement.span.clone(), Some(parallel));
        let mut loops = vec![Planned { of, span, parallel, collapsed: false, collapse }];
        let inner: Vec<&Loop> = frames::loops(around).into_iter().chain([of]).collect();
        self.inner(&of.body, (&inner, &[]), collapse - 1, &mut loops);
        Self::untile(&mut loops);
        Self::keep_contiguous(self.construct, &mut loops);
        let apart = self.apart(statement, of, around, overlaps, &mut loops)?;
        for variable in &stored {
            let name = &self.construct.variables[variable.0].name;
            if !apart.is_empty() {
                return refuse(last_value_needed(name));
            }
            let text = format!("the last iteration stores {name}");
            self.notes.push(Note { at: statement.span.start, text, refused: false });
        }
        if stored.is_empty() {
            Self::collapse_perfect(self.construct, &mut loops);
        }
        Ok(Nest { apart, loops, read, arrays, last_value, stored })
    }

    /// Returns the ranges to compare before a nest.
    fn apart(
        &mut self,
        statement: &'a Statement,
        of: &'a Loop,
        around: &[Frame<'a>],
        mut overlaps: BTreeSet<(VarId, VarId)>,
        loops: &mut [Planned<'a>],
    ) -> Result<BTreeSet<(Extent, Extent)>, Obstacle> {
        let names = |pair: &(VarId, VarId)| [pair.0, pair.1].map(|id| self.construct.variables[id.0].name.clone());
        let compared = |overlaps: &BTreeSet<(VarId, VarId)>| {
            let found = analysis::extents(self.construct, of, &frames::loops(around), overlaps)?;
            let all =
                found.iter().flat_map(|(one, other)| [one, other]).flat_map(|extent| [&extent.first, &extent.last]);
            let on_host = all.flat_map(|poly| poly.variables()).all(|variable| self.is_on_host(variable));
            on_host.then_some(found)
        };
        let Some(mut apart) = compared(&overlaps) else {
            let reason = overlaps
                .first()
                .map(names)
                .map_or_else(String::new, |[one, other]| format!("{one} and {other} may overlap"));
            return Err(Obstacle { span: statement.span.clone(), reason, remedy: None, promised_away: false });
        };
        for planned in loops.iter_mut().skip(1) {
            let Some(parallel) = planned.parallel.as_ref().filter(|parallel| !parallel.overlaps.is_subset(&overlaps))
            else {
                continue;
            };
            let more: BTreeSet<(VarId, VarId)> = overlaps.union(&parallel.overlaps).copied().collect();
            match compared(&more) {
                Some(found) => (apart, overlaps) = (found, more),
                None => planned.parallel = None,
            }
        }
        if !apart.is_empty() {
            let names = overlaps
                .iter()
                .map(names)
                .map(|[one, other]| format!("{one} and {other}"))
                .collect::<Vec<_>>()
                .join(", ");
            let text = format!("ranges of {names} are compared at run time");
            self.notes.push(Note { at: statement.span.start, text, refused: false });
        }
        Ok(apart)
    }
}

/// Returns the variable that a statement declares, if it is a declaration with a value.
fn statement_declares(construct: &Construct, statement: &Statement) -> Option<VarId> {
    let Kind::Effect(effect) = &statement.kind else { return None };
    let inside = |access: &&crate::ir::Access| {
        let variable = &construct.variables[access.variable.0];
        access.write && variable.storage == Storage::Inside && variable.private_of.is_none()
    };
    effect.accesses.iter().find(inside).map(|access| access.variable)
}

/// Whether anything outside a span names a variable, such as the header of a surrounding loop.
fn named_outside(construct: &Construct, variable: VarId, span: &Span) -> bool {
    let mut found = false;
    walk::loops(&construct.body, &mut |of| {
        let body = &of.text.body;
        found |= of.variable == variable && body.start <= span.start && span.end <= body.end;
    });
    walk::accesses(&construct.body, &mut |access| {
        found |= access.variable == variable && !(span.start <= access.span.start && access.span.end <= span.end);
    });
    found
}

fn last_value_needed(name: &str) -> String {
    format!("the value of {name} is used after the loop: last value needed prevents parallelization")
}
