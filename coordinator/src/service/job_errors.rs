//! Errors of calls that name a job.

use tonic::Status;

/// Returns the error of a call that names a job which there is not.
pub(super) fn no_job(id: u64) -> Status {
    Status::not_found(format!(
        "there is no waiting or running job {id}; see `accord queue`, and `accord history` for ended ones"
    ))
}
