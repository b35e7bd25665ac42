//! The GPUs that an agent offers.

use accord_types::DeviceInfo;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The choice of `--gpus`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Gpus {
    /// All GPUs that the driver lists.
    #[default]
    Auto,
    /// No GPUs.
    Off,
    /// The GPUs of a list, in its order.
    These(Vec<Gpu>),
}

/// A GPU as a user names it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Gpu {
    /// The driver's number.
    Number(u32),
    /// The driver's UUID, or a unique prefix of it.
    Name(String),
}

impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "off" => return Ok(Self::Off),
            _ => {}
        }
        let gpus: Vec<Gpu> = text.split(',').map(|gpu| gpu.trim().parse()).collect::<Result<_, _>>()?;
        let mut seen = BTreeSet::new();
        match gpus.iter().find(|gpu| !seen.insert(*gpu)) {
            Some(twice) => Err(format!("{twice} is there twice")),
            None => Ok(Self::These(gpus)),
        }
    }
}

impl FromStr for Gpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.strip_prefix("GPU-").is_some_and(|rest| !rest.is_empty()) {
            return Ok(Self::Name(text.to_ascii_lowercase().replacen("gpu-", "GPU-", 1)));
        }
        text.parse()
            .map(Self::Number)
            .map_err(|_| format!("{text:?} is neither auto, off, a number nor a name (GPU-...)"))
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "GPU {number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Gpu {
    /// Returns the GPU of `visible` that this names.
    fn find<'a>(&self, visible: &'a [DeviceInfo]) -> Result<&'a DeviceInfo, String> {
        let is_it = |info: &&DeviceInfo| match self {
            Self::Number(number) => info.id.ordinal == *number,
            Self::Name(name) => info.uuid.starts_with(name.as_str()),
        };
        let mut found = visible.iter().filter(is_it);
        match (found.next(), found.next()) {
            (Some(info), None) => Ok(info),
            (Some(_), Some(_)) => Err(format!("{self} may be several")),
            (None, _) => Err(format!("{self} is not there, or can't be used")),
        }
    }
}

impl Gpus {
    /// Returns the offered GPUs out of `visible`, which have the driver's numbers, and notes on those of the list that
    /// can't be. GPUs of a list are renumbered by it, from 0.
    pub(crate) fn choose(&self, visible: Vec<DeviceInfo>) -> (Vec<DeviceInfo>, Vec<String>) {
        let list = match self {
            Self::Auto => return (visible, Vec::new()),
            Self::Off => return (Vec::new(), Vec::new()),
            Self::These(list) => list,
        };
        let (mut offered, mut notes) = (Vec::<DeviceInfo>::new(), Vec::new());
        for gpu in list {
            match gpu.find(&visible) {
                Ok(info) if offered.iter().any(|known| known.uuid == info.uuid) => {
                    notes.push(format!("{gpu} is in the list twice"));
                }
                Ok(info) => {
                    let mut info = info.clone();
                    info.id.ordinal = u32::try_from(offered.len()).unwrap_or(u32::MAX);
                    offered.push(info);
                }
                Err(note) => notes.push(note),
            }
        }
        (offered, notes)
    }

    /// Returns the value of the driver's own variable, [`accord_gpu::VISIBLE`], for a process that must use
    /// offered GPUs only. Returns `None` if it may use all that the agent sees.
    pub(crate) fn visible_to_others(&self, offered: &[DeviceInfo]) -> Option<String> {
        let names = || offered.iter().map(|info| info.uuid.as_str()).filter(|name| !name.is_empty());
        matches!(self, Self::These(_)).then(|| names().collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{DeviceId, DeviceKind, NodeId};

    fn gpu(ordinal: u32, uuid: &str) -> DeviceInfo {
        DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: "h".to_owned(),
            kind: DeviceKind::CUDA,
            name: String::new(),
            vendor: String::new(),
            driver: String::new(),
            uuid: uuid.to_owned(),
            memory: 1,
            units: 1,
            compute: (0, 0),
            context: 0,
            attributes: Vec::new(),
            numa: None,
            cpus: Vec::new(),
        }
    }

    /// Returns numbers and names of the GPUs that `text` offers out of three, and the notes.
    fn offered(text: &str) -> (Vec<(u32, String)>, Vec<String>) {
        let visible = vec![gpu(0, "GPU-aa10"), gpu(1, "GPU-ab20"), gpu(3, "GPU-cc30")];
        let (offered, notes) = text.parse::<Gpus>().unwrap().choose(visible);
        (offered.into_iter().map(|info| (info.id.ordinal, info.uuid)).collect(), notes)
    }

    #[test]
    fn a_list_is_offered_in_its_order_and_numbered_by_it() {
        let all = |names: &[(u32, &str)]| names.iter().map(|&(at, name)| (at, name.to_owned())).collect::<Vec<_>>();
        assert_eq!(offered("auto").0, all(&[(0, "GPU-aa10"), (1, "GPU-ab20"), (3, "GPU-cc30")]));
        assert_eq!(offered("off"), (Vec::new(), Vec::new()));
        assert_eq!(offered("3, 0"), (all(&[(0, "GPU-cc30"), (1, "GPU-aa10")]), Vec::new()));
        assert_eq!(offered("GPU-CC,1"), (all(&[(0, "GPU-cc30"), (1, "GPU-ab20")]), Vec::new()));
    }

    #[test]
    fn missing_gpus_are_reported_and_the_others_offered() {
        let (found, notes) = offered("2,1,GPU-a,GPU-ab,GPU-dd");
        assert_eq!(found, [(0, "GPU-ab20".to_owned())]);
        let printed =
            ["GPU 2 is not there", "GPU-a may be several", "GPU-ab is in the list twice", "GPU-dd is not there"];
        assert!(
            notes.iter().zip(printed).all(|(note, printed)| note.starts_with(printed)) && notes.len() == printed.len(),
            "{notes:?}"
        );
    }

    #[test]
    fn malformed_gpu_lists_are_refused() {
        for text in ["", "on", "0,", "0,0", "-1", "GPU-", "0;1", "4294967296", "MIG-12"] {
            assert!(text.parse::<Gpus>().is_err(), "{text}");
        }
    }

    #[test]
    fn others_see_what_a_list_offers_and_nothing_else() {
        let visible = [gpu(0, "GPU-aa10"), gpu(1, "GPU-ab20")];
        assert_eq!(Gpus::Auto.visible_to_others(&visible), None);
        let list: Gpus = "1,0".parse().unwrap();
        assert_eq!(list.visible_to_others(&list.choose(visible.to_vec()).0).unwrap(), "GPU-ab20,GPU-aa10");
        assert_eq!(list.visible_to_others(&[]).unwrap(), "");
    }
}
