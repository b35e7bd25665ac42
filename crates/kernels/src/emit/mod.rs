//! Edits a source so that its constructs become what their plans say.

pub(crate) mod c;
pub(crate) mod check;
pub(crate) mod clauses;
pub(crate) mod fortran;
pub(crate) mod fortran_check;
mod private;
