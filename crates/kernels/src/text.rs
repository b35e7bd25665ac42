//! Functions for directives' text that respect strings and parentheses.

/// Returns the offset of the parenthesis that closes the first one of `text`, or the end if there is none.
pub fn closing(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in outside_of_strings(text) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// Splits at `separator` where no parenthesis, bracket or string is open.
pub fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    for (at, c) in outside_of_strings(text) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            c if c == separator && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// Returns the text up to a `!` that is in no string.
pub fn without_comment(text: &str) -> &str {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '!') => return &text[..at],
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    text
}

fn outside_of_strings(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let (mut quote, mut escaped) = (None, false);
    text.char_indices().filter(move |&(_, c)| match quote {
        Some(open) => {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == open {
                quote = None;
            }
            false
        }
        None if c == '"' || c == '\'' => {
            quote = Some(c);
            false
        }
        None => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_looks_at_depth() {
        assert_eq!(split("a[0:n], b(1,2), 'x,y'", ','), ["a[0:n]", "b(1,2)", "'x,y'"]);
        assert_eq!(split("devnum:n[a:b]:queues:1", ':'), ["devnum", "n[a:b]", "queues", "1"]);
    }

    #[test]
    fn parentheses_close_outside_of_strings() {
        assert_eq!(closing("(g(\")\")) if"), 7);
        assert_eq!(closing("(x"), 2);
    }

    #[test]
    fn comments_begin_outside_of_strings() {
        assert_eq!(without_comment("wait('!', \"'!\") ! so"), "wait('!', \"'!\") ");
    }
}
