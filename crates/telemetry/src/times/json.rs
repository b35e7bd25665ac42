//! Times as JSON, in nanoseconds.

use super::{Tally, Times};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

impl Times {
    /// Returns the times as one JSON object and a newline.
    pub fn json(&self) -> String {
        // Only maps with keys that are no strings fail, and there are none.
        let text = serde_json::to_string(self).unwrap_or_default();
        text + "\n"
    }

    /// Reads an object that [`Times::json`] wrote.
    ///
    /// # Errors
    /// Returns the parser's message if `text` is something else.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WithAverage {
            count: self.count,
            total_ns: self.total_ns,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            average_ns: self.average_ns(),
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
struct WithAverage {
    count: u64,
    total_ns: u64,
    min_ns: u64,
    max_ns: u64,
    average_ns: u64,
}

/// Serialisation of a text whose empty value is written as `null`, for "unknown".
pub(super) mod known {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        (!text.is_empty()).then_some(text).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<String, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or_default())
    }
}
