//! The keys of a policy file.

/// Keys outside of tables, and tables.
pub(super) const FILE: &[&str] = &[
    "half-life",
    "ageing",
    "quantum",
    "grace",
    "preempt-mode",
    "preempt-exempt-time",
    "suspend-by",
    "backfill",
    "keep",
    "idle",
    "linger",
    "longest-wait",
    "sharers",
    "others-jobs",
    "memory-quota",
    "stream-quota",
    "session-time",
    "billing",
    "site",
    "account",
];

/// Keys of `[site]`.
pub(super) const SITE: &[&str] = &[
    "most",
    "device-hours",
    "priorities",
    "longest",
    "nodes",
    "running-jobs",
    "waiting-jobs",
    "default",
    "default-limit",
];

/// Keys of `[account.NAME]`.
pub(super) const ACCOUNT: &[&str] = &[
    "parent",
    "weight",
    "guaranteed",
    "most",
    "device-hours",
    "priorities",
    "longest",
    "nodes",
    "running-jobs",
    "waiting-jobs",
    "default",
    "default-limit",
    "users",
    "default-for",
    "each-user",
    "user",
];

/// Keys of `each-user` and `user.NAME`.
pub(super) const USER: &[&str] = &["weight", "most", "device-hours", "longest", "running-jobs", "waiting-jobs"];
