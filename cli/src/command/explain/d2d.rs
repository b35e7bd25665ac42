//! `accord explain d2d`: the possible ways between two devices, and the chosen one, by the function that decides it.

use super::hops::{self, Viewpoint, us};
use crate::failure::{Failure, Result};
use crate::output::{Table, bytes, print, show, time};
use accord_fabric::copy_way::{self, Choice, CopyWay, CopyWays};
use accord_types::{Cost, PathTimes, Source};
use serde_json::{Value, json};
use std::time::Duration;

/// A way with its cost, or the reason why it is impossible.
struct Candidate {
    way: CopyWay,
    cost: Result<Cost, &'static str>,
}

/// Runs `accord explain d2d`.
///
/// # Errors
/// Returns an error if there is no such device, or the coordinator does not answer.
pub(super) fn explain(from: u32, to: u32, size: u64, wait: Duration, as_json: bool) -> Result<u8> {
    let place = Viewpoint::of_this_process(&[from, to], wait)?;
    let (source, target) = (place.device(from)?, place.device(to)?);
    let between = place.cluster.way_between(&place.own, source, target);
    let candidates = copy_way::ALL.map(|way| {
        let cost = place
            .cluster
            .may_go(way, &between, source, target, size)
            .map(|()| place.cluster.cost(way, &place.own, &between, source, target));
        Candidate { way, cost }
    });
    let ways = candidates.iter().fold(CopyWays::default(), |ways, candidate| match candidate.cost {
        Ok(cost) => ways.with(candidate.way, cost),
        Err(_) => ways,
    });
    let choice =
        ways.choose(size).ok_or_else(|| Failure::new("no way is possible between these devices".to_owned()))?;
    let mut hops = hops::between(&place.own, source, target, &between, choice.way);
    if choice.way == CopyWay::Lane {
        let figures = |row| place.cluster.device_figures(row);
        let measured = |times: PathTimes| (times.ns(size), Source::Measured);
        if let Some(first) = hops.first_mut() {
            first.takes = figures(source).map(|figures| measured(figures.from_device));
        }
        if let Some(last) = hops.last_mut() {
            last.takes = figures(target).map(|figures| measured(figures.to_device));
        }
        let path = place.cluster.path_between(&place.own, &between, source, target);
        if let Some(lane) = hops.iter_mut().find(|hop| hop.is_lane) {
            lane.takes = path.map(|path| (path.cost.times.ns(size), path.cost.source));
        }
    }
    if as_json {
        let all = json!({
            "from": from,
            "to": to,
            "bytes": size,
            "route": between.name(),
            "measured_over": place.cluster.path_between(&place.own, &between, source, target).map(|path| &path.transport),
            "ways": candidates.iter().map(|candidate| candidate.json(size)).collect::<Vec<_>>(),
            "taken": {
                "way": choice.way.name(),
                "us": us(choice.ns),
                "source": choice.source.name(),
                "reason": choice.reason.to_string(),
            },
            "hops": hops::json(&hops),
        });
        print(&format!("{all:#}\n"));
        return Ok(0);
    }
    let mut table = Table::new(&["WAY", ">TAKES", "KNOWN BY", ""]);
    for candidate in &candidates {
        table.row(candidate.row(size, &choice));
    }
    let ends = format!("{} from {} to {}", bytes(size), hops::named(source), hops::named(target));
    show(&format!("{ends}, {}\n\n{table}\n{}{}", between.name(), hops::table(&hops), place.missing()));
    Ok(0)
}

impl Candidate {
    fn row(&self, size: u64, choice: &Choice) -> [String; 4] {
        let none = || "-".to_owned();
        let name = self.way.to_string();
        match self.cost {
            Err(why) => [name, none(), none(), format!("not possible: {why}")],
            Ok(cost) => {
                let taken = if choice.way == self.way { format!("taken: {}", choice.reason) } else { String::new() };
                [name, time(us(cost.times.ns(size))), cost.source.name().to_owned(), taken]
            }
        }
    }

    fn json(&self, size: u64) -> Value {
        json!({
            "way": self.way.name(),
            "possible": self.cost.is_ok(),
            "why_not": self.cost.err(),
            "us": self.cost.ok().map(|cost| us(cost.times.ns(size))),
            "source": self.cost.ok().map(|cost| cost.source.name()),
        })
    }
}
