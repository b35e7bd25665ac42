//! The intermediate representation of a `kernels` construct, which front ends create from a source, and the analysis reads.
//!
//! A front end (`c`, one for each language) parses the source's text and fills in these types. It decides nothing about
//! parallelism. It must never omit an access. An expression that it can't parse has an access with unknown subscripts
//! for each variable in it; a statement that it can't parse is a [`Kind::Obstacle`]. Everything refers to the text by
//! byte spans, so that the emitter can edit the text and keep each line's number.

use crate::poly::Poly;
pub use crate::poly::VarId;
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes of the source's text.
pub type Span = Range<usize>;

/// A clause: `copy(a, b)`, or a name alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clause {
    /// Its name in lower case.
    pub name: String,
    /// The text in the parentheses.
    pub argument: Option<String>,
}

/// A directive with its lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directive {
    /// Its lines, from the first column to the last line's end, without that line's break.
    pub span: Span,
    /// `kernels`, `kernels loop`, `loop` and so on, in lower case.
    pub name: String,
    /// Its clauses, in order.
    pub clauses: Vec<Clause>,
}

impl Directive {
    /// The first clause with this name.
    pub fn clause(&self, name: &str) -> Option<&Clause> {
        self.clauses.iter().find(|clause| clause.name == name)
    }
}

/// A `kernels` construct, also a combined one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Construct {
    /// `kernels` or `kernels loop`. Clauses of a combined one that belong to `loop` are in [`Loop::directive`] of its loop too.
    pub directive: Directive,
    /// `end kernels`, in Fortran.
    pub end: Option<Span>,
    /// Its body: in C the statement or the block with its braces, in Fortran all between the directives.
    pub span: Span,
    /// All variables that the body names.
    pub variables: Vec<Variable>,
    /// The body; a block's statements.
    pub body: Vec<Statement>,
    /// The reason why no part of it can be rewritten.
    pub obstacle: Option<Obstacle>,
    /// Names that `data` constructs around it map, in the same procedure and without a condition.
    pub present: BTreeSet<String>,
}

/// A variable, as the construct sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Its name, as written; of a component its path (`p->x`, `c%x`).
    pub name: String,
    /// Scalar, array or pointer.
    pub shape: Shape,
    /// The type of the scalar, or of the elements.
    pub element: Element,
    /// The place of its memory.
    pub storage: Storage,
    /// Whether the program takes its address anywhere, or passes it by reference. Never false for a `target` in Fortran.
    pub address_taken: bool,
    /// Whether it is `volatile` or `_Atomic`.
    pub volatile: bool,
    /// Whether its value may be read after the construct before it is written. Always true of static storage and dummy arguments.
    pub live_after: bool,
    /// Whether a statement stores to all of it though it is no scalar: a reference, a structure, what the source does not declare.
    pub stored_whole: bool,
    /// Whether a data clause elsewhere names it, or `declare` does: a copy on the device may differ from the host's.
    pub mapped: bool,
    /// The variable of the source that it stands for in a loop whose directive makes it private.
    pub private_of: Option<VarId>,
}

/// The type of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// An arithmetic scalar.
    Scalar,
    /// An array with its own memory, or a Fortran dummy array, which overlaps nothing.
    Array,
    /// A pointer (in Fortran an array that is `pointer` or `target`), or an array parameter of C.
    Pointer {
        /// Whether it is `restrict`, or the language guarantees the same.
        restrict: bool,
    },
    /// A structure, an array behind a component's pointer, or anything else: it may overlap anything.
    Other,
}

/// A type of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// An integer.
    Integer {
        /// Whether it is signed: arithmetic does not wrap.
        signed: bool,
        /// Its bits.
        bits: u32,
    },
    /// A floating-point number of so many bits.
    Real(u32),
    /// A complex number of so many bits.
    Complex(u32),
    /// Fortran's `logical`, C's `_Bool`.
    Logical,
    /// Any other type.
    Other,
}

/// The place of a variable's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// Declared in the construct's body.
    Inside,
    /// A local variable of the procedure.
    Local,
    /// A parameter by value in C (for a scalar the same as a local one).
    Parameter,
    /// A dummy argument, a reference: the caller sees its value.
    Reference,
    /// Global, static, of a module, `COMMON`, `SAVE`.
    Static,
}

/// A statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// Its text.
    pub span: Span,
    /// Its kind.
    pub kind: Kind,
}

/// Kinds of statements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A loop whose trip count is known before it starts.
    Loop(Box<Loop>),
    /// `while`, `do`, a loop with `break`, or any other that only runs in order. `accesses` are those of its conditions.
    Repeat {
        /// Why it counts no iterations, if that is more than how it is written.
        reason: Option<String>,
        /// Accesses of its conditions, which run before and after each iteration.
        accesses: Vec<Access>,
        /// Its body.
        body: Vec<Statement>,
    },
    /// `if`, or a `switch` whose arms don't fall through.
    Branch {
        /// Accesses of the condition.
        condition: Vec<Access>,
        /// The arms; without `else` the last one is empty.
        arms: Vec<Vec<Statement>>,
    },
    /// A block with declarations of its own, in C.
    Block(Vec<Statement>),
    /// An assignment, an expression, a declaration.
    Effect(Effect),
    /// `continue` or `cycle`: ends an iteration of a loop around it.
    Jump {
        /// Whether that is the innermost loop.
        innermost: bool,
    },
    /// A statement that only the compiler may handle. `accesses` name all its variables.
    Obstacle {
        /// The reason.
        obstacle: Obstacle,
        /// An access for each variable in it, of unknown parts of arrays.
        accesses: Vec<Access>,
    },
}

/// A loop over integers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loop {
    /// Its `loop` directive, or that of a combined construct.
    pub directive: Option<Directive>,
    /// The loop's variable.
    pub variable: VarId,
    /// Variables that the directive makes private: those of its clause that the loop writes, and those of its loops. They are other
    /// variables than those of the same names outside of the loop.
    pub private: BTreeSet<VarId>,
    /// Whether the loop itself declares its variable (`for (int i = ...`): its last value is never read.
    pub declares: bool,
    /// Its places in the text.
    pub text: LoopText,
    /// The first value; `None` if it is not a polynomial.
    pub lower: Option<Poly>,
    /// The last value for a step of 1, inclusive (one less than C's `<` bound); for negative steps the bound in that direction. `None`
    /// if it is not a polynomial.
    pub last: Option<Poly>,
    /// Whether the text of the bound is itself outside of the range (`<`, `>` in C).
    pub exclusive: bool,
    /// The step, never 0.
    pub step: i64,
    /// Accesses of bounds and step, which run once. In C a bound is evaluated before each iteration: the front end represents
    /// a loop that writes what its bound reads as a [`Kind::Repeat`].
    pub header: Vec<Access>,
    /// Its body.
    pub body: Vec<Statement>,
}

/// The places of a loop's parts in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopText {
    /// The first value.
    pub first: Span,
    /// The bound.
    pub bound: Span,
    /// The body: in C a statement or a block with braces.
    pub body: Span,
    /// The offset where a statement can be added at the body's end; `None` if the text has no place for it.
    pub open_end: Option<usize>,
}

/// A statement without control flow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Effect {
    /// All accesses, in the order of evaluation.
    pub accesses: Vec<Access>,
    /// The new value of a scalar as a polynomial: `k = i * n + 1`.
    pub value: Option<(VarId, Poly)>,
    /// An update that may be a reduction: `s += e`, `s = max(s, e)`, `if (e > s) s = e`. The accesses of `s` itself are in `accesses` too.
    pub reduction: Option<Reduction>,
    /// Functions that it calls.
    pub calls: Vec<Call>,
    /// Whether it may run on the host: no array, no call but of mathematical functions.
    pub only_scalars: bool,
}

/// An access of a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// The variable.
    pub variable: VarId,
    /// Whether it is stored; else it is read.
    pub write: bool,
    /// Subscripts of an array's element: a polynomial for each dimension, the first one being the slowest in memory
    /// (Fortran's are reversed); `None` where it is none. Empty for a scalar; a whole array is [`Access::whole`].
    pub subscripts: Vec<Option<Poly>>,
    /// The place in the text.
    pub span: Span,
}

impl Access {
    /// An access of an unknown part of an array.
    pub fn whole(variable: VarId, write: bool, span: Span) -> Self {
        Self { variable, write, subscripts: vec![None], span }
    }
}

/// An update of a scalar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reduction {
    /// The scalar.
    pub variable: VarId,
    /// The operator as in a clause: `+`, `*`, `max`, `min`, `&`, `|`, `^`, `&&`, `||`; in Fortran `.and.` and so on.
    pub operator: String,
}

/// A call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The function's name.
    pub name: String,
    /// The kind of function.
    pub kind: CallKind,
    /// The place in the text.
    pub span: Span,
}

/// The name of a [`Call`] that stands for an atomic update of an array's element.
pub const ATOMIC: &str = "acc atomic";

/// The known properties of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// A mathematical function: it depends on its arguments, and changes nothing.
    Pure,
    /// It has `acc routine seq`, or no level.
    Sequential,
    /// It has `acc routine` with another level: a loop around it must leave that level free.
    Level,
    /// Its effects are unknown.
    Unknown,
}

/// The reason why a statement, a loop or a construct is left to GCC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obstacle {
    /// The place in the text.
    pub span: Span,
    /// The reason, as in a message: "goto leaves the loop".
    pub reason: String,
    /// The remedy, if there is a better one than `parallel loop` by hand.
    pub remedy: Option<String>,
    /// Whether an enclosing loop with `independent` may still run in parallel. Such a statement has unknown accesses, but
    /// does not leave the loop.
    pub promised_away: bool,
}
