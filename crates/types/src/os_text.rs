//! Paths, arguments and variables of the system as texts. They may hold any bytes, while messages between processes
//! hold UTF-8.
//!
//! A byte outside of UTF-8 becomes a character of a range that no file uses. If a text already holds such a character,
//! the character's bytes are encoded in the same way. So [`decode`] restores exactly the input of [`encode`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The character for byte 0; the others follow. They are at the end of Unicode's last private plane.
const FIRST: u32 = 0x0010_fe00;

/// Encodes the system's bytes as a text.
pub fn encode(bytes: &OsStr) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if byte_of(character).is_some() {
                text.extend(character.encode_utf8(&mut [0; 4]).bytes().map(character_of));
            } else {
                text.push(character);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(character_of));
    }
    text
}

/// Restores the bytes that [`encode`] encoded.
pub fn decode(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(character.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    OsString::from_vec(bytes)
}

/// Returns an encoded text for display: bytes outside of UTF-8 as `\xE9`.
pub fn displayed(text: &str) -> String {
    let mut displayed = String::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => displayed.push_str(&format!("\\x{byte:02X}")),
            None => displayed.push(character),
        }
    }
    displayed
}

fn character_of(byte: u8) -> char {
    char::from_u32(FIRST + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn byte_of(character: char) -> Option<u8> {
    u32::from(character).checked_sub(FIRST).and_then(|byte| u8::try_from(byte).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn utf8_stays_as_it_is() {
        let path = "/tmp/größe/\u{1f980}";
        assert_eq!((encode(OsStr::new(path)).as_str(), displayed(path).as_str()), (path, path));
    }

    #[test]
    fn other_bytes_are_shown_in_hex() {
        assert_eq!(displayed(&encode(OsStr::from_bytes(b"/tmp/gr\xf6\xdfe"))), "/tmp/gr\\xF6\\xDFe");
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(OsStr::from_bytes(&bytes))).into_vec(), bytes);
        }

        #[test]
        fn texts_come_back_that_hold_the_characters_in_use(text in "[a\u{10fe00}-\u{10feff}\u{10ff00}]*") {
            prop_assert_eq!(decode(&encode(OsStr::new(&text))), OsString::from(text));
        }
    }
}
