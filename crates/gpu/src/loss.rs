//! The cause of losing this process's CUDA contexts. A region's fault loses all of them, also those of other GPUs and later
//! ones (seen with driver 580, error 700). The next caller of the driver must not be blamed.

use super::driver::DriverError;
use accord_types::{Error, ErrorCode};
use std::sync::OnceLock;

/// The first fault: the GPU, by the driver's number, and the cause.
static FIRST: OnceLock<(i32, String)> = OnceLock::new();

/// Returns the cause to report when the context of `gpu` is lost: its own regions in progress, or else the fault of another GPU.
pub(crate) fn cause(gpu: i32, regions: &[String], error: DriverError) -> String {
    let own = match regions {
        [] => None,
        [name] => Some(format!("{name} failed: {error}")),
        names => Some(format!("{} failed: {error}", names.join(" or "))),
    };
    notify(FIRST.get(), gpu, own, error, |cause| drop(FIRST.set((gpu, cause.to_owned()))))
}

fn notify(
    first: Option<&(i32, String)>,
    gpu: i32,
    own: Option<String>,
    error: DriverError,
    keep: impl FnOnce(&str),
) -> String {
    match (first, own) {
        (Some((other, cause)), None) if *other != gpu => {
            format!("another GPU of the process, number {other} of the driver, took this one along: {cause}")
        }
        (Some((_, cause)), None) => cause.clone(),
        (Some(_), Some(own)) => own,
        (None, own) => {
            let cause = own.unwrap_or_else(|| error.to_string());
            keep(&cause);
            cause
        }
    }
}

/// Whether the first fault is that of `gpu`. Other GPUs have lost their contexts by it.
pub(crate) fn is_first(gpu: i32) -> bool {
    FIRST.get().is_some_and(|(first, _)| *first == gpu)
}

/// Returns the reason why no context can be created in this process, if a fault has destroyed the previous ones.
pub(crate) fn error() -> Option<Error> {
    let (gpu, cause) = FIRST.get()?;
    Some(no_more(&format!("GPU {gpu} of the driver's numbers has lost its own: {cause}")))
}

/// Returns the error of a device that does not start.
pub(crate) fn at_start(error: DriverError) -> Error {
    if error.is_sticky() {
        // The program did not wait for the region that caused it.
        return no_more(&format!("one was lost by a region that ran before: {error}"));
    }
    error.into_error(ErrorCode::DeviceInit)
}

fn no_more(cause: &str) -> Error {
    Error::new(ErrorCode::DeviceInit, format!("the driver makes no more contexts in this process: {cause}"))
        .remedy("start the program anew")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_after_a_fault_says_what_helps() {
        let lost = at_start(DriverError { call: "cuDevicePrimaryCtxRetain", code: 700 }).to_string();
        assert!(lost.contains("a region that ran before") && lost.contains("start the program anew"), "{lost}");
        let held = at_start(DriverError { call: "cuDevicePrimaryCtxRetain", code: 46 }).to_string();
        assert!(!held.contains("anew"), "{held}");
    }

    #[test]
    fn device_loss_names_the_fault_and_not_the_call_that_found_it() {
        let error = DriverError { call: "cuLaunchKernel", code: 700 };
        let mut kept = None;
        let first =
            notify(None, 0, Some("region a failed: 700".to_owned()), error, |cause| kept = Some((0, cause.to_owned())));
        assert_eq!(first, "region a failed: 700");
        let unused = |_: &str| panic!("the first one stays");
        let reported = notify(kept.as_ref(), 1, None, error, unused);
        assert!(reported.contains("number 0") && reported.contains("region a failed"), "{reported}");
        assert_eq!(notify(kept.as_ref(), 0, None, error, unused), first);
        // The device's own region may have caused the fault as well.
        assert_eq!(
            notify(kept.as_ref(), 1, Some("region b failed: 700".to_owned()), error, unused),
            "region b failed: 700"
        );
    }
}
