//! Metrics and health of coordinator and agents.

use accord_monitoring::{Kind, Metric};
use accord_tests::{Cluster, Result, Variant, example, repository_file};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time limit of short operations.
const LIMIT: Duration = Duration::from_secs(20);

fn tables() -> impl Iterator<Item = Metric> {
    accord_coordinator::metrics::TABLE.into_iter().chain(accord_node_agent::metrics::TABLE)
}

fn get(address: &str, path: &str) -> Result<String> {
    let failed = |error: std::io::Error| format!("{address}{path}: {error}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(LIMIT)).map_err(failed)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").map_err(failed)?;
    let mut page = String::new();
    stream.read_to_string(&mut page).map_err(failed)?;
    Ok(page)
}

/// Returns the value of a page's line: `name` or `name{label="value"}`.
fn value(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn await_status(address: &str, path: &str, status: &str) {
    let begin = Instant::now();
    loop {
        let page = get(address, path).unwrap();
        if page.starts_with(&format!("HTTP/1.1 {status} ")) {
            return;
        }
        assert!(begin.elapsed() < LIMIT, "{path} is not {status}: {page}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn await_value(address: &str, name: &str, wanted: f64) {
    let begin = Instant::now();
    loop {
        let page = get(address, "/metrics").unwrap();
        if value(&page, name) == Some(wanted) {
            return;
        }
        assert!(begin.elapsed() < LIMIT, "{name} is not {wanted}: {page}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_session_and_an_outage_show() {
    let mut cluster = Cluster::builder().hosts(2).devices(2).monitored().start().unwrap();
    let coordinator = cluster.monitored(None).unwrap().to_owned();
    let agent = cluster.monitored(Some(1)).unwrap().to_owned();
    await_status(&coordinator, "/readyz", "200");
    await_status(&agent, "/readyz", "200");
    await_value(&coordinator, "accord_coordinator_nodes_up", 2.0);
    await_value(&coordinator, "accord_coordinator_devices{kind=\"cpu\"}", 4.0);
    await_value(&coordinator, "accord_coordinator_devices{kind=\"gpu\"}", 0.0);
    await_value(&coordinator, "accord_coordinator_jobs{state=\"waiting\"}", 0.0);
    let class = job_devices_class(&coordinator);
    await_value(&coordinator, &format!("accord_coordinator_job_devices{{state=\"free\",class=\"{class}\"}}"), 4.0);
    for (address, table) in
        [(&coordinator, &accord_coordinator::metrics::TABLE[..]), (&agent, &accord_node_agent::metrics::TABLE[..])]
    {
        let page = get(address, "/metrics").unwrap();
        for metric in table {
            assert!(page.contains(&format!("# HELP {} {}\n", metric.name, metric.help)), "{} in {page}", metric.name);
            let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
            assert!(page.contains(&format!("# TYPE {} {kind}\n", metric.name)), "{} in {page}", metric.name);
        }
    }
    assert_eq!(value(&get(&coordinator, "/metrics").unwrap(), "accord_coordinator_sessions_opened_total"), Some(0.0));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    for (address, name) in [
        (&coordinator, "accord_coordinator_certificate_expiry_timestamp_seconds{holder=\"coordinator\"}"),
        (&agent, "accord_agent_certificate_expiry_timestamp_seconds{holder=\"agent h1\"}"),
    ] {
        let page = get(address, "/metrics").unwrap();
        let expiry = value(&page, name).unwrap_or_else(|| panic!("no {name} in {page}"));
        assert!(expiry > now && expiry < now + 36_500.0 * 86_400.0, "{name} is {expiry}, now is {now}");
    }

    let program = example("vecsum/vecsum.c", Variant::PLAIN).unwrap();
    let finished = cluster.job(0, &program).unwrap().env("ACC_DEVICE_NUM", "3").run().unwrap();
    finished.success().unwrap();
    await_value(&coordinator, "accord_coordinator_sessions_opened_total", 1.0);
    await_value(&coordinator, "accord_coordinator_sessions", 0.0);
    await_value(&agent, "accord_agent_executors", 0.0);
    assert!(value(&get(&agent, "/metrics").unwrap(), "accord_agent_connections_total") >= Some(1.0));

    cluster.kill_coordinator();
    await_status(&agent, "/readyz", "503");
    await_value(&agent, "accord_agent_registered", 0.0);
    assert!(get(&agent, "/healthz").unwrap().starts_with("HTTP/1.1 200 "));
    cluster.start_coordinator().unwrap();
    await_status(&agent, "/readyz", "200");
    await_value(&agent, "accord_agent_registrations_total", 2.0);
}

/// Returns the class of the devices, which contains the processor's name.
fn job_devices_class(address: &str) -> String {
    let begun = Instant::now();
    let class = regex_lite::Regex::new("accord_coordinator_job_devices\\{[^}]*class=\"([^\"]+)\"").unwrap();
    loop {
        if let Some(found) = class.captures(&get(address, "/metrics").unwrap()) {
            return found[1].to_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no devices are counted");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_document_names_every_metric_with_its_labels() {
    let page = std::fs::read_to_string(repository_file("docs/reference/control-plane.md")).unwrap();
    let documented: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `accord_")?.split('`').next()).collect();
    let there: BTreeSet<&str> = tables().filter_map(|metric| metric.name.strip_prefix("accord_")).collect();
    assert_eq!(documented, there);
    for metric in tables() {
        let open = metric.open_label.map(|name| format!("; label `{name}`")).unwrap_or_default();
        let label = metric.label.map(|(name, values)| format!("; label `{name}`: {}", values.join(", ")));
        let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
        let row = format!("| `{}` | {kind} | {}{}{open} |", metric.name, metric.help, label.unwrap_or_default());
        assert!(page.contains(&row), "docs/reference/control-plane.md lacks {row}");
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let text = std::fs::read_to_string(repository_file("dashboards/accord.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let name = regex_lite::Regex::new("accord_[a-z_]+").unwrap();
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let names: Vec<_> = name.find_iter(expression).map(|found| found.as_str().to_owned()).collect();
            assert!(!names.is_empty(), "{expression} asks for nothing");
            let counted = expression.contains("rate(") || expression.contains("increase(");
            assert!(names.iter().all(|name| name.ends_with("_total") == counted), "{expression}: a rate of a gauge?");
            asked.extend(names);
        }
    }
    let there: BTreeSet<String> = tables().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(asked, there, "asked for, and there");
}
