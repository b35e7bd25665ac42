//! One finding of the doctor.

use serde_json::{Value, json};

/// One finding of the doctor.
pub(super) struct Item {
    pub(super) what: String,
    pub(super) value: String,
    pub(super) verdict: Verdict,
}

/// The verdict on a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Ok,
    /// A part that only some uses need is not installed. Contains the way to get it.
    Absent(String),
    /// The value is unknown. Contains the way to determine it.
    Unknown(String),
    /// Programs run, but slowly or not for long. Contains the remedy.
    Warning(String),
    /// Programs fail. Contains the remedy.
    Error(String),
}

impl Item {
    pub(super) fn ok(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into(), verdict: Verdict::Ok }
    }

    pub(super) fn absent(what: impl Into<String>, value: impl Into<String>, how: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into(), verdict: Verdict::Absent(how.into()) }
    }

    pub(super) fn unknown(what: impl Into<String>, why: impl Into<String>, how: impl Into<String>) -> Self {
        Self { what: what.into(), value: why.into(), verdict: Verdict::Unknown(how.into()) }
    }

    pub(super) fn warning(what: impl Into<String>, value: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into(), verdict: Verdict::Warning(remedy.into()) }
    }

    pub(super) fn error(what: impl Into<String>, value: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into(), verdict: Verdict::Error(remedy.into()) }
    }

    /// Whether programs fail because of the finding.
    pub(super) fn is_error(&self) -> bool {
        matches!(self.verdict, Verdict::Error(_))
    }

    /// Returns the text for display.
    pub(super) fn text(&self) -> String {
        let mark = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Absent(_) => "--",
            Verdict::Unknown(_) => "??",
            Verdict::Warning(_) => "! ",
            Verdict::Error(_) => "!!",
        };
        let hint = self.hint().map(|hint| format!("      {hint}\n")).unwrap_or_default();
        format!("{mark}  {}: {}\n{hint}", self.what, self.value)
    }

    /// Returns the item as JSON.
    pub(super) fn json(&self) -> Value {
        let status = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Absent(_) => "absent",
            Verdict::Unknown(_) => "unknown",
            Verdict::Warning(_) => "warning",
            Verdict::Error(_) => "error",
        };
        json!({ "what": self.what, "status": status, "value": self.value, "hint": self.hint() })
    }

    /// Returns the remedy or the way to determine the value; `None` if all is well.
    fn hint(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Ok => None,
            Verdict::Absent(hint) | Verdict::Unknown(hint) | Verdict::Warning(hint) | Verdict::Error(hint) => {
                Some(hint)
            }
        }
    }

    /// Returns the remedy, if something is wrong.
    #[cfg(test)]
    pub(super) fn remedy(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Warning(remedy) | Verdict::Error(remedy) => Some(remedy),
            Verdict::Ok | Verdict::Absent(_) | Verdict::Unknown(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_tell_errors_from_warnings() {
        let (warning, error) = (Item::warning("a", "b", "c"), Item::error("a", "b", "c"));
        assert_eq!((warning.text().as_str(), error.text().as_str()), ("!   a: b\n      c\n", "!!  a: b\n      c\n"));
        assert!(error.is_error() && !warning.is_error());
        let absent = Item::absent("flang", "not installed", "install it");
        assert_eq!(
            absent.json(),
            json!({"what": "flang", "status": "absent", "value": "not installed", "hint": "install it"})
        );
        assert_eq!(Item::ok("a", "b").json()["hint"], Value::Null);
    }
}
