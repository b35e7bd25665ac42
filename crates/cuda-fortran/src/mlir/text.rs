//! Scanning of brackets and strings.

/// Returns the length of `text` up to a byte outside of brackets and strings that `ends` accepts, or up to an unmatched
/// closing bracket.
pub(super) fn balanced(text: &str, ends: impl Fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0usize);
    while at < bytes.len() {
        let byte = bytes[at];
        if depth == 0 && ends(byte) {
            return at;
        }
        match byte {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'-' if bytes.get(at + 1) == Some(&b'>') => at += 1,
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => match depth {
                0 => return at,
                _ => depth -= 1,
            },
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Splits a list at commas outside of brackets and strings.
pub(crate) fn split_list(text: &str) -> Vec<String> {
    let mut rest = text;
    let mut parts = Vec::new();
    while !rest.trim().is_empty() {
        let end = balanced(rest, |byte| byte == b',');
        parts.push(rest[..end].trim().to_owned());
        rest = rest.get(end + 1..).unwrap_or("");
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_and_strings_separate_nothing() {
        assert_eq!(split_list("{a = \",\"}, (i32) -> f32, !x<y, z>"), ["{a = \",\"}", "(i32) -> f32", "!x<y, z>"]);
        assert!(split_list(" ").is_empty());
    }
}
