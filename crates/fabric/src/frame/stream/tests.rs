use super::*;
use proptest::prelude::*;
use std::io::Read;

fn launch() -> Command {
    Command::Launch { device: 1, queue: 2, function: 3, gangs: 4, workers: 5, vector: 6, slots: 7, float_control: 0 }
}

/// A reader that returns a few bytes at a time.
struct ShortReads<'a>(&'a [u8], usize);

impl Read for ShortReads<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(self.0.len()).min(buf.len());
        buf[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// Returns all frames in `bytes`, or the first error.
fn read_all<R: Record>(bytes: &[u8], step: usize) -> Result<Vec<(R, Vec<u8>)>> {
    let mut reader = FrameReader::default();
    let mut stream = ShortReads(bytes, step);
    let mut all = Vec::new();
    loop {
        while let Some(frame) = reader.take::<R>()? {
            all.push((frame.record, frame.payload.to_vec()));
        }
        assert_eq!(reader.buffer.len(), BUFFER_LEN);
        if !reader.fill(|bytes| stream.read(bytes)).unwrap() {
            return Ok(all);
        }
    }
}

#[test]
fn frames_come_back_however_they_are_cut() {
    let mut bytes = Vec::new();
    let long = vec![7; PAYLOAD_MAX];
    for _ in 0..3 {
        put(&mut bytes, &launch(), &[b"abc", b"de"]).unwrap();
        put(&mut bytes, &Command::Store { device: 0, queue: 0, dst: 1 << 60 }, &[&long]).unwrap();
        put(&mut bytes, &Command::Wait { ticket: 9 }, &[]).unwrap();
    }
    for step in [1000, 4096, 1 << 20] {
        let all = read_all::<Command>(&bytes, step).unwrap();
        assert_eq!(all.len(), 9);
        assert_eq!(all[3], (launch(), b"abcde".to_vec()));
        assert_eq!(all[7].1, long);
    }
}

#[test]
fn a_small_frame_comes_byte_by_byte() {
    let mut bytes = Vec::new();
    put(&mut bytes, &Event::Credit { bytes: 5 }, &[b"x"]).unwrap();
    assert_eq!(read_all::<Event>(&bytes, 1).unwrap(), [(Event::Credit { bytes: 5 }, b"x".to_vec())]);
}

#[test]
fn an_immense_frame_is_refused_at_its_header() {
    let mut bytes = Vec::new();
    put(&mut bytes, &launch(), &[]).unwrap();
    bytes[..8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    let error = read_all::<Command>(&bytes[..HEADER_LEN], 64).unwrap_err();
    assert!(error.cause().contains("1152921504606846976 bytes"), "{error}");
}

#[test]
fn events_are_no_commands() {
    let mut bytes = Vec::new();
    put(&mut bytes, &Event::Credit { bytes: 5 }, &[]).unwrap();
    assert!(read_all::<Command>(&bytes, 64).is_err());
}

#[test]
fn too_long_a_payload_is_not_sent() {
    let mut bytes = Vec::new();
    assert!(put(&mut bytes, &launch(), &[&vec![0; PAYLOAD_MAX], &[1]]).is_err());
    assert!(bytes.is_empty());
}

#[test]
fn random_bytes_never_panic() {
    proptest!(|(bytes: Vec<u8>, step in 1_usize..100)| {
        let _ = read_all::<Command>(&bytes, step);
        let _ = read_all::<Event>(&bytes, step);
    });
}

#[test]
fn mutated_frames_never_panic() {
    let mut good = Vec::new();
    put(&mut good, &launch(), &[b"0123456789abcdef"]).unwrap();
    put(&mut good, &Command::CopyIn { device: 0, queue: 1, dst: 2, len: 3, transfer: 4, eager: true }, &[]).unwrap();
    proptest!(|(changes in proptest::collection::vec((0..good.len(), any::<u8>()), 1..6))| {
        let mut bytes = good.clone();
        for (at, value) in changes {
            bytes[at] = value;
        }
        let _ = read_all::<Command>(&bytes, 64);
    });
}

#[test]
fn an_invalid_discriminant_is_refused() {
    let mut bytes = Vec::new();
    put(&mut bytes, &launch(), &[]).unwrap();
    bytes[HEADER_LEN] = 250;
    let error = read_all::<Command>(&bytes, 64).unwrap_err();
    assert!(error.cause().contains("malformed record"), "{error}");
}
