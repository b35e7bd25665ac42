//! The checked-in inputs of each target as text, in `fuzz/corpus/TARGET.txt`. Bytes are written as in Rust's byte strings, with unescaped
//! quotes.
//!
//! ```text
//! # Inputs of `gateways`: see tests/README.md, Fuzzing.
//!
//! kept
//! \x00AGW1\x03
//!
//! found: a panic: index out of bounds
//! \x01
//! ```
//!
//! A line break is not part of an input. `--keep` replaces the `kept` inputs and leaves the `found` ones.

use crate::Target;
use std::fmt::Write;
use std::path::PathBuf;

/// Longest line, without its last byte.
const WIDTH: usize = 110;

/// The reason why an input is in the corpus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryReason {
    /// The input reaches code that the seeds do not reach.
    Rare,
    /// The decoder failed with this input once, with this message.
    Found(String),
}

/// An input of the corpus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CorpusEntry {
    /// The reason.
    pub why: EntryReason,
    /// The bytes.
    pub input: Vec<u8>,
}

/// Returns the path of a target's corpus file.
pub fn path(target: &Target) -> PathBuf {
    folder().join(format!("{}.txt", target.name))
}

/// Returns the folder of all corpus files.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Reads the corpus of a target. It is empty if there is no file.
///
/// # Errors
/// Returns a message if the file can't be read, or is malformed.
pub fn read(target: &Target) -> Result<Vec<CorpusEntry>, String> {
    let path = path(target);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    text.and_then(|text| parse(&text)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Replaces the corpus file of a target.
///
/// # Errors
/// Returns any error of writing the file.
pub fn write(target: &Target, kept: &[CorpusEntry]) -> std::io::Result<()> {
    let path = path(target);
    if kept.is_empty() {
        return if path.exists() { std::fs::remove_file(path) } else { Ok(()) };
    }
    std::fs::create_dir_all(folder())?;
    std::fs::write(path, text(target.name, kept))
}

/// Formats a corpus file.
pub fn text(name: &str, kept: &[CorpusEntry]) -> String {
    let mut text = format!("# Inputs of `{name}`: see tests/README.md, Fuzzing.\n");
    for CorpusEntry { why, input } in kept {
        text.push('\n');
        match why {
            EntryReason::Rare => text.push_str("kept"),
            // One line per input.
            EntryReason::Found(what) => {
                let _ = write!(text, "found: {}", what.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
        text.push('\n');
        let mut width = 0;
        for (at, byte) in input.iter().enumerate() {
            let last = at + 1 == input.len() || *byte == b'\n' || width >= WIDTH;
            let written = match *byte {
                // A trailing space is escaped.
                b' ' if last => "\\x20".to_owned(),
                b'\'' | b'"' => char::from(*byte).to_string(),
                _ => byte.escape_ascii().to_string(),
            };
            text.push_str(&written);
            width += written.len();
            if last {
                text.push('\n');
                width = 0;
            }
        }
    }
    text
}

/// Parses a corpus file.
///
/// # Errors
/// Returns a message with the first malformed line.
pub fn parse(text: &str) -> Result<Vec<CorpusEntry>, String> {
    let blocks = text.split("\n\n").filter(|block| !block.starts_with('#'));
    blocks.map(|block| block_of(block.trim_end_matches('\n'))).collect()
}

fn block_of(block: &str) -> Result<CorpusEntry, String> {
    let (head, body) = block.split_once('\n').unwrap_or((block, ""));
    let why = match (head, head.strip_prefix("found: ")) {
        ("kept", _) => EntryReason::Rare,
        (_, Some(what)) => EntryReason::Found(what.to_owned()),
        _ => return Err(format!("{head:?} says neither \"kept\" nor \"found: \" and what")),
    };
    let mut input = Vec::new();
    for line in body.lines() {
        let mut rest = line;
        while let Some(letter) = rest.chars().next() {
            let (byte, len) = if letter == '\\' { escaped(rest)? } else { (plain(letter)?, 1) };
            input.push(byte);
            rest = &rest[len..];
        }
    }
    Ok(CorpusEntry { why, input })
}

fn plain(letter: char) -> Result<u8, String> {
    let byte = u8::try_from(letter).ok().filter(|byte| (b' '..=b'~').contains(byte));
    byte.ok_or_else(|| format!("{letter:?} has to be written as \\x and two digits"))
}

/// Returns the byte of an escape sequence, and the sequence's length.
fn escaped(text: &str) -> Result<(u8, usize), String> {
    let wrong = || format!("no byte: {:?}", text.chars().take(4).collect::<String>());
    let byte = match text.as_bytes().get(1).ok_or_else(wrong)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'\\' => b'\\',
        b'x' => {
            let digits = text.get(2..4).ok_or_else(wrong)?;
            return Ok((u8::from_str_radix(digits, 16).map_err(|_| wrong())?, 4));
        }
        _ => return Err(wrong()),
    };
    Ok((byte, 2))
}
