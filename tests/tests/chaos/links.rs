//! Cut and slow links between the hosts of `accord run`.

use crate::site::{LONG, SHORT};
use crate::table::{Fault, Role};
use accord_tests::{Running, leftovers};
use std::process::Command;
use std::time::{Duration, Instant};

/// Applies the fault to the link of the host whose device is used, or to the coordinator's alone, while the hosts still
/// reach each other. Returns whether it could, and how long the fault lasted.
pub(crate) fn hit(running: &Running, role: Role, fault: Fault) -> (bool, Duration) {
    let found = leftovers(running.mark());
    let is_hit = |line: &&String| match role {
        Role::Coordinator => line.contains("/accord-coordinator "),
        _ => line.contains("/accord-node-agent ") && !line.ends_with(" executor") && line.contains("--node h3 "),
    };
    let Some(process) = found.iter().find(is_hit).and_then(|line| line.split(' ').next()) else {
        return (false, Duration::ZERO);
    };
    // In its network namespace.
    let inside = |arguments: &[&str]| {
        let done =
            Command::new("nsenter").arg(format!("--net=/proc/{process}/ns/net")).args(arguments).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let Some(device) = device_of(process) else { return (false, Duration::ZERO) };
    let device = device.as_str();
    if fault == Fault::LinkSlow {
        let rate = ["rate", "50mbit", "burst", "64kb", "latency", "50ms"];
        let slow = inside(&[&["tc", "qdisc", "add", "dev", device, "root", "tbf"], &rate[..]].concat());
        return (slow.is_some(), Duration::ZERO);
    }
    let time = match fault {
        Fault::LinkDown => Duration::from_millis(500),
        Fault::LinkDownLonger => SHORT,
        _ => Duration::from_secs(30),
    };
    let begun = Instant::now();
    let cut = if role == Role::Coordinator {
        // The hosts' links meet at its device, which must stay; only its address is removed.
        let displayed = inside(&["ip", "-oneline", "-4", "address", "show", "dev", device]).unwrap_or_default();
        let address = displayed.split_whitespace().nth(3).unwrap_or_default();
        let cut = inside(&["ip", "address", "del", address, "dev", device]);
        until_over(running, time);
        inside(&["ip", "address", "add", address, "dev", device]);
        cut
    } else {
        // The link stays up, and drops everything.
        let cut = inside(&["tc", "qdisc", "add", "dev", device, "root", "blackhole"]);
        until_over(running, time);
        inside(&["tc", "qdisc", "del", "dev", device, "root"]);
        cut
    };
    // If the program must end, it ends before the link is restored.
    let ends = role != Role::Coordinator && time > LONG;
    (cut.is_some(), if ends { Duration::ZERO } else { begun.elapsed() })
}

fn until_over(running: &Running, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time && !leftovers(running.mark()).is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the first device of a process's network other than the loopback.
fn device_of(process: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/net/dev")).ok()?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .find(|name| name != "lo")
}
