//! The load of a device by all programs of its machine.

use std::fmt;
use std::str::FromStr;

/// The present load of a device by all programs of its machine, those outside of Accord included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceLoad {
    /// Utilization in percent; `None` if unknown.
    pub busy_percent: Option<u32>,
    /// Bytes of its memory that programs have allocated; `None` if unknown.
    pub memory_used: Option<u64>,
}

/// `PERCENT BYTES`, with `-` for what is unknown.
impl fmt::Display for DeviceLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.busy_percent {
            Some(percent) => write!(f, "{percent} ")?,
            None => f.write_str("- ")?,
        }
        match self.memory_used {
            Some(bytes) => write!(f, "{bytes}"),
            None => f.write_str("-"),
        }
    }
}

impl FromStr for DeviceLoad {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        fn number<T: FromStr>(text: &str) -> Result<Option<T>, ()> {
            if text == "-" { Ok(None) } else { text.parse().map(Some).map_err(|_| ()) }
        }
        let (percent, bytes) = text.split_once(' ').ok_or(())?;
        let busy_percent = number::<u32>(percent)?.map(|percent| percent.min(100));
        Ok(Self { busy_percent, memory_used: number(bytes)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_as_they_are_written() {
        for load in [
            DeviceLoad::default(),
            DeviceLoad { busy_percent: Some(97), memory_used: Some(71 << 30) },
            DeviceLoad { busy_percent: None, memory_used: Some(0) },
        ] {
            assert_eq!(load.to_string().parse(), Ok(load));
        }
        assert_eq!("250 1".parse::<DeviceLoad>().unwrap().busy_percent, Some(100));
        for bad in ["", "1", "1 2 3", "x 1", "1 -1"] {
            assert_eq!(bad.parse::<DeviceLoad>(), Err(()), "{bad}");
        }
    }
}
