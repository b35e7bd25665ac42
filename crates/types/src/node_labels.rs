//! Labels of nodes, by which requests and policies choose nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Most labels of a node, and of a request.
pub const LABELS_MAX: usize = 16;
/// Most bytes of a label's name, and of its value.
pub const LABEL_MAX: usize = 64;

/// Labels by name: `rack`, `switch` and the site's own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeLabels(BTreeMap<String, String>);

/// Whether a text can be a label's name or value, or another name in a request for devices.
pub fn is_label(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=LABEL_MAX).contains(&text.len()) && text.chars().all(allowed)
}

impl NodeLabels {
    /// Returns the labels of these names and values.
    ///
    /// # Errors
    /// Returns the reason if a name or value is invalid, a name occurs twice, or there are more than [`LABELS_MAX`].
    pub fn new(labels: impl IntoIterator<Item = (String, String)>) -> Result<Self, String> {
        let mut known = BTreeMap::new();
        for (name, value) in labels {
            if let Some(wrong) = [&name, &value].into_iter().find(|text| !is_label(text)) {
                return Err(format!(
                    "{wrong:?} is no name or value of a label: those have 1 to {LABEL_MAX} letters, digits, '.', '_' and '-'"
                ));
            }
            if known.len() == LABELS_MAX {
                return Err(format!("a node has at most {LABELS_MAX} labels"));
            }
            if known.insert(name.clone(), value).is_some() {
                return Err(format!("the label {name} is there twice"));
            }
        }
        Ok(Self(known))
    }

    /// Returns the labels by name.
    pub fn by_name(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl FromStr for NodeLabels {
    type Err = String;

    /// Parses `rack=r1,switch=s2`. An empty text has no labels.
    fn from_str(text: &str) -> Result<Self, String> {
        let labels = text.split(',').map(str::trim).filter(|label| !label.is_empty());
        let split = |label: &str| match label.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(format!("{label:?} is no label: a label has a name and a value, as in rack=r1")),
        };
        Self::new(labels.map(split).collect::<Result<Vec<_>, _>>()?)
    }
}

impl fmt::Display for NodeLabels {
    /// Writes `rack=r1,switch=s2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={value}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_back_from_their_text() {
        let labels: NodeLabels = " switch=s2, rack=r1,".parse().unwrap();
        assert_eq!(labels.to_string(), "rack=r1,switch=s2");
        assert_eq!(labels.to_string().parse(), Ok(labels));
        assert_eq!("".parse(), Ok(NodeLabels::default()));
    }

    #[test]
    fn wrong_labels_are_named() {
        let wrong = |text: &str| text.parse::<NodeLabels>().unwrap_err();
        assert!(wrong("rack").contains("\"rack\" is no label"));
        assert!(wrong("rack=").contains("\"\" is no name or value"));
        assert!(wrong("ra ck=r1").contains("\"ra ck\""));
        assert!(wrong("rack=r=1").contains("\"r=1\""));
        assert!(wrong("rack=r1,rack=r2").contains("the label rack is there twice"));
        let long = "x".repeat(LABEL_MAX + 1);
        assert!(wrong(&format!("rack={long}")).contains(&long));
        let many = |count: usize| (0..count).map(|n| (format!("l{n}"), "v".to_owned()));
        assert!(NodeLabels::new(many(LABELS_MAX)).is_ok());
        assert!(NodeLabels::new(many(LABELS_MAX + 1)).unwrap_err().contains("at most 16"));
    }
}
