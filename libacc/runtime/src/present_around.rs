//! The present table around an address, for errors about data that is absent or present only in part (`ACCORD_EXPLAIN_ERRORS`).

use crate::Runtime;
use crate::device::Device;
use crate::present::{Entry, Lifetime, References};
use accord_types::{Count, Error, ErrorCode, HostRange};

/// Most entries of the table that a message shows on each side of an address.
const AROUND_MAX: usize = 3;

/// An entry of the table as a message shows it.
struct DisplayedEntry {
    range: HostRange,
    lifetime: Lifetime,
    references: References,
    /// Address of the program's call that has mapped it; 0 if unknown.
    origin: usize,
}

impl Runtime {
    /// Adds the nearest entries of the device's present table to an error about data that is absent or present only in part.
    pub(crate) fn with_present_table(&self, error: Error) -> Error {
        if !matches!(error.code(), ErrorCode::NotPresent | ErrorCode::PartlyPresent) {
            return error;
        }
        let Some(wanted) = error.subject().map(|subject| subject.range) else { return error };
        let place = error.place();
        let is_its = |device: &&Device| {
            let node = place.node.as_ref().is_none_or(|node| *node == device.info().node_name);
            device.is_started() && node && place.device.is_none_or(|num| num == device.num())
        };
        let Some(device) = self.devices.iter().find(is_its) else { return error };
        let (near, count) = {
            let state = device.lock();
            let displayed = |(entry, origin): (&Entry, usize)| {
                let Entry { lifetime, references, .. } = *entry;
                DisplayedEntry { range: entry.range(), lifetime, references, origin }
            };
            let near: Vec<DisplayedEntry> = state.table.near(wanted, AROUND_MAX).into_iter().map(displayed).collect();
            (near, state.table.iter().count())
        };
        let mut text = error.remedy_text().unwrap_or_default().to_owned();
        text += &match near.len() {
            0 => "\n  no data is present there".to_owned(),
            displayed => format!("\n  the nearest of the data that is present there, {displayed} of {count}:"),
        };
        for entry in &near {
            text += &format!("\n    {}", self.line(entry, wanted));
        }
        error.instead(text)
    }

    fn line(&self, entry: &DisplayedEntry, wanted: HostRange) -> String {
        let (start, len) = (entry.range.start, entry.range.len);
        let (end, wanted_end) = (start + len, wanted.start.saturating_add(wanted.len));
        let side = if end <= wanted.start {
            format!("{} below", Count(wanted.start - end, "byte"))
        } else if start >= wanted_end {
            format!("{} above", Count(start - wanted_end, "byte"))
        } else {
            format!("has {} of it", Count(end.min(wanted_end) - start.max(wanted.start), "byte"))
        };
        let name = self.host.describe(entry.range).filter(|name| !name.starts_with("0x"));
        let name = name.map_or_else(String::new, |name| format!(" of {name}"));
        let by = match entry.lifetime {
            Lifetime::Global => "by declare".to_owned(),
            Lifetime::Constant => "with its object".to_owned(),
            Lifetime::Mapped => format!("by acc_map_data, dynamic references {}", entry.references.dynamic),
            Lifetime::Counted => {
                let site = self.host.describe_call(entry.origin).unwrap_or_else(|| "an unknown line".to_owned());
                format!(
                    "at {site}, structured references {}, dynamic {}",
                    entry.references.structured, entry.references.dynamic
                )
            }
        };
        format!("{}{name} at {start:#x} to {end:#x}, {side}, mapped {by}", Count(len, "byte"))
    }
}
