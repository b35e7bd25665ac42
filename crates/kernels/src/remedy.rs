//! What to write for a loop that stays as GCC has it.

use crate::Message;

/// How a reason begins, or what it contains, and what helps.
const REMEDIES: &[(&str, &str)] = &[
    ("loop carried dependence", "loop independent, if the iterations don't need each other's values"),
    (" may overlap", "restrict on the pointers, --assume-no-alias, or loop independent"),
    ("the value of ", "a variable of the loop's own, or one that each iteration sets"),
    ("a call of ", "loop independent, and acc routine seq for the function"),
    ("without independent in C++", "loop independent"),
    ("a loop over a range", "a counted loop with loop independent"),
    ("each iteration stores to ", "a variable of the loop's own, private or reduction"),
    (" means is not known", "its module compiled before, or the module's folder by -I"),
    ("right side may overlap", "a temporary array, or a loop"),
    ("trip count is not known", "a loop whose bound is in a variable that nothing changes, without break"),
    ("is changed in the construct", "the pointer set ahead of the construct"),
    ("an assignment inside of an expression", "the assignment as a statement of its own"),
    ("is declared in the construct", "the variable declared ahead of the construct"),
];

impl Message {
    /// What to write for a loop that stays as GCC has it.
    pub fn remedy(&self) -> &'static str {
        let known = REMEDIES.iter().find(|(reason, _)| self.text.contains(reason));
        known.map_or("parallel loop by hand", |(_, remedy)| remedy)
    }
}
