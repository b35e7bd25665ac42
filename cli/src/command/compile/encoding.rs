//! Sources in UTF-8 and in other encodings.

/// The encoding of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoding {
    Utf8,
    /// Each byte is a character, which suits any encoding that extends ASCII.
    Bytes,
}

impl Encoding {
    pub(super) fn decode(bytes: Vec<u8>) -> (String, Self) {
        match String::from_utf8(bytes) {
            Ok(text) => (text, Self::Utf8),
            Err(error) => (error.into_bytes().into_iter().map(char::from).collect(), Self::Bytes),
        }
    }

    /// Encodes a text. Characters beyond one byte, as in the source's name, are written as UTF-8.
    pub(super) fn encode(self, text: String) -> Vec<u8> {
        match self {
            Self::Utf8 => text.into_bytes(),
            Self::Bytes => {
                let mut buffer = [0; 4];
                text.chars()
                    .flat_map(|c| match u8::try_from(u32::from(c)) {
                        Ok(byte) => vec![byte],
                        Err(_) => c.encode_utf8(&mut buffer).as_bytes().to_vec(),
                    })
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_in_other_encodings_come_back_as_they_were() {
        for bytes in [b"/* \xfcber */\n".to_vec(), "/* über */\n".into()] {
            let (text, encoding) = Encoding::decode(bytes.clone());
            assert!(text.contains('ü'));
            assert_eq!(encoding.encode(text), bytes);
        }
    }
}
