//! Tables: columns as wide as their widest entry, numbers aligned to the right.

use accord_types::printable;
use std::fmt;

/// Rows under a heading.
pub(crate) struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table. A column whose name begins with `>` is aligned to the right.
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self::with_heading(heading.iter().map(|&name| name.to_owned()).collect())
    }

    /// Creates an empty table with a computed heading.
    pub(crate) fn with_heading(heading: Vec<String>) -> Self {
        Self { heading, rows: Vec::new() }
    }

    /// Adds a row with one entry per column. An entry becomes one line with control characters escaped.
    pub(crate) fn row(&mut self, entries: impl IntoIterator<Item = String>) {
        self.rows.push(entries.into_iter().map(|entry| printable(&entry).into_owned()).collect());
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.heading.iter().map(|name| name.trim_start_matches('>').to_owned()).collect();
        let mut widths = vec![0; names.len()];
        for row in std::iter::once(&names).chain(&self.rows) {
            for (width, entry) in widths.iter_mut().zip(row) {
                *width = (*width).max(entry.chars().count());
            }
        }
        for row in std::iter::once(&names).chain(&self.rows) {
            let mut line = String::new();
            for ((entry, width), name) in row.iter().zip(&widths).zip(&self.heading) {
                let space = " ".repeat(width - entry.chars().count());
                if name.starts_with('>') {
                    line.push_str(&space);
                    line.push_str(entry);
                } else {
                    line.push_str(entry);
                    line.push_str(&space);
                }
                line.push_str("  ");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn an_entry_breaks_no_line() {
        let mut table = Table::new(&["program", ">pid"]);
        table.row(["app\nfake\u{1b}[2J".into(), "7".into()]);
        assert_eq!(table.to_string(), "program             pid\napp\\nfake\\u{1b}[2J    7\n");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["node", ">cores", "name"]);
        table.row(["h1".into(), "2".into(), "é".into()]);
        table.row(["long-name".into(), "128".into(), String::new()]);
        assert_eq!(table.to_string(), "node       cores  name\nh1             2  é\nlong-name    128\n");
    }
}
