//! Times of a program: totals of its constructs and devices, as text and as JSON.

mod json;
mod summary;
mod text;

use serde::{Deserialize, Serialize};
pub use summary::Summary;

/// The number and the durations of one kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct Tally {
    /// Number of events.
    pub count: u64,
    /// Sum of the durations in nanoseconds.
    pub total_ns: u64,
    /// Duration of the shortest.
    pub min_ns: u64,
    /// Duration of the longest.
    pub max_ns: u64,
}

impl Tally {
    /// Adds an event.
    pub fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.total_ns += ns;
    }

    /// Returns the mean duration in nanoseconds.
    pub fn average_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }
}

/// Copies between the program and a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Copies {
    /// Number of copies put into a queue.
    pub count: u64,
    /// Sum of their bytes.
    pub bytes: u64,
}

/// Copies of a device, by its own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Moved {
    /// Their number and durations.
    #[serde(flatten)]
    pub times: Tally,
    /// Sum of their bytes.
    pub bytes: u64,
}

/// Bytes on a wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Number of bytes.
    pub bytes: u64,
    /// Nanoseconds for which threads were sending or receiving them.
    pub wire_ns: u64,
}

/// The launches of one region from one place.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Launches {
    /// The region's function.
    pub kernel: String,
    /// Number of launches.
    pub count: u64,
    /// Gangs of the last launch; 0 where only the device knows.
    pub gangs: u64,
    /// Workers of the last launch; likewise.
    pub workers: u64,
    /// Vector length of the last launch; likewise.
    pub vector: u64,
    /// Whether other launches had other dimensions.
    pub dims_vary: bool,
    /// Whether the region has a loop, and was compiled for one thread of the GPU.
    pub one_thread: bool,
    /// Time of the region by the device's clock; counts the launches that the device has reported.
    pub on_device: Tally,
    /// Whether other places launch a region of the same name; [`Launches::on_device`] then covers all of them.
    pub shared: bool,
}

/// Activity of one place in the program on one device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PlaceTimes {
    /// The source file; empty where it is not known.
    #[serde(with = "json::known")]
    pub file: String,
    /// The function; likewise.
    #[serde(with = "json::known")]
    pub function: String,
    /// The line, if it is known.
    pub line: Option<u32>,
    /// The construct's last line, if it is known.
    pub end_line: Option<u32>,
    /// The construct, in words.
    pub construct: String,
    /// The device's number in the program; `None` is the host.
    pub device: Option<u32>,
    /// Number of passes, and the time that the program spent there.
    pub elapsed: Tally,
    /// Its launches.
    pub launches: Vec<Launches>,
    /// Copies to the device.
    pub copies_in: Copies,
    /// Copies from the device.
    pub copies_out: Copies,
    /// Waits of the program for the device there.
    pub waits: Tally,
}

/// Activity of one device, by its own clock.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceTimes {
    /// Its number in the program.
    #[serde(rename = "device")]
    pub num: u32,
    /// Its machine's name.
    pub node: String,
    /// Its product name.
    pub name: String,
    /// Whether another process drives it.
    pub remote: bool,
    /// Starts, by the program's clock.
    pub starts: Tally,
    /// Regions.
    pub launches: Tally,
    /// Copies from the program.
    pub copies_in: Moved,
    /// Copies to the program.
    pub copies_out: Moved,
    /// Copies within the device.
    pub copies: Moved,
    /// Copies to other devices.
    pub pushes: Moved,
    /// Copies from other devices.
    pub arrivals: Moved,
    /// Waits of the program for it, by the program's clock.
    pub waits: Tally,
}

/// Traffic between the program and a node whose devices it used, by the program's clock. Copies inside commands are not
/// counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeTimes {
    /// The machine's name.
    pub node: String,
    /// Traffic to it.
    pub sent: Traffic,
    /// Traffic from it.
    pub received: Traffic,
}

/// The times of one program (one rank).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Times {
    /// The program's name.
    pub program: String,
    /// Its rank in an MPI job.
    pub rank: Option<u32>,
    /// Time from its first call to its end, or to this report if it has not ended.
    pub wall_ns: u64,
    /// Whether the program ended by itself. A running program also reports, in case a signal kills it.
    pub ended: bool,
    /// The devices that it used.
    pub devices: Vec<DeviceTimes>,
    /// Other nodes whose devices it used.
    pub nodes: Vec<NodeTimes>,
    /// The places of its constructs.
    pub places: Vec<PlaceTimes>,
}

impl Times {
    /// Puts places into the order of the source.
    pub fn sort(&mut self) {
        let key = |place: &PlaceTimes| {
            (place.file.clone(), place.line, place.function.clone(), place.construct.clone(), place.device)
        };
        self.places.sort_by_key(key);
    }
}
