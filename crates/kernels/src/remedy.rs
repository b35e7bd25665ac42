//! Remedies for loops that are left to GCC.

use crate::Message;

/// The beginning of a reason, or a part of it, and its remedy.
const REMEDIES: &[(&str, &str)] = &[
    ("loop carried dependence", "loop independent, if the iterations don't need each other's values"),
    (" may overlap", "restrict on the pointers, --assume-no-alias, or loop independent"),
    ("the value of ", "a variable of the loop's own, or one that each iteration sets"),
    ("bound is a call of ", "the bound in a variable, set ahead of the construct"),
    ("maxloc stays", "a loop with reduction(max) for the value, then one with reduction(min) for its place"),
    ("minloc stays", "a loop with reduction(min) for the value, then one with reduction(min) for its place"),
    (" stays one statement", "loops over the elements"),
    ("dim of ", "loops over the result's elements, and one with the sum or the extremum inside"),
    ("arguments of ", "loops over the elements"),
    ("of another type than its result", "a variable of the array's type, or loops over the elements"),
    (" has another rank", "loops over the elements"),
    ("is read and stored", "a temporary array, or a loop"),
    ("may read elements of", "a temporary array, or a loop"),
    ("in an assignment of arrays", "loops over the elements"),
    ("vector of subscripts", "a loop with independent, if no subscript is twice in it"),
    ("of do concurrent", "do with loop independent, and private or reduction"),
    ("do concurrent has a name", "do concurrent without name and label"),
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
    /// Returns the remedy for a loop that is left to GCC.
    pub fn remedy(&self) -> &'static str {
        let known = REMEDIES.iter().find(|(reason, _)| self.text.contains(reason));
        known.map_or("parallel loop by hand", |(_, remedy)| remedy)
    }
}
