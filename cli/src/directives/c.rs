//! Directives in C and C++: `#pragma acc` and `_Pragma("acc ...")`, outside of comments and strings.

use super::{Directive, Form};

/// Returns all directives of `source`, which may be preprocessed. `raw_strings` is set for C++.
pub(super) fn scan(source: &str, raw_strings: bool) -> Vec<Directive> {
    let mut scanner =
        Scanner { text: source.as_bytes(), at: 0, line: 1, shift: 0, file: None, raw_strings, found: Vec::new() };
    scanner.run();
    scanner.found
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The line of `at` in the text, from 1.
    line: u32,
    /// Offset of line numbers by a line marker.
    shift: i64,
    file: Option<String>,
    raw_strings: bool,
    found: Vec<Directive>,
}

impl Scanner<'_> {
    fn run(&mut self) {
        let mut fresh = true; // only blanks so far on this line
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' => {
                    self.step();
                    fresh = true;
                    continue;
                }
                b'#' if fresh && !self.defines() => self.preprocessor_line(),
                b'"' => self.quoted(b'"'),
                // A digit separator of C++14 begins no character literal.
                b'\'' if self.at > 0 && self.text[self.at - 1].is_ascii_hexdigit() && self.in_number() => self.step(),
                b'\'' => self.quoted(b'\''),
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => {
                    self.block_comment();
                    continue; // a comment is a blank
                }
                byte if is_word(byte) => self.word(),
                byte if byte.is_ascii_whitespace() => {
                    self.step();
                    continue;
                }
                b'\\' if self.continuation() > 0 => {
                    self.skip_continuation();
                    continue;
                }
                _ => self.step(),
            }
            fresh = false;
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn step(&mut self) {
        if self.peek(0) == Some(b'\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    /// Returns the length of a backslash with the line end after it; 0 if there is none here.
    fn continuation(&self) -> usize {
        match (self.peek(0), self.peek(1), self.peek(2)) {
            (Some(b'\\'), Some(b'\n'), _) => 2,
            (Some(b'\\'), Some(b'\r'), Some(b'\n')) => 3,
            _ => 0,
        }
    }

    fn skip_continuation(&mut self) {
        for _ in 0..self.continuation() {
            self.step();
        }
    }

    fn in_number(&self) -> bool {
        let start =
            self.text[..self.at].iter().rposition(|&byte| !is_word(byte) && byte != b'\'').map_or(0, |at| at + 1);
        self.text[start].is_ascii_digit()
    }

    fn line_comment(&mut self) {
        while let Some(byte) = self.peek(0) {
            if self.continuation() > 0 {
                self.skip_continuation();
            } else if byte == b'\n' {
                return;
            } else {
                self.step();
            }
        }
    }

    fn block_comment(&mut self) {
        self.at += 2;
        while self.at < self.text.len() {
            if self.peek(0) == Some(b'*') && self.peek(1) == Some(b'/') {
                self.at += 2;
                return;
            }
            self.step();
        }
    }

    /// Skips a string or character literal; an unterminated one ends with its line.
    fn quoted(&mut self, quote: u8) {
        self.step();
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' if self.continuation() > 0 => self.skip_continuation(),
                b'\\' => self.at += 2,
                b'\n' => return,
                _ => {
                    self.step();
                    if byte == quote {
                        return;
                    }
                }
            }
        }
    }

    fn raw_string(&mut self) {
        let start = self.at + 1;
        let Some(open) = self.text[start..].iter().take(17).position(|&byte| byte == b'(') else { return self.step() };
        let mut end = vec![b')'];
        end.extend_from_slice(&self.text[start..start + open]);
        end.push(b'"');
        let body = start + open + 1;
        let length = self.text[body..].windows(end.len()).position(|window| window == end);
        let stop = length.map_or(self.text.len(), |length| body + length + end.len());
        while self.at < stop {
            self.step();
        }
    }

    fn word(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(is_word) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        if self.raw_strings && self.peek(0) == Some(b'"') && matches!(word, b"R" | b"LR" | b"uR" | b"UR" | b"u8R") {
            self.raw_string();
        } else if word == b"_Pragma" || word == b"__pragma" {
            self.operator(start);
        }
    }

    /// Reads `_Pragma ( "..." )`, from after the word.
    fn operator(&mut self, start: usize) {
        let (line, mut at) = (self.line, self.at);
        let skip = |mut at: usize| {
            while self.text.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'\\') {
                at += 1;
            }
            at
        };
        at = skip(at);
        if self.text.get(at) != Some(&b'(') {
            return;
        }
        at = skip(at + 1);
        if self.text.get(at) != Some(&b'"') {
            return;
        }
        let mut inner = Vec::new();
        at += 1;
        while let Some(&byte) = self.text.get(at) {
            match byte {
                b'"' | b'\n' => break,
                b'\\' if matches!(self.text.get(at + 1), Some(b'"' | b'\\')) => {
                    inner.push(self.text[at + 1]);
                    at += 2;
                }
                _ => {
                    inner.push(byte);
                    at += 1;
                }
            }
        }
        at = skip((at + 1).min(self.text.len()));
        if self.text.get(at) == Some(&b')') {
            at += 1;
            self.keep(&String::from_utf8_lossy(&inner), line, start..at, Form::Operator);
        }
        while self.at < at {
            self.step();
        }
    }

    /// Whether a macro definition begins here; its replacement is scanned like any text.
    fn defines(&self) -> bool {
        let rest = self.text[self.at + 1..].trim_ascii_start();
        rest.strip_prefix(b"define").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))
    }

    /// Skips a whole preprocessor line, with its continuation.
    fn preprocessor_line(&mut self) {
        let (start, line) = (self.at, self.line);
        let mut text = Vec::new();
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' => break,
                b'\\' if self.continuation() > 0 => {
                    self.skip_continuation();
                    text.push(b' ');
                }
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => {
                    self.block_comment();
                    text.push(b' ');
                }
                b'"' | b'\'' => {
                    let from = self.at;
                    self.quoted(byte);
                    text.extend_from_slice(&self.text[from..self.at.min(self.text.len())]);
                }
                _ => {
                    text.push(byte);
                    self.step();
                }
            }
        }
        self.at = self.at.min(self.text.len());
        let text = String::from_utf8_lossy(&text[1..]).trim().to_owned();
        let (name, rest) = split_word(&text);
        match name {
            "pragma" => self.keep(rest, line, start..self.at, Form::Line),
            "line" => self.marker(rest, line),
            _ if name.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => self.marker(&text, line),
            _ => {}
        }
    }

    /// Handles `12 "file.c"`: the next line is line 12 of that file.
    fn marker(&mut self, text: &str, line: u32) {
        let (number, rest) = split_word(text);
        let Ok(number) = number.parse::<i64>() else { return };
        self.shift = number - i64::from(line) - 1;
        if let Some(name) = rest.strip_prefix('"').and_then(|rest| rest.split('"').next()) {
            self.file = Some(name.to_owned());
        }
    }

    fn displayed(&self, line: u32) -> u32 {
        u32::try_from(i64::from(line) + self.shift).unwrap_or(line)
    }

    fn keep(&mut self, text: &str, line: u32, place: std::ops::Range<usize>, form: Form) {
        let (first, rest) = split_word(text);
        if first == "acc" {
            let text = rest.split_whitespace().collect::<Vec<_>>().join(" ");
            self.found.push(Directive { text, file: self.file.clone(), line: self.displayed(line), place, form });
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Splits a text after its first word.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(u32, String)> {
        scan(source, true).into_iter().map(|directive| (directive.line, directive.text)).collect()
    }

    fn one(line: u32, text: &str) -> Vec<(u32, String)> {
        vec![(line, text.to_owned())]
    }

    #[test]
    fn lines_may_be_continued_and_commented() {
        assert_eq!(found("int x;\n#pragma acc set device_num(1)\n"), one(2, "set device_num(1)"));
        assert_eq!(found("  #  pragma  acc  wait( 1 ) \\\n  async(2) // more\n;"), one(1, "wait( 1 ) async(2)"));
        assert_eq!(found("#pragma acc set /* a\nb */ device_num(1)\n"), one(1, "set device_num(1)"));
        assert_eq!(found("/* c */ #pragma acc init\r\n"), one(1, "init"));
        assert_eq!(found("#pragma \\\n acc \\\r\n init"), one(1, "init"));
    }

    #[test]
    fn comments_and_strings_have_none() {
        for none in [
            "// #pragma acc init\n",
            "// x \\\n#pragma acc init\n",
            "/*\n#pragma acc init\n*/",
            "char *s = \"\\\n#pragma acc init\\\n\";",
            "auto s = R\"x(\n#pragma acc init\n)\" \n)x\";",
            "int y; #pragma acc init\n",
            "#pragma omp parallel\n",
            "#pragma account\n",
            "char c = '\"'; // _Pragma(\"acc init\")\n",
            "const char *p = \"_Pragma(\\\"acc init\\\")\";",
        ] {
            assert_eq!(found(none), [], "{none}");
        }
    }

    #[test]
    fn odd_quotes_do_not_hide_what_follows() {
        assert_eq!(found("int n = 1'000'000;\n#pragma acc init\n"), one(2, "init"));
        assert_eq!(found("char c = '\\'';\n#pragma acc init\n"), one(2, "init"));
        assert_eq!(found("#error don't\n#pragma acc init\n"), one(2, "init"));
        assert_eq!(found("char *s = \"a\\\\\";\n#pragma acc init"), one(2, "init"));
    }

    #[test]
    fn operators_count_also_in_macros() {
        assert_eq!(found("void f() { _Pragma(\"acc set device_num(1)\") g(\"x\"); }"), one(1, "set device_num(1)"));
        assert_eq!(found("_Pragma ( \"acc wait(q[\\\"a\\\"[0]])\" )"), one(1, "wait(q[\"a\"[0]])"));
        assert_eq!(found("\n#define INIT \\\n  _Pragma(\"acc init\") \\\n  x\n"), one(3, "init"));
        assert_eq!(found("#define TEXT \\\n#pragma acc init\n"), []);
        let source = "a _Pragma(\"acc init\") b";
        assert_eq!(&source[scan(source, false)[0].place.clone()], "_Pragma(\"acc init\")");
    }

    #[test]
    fn line_markers_name_file_and_line() {
        let source = "# 1 \"a.c\"\n\n# 40 \"b.h\" 1 3\n\n#pragma acc init\n#line 7 \"c.c\"\n#pragma acc shutdown\n";
        let all = scan(source, false);
        assert_eq!((all[0].file.as_deref(), all[0].line), (Some("b.h"), 41));
        assert_eq!((all[1].file.as_deref(), all[1].line), (Some("c.c"), 7));
        assert_eq!(&source[all[1].place.clone()], "#pragma acc shutdown");
    }
}
