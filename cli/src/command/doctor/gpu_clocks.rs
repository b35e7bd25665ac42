//! The clock rates of this machine's GPUs and the driver's persistence, as reported by the driver's own tool.

use super::item::Item;
use super::tool::{ToolAnswer, answer};
use std::process::Command;
use std::time::Duration;

/// The driver's tool. Its library does not promise a stable interface.
const TOOL: &str = "nvidia-smi";
/// The time limit of the tool. A hanging driver is a finding of its own.
const LIMIT: Duration = Duration::from_secs(10);
/// The queried fields, in this order. The field for clock limits was renamed in driver 535.
const FIELDS: &str =
    "index,persistence_mode,clocks.sm,clocks.max.sm,clocks.applications.graphics,clocks.default_applications.graphics";
const REASONS: [&str; 2] = ["clocks_event_reasons.active", "clocks_throttle_reasons.active"];

/// Reasons for reduced clocks that indicate a fault, with descriptions; a cap on power and idleness do not.
const SLOWED: [(u64, &str, &str); 4] = [
    (0x40, "it is too hot", "see to its cooling (nvidia-smi -q -d TEMPERATURE)"),
    (0x80, "its power supply asks for it", "see to the machine's power supply (nvidia-smi -q -d POWER)"),
    (0x20, "the driver finds it too hot", "see to its cooling (nvidia-smi -q -d TEMPERATURE)"),
    (0x08, "the hardware asks for it", "see to its cooling and power (nvidia-smi -q -d PERFORMANCE)"),
];

/// Queries this machine's GPUs; returns nothing if the tool is missing.
pub(super) fn items() -> Vec<Item> {
    for reasons in REASONS {
        let query = [format!("--query-gpu={FIELDS},{reasons}"), "--format=csv,noheader,nounits".to_owned()];
        let mut tool = Command::new(TOOL);
        tool.args(query);
        match answer(tool, LIMIT) {
            ToolAnswer::Lines(lines) => return lines.lines().flat_map(of_gpu).collect(),
            ToolAnswer::Nothing => return Vec::new(),
            ToolAnswer::Late => {
                let is = format!("{TOOL} says nothing in {} s", LIMIT.as_secs());
                return vec![Item::error(
                    "GPUs' clock rates",
                    is,
                    "look at the kernel's messages (dmesg): a GPU may be lost",
                )];
            }
            ToolAnswer::Refused(_) => {}
        }
    }
    vec![unreported("GPUs' clock rates")]
}

fn unreported(what: impl Into<String>) -> Item {
    Item::unknown(what, format!("{TOOL} does not tell them"), "nvidia-smi -q -d CLOCK,PERFORMANCE")
}

/// Returns the findings of a line of the tool's output.
fn of_gpu(line: &str) -> Vec<Item> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, persistence, now, most, set, usual, reasons] = fields[..] else { return Vec::new() };
    let clocks = format!("clock rates of GPU {index}");
    let mhz = |field: &str| field.parse::<u32>().ok();
    let active = reasons.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default();
    let slowed = SLOWED.iter().find(|(reason, ..)| active & reason != 0);
    let clocks = match (slowed, mhz(set), mhz(usual), mhz(now), mhz(most)) {
        (Some((_, why, remedy)), _, _, Some(now), _) => {
            Item::warning(clocks, format!("held at {now} MHz, of {most}: {why}"), *remedy)
        }
        (_, Some(set), Some(usual), ..) if set < usual => {
            let is = format!("programs get at most {set} MHz, where {usual} is usual");
            Item::warning(clocks, is, format!("have root run nvidia-smi -i {index} -rac"))
        }
        (.., Some(now), Some(most)) => Item::ok(clocks, format!("{now} MHz now, at most {most}")),
        _ => unreported(clocks),
    };
    let stays = format!("driver of GPU {index}");
    let stays = match persistence {
        "Enabled" => Some(Item::ok(stays, "stays loaded")),
        "Disabled" => {
            let is = "is unloaded when no program uses the GPU: the next program waits for it";
            Some(Item::warning(stays, is, "have root start nvidia-persistenced, or run nvidia-smi -pm 1"))
        }
        _ => None,
    };
    std::iter::once(clocks).chain(stays).collect()
}

#[cfg(test)]
mod tests {
    use super::super::item::Verdict;
    use super::*;

    fn clocks(line: &str) -> Item {
        of_gpu(line).into_iter().next().unwrap()
    }

    #[test]
    fn a_gpu_that_is_held_back_is_found_and_one_that_has_nothing_to_do_is_not() {
        let idle = clocks("0, Enabled, 345, 1980, 1980, 1980, 0x0000000000000001");
        assert_eq!((idle.what.as_str(), idle.value.as_str()), ("clock rates of GPU 0", "345 MHz now, at most 1980"));
        assert_eq!(idle.verdict, Verdict::Ok);
        // A cap on power is normal under load.
        assert_eq!(clocks("1, Enabled, 1755, 1980, 1980, 1980, 0x0000000000000004").verdict, Verdict::Ok);
        let hot = clocks("2, Enabled, 600, 1980, 1980, 1980, 0x0000000000000048");
        assert!(
            hot.value == "held at 600 MHz, of 1980: it is too hot"
                && hot.remedy().is_some_and(|remedy| remedy.contains("cooling"))
        );
        for reason in ["0x80", "0x20", "0x8"] {
            assert!(clocks(&format!("0, Enabled, 600, 1980, 1980, 1980, {reason}")).remedy().is_some(), "{reason}");
        }
        let lowered = clocks("3, Enabled, 345, 1980, 900, 1980, 0x0000000000000003");
        assert!(
            lowered.value.contains("at most 900 MHz")
                && lowered.remedy().is_some_and(|remedy| remedy.contains("-i 3 -rac"))
        );
    }

    #[test]
    fn a_driver_that_does_not_stay_is_found_and_what_is_not_told_is_said() {
        let of = |persistence: &str| of_gpu(&format!("0, {persistence}, 345, 1980, [N/A], [N/A], 0x1"));
        assert!(of("Enabled").iter().all(|item| item.verdict == Verdict::Ok));
        assert!(of("Disabled")[1].remedy().is_some_and(|remedy| remedy.contains("-pm 1")));
        assert_eq!(of("[N/A]").len(), 1);
        assert!(matches!(clocks("0, Enabled, [N/A], [N/A], [N/A], [N/A], [N/A]").verdict, Verdict::Unknown(_)));
        assert!(of_gpu("No devices were found").is_empty() && of_gpu("").is_empty());
    }
}
