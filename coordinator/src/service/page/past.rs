//! How busy the cluster was in the last hour.

use accord_proto::v1::ClusterSummary;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

/// Time between two samples.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(30);
/// Samples that are kept: those of an hour.
const SAMPLES_MAX: usize = 121;

/// Samples, the oldest first.
#[derive(Debug, Default)]
pub(super) struct SummaryHistory {
    samples: VecDeque<(u64, ClusterSummary)>,
}

impl SummaryHistory {
    /// Adds a sample; the oldest one goes if there are as many as are kept.
    pub(super) fn add(&mut self, unix_ms: u64, summary: ClusterSummary) {
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((unix_ms, summary));
    }

    /// Returns all samples. They name nothing and count for all users.
    pub(super) fn json(&self) -> Value {
        let sample = |(unix_ms, summary): &(u64, ClusterSummary)| {
            json!({
                "unix_ms": unix_ms,
                "devices": summary.devices,
                "busy": summary.devices_busy,
                "out": summary.devices_out,
                "running": summary.jobs_running + summary.others_running,
                "waiting": summary.jobs_waiting + summary.others_waiting,
            })
        };
        json!({
            "every_ms": u64::try_from(SAMPLE_EVERY.as_millis()).unwrap_or(u64::MAX),
            "samples": self.samples.iter().map(sample).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept() {
        let mut past = SummaryHistory::default();
        for at in 0..1_000 {
            past.add(30_000 * at, ClusterSummary { devices: 8, devices_busy: 3, ..ClusterSummary::default() });
        }
        let json = past.json();
        let samples = json["samples"].as_array().unwrap();
        let [first, last] = [&samples[0], &samples[samples.len() - 1]].map(|one| one["unix_ms"].as_u64().unwrap());
        assert_eq!((last, last - first), (30_000 * 999, 3_600_000));
        assert_eq!((&samples[0]["devices"], &samples[0]["busy"]), (&8.into(), &3.into()));
    }
}
