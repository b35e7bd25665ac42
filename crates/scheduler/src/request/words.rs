//! The words of a request, and bounds on what it may contain.

use accord_types::{DeviceType, node_labels};

/// Longest text of a request in bytes: no canonical text is longer.
pub const TEXT_MAX: usize = 32 << 10;
/// Alternatives of a request.
pub const ALTERNATIVES_MAX: usize = 8;
/// Parts of an alternative.
pub const PARTS_MAX: usize = 8;
/// Devices of a part, and nodes.
pub const COUNT_MAX: u32 = 65_536;
/// Labels of a request.
pub const LABELS_MAX: usize = node_labels::LABELS_MAX;
/// Nodes named by `on`, and by `avoid`.
pub const NODES_MAX: usize = 64;
/// Longest name of a model, a node, an account, or a label's name or value.
pub const NAME_MAX: usize = node_labels::LABEL_MAX;
/// Most bytes of memory.
pub const SIZE_MAX: u64 = 1 << 50;
/// Thousandths of CPU cores.
pub const CORES_MAX: u64 = 100_000_000;
/// Longest time in milliseconds: ten years.
pub const TIME_MAX_MS: u64 = 3_650 * 86_400_000;
/// Priorities are from the negative of it to it.
pub const PRIORITY_MAX: i32 = 1_000;
/// Highest major and minor compute capability.
pub const COMPUTE_MAX: u16 = 999;

/// Device types that can be asked for.
pub(crate) const TYPES: [(&str, DeviceType); 3] =
    [("nvidia", DeviceType::Nvidia), ("cpu", DeviceType::Cpu), ("any", DeviceType::NotHost)];

/// Names of device types in other programs, with the type that is meant.
pub(crate) const OTHER_NAMES: [(&str, &str); 8] = [
    ("gpu", "nvidia"),
    ("gpus", "nvidia"),
    ("cuda", "nvidia"),
    ("nv", "nvidia"),
    ("cpus", "cpu"),
    ("core", "cpu"),
    ("cores", "cpu"),
    ("all", "any"),
];

/// Separates alternatives.
pub(crate) const ELSE: &str = "else";
/// A whole device, whatever memory is named.
pub(crate) const WHOLE: &str = "whole";
/// A part's fields of the form `NAME=VALUE`.
pub(crate) const FIELDS: [&str; 3] = ["cc", "cores", "ram"];

/// The words that hold for a whole request, in their canonical order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Word {
    /// Counts are for each rank.
    PerRank,
    /// The program's own node only.
    Local,
    /// Near to each other.
    Near,
    /// On the fewest nodes.
    Pack,
    /// On as many nodes as possible.
    Spread,
    /// On so many nodes.
    Nodes,
    /// On nodes with this label.
    Label,
    /// On these nodes.
    On,
    /// Not on these nodes.
    Avoid,
    /// The time limit.
    Limit,
    /// The longest wait.
    Wait,
    /// The priority.
    Priority,
    /// The account.
    Account,
    /// On devices of this reservation.
    Reservation,
}

impl Word {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::PerRank,
        Self::Local,
        Self::Near,
        Self::Pack,
        Self::Spread,
        Self::Nodes,
        Self::Label,
        Self::On,
        Self::Avoid,
        Self::Limit,
        Self::Wait,
        Self::Priority,
        Self::Account,
        Self::Reservation,
    ];

    /// Returns the word as it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerRank => "per-rank",
            Self::Local => "local",
            Self::Near => "near",
            Self::Pack => "pack",
            Self::Spread => "spread",
            Self::Nodes => "nodes",
            Self::Label => "label",
            Self::On => "on",
            Self::Avoid => "avoid",
            Self::Limit => "limit",
            Self::Wait => "wait",
            Self::Priority => "priority",
            Self::Account => "account",
            Self::Reservation => "reservation",
        }
    }

    /// Returns an example of its value, or `None` if it takes none.
    #[must_use]
    pub const fn example(self) -> Option<&'static str> {
        match self {
            Self::PerRank | Self::Local | Self::Near | Self::Pack | Self::Spread => None,
            Self::Nodes => Some("nodes=2"),
            Self::Label => Some("label=rack=r1"),
            Self::On => Some("on=gpu01,gpu02"),
            Self::Avoid => Some("avoid=gpu07"),
            Self::Limit => Some("limit=2h"),
            Self::Wait => Some("wait=30m"),
            Self::Priority => Some("priority=10"),
            Self::Account => Some("account=physics"),
            Self::Reservation => Some("reservation=course"),
        }
    }

    /// Returns the word with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.name() == name)
    }

    /// Whether a request may have several of it.
    pub(crate) const fn repeats(self) -> bool {
        matches!(self, Self::Label | Self::On | Self::Avoid)
    }
}

/// Returns the name of a device type in requests, or `None` for one that can't be asked for.
#[must_use]
pub fn type_name(kind: DeviceType) -> Option<&'static str> {
    TYPES.iter().find(|(_, known)| *known == kind).map(|(name, _)| *name)
}

/// Whether a text can name a node, an account, or a label's name or value: letters, digits, `.`, `_` and `-`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    node_labels::is_label(text)
}

/// Whether a text can name a model: a name without capital letters.
#[must_use]
pub fn is_model(text: &str) -> bool {
    is_name(text) && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}
