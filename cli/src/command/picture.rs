//! Pictures in the binary PPM format.

/// A binary PPM (P6).
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Picture<'a> {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) pixels: &'a [u8],
}

impl<'a> Picture<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(b"P6")?;
        let width = number(&mut rest)?;
        let height = number(&mut rest)?;
        if number(&mut rest)? != 255 {
            return None;
        }
        // A single white-space character ends the header.
        let (_, pixels) = rest.split_first()?;
        let size = u64::from(width).checked_mul(u64::from(height))?.checked_mul(3)?;
        (width > 0 && height > 0 && pixels.len() as u64 == size).then_some(Self { width, height, pixels })
    }
}

/// Parses the next number of the header; a comment ends with its line.
fn number(rest: &mut &[u8]) -> Option<u32> {
    loop {
        match rest.first()? {
            b'#' => *rest = rest.get(rest.iter().position(|&byte| byte == b'\n')?..)?,
            byte if byte.is_ascii_whitespace() => *rest = rest.get(1..)?,
            _ => break,
        }
    }
    let length = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, after) = rest.split_at(length);
    *rest = after;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_with_comments_and_pixels_that_look_like_space() {
        let picture = Picture::parse(b"P6\n# made by hand\n2 1\n255\n\n  \t\t\t");
        assert_eq!(picture, Some(Picture { width: 2, height: 1, pixels: b"\n  \t\t\t" }));
    }

    #[test]
    fn damaged_pictures_are_refused() {
        for bad in
            [&b""[..], b"P5 1 1 255 x", b"P6 1 1 255 ab", b"P6 1 1 65535 abc", b"P6 0 0 255 ", b"P6 1 1 255 abcd"]
        {
            assert_eq!(Picture::parse(bad), None, "{bad:?}");
        }
    }
}
