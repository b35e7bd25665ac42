//! Parses the generic form. Its grammar is the same for every dialect; types and attributes only need balanced
//! brackets.

use super::text::balanced;
use super::tree::{Attributes, Block, Module, Op, Region};
use std::fmt;

/// Text that is not MLIR's generic form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    /// The line of the text.
    pub line: usize,
    /// The token that the grammar requires there.
    pub wanted: String,
    /// The token that is there.
    pub found: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} of the intermediate representation: expected {}, found {:?}",
            self.line, self.wanted, self.found
        )
    }
}

/// Parses a module.
///
/// # Errors
/// Returns the first place where the text violates the grammar.
pub fn module(text: &str) -> Result<Module, SyntaxError> {
    let mut parser = Parser { text, at: 0 };
    let mut module = Module::default();
    let mut seen = false;
    loop {
        parser.space();
        if parser.rest().is_empty() {
            break;
        }
        if parser.rest().starts_with(['#', '!']) {
            module.aliases.push(parser.alias()?);
        } else if seen {
            return parser.error("the end of the text");
        } else {
            module.op = parser.op()?;
            seen = true;
        }
    }
    if !seen {
        return parser.error("an operation");
    }
    Ok(module)
}

/// Parses a sequence of operations.
pub(crate) fn operations(text: &str) -> Result<Vec<Op>, SyntaxError> {
    let mut parser = Parser { text, at: 0 };
    let mut ops = Vec::new();
    loop {
        parser.space();
        if parser.rest().is_empty() {
            return Ok(ops);
        }
        ops.push(parser.op()?);
    }
}

type Parsed<T> = Result<T, SyntaxError>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn error<T>(&self, wanted: &str) -> Parsed<T> {
        let at = self.at.min(self.text.len());
        let line = self.text[..at].bytes().filter(|byte| *byte == b'\n').count() + 1;
        let found = self.rest().lines().next().unwrap_or("").chars().take(40).collect();
        Err(SyntaxError { line, wanted: wanted.to_owned(), found })
    }

    /// Skips white space and comments.
    fn space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn want(&mut self, token: &str) -> Parsed<()> {
        if self.take(token) { Ok(()) } else { self.error(&format!("`{token}`")) }
    }

    /// Returns a value, a label or a bare key.
    fn word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "%^_$.-#".contains(c))).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Returns raw text up to a comma or closing bracket of the surrounding list.
    fn raw(&mut self, ends: impl Fn(u8) -> bool) -> &'a str {
        self.space();
        let rest = self.rest();
        let end = balanced(rest, ends);
        self.at += end;
        rest[..end].trim_end()
    }

    fn alias(&mut self) -> Parsed<(String, String)> {
        let rest = self.rest();
        let line = rest.lines().next().unwrap_or("");
        let Some((name, value)) = line.split_once(" = ") else { return self.error("the definition of an alias") };
        self.at += line.len();
        Ok((name.to_owned(), value.trim_end().to_owned()))
    }

    fn string(&mut self) -> Parsed<&'a str> {
        self.want("\"")?;
        let rest = self.rest();
        let Some(end) = rest.find('"') else { return self.error("the end of a string") };
        self.at += end + 1;
        Ok(&rest[..end])
    }

    fn op(&mut self) -> Parsed<Op> {
        let mut op = Op::default();
        self.space();
        if self.rest().starts_with('%') {
            let name = self.word();
            let mut results = name.to_owned();
            if self.take(":") {
                results = format!("{results}:{}", self.word());
            }
            op.results = Some(results);
            self.want("=")?;
        }
        op.name = self.string()?.to_owned();
        self.want("(")?;
        while !self.take(")") {
            op.operands.push(self.word().to_owned());
            if !self.take(",") && !self.rest().starts_with(')') {
                return self.error("`,` or `)` after an operand");
            }
        }
        if self.take("[") {
            while !self.take("]") {
                op.successors.push(self.word().to_owned());
                if !self.take(",") && !self.rest().starts_with(']') {
                    return self.error("`,` or `]` after a successor");
                }
            }
        }
        if self.take("<{") {
            op.properties = self.attributes()?;
            self.want(">")?;
        }
        if self.take("({") {
            loop {
                op.regions.push(self.region()?);
                if !self.take(", {") {
                    break;
                }
            }
            self.want(")")?;
        }
        if self.take("{") {
            op.attributes = self.attributes()?;
        }
        self.want(":")?;
        self.want("(")?;
        op.operand_types = self.types()?;
        self.want("->")?;
        if self.take("(") {
            op.result_types = self.types()?;
        } else {
            let rest = self.rest();
            let end = balanced(rest, |byte| byte == b' ' || byte == b'\n');
            op.result_types = vec![rest[..end].trim().to_owned()];
            self.at += end;
        }
        op.location = self.location()?;
        Ok(op)
    }

    /// Parses `loc(...)`, if it follows.
    fn location(&mut self) -> Parsed<String> {
        if !self.take("loc(") {
            return Ok(String::new());
        }
        let location = self.raw(|_| false).to_owned();
        self.want(")")?;
        Ok(location)
    }

    /// Parses the rest of a list of types, with its `)`.
    fn types(&mut self) -> Parsed<Vec<String>> {
        let mut types = Vec::new();
        while !self.take(")") {
            types.push(self.raw(|byte| byte == b',').to_owned());
            if !self.take(",") && !self.rest().starts_with(')') {
                return self.error("`,` or `)` after a type");
            }
        }
        Ok(types)
    }

    /// Parses the rest of a dictionary, with its `}`.
    fn attributes(&mut self) -> Parsed<Attributes> {
        let mut all = Vec::new();
        while !self.take("}") {
            let key =
                if self.rest().starts_with('"') { format!("\"{}\"", self.string()?) } else { self.word().to_owned() };
            if key.is_empty() {
                return self.error("the name of an attribute");
            }
            let value = self.take("=").then(|| self.raw(|byte| byte == b',').to_owned());
            all.push((key, value));
            if !self.take(",") && !self.rest().starts_with('}') {
                return self.error("`,` or `}` after an attribute");
            }
        }
        Ok(Attributes(all))
    }

    /// Parses the rest of a region, with its `}`.
    fn region(&mut self) -> Parsed<Region> {
        let mut blocks = Region::new();
        loop {
            self.space();
            if self.take("}") {
                return Ok(blocks);
            }
            if self.rest().starts_with('^') {
                let label = self.word().to_owned();
                let mut arguments = Vec::new();
                if self.take("(") {
                    while !self.take(")") {
                        let name = self.word().to_owned();
                        self.want(":")?;
                        let raw = self.raw(|byte| byte == b',');
                        let kind = raw.split_once(" loc(").map_or(raw, |(kind, _)| kind);
                        arguments.push((name, kind.to_owned()));
                        if !self.take(",") && !self.rest().starts_with(')') {
                            return self.error("`,` or `)` after an argument");
                        }
                    }
                }
                self.want(":")?;
                blocks.push(Block { label: Some(label), arguments, ops: Vec::new() });
                continue;
            }
            if blocks.is_empty() {
                blocks.push(Block::default());
            }
            let op = self.op()?;
            if let Some(block) = blocks.last_mut() {
                block.ops.push(op);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"#loc1 = loc("a b.cuf":5:1)
"builtin.module"() ({
  "func.func"() <{function_type = (i32) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: !fir.ref<!fir.array<?x?xf32>> loc("a b.cuf":5:1), %arg1: i32 loc(#loc1)):
    %0:2 = "x.two"(%arg0, %arg1) {"dlti.x" = "}\"", unit, y = array<i32: 1, 0>} : (!fir.ref<!fir.array<?x?xf32>>, i32) -> (i32, index) loc(#loc1)
    %1 = "fir.address_of"() <{symbol = @k}> : () -> ((i32) -> ()) loc(#loc1)
    "cf.cond_br"(%0#1)[^bb1, ^bb2] : (index) -> () loc(#loc1)
  ^bb1:
    "x.if"(%arg1) ({
      "x.a"() : () -> ()
    }, {
    }) : (i32) -> () loc(#loc1)
  ^bb2:
    "func.return"() : () -> () loc(#loc1)
  }) {fir.bindc_name = "P"} : () -> () loc(#loc1)
}) : () -> () loc(#loc1)
"##;

    #[test]
    fn printing_gives_what_was_read() {
        let read = module(TEXT).unwrap();
        let again = module(&read.to_string()).unwrap();
        assert_eq!(read, again);
        let function = &read.op.regions[0][0].ops[0];
        assert_eq!(function.symbol(), Some("k"));
        assert_eq!(function.regions[0].len(), 3);
        assert_eq!(
            function.regions[0][0].arguments[0],
            ("%arg0".to_owned(), "!fir.ref<!fir.array<?x?xf32>>".to_owned())
        );
        let two = &function.regions[0][0].ops[0];
        assert_eq!((two.result(), two.result_types.len()), (Some("%0:2"), 2));
        assert_eq!(two.attributes.get("\"dlti.x\""), Some(r#""}\"""#));
        assert_eq!(function.regions[0][0].ops[1].result_types, ["(i32) -> ()"]);
        assert_eq!(function.regions[0][0].ops[2].successors, ["^bb1", "^bb2"]);
        assert_eq!(function.regions[0][1].ops[0].regions.len(), 2);
    }

    #[test]
    fn errors_name_the_line() {
        let error = module("\"a\"() ({\n  \"b\"(%1 : i32\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(module("").is_err() && module("\"a\"() : () -> ()\n\"b\"() : () -> ()").is_err());
    }
}
