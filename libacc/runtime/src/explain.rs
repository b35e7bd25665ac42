//! What the session knows of an error that a device has reported.

use crate::Runtime;
use crate::given::GivenRegion;
use accord_types::{Error, ErrorCode, HostRange};

impl Runtime {
    /// Adds to the error of a region that crashed what it was given without a clause, and the ways out.
    pub fn explain(&self, error: Error) -> Error {
        if error.code() != ErrorCode::Execution {
            return error;
        }
        let all = self.devices.iter().flat_map(|device| device.given.regions());
        let named = |region: &GivenRegion| {
            self.host.function(region.function).is_ok_and(|spec| is_named(error.cause(), &spec.name))
        };
        let Some(region) = all.into_iter().find(named) else { return error };
        let pointers: Vec<String> = region
            .pointers
            .iter()
            .filter_map(|pointer| self.host.describe(HostRange { start: *pointer, len: 1 }))
            .collect();
        if pointers.is_empty() {
            return error;
        }
        let pointers = pointers.join(", ");
        if region.lent {
            return error.more(format!("it got copies of the blocks that these point to: {pointers}")).instead(
                "pointers inside of such blocks are not followed; map what they point to by enter data and attach",
            );
        }
        error.more(format!("it was given pointers that nothing maps: {pointers}")).instead(
            "write a data clause with their length, as copy(a[0:n]), or set ACCORD_UNMAPPED=map for programs that rely on unified memory; \
             for a Fortran pointer x to a derived type write enter data copyin(x) ahead of the clauses that name x%a, in C for a pointer p to a structure copyin(p[0:1]) ahead of those that name p->a[0:n]; \
             for a reference s of C++ in a reduction copy(s) beside it",
        )
    }
}

/// Whether a text has a name that is not the beginning of a longer one.
fn is_named(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let next = text[at + name.len()..].chars().next();
        next.is_none_or(|next| !next.is_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_the_beginning_of_another() {
        assert!(is_named("region main._omp_fn.1 (a.c:3) ended", "main._omp_fn.1"));
        assert!(is_named("main._omp_fn.1", "main._omp_fn.1"));
        assert!(!is_named("region main._omp_fn.10 ended", "main._omp_fn.1"));
    }
}
