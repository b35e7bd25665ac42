//! Times of a program: what its constructs and devices did, added up, as text and as JSON.

mod json;
mod text;

/// The number and the durations of one kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Number of events.
    pub count: u64,
    /// Nanoseconds of all.
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

    /// Nanoseconds of one, on average.
    pub fn average_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }
}

/// Copies between the program and a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copies {
    /// Number of copies put into a queue.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The launches of one region from one place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Launches {
    /// The region's function.
    pub kernel: String,
    /// Number of launches.
    pub count: u64,
    /// Gangs, workers and vector length of the last one; 0 where only the device knows.
    pub dims: [u64; 3],
    /// Others had other dimensions.
    pub dims_vary: bool,
    /// Whether it has a loop, and was compiled for one thread of the GPU.
    pub one_thread: bool,
    /// Time of the region on the device, by the device; its count is that of the launches that the device has reported.
    pub on_device: Tally,
    /// Other places launch a region of the same name, and [`Launches::on_device`] is of all of them.
    pub shared: bool,
}

/// Activity of one place in the program on one device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlaceTimes {
    /// The source file; empty where it is not known.
    pub file: String,
    /// The function; likewise.
    pub function: String,
    /// The line, if it is known.
    pub line: Option<u32>,
    /// The construct's last line, if it is known.
    pub end_line: Option<u32>,
    /// The construct, in words.
    pub construct: String,
    /// Index into [`Times::devices`]; none is the host.
    pub device: Option<usize>,
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
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceTimes {
    /// Its number in the program.
    pub num: u32,
    /// Its machine's name.
    pub node: String,
    /// Its product name.
    pub name: String,
    /// Another process drives it.
    pub remote: bool,
    /// Starts, by the program's clock.
    pub starts: Tally,
    /// Regions.
    pub launches: Tally,
    /// Copies from the program, and their bytes.
    pub copies_in: (Tally, u64),
    /// Copies to the program.
    pub copies_out: (Tally, u64),
    /// Copies within the device.
    pub copies: (Tally, u64),
    /// Copies to other devices.
    pub pushes: (Tally, u64),
    /// Copies from other devices.
    pub arrivals: (Tally, u64),
    /// Waits of the program for it, by the program's clock.
    pub waits: Tally,
}

/// Traffic between the program and a node with devices that it used, by the program's clock: larger copies, not those
/// that commands carry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeTimes {
    /// The machine's name.
    pub node: String,
    /// Bytes to it, and nanoseconds that threads were sending them.
    pub sent: (u64, u64),
    /// Bytes from it, and nanoseconds that threads were receiving them.
    pub received: (u64, u64),
}

/// The times of one program (one rank).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// The program's name.
    pub program: String,
    /// Its rank in an MPI job.
    pub rank: Option<u32>,
    /// Time from its first call to its end.
    pub wall_ns: u64,
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
