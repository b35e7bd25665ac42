//! Tables, and the raw result as JSON.

use crate::published;
use crate::times::{CLASSES, Timed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The rows and samples of a replay.
pub(crate) struct Report {
    question: &'static str,
    rows: Vec<Value>,
    samples: BTreeMap<String, Value>,
    /// Means at 130 % for each list, by policy, and the published ones.
    means: BTreeMap<String, Vec<f64>>,
    published: Vec<f64>,
}

/// Returns the mean and its standard error.
fn mean(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (mean, if samples.len() > 1 { (squares / (n - 1.0) / n).sqrt() } else { 0.0 })
}

/// Returns the quantile of sorted samples.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted.get(((sorted.len() as f64 * part).ceil() as usize).saturating_sub(1)).copied().unwrap_or_default()
}

impl Report {
    pub(crate) fn new(question: &'static str) -> Self {
        Self { question, rows: Vec::new(), samples: BTreeMap::new(), means: BTreeMap::new(), published: Vec::new() }
    }

    /// Adds a list's allocated parts under a policy. Returns them as a line.
    pub(crate) fn allocated(&mut self, list: &str, policy: &str, allocated: &[Vec<f64>; 2]) -> String {
        let [(at_100, error_100), (at_130, error_130)] = [mean(&allocated[0]), mean(&allocated[1])];
        let mut line =
            format!("{list:<12} {policy:<9} {at_100:6.2} ± {error_100:.2}  at 130 %: {at_130:6.2} ± {error_130:.2}");
        let published = published::fgd(list);
        if let Some((published_100, published_130)) = published {
            let _ = write!(line, "  published FGD {published_100:.2} ({published_130:.2})");
            if self.means.values().all(|means| means.len() <= self.published.len()) {
                self.published.push(published_130);
            }
        }
        self.means.entry(policy.to_owned()).or_default().push(at_130);
        self.rows.push(json!({
            "what": format!("{list}: {policy}"), "unit": "%", "lower_is_better": false,
            "value": at_130, "standard error": error_130, "at 100 %": at_100, "standard error at 100 %": error_100,
            "published FGD": published.map(|published| published.1),
        }));
        self.samples.insert(format!("{list}/{policy}"), json!({"unit": "%", "samples": allocated[1]}));
        line
    }

    /// Adds means over all lists and times of decisions. Returns them as lines.
    pub(crate) fn summary(&mut self, decisions: &[(f64, bool)]) -> String {
        let mut text = String::new();
        for (policy, means) in &self.means {
            let (all, _) = mean(means);
            let _ = writeln!(text, "mean of {} lists at 130 %: {policy} {all:.3}", means.len());
            self.rows.push(json!({"what": format!("mean of all lists: {policy}"), "unit": "%", "lower_is_better": false, "value": all}));
        }
        if !self.published.is_empty() {
            let _ = writeln!(text, "published FGD {:.3}", mean(&self.published).0);
        }
        let all = decisions.iter().map(|(micros, _)| *micros).collect();
        let warm = decisions.iter().filter(|(_, warm)| *warm).map(|(micros, _)| *micros).collect();
        for (which, mut sorted) in [("all", all), ("warm", warm)] as [(&str, Vec<f64>); 2] {
            sorted.sort_unstable_by(f64::total_cmp);
            for (what, part) in [("median", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("slowest", 1.0)] {
                let (value, what) =
                    (quantile(&sorted, part), format!("Accord's decisions, {which} {}: {what}", sorted.len()));
                let _ = writeln!(text, "{what}: {value:.1} us");
                self.rows.push(json!({"what": what, "unit": "us", "lower_is_better": true, "value": value}));
            }
        }
        text
    }

    /// Adds the result of a queue and a placement. Returns it as lines.
    pub(crate) fn waits(&mut self, list: &str, queue: &str, run: &Timed) -> String {
        let name = format!("{list}: {queue}");
        let mut text = format!("{name}: {:.1} % of devices used, {} of {} started\n", run.used, run.started, run.jobs);
        for (class, waits) in CLASSES.iter().zip(&run.waits).filter(|(_, waits)| !waits.is_empty()) {
            let mut sorted = waits.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let ((mean, _), p99) = (mean(&sorted), quantile(&sorted, 0.99));
            let _ =
                writeln!(text, "  {:<18} {:5} tasks  mean wait {mean:9.1} s  p99 {p99:9.1} s", class.name, waits.len());
            self.rows.push(json!({
                "what": format!("{name}: mean wait, {}", class.name), "unit": "s", "lower_is_better": true,
                "value": mean, "p99": p99, "tasks": waits.len(),
            }));
        }
        self.rows
            .push(json!({"what": format!("{name}: used"), "unit": "%", "lower_is_better": false, "value": run.used}));
        text
    }

    /// Writes the raw result.
    pub(crate) fn keep(&self, to: Option<&Path>) -> Result<(), String> {
        let Some(to) = to else { return Ok(()) };
        let command: Vec<String> = std::env::args().skip(1).collect();
        let result = json!({
            "question": self.question,
            "command": format!("cargo run --release -p accord-scheduler --example sched-replay -- {}", command.join(" ")),
            "machine": {
                "cores": std::thread::available_parallelism().map_or(0, usize::from),
                "load": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
            },
            "rows": self.rows, "samples": self.samples,
        });
        let text = serde_json::to_string_pretty(&result).map_err(|error| error.to_string())?;
        std::fs::write(to, text + "\n").map_err(|error| format!("{}: {error}", to.display()))
    }
}
