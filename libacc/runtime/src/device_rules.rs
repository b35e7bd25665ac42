//! The session's settings for a device.

use crate::program::Settings;
use accord_types::Check;

/// The session's settings for a device.
pub(crate) struct DeviceRules {
    /// The program's arrays may be page-locked.
    pub(crate) locks_pages: bool,
    /// Whether blocks that a region gets a pointer to are mapped for it.
    pub(crate) maps_unmapped: bool,
    /// Whether the calls that map data are recorded for messages.
    pub(crate) notes_origins: bool,
    /// Whether regions are checked for writing outside of blocks.
    pub(crate) checks_bounds: bool,
}

impl DeviceRules {
    /// Returns the rules for a device; `guards_blocks` is the client's.
    pub(crate) fn new(settings: &Settings, guards_blocks: bool) -> Self {
        Self {
            locks_pages: !settings.pageable,
            maps_unmapped: settings.maps_unmapped,
            notes_origins: settings.explains_errors,
            checks_bounds: settings.check == Check::Bounds && guards_blocks,
        }
    }
}
