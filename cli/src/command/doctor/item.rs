//! One finding of the doctor.

use serde_json::{Value, json};

/// One finding of the doctor.
pub(super) struct Item {
    pub(super) what: String,
    /// The finding.
    pub(super) is: String,
    pub(super) verdict: Verdict,
}

/// The verdict on a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Well,
    /// Something is wrong, with this remedy.
    Wrong(String),
    /// The finding is unknown, and this is the way to determine it.
    Unseen(String),
}

impl Item {
    pub(super) fn well(what: impl Into<String>, is: impl Into<String>) -> Self {
        Self { what: what.into(), is: is.into(), verdict: Verdict::Well }
    }

    pub(super) fn wrong(what: impl Into<String>, is: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), is: is.into(), verdict: Verdict::Wrong(remedy.into()) }
    }

    pub(super) fn unseen(what: impl Into<String>, why: impl Into<String>, how: impl Into<String>) -> Self {
        Self { what: what.into(), is: why.into(), verdict: Verdict::Unseen(how.into()) }
    }

    /// Returns the remedy, if something is wrong.
    pub(super) fn remedy(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Wrong(remedy) => Some(remedy),
            Verdict::Well | Verdict::Unseen(_) => None,
        }
    }

    /// Returns the text for display.
    pub(super) fn text(&self) -> String {
        let (mark, more) = match &self.verdict {
            Verdict::Well => ("ok", None),
            Verdict::Wrong(remedy) => ("!!", Some(remedy)),
            Verdict::Unseen(how) => ("??", Some(how)),
        };
        let more = more.map(|more| format!("      {more}\n")).unwrap_or_default();
        format!("{mark}  {}: {}\n{more}", self.what, self.is)
    }

    /// Returns the item as JSON.
    pub(super) fn json(&self) -> Value {
        let how = if let Verdict::Unseen(how) = &self.verdict { Some(how) } else { None };
        json!({
            "what": self.what,
            "is": self.is,
            "well": self.remedy().is_none(),
            "remedy": self.remedy(),
            "unseen": how.is_some(),
            "how_to_see": how,
        })
    }
}
