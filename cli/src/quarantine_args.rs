//! The options of `accord quarantine`.

use clap::Args;

/// A device by its node's name and its number there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeviceName {
    pub(crate) node: String,
    pub(crate) ordinal: u32,
}

/// `accord quarantine`.
///
/// A device in quarantine is given to no job, and jobs that hold it are not charged for it. Asks the coordinator of ACCORD_COORDINATOR as an
/// administrator, whose certificates are in the folder ACCORD_TLS.
#[derive(Args, Debug)]
pub(crate) struct QuarantineArgs {
    /// Devices: the node's name, as accord info shows it, and the device's number on the node.
    #[arg(required = true, value_name = "NODE/DEVICE", value_parser = device_name)]
    pub(crate) devices: Vec<DeviceName>,
    /// Reason, for the audit log and for accord info and accord top.
    #[arg(long, value_name = "TEXT", conflicts_with = "release")]
    pub(crate) reason: Option<String>,
    /// Take the devices out of quarantine, whatever put them there.
    #[arg(long)]
    pub(crate) release: bool,
}

fn device_name(text: &str) -> Result<DeviceName, String> {
    let parts = text.rsplit_once('/').filter(|(node, _)| !node.is_empty());
    let device =
        parts.and_then(|(node, ordinal)| Some(DeviceName { node: node.to_owned(), ordinal: ordinal.parse().ok()? }));
    device.ok_or_else(|| "write the node's name and the device's number there, as in gpu07/3".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_node_and_a_number() {
        assert_eq!(device_name("gpu07/3"), Ok(DeviceName { node: "gpu07".into(), ordinal: 3 }));
        for wrong in ["gpu07", "/3", "gpu07/", "gpu07/x", "3"] {
            assert!(device_name(wrong).is_err_and(|why| why.contains("gpu07/3")), "{wrong}");
        }
    }
}
