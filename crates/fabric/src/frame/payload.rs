//! Structured payloads: positions, texts, spans.

use crate::ProgramSpec;
use accord_types::{
    Error, ErrorCode, FunctionSpec, GlobalSpec, ImageId, ImageRef, ObjectSpec, QueueId, Result, Seq, Span, SpanKind,
};

/// Most texts in one payload.
const STRINGS_MAX: usize = 4096;
/// Bytes of a position.
pub const POSITION_LEN: usize = 16;
const SPAN_LEN: usize = 40;

/// A position in a queue of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Ordinal of the device.
    pub device: u32,
    /// The queue.
    pub queue: QueueId,
    /// The operation's number in the queue.
    pub seq: Seq,
}

impl Position {
    /// Encodes the position for a payload.
    pub fn encode(self) -> [u8; POSITION_LEN] {
        let mut bytes = [0; POSITION_LEN];
        bytes[..4].copy_from_slice(&self.device.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.queue.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.seq.0.to_le_bytes());
        bytes
    }
}

/// Appends a position to a payload.
pub fn put_position(payload: &mut impl Extend<u8>, position: Position) {
    payload.extend(position.encode());
}

/// Returns the positions in a payload.
///
/// # Errors
/// Returns `acc_error_implementation_defined` if the payload's length is not a multiple of a position's.
pub fn positions(payload: &[u8]) -> Result<impl Iterator<Item = Position> + Clone + '_> {
    if !payload.len().is_multiple_of(POSITION_LEN) {
        return Err(malformed("a payload of positions"));
    }
    Ok(payload.chunks_exact(POSITION_LEN).map(|bytes| Position {
        device: u32_at(bytes, 0),
        queue: QueueId(u32_at(bytes, 4)),
        seq: Seq(u64_at(bytes, 8)),
    }))
}

/// Appends texts to a payload: each its length in 4 bytes, then its bytes.
fn encode_strings<'a>(payload: &mut Vec<u8>, strings: impl IntoIterator<Item = &'a str>) {
    for string in strings {
        let len = u32::try_from(string.len()).unwrap_or(u32::MAX);
        payload.extend_from_slice(&len.to_le_bytes());
        payload.extend_from_slice(&string.as_bytes()[..len as usize]);
    }
}

/// Returns the texts in a payload.
///
/// # Errors
/// Returns `acc_error_implementation_defined` if the texts are cut short, too many or not UTF-8.
fn decode_strings(mut payload: &[u8]) -> Result<Vec<String>> {
    let mut strings = Vec::new();
    while !payload.is_empty() {
        let (len, rest) = payload.split_at_checked(4).ok_or_else(|| malformed("a text"))?;
        let (text, rest) = rest.split_at_checked(u32_at(len, 0) as usize).ok_or_else(|| malformed("a text"))?;
        let text = std::str::from_utf8(text).map_err(|_| malformed("a text"))?;
        if strings.len() == STRINGS_MAX {
            return Err(malformed("a list of texts"));
        }
        strings.push(text.to_owned());
        payload = rest;
    }
    Ok(strings)
}

/// Appends the texts of a function to the payload of [`super::Command::Function`].
pub fn encode_function(payload: &mut Vec<u8>, spec: &FunctionSpec) {
    let image = image_text(spec.kernel);
    encode_strings(payload, [&*spec.object.path, &*spec.object.build_id, &*spec.name, &*image]);
}

/// Decodes the payload of [`super::Command::Function`]; the record holds numbers and flags.
///
/// # Errors
/// Returns `acc_error_implementation_defined` if texts are missing or malformed.
pub fn decode_function(payload: &[u8], offset: u64, executable: bool) -> Result<FunctionSpec> {
    let mut strings = decode_strings(payload)?.into_iter();
    let mut next = || strings.next().ok_or_else(|| malformed("a function"));
    let object = ObjectSpec { path: next()?, build_id: next()?, executable };
    Ok(FunctionSpec { object, offset, name: next()?, kernel: image_ref(&next()?)? })
}

/// Appends the texts of a variable to the payload of [`super::Command::Global`].
pub fn encode_global(payload: &mut Vec<u8>, spec: &GlobalSpec) {
    let image = image_text(spec.variable);
    encode_strings(payload, [&*spec.object.path, &*spec.object.build_id, &*image]);
}

/// Decodes the payload of [`super::Command::Global`]; the record holds numbers and flags.
///
/// # Errors
/// Returns `acc_error_implementation_defined` if texts are missing or malformed.
pub fn decode_global(payload: &[u8], offset: u64, len: u64, executable: bool) -> Result<GlobalSpec> {
    let mut strings = decode_strings(payload)?.into_iter();
    let mut next = || strings.next().ok_or_else(|| malformed("a variable"));
    let object = ObjectSpec { path: next()?, build_id: next()?, executable };
    Ok(GlobalSpec { object, offset, len, variable: image_ref(&next()?)? })
}

/// Formats `HASH:INDEX`, or an empty text for `None`.
fn image_text(image: Option<ImageRef>) -> String {
    let Some(ImageRef { image, index }) = image else { return String::new() };
    let mut text: String = image.0.iter().map(|byte| format!("{byte:02x}")).collect();
    text.push_str(&format!(":{index}"));
    text
}

fn image_ref(text: &str) -> Result<Option<ImageRef>> {
    if text.is_empty() {
        return Ok(None);
    }
    let parse = || {
        let (hash, index) = text.split_once(':')?;
        let digits = hash.as_bytes();
        let mut id = [0; 32];
        if digits.len() != 2 * id.len() {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(ImageRef { image: ImageId(id), index: index.parse().ok()? })
    };
    parse().map(Some).ok_or_else(|| malformed("an image's name"))
}

/// Appends the texts of a program to the payload of [`super::Command::Start`].
pub fn encode_program(payload: &mut Vec<u8>, program: &ProgramSpec) {
    let fixed = [&program.exe, &program.build_id, &program.argv0, &program.cwd];
    encode_strings(payload, fixed.into_iter().chain(&program.env).map(String::as_str));
}

/// Decodes the payload of [`super::Command::Start`]; the record holds numbers and flags.
///
/// # Errors
/// Returns `acc_error_implementation_defined` if texts are missing or malformed.
pub fn decode_program(payload: &[u8]) -> Result<ProgramSpec> {
    let mut strings = decode_strings(payload)?.into_iter();
    let mut next = || strings.next().ok_or_else(|| malformed("a program"));
    Ok(ProgramSpec {
        exe: next()?,
        build_id: next()?,
        argv0: next()?,
        cwd: next()?,
        env: strings.collect(),
        ..ProgramSpec::default()
    })
}

/// A span with its device's ordinal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpanRecord {
    /// The device on its node.
    pub device: u32,
    /// The queue.
    pub queue: QueueId,
    /// The kind of operation.
    pub kind: SpanKind,
    /// The region's name; empty for copies.
    pub name: String,
    /// Bytes moved.
    pub bytes: u64,
    /// Start in the node's clock, in nanoseconds.
    pub start_ns: u64,
    /// End in the node's clock, in nanoseconds.
    pub end_ns: u64,
}

/// Appends a span to the payload of [`super::Event::Spans`].
pub fn encode_span(payload: &mut Vec<u8>, span: &Span) {
    let kind = SpanKind::ALL.iter().position(|&kind| kind == span.kind).unwrap_or_default();
    let mut end = span.name.len().min(usize::from(u16::MAX));
    while !span.name.is_char_boundary(end) {
        end -= 1;
    }
    payload.extend_from_slice(&span.device.ordinal.to_le_bytes());
    payload.extend_from_slice(&span.queue.0.to_le_bytes());
    payload.extend_from_slice(&u32::try_from(kind).unwrap_or_default().to_le_bytes());
    payload.extend_from_slice(&u32::try_from(end).unwrap_or_default().to_le_bytes());
    payload.extend_from_slice(&span.bytes.to_le_bytes());
    payload.extend_from_slice(&span.start_ns.to_le_bytes());
    payload.extend_from_slice(&span.end_ns.to_le_bytes());
    payload.extend_from_slice(&span.name.as_bytes()[..end]);
}

/// Returns the spans in a payload.
///
/// # Errors
/// Returns `acc_error_implementation_defined` if a span is cut short or of an unknown kind.
pub fn decode_spans(mut payload: &[u8]) -> Result<Vec<SpanRecord>> {
    let mut spans = Vec::new();
    while !payload.is_empty() {
        let (fixed, rest) = payload.split_at_checked(SPAN_LEN).ok_or_else(|| malformed("a span"))?;
        let (name, rest) = rest.split_at_checked(u32_at(fixed, 12) as usize).ok_or_else(|| malformed("a span"))?;
        spans.push(SpanRecord {
            device: u32_at(fixed, 0),
            queue: QueueId(u32_at(fixed, 4)),
            kind: *SpanKind::ALL.get(u32_at(fixed, 8) as usize).ok_or_else(|| malformed("a span"))?,
            name: String::from_utf8_lossy(name).into_owned(),
            bytes: u64_at(fixed, 16),
            start_ns: u64_at(fixed, 24),
            end_ns: u64_at(fixed, 32),
        });
        payload = rest;
    }
    Ok(spans)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut out = [0; 4];
    out.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(out)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(out)
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorCode::ImplementationDefined, format!("{what} from a peer is malformed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{DeviceId, NodeId};
    use proptest::prelude::*;

    #[test]
    fn payloads_come_back() -> Result<()> {
        let position = Position { device: 3, queue: QueueId::SYNC, seq: Seq(99) };
        let mut payload = Vec::new();
        put_position(&mut payload, position);
        put_position(&mut payload, position);
        assert_eq!(positions(&payload)?.collect::<Vec<_>>(), [position; 2]);

        let program = ProgramSpec {
            exe: "/bin/app".to_owned(),
            cwd: "/tmp".to_owned(),
            env: vec!["A=1".to_owned(), "B=zwei".to_owned()],
            ..ProgramSpec::default()
        };
        payload.clear();
        encode_program(&mut payload, &program);
        assert_eq!(decode_program(&payload)?, program);

        let span = Span {
            device: DeviceId { node: NodeId(4), ordinal: 1 },
            queue: QueueId(2),
            kind: SpanKind::Push,
            name: "main._omp_fn.0".to_owned(),
            bytes: 7,
            start_ns: 10,
            end_ns: 20,
        };
        payload.clear();
        encode_span(&mut payload, &span);
        encode_span(&mut payload, &span);
        let back = decode_spans(&payload)?;
        assert_eq!((back.len(), &back[1].name, back[1].end_ns), (2, &span.name, 20));
        Ok(())
    }

    #[test]
    fn functions_and_variables_come_back() -> Result<()> {
        let object = ObjectSpec { path: "/bin/app".to_owned(), build_id: "ab12".to_owned(), executable: true };
        let image = ImageRef { image: ImageId([0xa5; 32]), index: 7 };
        for image in [None, Some(image)] {
            let function = FunctionSpec { object: object.clone(), offset: 16, name: "f".to_owned(), kernel: image };
            let mut payload = Vec::new();
            encode_function(&mut payload, &function);
            assert_eq!(decode_function(&payload, 16, true)?, function);
            let variable = GlobalSpec { object: object.clone(), offset: 16, len: 8, variable: image };
            payload.clear();
            encode_global(&mut payload, &variable);
            assert_eq!(decode_global(&payload, 16, 8, true)?, variable);
        }
        Ok(())
    }

    #[test]
    fn garbage_is_refused_or_taken_but_never_panics() {
        proptest!(|(bytes: Vec<u8>)| {
            let _ = decode_strings(&bytes);
            let _ = decode_spans(&bytes);
            let _ = decode_program(&bytes);
            let _ = image_ref(&String::from_utf8_lossy(&bytes));
            if let Ok(positions) = positions(&bytes) {
                prop_assert_eq!(positions.count() * POSITION_LEN, bytes.len());
            }
        });
    }
}
