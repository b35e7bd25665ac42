//! Times for programs.

use super::{Copies, DeviceTimes, Launches, NodeTimes, PlaceTimes, Tally, Times};
use serde_json::{Value, json};

impl Times {
    /// Returns the times as one JSON object and a newline, in nanoseconds.
    pub fn json(&self) -> String {
        let places: Vec<Value> = self.places.iter().map(|at| place(at, self)).collect();
        let devices: Vec<Value> = self.devices.iter().map(device).collect();
        let all = json!({
            "program": self.program,
            "rank": self.rank,
            "wall_ns": self.wall_ns,
            "devices": devices,
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
            "places": places,
        });
        format!("{all}\n")
    }
}

fn place(place: &PlaceTimes, times: &Times) -> Value {
    let launches: Vec<Value> = place.launches.iter().map(launches).collect();
    let known = |text: &str| if text.is_empty() { Value::Null } else { Value::from(text) };
    json!({
        "file": known(&place.file),
        "function": known(&place.function),
        "line": place.line,
        "end_line": place.end_line,
        "construct": place.construct,
        "device": place.device.and_then(|at| times.devices.get(at)).map(|device| device.num),
        "elapsed": tally(&place.elapsed),
        "launches": launches,
        "copies_in": copies(place.copies_in),
        "copies_out": copies(place.copies_out),
        "waits": tally(&place.waits),
    })
}

fn launches(launches: &Launches) -> Value {
    let [gangs, workers, vector] = launches.dims;
    json!({
        "kernel": launches.kernel,
        "count": launches.count,
        "gangs": gangs,
        "workers": workers,
        "vector": vector,
        "dims_vary": launches.dims_vary,
        "one_thread": launches.one_thread,
        "on_device": tally(&launches.on_device),
        "shared": launches.shared,
    })
}

fn device(device: &DeviceTimes) -> Value {
    let moved = |(times, bytes): (Tally, u64)| {
        let mut value = tally(&times);
        value["bytes"] = bytes.into();
        value
    };
    json!({
        "device": device.num,
        "node": device.node,
        "name": device.name,
        "remote": device.remote,
        "starts": tally(&device.starts),
        "launches": tally(&device.launches),
        "copies_in": moved(device.copies_in),
        "copies_out": moved(device.copies_out),
        "copies": moved(device.copies),
        "pushes": moved(device.pushes),
        "arrivals": moved(device.arrivals),
        "waits": tally(&device.waits),
    })
}

fn node(node: &NodeTimes) -> Value {
    json!({
        "node": node.node,
        "sent": { "bytes": node.sent.0, "wire_ns": node.sent.1 },
        "received": { "bytes": node.received.0, "wire_ns": node.received.1 },
    })
}

fn copies(copies: Copies) -> Value {
    json!({ "count": copies.count, "bytes": copies.bytes })
}

fn tally(tally: &Tally) -> Value {
    json!({
        "count": tally.count,
        "total_ns": tally.total_ns,
        "min_ns": tally.min_ns,
        "max_ns": tally.max_ns,
        "average_ns": tally.average_ns(),
    })
}
