//! Files of hosts as mpirun has them.

use std::collections::HashSet;

/// One host a line, once or several times, with slots after it: `node1 slots=4`, or `node1:4`.
pub(crate) fn parse_hosts(text: &str) -> Vec<String> {
    let mut known = HashSet::new();
    let words = text.lines().filter_map(|line| line.split('#').next()?.split_whitespace().next());
    let hosts = words.filter_map(|word| word.split(':').next()).filter(|host| !host.is_empty());
    hosts.filter(|host| known.insert(*host)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_counts_once_however_it_is_written() {
        let text = "# two nodes\nn1 slots=4\nn2:8  # and more\n\n  n1\n";
        assert_eq!(parse_hosts(text), ["n1", "n2"]);
        assert!(parse_hosts("# none\n").is_empty());
    }

    #[test]
    fn slots_without_a_host_are_none() {
        assert_eq!(parse_hosts(":4\nn1:\n::\n : 8\n"), ["n1"]);
    }
}
