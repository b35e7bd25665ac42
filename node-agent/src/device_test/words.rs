//! The texts between an agent and the process that tests a device.

use accord_types::DeviceVerdict;
use accord_types::texts::{WORDS_MAX, cut};

/// The name of a CPU device. A GPU's name is its UUID.
pub(super) const CPU: &str = "cpu";

/// Returns a verdict as a line of text.
pub(super) fn write(verdict: &DeviceVerdict) -> String {
    let (word, why) = match verdict {
        DeviceVerdict::Works => ("works", ""),
        DeviceVerdict::Faulty(why) => ("faulty", why.as_str()),
        DeviceVerdict::Unknown(why) => ("unknown", why.as_str()),
    };
    format!("{word} {}\n", cut(&why.replace('\n', " "), WORDS_MAX))
}

/// Parses the output of [`write`]; `None` if it is incomplete.
pub(super) fn read(text: &str) -> Option<DeviceVerdict> {
    let (word, why) = text.strip_suffix('\n')?.split_once(' ')?;
    match word {
        "works" => Some(DeviceVerdict::Works),
        "faulty" => Some(DeviceVerdict::Faulty(why.to_owned())),
        "unknown" => Some(DeviceVerdict::Unknown(why.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_as_it_was_written_and_only_whole() {
        let all = [
            DeviceVerdict::Works,
            DeviceVerdict::Faulty("a test shows an illegal address (CUDA error 700)".to_owned()),
            DeviceVerdict::Unknown("no memory is left".to_owned()),
        ];
        for verdict in all {
            let text = write(&verdict);
            assert_eq!(read(&text), Some(verdict));
            assert!((0..text.len()).all(|end| read(&text[..end]).is_none()), "{text}");
        }
        assert_eq!(read("faulty a\nb\n"), Some(DeviceVerdict::Faulty("a\nb".to_owned())));
        assert_eq!(write(&DeviceVerdict::Faulty("a\nb".to_owned())), "faulty a b\n");
    }
}
