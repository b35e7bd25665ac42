//! `accord explain launch`: the hops of a launch on its way to a device.

use super::hops::{self, Viewpoint};
use crate::failure::Result;
use crate::output::{print, show, time};
use crate::ways::ToDevice;
use accord_types::Source;
use serde_json::json;
use std::time::Duration;

/// Runs `accord explain launch`.
///
/// # Errors
/// Returns an error if there is no such device, or the coordinator does not answer.
pub(super) fn explain(device: u32, wait: Duration, as_json: bool) -> Result<u8> {
    let place = Viewpoint::of_this_process(&[device], wait)?;
    let row = place.device(device)?;
    let way = place.cluster.way_to(&place.own, row);
    let mut hops = hops::to_device(&place.own, row, &way);
    let runs = place.cluster.device_figures(row).map(|figures| (figures.launch_ns, Source::Measured));
    let path = place.cluster.path_to(&place.own, row, &way).map(|path| path.cost);
    if let Some(last) = hops.last_mut() {
        last.takes = runs;
    }
    // A round trip.
    let turn = path.map(|cost| (2 * cost.times.small_ns, cost.source));
    if let Some(lane) = hops.iter_mut().find(|hop| hop.is_lane) {
        lane.takes = turn;
    }
    let whole = match way {
        ToDevice::InProcess => runs,
        ToDevice::Executor { .. } => {
            runs.zip(turn).map(|((runs, _), (turn, source))| (runs + turn, source.max(Source::Estimated)))
        }
    };
    if as_json {
        let all = json!({ "device": device, "route": way.name(), "us": whole.map(|(ns, _)| hops::us(ns)), "source": whole.map(|(_, source)| source.name()), "hops": hops::json(&hops) });
        print(&format!("{all:#}\n"));
        return Ok(0);
    }
    let takes = match whole {
        Some((ns, source)) => format!("with the wait for it {} ({source})", time(hops::us(ns))),
        None => "not measured".to_owned(),
    };
    show(&format!(
        "a launch on {}, {}: {takes}\n\n{}{}",
        hops::named(row),
        way.name(),
        hops::table(&hops),
        place.missing()
    ));
    Ok(0)
}
