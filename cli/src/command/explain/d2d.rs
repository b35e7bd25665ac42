//! `accord explain d2d`: the ways that are possible between two devices, and which is taken, by the function that decides it.

use super::hops::{self, Viewpoint};
use crate::failure::{Failure, Result};
use crate::output::{Table, bytes, print, time};
use accord_fabric::copy_way::{self, Choice, CopyWay, CopyWays};
use accord_types::Cost;
use serde_json::{Value, json};

/// A way, and what it costs, or why it is not possible.
struct Candidate {
    way: CopyWay,
    cost: Result<Cost, &'static str>,
}

/// Runs `accord explain d2d`.
///
/// # Errors
/// There is no such device; the coordinator does not answer.
pub(super) fn explain(from: u32, to: u32, size: u64, as_json: bool) -> Result<u8> {
    let place = Viewpoint::of_this_process()?;
    let (source, target) = (place.device(from)?, place.device(to)?);
    let between = place.cluster.way_between(&place.own, source, target);
    let candidates = copy_way::ALL.map(|way| {
        let cost = place.cluster.may_go(way, &between, source, target).map(|()| way.usual());
        Candidate { way, cost }
    });
    let ways = candidates.iter().fold(CopyWays::default(), |ways, candidate| match candidate.cost {
        Ok(cost) => ways.with(candidate.way, cost),
        Err(_) => ways,
    });
    let choice =
        ways.choose(size).ok_or_else(|| Failure::new("no way is possible between these devices".to_owned()))?;
    let hops = hops::between(&place.own, source, target, &between, choice.way);
    if as_json {
        let all = json!({
            "from": from,
            "to": to,
            "bytes": size,
            "route": between.name(),
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
    print(&format!("{ends}, {}\n\n{table}\n{}", between.name(), hops::table(&hops)));
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

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}
