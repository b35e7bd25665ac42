//! The user's file of hosts in the formats of mpirun: Open MPI's has `node1 slots=4`, MPICH's `node1:4`.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Open MPI's keys for the user of a host.
const USERS: &[&str] = &["user", "username", "user_name", "user-name"];

/// The hosts of a file, each once and in order.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct HostFile<'a> {
    hosts: Vec<Host<'a>>,
    /// Whether a line has the form `node1:4`.
    has_colons: bool,
}

#[derive(PartialEq, Eq, Debug)]
struct Host<'a> {
    name: &'a str,
    lines: Vec<Line<'a>>,
}

/// A line about a host.
#[derive(PartialEq, Eq, Debug)]
struct Line<'a> {
    number: usize,
    user: Option<&'a str>,
    /// The text after a colon.
    count: Option<&'a str>,
    /// `key=value`, or any other word.
    rest: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> HostFile<'a> {
    /// Parses the names and keeps the rest as text for the launcher.
    pub(super) fn parse(text: &'a str) -> Self {
        let mut file = Self { hosts: Vec::new(), has_colons: false };
        let mut known = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            let (place, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            if place.is_empty() {
                continue;
            }
            let (user, place) = place.rsplit_once('@').map_or((None, place), |(user, place)| (Some(user), place));
            // An IPv6 address has more than one colon.
            let (name, count) = match place.split_once(':') {
                Some((name, count)) if !count.contains(':') => (name, Some(count)),
                _ => (place, None),
            };
            file.has_colons |= count.is_some();
            let line = Line { number, user, count, rest: pairs(rest) };
            let at = *known.entry(name).or_insert(file.hosts.len());
            match file.hosts.get_mut(at) {
                Some(host) => host.lines.push(line),
                None => file.hosts.push(Host { name, lines: vec![line] }),
            }
        }
        file
    }

    /// Returns the hosts' names, without slots that have no host.
    pub(super) fn names(&self) -> Vec<String> {
        let named = self.hosts.iter().filter(|host| host.name.contains(char::is_alphanumeric));
        named.map(|host| host.name.to_owned()).collect()
    }

    /// Returns the file in the format of MPICH's mpirun.
    ///
    /// # Errors
    /// Returns the line that this format can't express, with the reason.
    pub(super) fn for_hydra(&self) -> Result<String, String> {
        let mut text = String::new();
        for host in &self.hosts {
            let (slots, user) = host.plain(|number, what| {
                format!(
                    "line {number}: MPICH's mpirun has no word for {what:?}; leave it out, or use Open MPI's mpirun"
                )
            })?;
            text.push_str(host.name);
            if let Some(slots) = slots {
                let _ = write!(text, ":{slots}");
            }
            if let Some(user) = user {
                let _ = write!(text, " user={user}");
            }
            text.push('\n');
        }
        Ok(text)
    }

    /// Returns the file in the format of Open MPI's mpirun; `None` if it needs no change.
    ///
    /// # Errors
    /// Returns the line that this format can't express, with the reason.
    pub(super) fn for_open_mpi(&self) -> Result<Option<String>, String> {
        if !self.has_colons {
            return Ok(None);
        }
        let mut text = String::new();
        for host in &self.hosts {
            let (slots, user) = host.plain(|number, what| {
                format!("line {number}: {what:?} beside a line such as \"node1:4\" is not understood: write \"node1 slots=4\"")
            })?;
            if let Some(user) = user {
                let _ = write!(text, "{user}@");
            }
            text.push_str(host.name);
            if let Some(slots) = slots {
                let _ = write!(text, " slots={slots}");
            }
            text.push('\n');
        }
        Ok(Some(text))
    }
}

impl<'a> Host<'a> {
    /// Returns a host's slots and user, if its lines have nothing else. `unknown` makes the error from a line number
    /// and its text. Each line of a host adds its slots, by default one, as in Open MPI.
    fn plain(&self, unknown: impl Fn(usize, &str) -> String) -> Result<(Option<u32>, Option<&'a str>), String> {
        let (mut all, mut says, mut users) = (0_u32, self.lines.len() > 1, HashSet::new());
        for line in &self.lines {
            let number = line.number;
            let is_name = |text: &str| {
                let mut letters = text.chars();
                let first = letters.next().is_some_and(|letter| letter.is_ascii_alphanumeric());
                first && letters.all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
            };
            if !is_name(self.name) {
                return Err(unknown(number, self.name));
            }
            let mut slots = line.count;
            let mut user = line.user;
            for &(key, value) in &line.rest {
                match value {
                    Some(value) if key == "slots" && slots.is_none() => slots = Some(value),
                    Some(value) if USERS.contains(&key) && user.is_none() => user = Some(value),
                    Some(value) => return Err(unknown(number, &format!("{key}={value}"))),
                    None => return Err(unknown(number, key)),
                }
            }
            if let Some(user) = user.filter(|user| !is_name(user)) {
                return Err(unknown(number, user));
            }
            users.insert(user);
            says |= slots.is_some();
            let here = match slots.map(str::parse::<u32>) {
                None => 1,
                Some(Ok(slots)) if slots > 0 => slots,
                Some(_) => {
                    let slots = slots.unwrap_or_default();
                    return Err(format!("line {number}: {slots:?} is not a number of slots, 1 or more"));
                }
            };
            all = all.checked_add(here).ok_or_else(|| format!("line {number}: too many slots of {}", self.name))?;
            if users.len() > 1 {
                return Err(format!("line {number}: another user of {} than in a line before", self.name));
            }
        }
        Ok((says.then_some(all), users.into_iter().next().flatten()))
    }
}

/// Splits a text into `key=value` pairs and words, with or without blanks around `=`.
fn pairs(text: &str) -> Vec<(&str, Option<&str>)> {
    let mut rest = text.trim_start();
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(|letter: char| letter == '=' || letter.is_whitespace()).unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let behind = behind.trim_start();
        rest = behind;
        let mut value = None;
        if let Some(behind) = behind.strip_prefix('=') {
            let behind = behind.trim_start();
            let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
            value = Some(&behind[..end]);
            rest = behind[end..].trim_start();
        }
        pairs.push((key, value));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hydra(text: &str) -> Result<String, String> {
        HostFile::parse(text).for_hydra()
    }

    fn open_mpi(text: &str) -> Result<Option<String>, String> {
        HostFile::parse(text).for_open_mpi()
    }

    #[test]
    fn a_host_counts_once_however_it_is_written() {
        let names = |text: &str| HostFile::parse(text).names();
        assert_eq!(names("# two nodes\nn1 slots=4\nn2:8  # and more\n\n  n1\n"), ["n1", "n2"]);
        assert_eq!(names("root@n1 slots = 2 max_slots=3\n\tn2\r\n"), ["n1", "n2"]);
        assert_eq!(names("fd00::1 slots=2\n10.0.0.1:3\n"), ["fd00::1", "10.0.0.1"]);
        assert!(names("# none\n \n").is_empty());
        assert_eq!(names(":4\nn1:\n::\n : 8\n@\n"), ["n1"]);
    }

    #[test]
    fn either_form_becomes_the_one_of_the_mpirun_that_is_here() {
        let text = "# two\nn1 slots=4 # four\n\nn2\nn-3.site slots = 2\n";
        assert_eq!(hydra(text).unwrap(), "n1:4\nn2\nn-3.site:2\n");
        assert_eq!(open_mpi(text), Ok(None));
        let text = "n1:4\n# none\n\nn2\n";
        assert_eq!(hydra(text).unwrap(), "n1:4\nn2\n");
        assert_eq!(open_mpi(text).unwrap().unwrap(), "n1 slots=4\nn2\n");
        assert_eq!(hydra("").unwrap(), "");
    }

    #[test]
    fn lines_of_one_host_add_up() {
        assert_eq!(hydra("n1\nn2 slots=2\nn1\nn2:3\n").unwrap(), "n1:2\nn2:5\n");
        assert!(hydra("n1:4294967295\nn1\n").unwrap_err().starts_with("line 2: too many slots"));
    }

    #[test]
    fn users_of_hosts_are_kept() {
        assert_eq!(
            hydra("me@n1 slots=2\nn2 username=you\nn3 user=me\n").unwrap(),
            "n1:2 user=me\nn2 user=you\nn3 user=me\n"
        );
        assert_eq!(open_mpi("n1:2 user=me\n").unwrap().unwrap(), "me@n1 slots=2\n");
        assert!(hydra("me@n1\nyou@n1\n").unwrap_err().starts_with("line 2: another user"));
    }

    #[test]
    fn untranslatable_host_file_entries_are_refused_with_their_line() {
        for (text, named) in [
            ("n1 slots=4\nn2 slots=2 max_slots=4\n", "line 2: MPICH's mpirun has no word for \"max_slots=4\""),
            ("n1 slots=x\n", "line 1: \"x\" is not a number of slots"),
            ("n1 slots=\n", "line 1: \"\" is not a number of slots"),
            ("n1 slots=-1\n", "line 1: \"-1\" is not"),
            ("n1 slots=99999999999\n", "line 1: \"99999999999\" is not"),
            // Hydra itself dies of a division by zero here.
            ("\nn1:0\n", "line 2: \"0\" is not a number of slots"),
            ("n1:\n", "line 1: \"\" is not a number of slots"),
            ("n1:2 slots=2\n", "line 1: MPICH's mpirun has no word for \"slots=2\""),
            ("n1 slots 4\n", "no word for \"slots\""),
            ("n1 n2\n", "no word for \"n2\""),
            ("n1 : 4\n", "no word for \":\""),
            ("n1 =4\n", "no word for \"=4\""),
            ("^n1\n", "no word for \"^n1\""),
            ("+n0 slots=1\n", "no word for \"+n0\""),
            ("\"n1\"\n", "no word for"),
            ("fd00::1 slots=1\n", "no word for \"fd00::1\""),
            (":4\n", "no word for \"\""),
            ("@n1\n", "no word for \"\""),
            ("n1,n2\n", "no word for \"n1,n2\""),
            ("n1 user=a,b\n", "no word for \"a,b\""),
        ] {
            let why = hydra(text).expect_err(text);
            assert!(why.contains(named), "{text:?}: {why}");
        }
        assert!(open_mpi("n1:4 binding=none\n").unwrap_err().contains("binding=none"));
        // Lines that Open MPI parses itself are left to it.
        assert_eq!(open_mpi("n1 slots=4 max_slots=8\n^n2\n"), Ok(None));
    }
}
