//! FIR's types, as far as the passes distinguish them.

/// Whether the type is a number, a logical or an index, which are passed by value.
pub(super) fn is_scalar(kind: &str) -> bool {
    let plain = |text: &str| text.len() > 1 && text[1..].bytes().all(|byte| byte.is_ascii_digit());
    match kind.as_bytes() {
        [b'i' | b'f', ..] if plain(kind) => true,
        _ => kind == "index" || kind == "bf16" || kind.starts_with("!fir.logical<") || kind.starts_with("complex<"),
    }
}

/// Whether the type is a memory address.
pub(super) fn is_address(kind: &str) -> bool {
    ["!fir.ref<", "!fir.ptr<", "!fir.heap<", "!fir.llvm_ptr<"].iter().any(|start| kind.starts_with(start))
        || kind == "!llvm.ptr"
}

/// Whether the type is an array's descriptor.
pub(super) fn is_box(kind: &str) -> bool {
    kind.starts_with("!fir.box<") || kind.starts_with("!fir.class<")
}

/// Returns the type that `!fir.ref<...>` refers to.
pub(super) fn referred(kind: &str) -> Option<&str> {
    kind.strip_prefix("!fir.ref<")?.strip_suffix('>')
}

/// Returns the size of a scalar in bytes.
pub(super) fn size(kind: &str) -> Option<usize> {
    if let Some(part) = kind.strip_prefix("complex<") {
        return size(part.trim_end_matches('>')).map(|size| 2 * size);
    }
    if let Some(bytes) = kind.strip_prefix("!fir.logical<") {
        return bytes.trim_end_matches('>').parse().ok();
    }
    match kind {
        "index" => Some(8),
        "bf16" => Some(2),
        "i1" => Some(1),
        _ if is_scalar(kind) => kind[1..].parse::<usize>().ok().map(|bits| bits / 8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_apart() {
        assert!(is_scalar("i32") && is_scalar("f64") && is_scalar("!fir.logical<4>") && is_scalar("index"));
        assert!(!is_scalar("!fir.ref<i32>") && !is_scalar("i") && !is_scalar("!fir.shape<1>"));
        assert!(is_address("!fir.heap<!fir.array<?xf32>>") && !is_address("!fir.box<f32>"));
        assert_eq!(referred("!fir.ref<!fir.box<!fir.heap<f32>>>"), Some("!fir.box<!fir.heap<f32>>"));
        assert_eq!(
            [size("complex<f64>"), size("!fir.logical<1>"), size("i1"), size("!fir.type<x>")],
            [Some(16), Some(1), Some(1), None]
        );
    }
}
