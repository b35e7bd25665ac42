//! Escaping of other processes' texts on terminals, in logs and on pages. Characters that a terminal obeys, or that
//! change how nearby text reads, are replaced by their numbers. Texts stay unchanged where programs read them.

use std::borrow::Cow;
use std::fmt;

/// Returns the text for display: control characters, line breaks, direction marks and zero-width characters become `\n`
/// or `\u{202e}`. An escaped text stays as it is.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut displayed = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_printable(c) {
            displayed.push(c);
        } else {
            displayed.extend(c.escape_default());
        }
    }
    Cow::Owned(displayed)
}

/// Returns a text of several lines for display, escaped as by [`printable`] except for its line breaks.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| c == '\n' || is_printable(c)) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(printable).collect();
    Cow::Owned(lines.join("\n"))
}

/// A formatter that escapes all that is written to it as [`printable_lines`] does.
pub(crate) struct PrintableLines<'a, 'b>(pub(crate) &'a mut fmt::Formatter<'b>);

impl fmt::Write for PrintableLines<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(&printable_lines(text))
    }
}

/// Whether a character is displayed as itself, and changes nothing around it.
fn is_printable(c: char) -> bool {
    let is_format = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let bad = "\u{1b}]0;owned\u{7}\u{1b}[2J\rroot\n\u{202e}gpj\u{9b}1m\u{7f}\u{2028}";
        let displayed = printable(bad);
        assert_eq!(displayed, "\\u{1b}]0;owned\\u{7}\\u{1b}[2J\\rroot\\n\\u{202e}gpj\\u{9b}1m\\u{7f}\\u{2028}");
        assert_eq!(printable(&displayed), displayed, "once is enough");
        for plain in ["", "app", "Gauß-Seidel 42 µs → 日本", "a\\b"] {
            assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
        }
        assert_eq!(printable_lines("one\ntwo"), "one\ntwo");
        assert_eq!(printable_lines("one\n\u{1b}[31mtwo\r"), "one\n\\u{1b}[31mtwo\\r");
    }

    #[test]
    fn each_mark_of_direction_is_shown() {
        for mark in
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}".chars()
        {
            assert!(printable(&mark.to_string()).starts_with("\\u{"), "{}", mark.escape_default());
        }
    }
}
