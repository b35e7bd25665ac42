//! `accord explain launch`: what a launch passes on its way to a device.

use super::hops::{self, Viewpoint};
use crate::failure::Result;
use crate::output::print;
use serde_json::json;

/// Runs `accord explain launch`.
///
/// # Errors
/// There is no such device; the coordinator does not answer.
pub(super) fn explain(device: u32, as_json: bool) -> Result<u8> {
    let place = Viewpoint::of_this_process()?;
    let row = place.device(device)?;
    let way = place.cluster.way_to(&place.own, row);
    let hops = hops::to_device(&place.own, row, &way);
    if as_json {
        let all = json!({ "device": device, "route": way.name(), "hops": hops::json(&hops) });
        print(&format!("{all:#}\n"));
        return Ok(0);
    }
    print(&format!("a launch on {}, {}\n\n{}", hops::named(row), way.name(), hops::table(&hops)));
    Ok(0)
}
