//! `accord quarantine`: devices that are assigned to no job.

use super::admin::{each, list};
use crate::client::Coordinator;
use crate::failure::Result;
use crate::output::show;
use crate::quarantine_args::{DeviceName, QuarantineArgs};
use accord_proto::v1::QuarantineRequest;

/// Runs `accord quarantine`. All devices are tried; the first refusal is the error.
pub(crate) fn quarantine(args: &QuarantineArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    each(&args.devices, |device| {
        let reply = coordinator.quarantine(QuarantineRequest {
            version: accord_proto::VERSION,
            node_name: device.node.clone(),
            ordinal: device.ordinal,
            release: args.release,
            reason: args.reason.clone().unwrap_or_default(),
        })?;
        show(&outcome(device, args.release, &reply.jobs));
        Ok(())
    })
}

/// Returns the outcome in words.
fn outcome(DeviceName { node, ordinal }: &DeviceName, release: bool, jobs: &[u64]) -> String {
    if release {
        return format!("{node}/{ordinal} is out of quarantine: it is given to jobs again\n");
    }
    let jobs = match jobs {
        [] => "no job holds it".to_owned(),
        [one] => format!("job {one} holds it, and is not charged for it"),
        many => format!("jobs {} hold it, and are not charged for it", list(many)),
    };
    format!("{node}/{ordinal} is in quarantine: it is given to no job; {jobs}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_names_the_jobs_that_hold_the_device() {
        let device = DeviceName { node: "gpu07".into(), ordinal: 3 };
        let says = |jobs: &[u64]| outcome(&device, false, jobs);
        assert_eq!(says(&[]), "gpu07/3 is in quarantine: it is given to no job; no job holds it\n");
        assert!(says(&[7]).ends_with("; job 7 holds it, and is not charged for it\n"));
        assert!(says(&[7, 9]).ends_with("; jobs 7, 9 hold it, and are not charged for it\n"));
        assert_eq!(outcome(&device, true, &[7]), "gpu07/3 is out of quarantine: it is given to jobs again\n");
    }
}
