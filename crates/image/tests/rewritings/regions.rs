//! The division and the launch of regions in all languages.

use super::random::Random;

/// A loop nest: the clauses that divide it, and its text.
pub(crate) struct Loops {
    pub(crate) clauses: String,
    pub(crate) text: String,
}

/// Returns clauses of the launch, in which `g` is a variable.
pub(crate) fn dims(random: &mut Random) -> String {
    let gangs = match random.below(4) {
        0 => String::new(),
        1 => "num_gangs(g)".to_owned(),
        _ => format!("num_gangs({})", 1 + random.below(7)),
    };
    let workers = match random.below(3) {
        0 => String::new(),
        _ => format!("num_workers({})", 1 + random.below(3)),
    };
    let vector = random.from(&["", "", "vector_length(32)", "vector_length(64)"]);
    format!("{gangs} {workers} {vector}")
}

/// Returns the division of an innermost loop.
pub(crate) fn level(random: &mut Random) -> String {
    let size = 1 + random.below(4);
    match random.below(10) {
        0 => String::new(),
        1 | 2 => "gang".to_owned(),
        3 | 4 => "gang vector".to_owned(),
        5 => "gang worker".to_owned(),
        6 => "gang worker vector".to_owned(),
        7 => format!("gang(static:{size})"),
        8 => format!("gang(static:{size}) vector"),
        _ => "gang(static:1) vector".to_owned(),
    }
}

/// A call of a region.
pub(crate) struct Call {
    /// Seed of the arrays' values.
    pub(crate) fill: u64,
    /// Number of elements.
    pub(crate) n: u64,
    /// Number of gangs, if the region takes it.
    pub(crate) gangs: u64,
}

impl Call {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self { fill: random.below(1000), n: 40 + random.below(200), gangs: 1 + random.below(6) }
    }
}
