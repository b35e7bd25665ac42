//! The words of a request, and the bounds of its contents.

use accord_types::{DeviceType, node_labels};

/// Longest text of a request, in bytes. Every canonical text fits.
pub const TEXT_MAX: usize = 32 << 10;
/// Most alternatives of a request.
pub const ALTERNATIVES_MAX: usize = 8;
/// Most parts of an alternative.
pub const PARTS_MAX: usize = 8;
/// Most devices of a part, and most nodes.
pub const COUNT_MAX: u32 = 65_536;
/// Most labels of a request.
pub const LABELS_MAX: usize = node_labels::LABELS_MAX;
/// Most nodes in `on`, and in `avoid`.
pub const NODES_MAX: usize = 64;
/// Longest name of a model, node or account, and longest name or value of a label.
pub const NAME_MAX: usize = node_labels::LABEL_MAX;
/// Most bytes of memory.
pub const SIZE_MAX: u64 = 1 << 50;
/// Most thousandths of CPU cores.
pub const CORES_MAX: u64 = 100_000_000;
/// Longest time in milliseconds: ten years.
pub const TIME_MAX_MS: u64 = 3_650 * 86_400_000;
/// Highest priority; its negative is the lowest.
pub const PRIORITY_MAX: i32 = 1_000;
/// Highest major and minor compute capability.
pub const COMPUTE_MAX: u16 = 999;

/// Device types that can be requested.
pub(crate) const TYPES: [(&str, DeviceType); 3] =
    [("nvidia", DeviceType::Nvidia), ("cpu", DeviceType::Cpu), ("any", DeviceType::NotHost)];

/// Names of device types in other systems, with the type that is suggested.
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
/// A whole device, independent of the demanded memory.
pub(crate) const WHOLE: &str = "whole";
/// Fields of a part with the form `NAME=VALUE`.
pub(crate) const FIELDS: [&str; 3] = ["cc", "cores", "ram"];

/// The words that apply to a whole request, in canonical order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Word {
    /// Counts are per rank.
    PerRank,
    /// The program's own node only.
    Local,
    /// Close to each other.
    Near,
    /// On the fewest nodes.
    Pack,
    /// On as many nodes as possible.
    Spread,
    /// On this number of nodes.
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
    /// All words.
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

    /// Returns the word's text.
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

    /// Returns an example with a value; `None` if the word takes no value.
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

    /// Returns the word with this text.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.name() == name)
    }

    /// Whether a request may have the word several times.
    pub(crate) const fn repeats(self) -> bool {
        matches!(self, Self::Label | Self::On | Self::Avoid)
    }
}

/// Returns the name of a device type in requests; `None` if it can't be requested.
#[must_use]
pub fn type_name(kind: DeviceType) -> Option<&'static str> {
    TYPES.iter().find(|(_, known)| *known == kind).map(|(name, _)| *name)
}

/// Whether a text is a valid name of a node or an account, or a label's name or value: letters, digits, `.`, `_` and
/// `-`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    node_labels::is_label(text)
}

/// Whether a text is a valid name of a model: a name without capital letters.
#[must_use]
pub fn is_model(text: &str) -> bool {
    is_name(text) && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}
