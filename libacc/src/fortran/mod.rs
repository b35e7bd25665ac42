//! The routines as gfortran's code calls them: `NAME_h_`, arguments by reference.
//!
//! Data routines have three forms: an address with a 32-bit length, an address with a 64-bit length, and an array by its
//! descriptor. All other routines also have a form `NAME_` for programs without an interface of them.

mod data;
mod descriptor;
mod device;
mod external;
mod property;
mod queue;

use accord_types::{Error, ErrorCode, Result};

/// Converts a length that a program passed as a signed integer.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if the length is negative.
fn length(bytes: i64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| {
        Error::new(ErrorCode::InvalidArgument, format!("the length is {bytes} bytes")).remedy("pass 0 or more")
    })
}
