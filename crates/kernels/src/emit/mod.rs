//! Edits a source according to the plans of its constructs.

pub(crate) mod c;
pub(crate) mod check;
pub(crate) mod clauses;
pub(crate) mod fortran;
pub(crate) mod fortran_check;
mod private;
