//! Why a job waits, in words.

use accord_scheduler::WaitReason;

/// The sentence for people.
pub(super) fn why(reason: &WaitReason) -> String {
    match reason {
        WaitReason::OnHold => "it is on hold".to_owned(),
        WaitReason::Paused => "all starts are paused".to_owned(),
        WaitReason::NoSuchDevices => "the cluster has no such devices now".to_owned(),
        WaitReason::Running { account } => format!("account {account} has as many running jobs as it may"),
        WaitReason::Most { account } => format!("account {account} has as many devices as it may"),
        WaitReason::Guarantee => {
            "the free devices are guaranteed to other accounts, and its limit is too long".to_owned()
        }
        WaitReason::Devices { model, needed, free } => {
            format!("{needed} of {model} are needed, and {free} are free for as long as its limit")
        }
    }
}
