//! A parser of the PTX that the rewriting reads: lines as GCC's GPU compiler writes them, one instruction each.

/// A line of a function's body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Line<'a> {
    /// An empty line or a comment.
    Empty,
    /// A label such as `$L7:`.
    Label(&'a str),
    Instruction(Instruction<'a>),
    /// The declaration of a register.
    Register,
    /// A directive, a brace, or an unknown line.
    Other,
}

/// An instruction of the form `@ ! %r3 name a,b,c;`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Instruction<'a> {
    /// The predicate of the instruction, in either sense.
    pub(super) guard: Option<&'a str>,
    /// Whether the instruction is executed if the predicate is false.
    pub(super) unless: bool,
    pub(super) name: &'a str,
    pub(super) operands: Vec<&'a str>,
}

impl<'a> Line<'a> {
    pub(super) fn read(line: &'a str) -> Self {
        let code = code(line);
        if code.is_empty() {
            return Self::Empty;
        }
        if code.starts_with(".reg ") {
            return Self::Register;
        }
        if let Some(label) = code.strip_suffix(':').filter(|label| is_symbol(label)) {
            return Self::Label(label);
        }
        let Some(text) = code.strip_suffix(';').filter(|text| !text.contains(';')) else { return Self::Other };
        let (guard, text) = match text.strip_prefix('@').map(|guarded| guarded.trim_start_matches(['!', ' ', '\t'])) {
            Some(guarded) => match guarded.split_once(char::is_whitespace) {
                Some((guard, rest)) => (Some(guard), rest.trim_start()),
                None => return Self::Other,
            },
            None => (None, text),
        };
        let unless = guard.is_some() && code[1..].trim_start().starts_with('!');
        let (name, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Self::Other;
        }
        Self::Instruction(Instruction { guard, unless, name, operands: split(operands) })
    }

    pub(super) fn instruction(&self) -> Option<&Instruction<'a>> {
        match self {
            Self::Instruction(instruction) => Some(instruction),
            _ => None,
        }
    }
}

impl<'a> Instruction<'a> {
    /// Returns the target of a branch.
    pub(super) fn target(&self) -> Option<&'a str> {
        match (self.name, &self.operands[..]) {
            ("bra" | "bra.uni", [target]) => Some(target),
            _ => None,
        }
    }

    /// Returns the callee of a call: a function's name, or a register with its address.
    pub(super) fn called(&self) -> Option<&'a str> {
        let is_call = self.name == "call" || self.name.starts_with("call.");
        self.operands.iter().copied().find(|operand| is_call && !operand.starts_with('('))
    }

    /// Returns the register that the instruction writes, if its kind names that first.
    pub(super) fn written(&self) -> Option<&'a str> {
        self.operands.first().copied().filter(|first| is_register(first))
    }
}

/// Returns a line without its comment and surrounding space.
pub(super) fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code).trim()
}

/// Splits operands at commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0i32, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth -= 1,
            b',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() || !found.is_empty() {
        found.push(last);
    }
    found
}

fn is_symbol(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
}

/// Whether `text` is one of the compiler's numbered registers.
pub(super) fn is_register(text: &str) -> bool {
    text.strip_prefix("%r").is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether `code` contains `word` as a separate word.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%');
    code.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).is_some_and(|before| part(code.as_bytes()[before]));
        let after = code.as_bytes().get(at + word.len()).is_some_and(|&byte| part(byte));
        !before && !after
    })
}
