//! The options of `accord run` that request devices: the parts of a request, as options.

use crate::failure::{Failure, Result};
use accord_scheduler::Request;
use accord_scheduler::request::words::Word;
use accord_types::settings::DEVICES;
use clap::Args;

/// The parts of a request.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct RequestArgs {
    /// Ask for devices, such as 4:nvidia/h200:20G, "2:nvidia + 8:cpu" or "8:nvidia else 4:nvidia". The same as ACCORD_DEVICES.
    #[arg(long, value_name = "REQUEST", allow_hyphen_values = true)]
    pub(crate) devices: Option<String>,

    /// Ask for devices for each rank.
    #[arg(long, value_name = "REQUEST", conflicts_with = "devices")]
    pub(crate) devices_per_rank: Option<String>,

    /// Devices of only the program's own node.
    #[arg(long)]
    pub(crate) local: bool,

    /// Devices that are near each other.
    #[arg(long)]
    pub(crate) near: bool,

    /// Devices of the fewest nodes.
    #[arg(long)]
    pub(crate) pack: bool,

    /// Devices of as many nodes as possible.
    #[arg(long)]
    pub(crate) spread: bool,

    /// Devices of exactly N nodes, the same number from each.
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<String>,

    /// Devices of nodes with this label.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) label: Vec<String>,

    /// Devices of only these nodes.
    #[arg(long, value_name = "NODE,...")]
    pub(crate) on: Vec<String>,

    /// Exclude devices of these nodes.
    #[arg(long, value_name = "NODE,...")]
    pub(crate) avoid: Vec<String>,

    /// The time limit, with s, m, h or d.
    #[arg(long, value_name = "TIME")]
    pub(crate) limit: Option<String>,

    /// The longest wait for the devices, with s, m, h or d; 0s does not wait [default: without end].
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<String>,

    /// The priority, among those that the account may use.
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,

    /// The account, if not the user's default.
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<String>,

    /// Devices of only this reservation: the job waits until the reservation begins.
    #[arg(long, value_name = "NAME")]
    pub(crate) reservation: Option<String>,
}

impl RequestArgs {
    /// Returns the request of the options, or else of ACCORD_DEVICES, with the options' words; `None` without either.
    ///
    /// # Errors
    /// Returns what is wrong in the request, with a mark under the word; names the option that asks for nothing by itself.
    pub(crate) fn request(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<Option<Request>> {
        let words = self.words()?;
        let devices = self.devices_per_rank.clone().or_else(|| self.devices.clone());
        let Some(devices) = devices.or_else(|| DEVICES.find(lookup).map(|(_, text)| text)) else {
            return match words.first() {
                None => Ok(None),
                Some((option, _)) => {
                    Err(Failure::usage(format!("--{option} is about devices that --devices asks for")))
                }
            };
        };
        let words = words.into_iter().map(|(_, word)| word);
        let text = [devices].into_iter().chain(words).collect::<Vec<_>>().join(" ");
        text.parse().map(Some).map_err(|error: accord_scheduler::TextError| Failure::usage(error.to_string()))
    }

    /// Returns the words of the options, each with its option.
    fn words(&self) -> Result<Vec<(&'static str, String)>> {
        let mut words = Vec::new();
        for word in Word::ALL {
            let name = word.name();
            let one = |value: &Option<String>| value.iter().cloned().collect();
            let (set, values): (bool, Vec<String>) = match word {
                Word::PerRank => (self.devices_per_rank.is_some(), Vec::new()),
                Word::Local => (self.local, Vec::new()),
                Word::Near => (self.near, Vec::new()),
                Word::Pack => (self.pack, Vec::new()),
                Word::Spread => (self.spread, Vec::new()),
                Word::Nodes => (false, one(&self.nodes)),
                Word::Label => (false, self.label.clone()),
                Word::On => (false, self.on.clone()),
                Word::Avoid => (false, self.avoid.clone()),
                Word::Limit => (false, one(&self.limit)),
                Word::Wait => (false, one(&self.wait)),
                Word::Priority => (false, one(&self.priority)),
                Word::Account => (false, one(&self.account)),
                Word::Reservation => (false, one(&self.reservation)),
            };
            if set {
                words.push((name, name.to_owned()));
            }
            for value in values {
                // It would be taken for several words.
                if value.contains(|letter: char| letter.is_whitespace() || letter == '+') {
                    return Err(Failure::usage(format!("--{name} {value:?} has a blank or a + in it: leave it out")));
                }
                words.push((name, format!("{name}={value}")));
            }
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        request: RequestArgs,
    }

    fn request(line: &[&str], variable: Option<&str>) -> Result<Option<String>> {
        let line = Line::try_parse_from([&["x"], line].concat()).unwrap();
        let lookup = |name: &str| variable.filter(|_| name == "ACCORD_DEVICES").map(str::to_owned);
        line.request.request(lookup).map(|request| request.map(|request| request.to_string()))
    }

    #[test]
    fn options_are_the_words_of_one_request() {
        let line = "--devices 4:nvidia/h200 --near --limit 2h --wait 30m --label rack=r1 --label net=ib --on a,b --on c \
                    --avoid d --priority -3 --account physics --nodes 2 --reservation course";
        let words: Vec<&str> = line.split_whitespace().collect();
        let expected = "4:nvidia/h200 near nodes=2 label=rack=r1 label=net=ib on=a,b,c avoid=d limit=2h wait=30m \
                        priority=-3 account=physics reservation=course";
        assert_eq!(request(&words, None).unwrap().as_deref(), Some(expected));
        for (option, text) in [("--local", "1 local"), ("--pack", "1 pack"), ("--spread", "1 spread")] {
            assert_eq!(request(&["--devices", "1", option], None).unwrap().as_deref(), Some(text));
        }
        let each = request(&["--devices-per-rank", "2:nvidia"], None).unwrap();
        assert_eq!(each.as_deref(), Some("2:nvidia per-rank"));
    }

    #[test]
    fn the_variable_counts_where_no_option_names_devices() {
        assert_eq!(request(&[], None).unwrap(), None);
        assert_eq!(request(&["--near"], Some("2:cpu")).unwrap().as_deref(), Some("2:cpu near"));
        assert_eq!(request(&["--devices", "3:cpu"], Some("2:cpu")).unwrap().as_deref(), Some("3:cpu"));
        let alone = request(&["--limit", "2h"], None).unwrap_err();
        assert!(alone.to_string().contains("--limit is about devices that --devices asks for"), "{alone}");
    }

    #[test]
    fn an_error_marks_the_word_of_an_option() {
        let error = request(&["--devices", "2:nvidia", "--limit", "2x"], None).unwrap_err();
        assert!(error.to_string().ends_with("\n  2:nvidia limit=2x\n                 ^^"), "{error}");
        assert_eq!(error.code(), 2);
        let blank = request(&["--devices", "2:nvidia", "--limit", "2h wait=1h"], None).unwrap_err();
        assert!(blank.to_string().contains("--limit"), "{blank}");
    }
}
