//! Reports of an executor to its agent on the use of devices, in records of one length, one per device.

use accord_types::{DeviceFault, DeviceUse};

/// Bytes of a record: ordinal, whether the time is known, time, bytes in, bytes out, bytes held, fault.
const RECORD_LEN: usize = 44;

/// Encodes reports.
pub fn encode(uses: &[(u32, DeviceUse)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(uses.len() * RECORD_LEN);
    for (ordinal, used) in uses {
        bytes.extend(ordinal.to_le_bytes());
        bytes.extend(u32::from(used.busy_ms.is_some()).to_le_bytes());
        for number in [used.busy_ms.unwrap_or(0), used.bytes_in, used.bytes_out, used.held] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(used.fault.map_or(0, DeviceFault::to_wire).to_le_bytes());
    }
    bytes
}

/// Decodes a stream of reports. Keeps less than one record.
#[derive(Debug, Default)]
pub struct UseReader {
    begun: Vec<u8>,
}

impl UseReader {
    /// Decodes the next bytes of the stream. Returns the complete reports.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<(u32, DeviceUse)> {
        self.begun.extend_from_slice(bytes);
        let whole = self.begun.len() / RECORD_LEN * RECORD_LEN;
        let uses = self.begun[..whole].chunks_exact(RECORD_LEN).filter_map(decode).collect();
        self.begun.drain(..whole);
        uses
    }
}

/// Decodes a record. Returns `None` if it is malformed; later ones may be valid.
fn decode(record: &[u8]) -> Option<(u32, DeviceUse)> {
    let (ordinal, rest) = record.split_first_chunk()?;
    let (known, rest) = rest.split_first_chunk()?;
    let (numbers, rest) = rest.split_first_chunk::<32>()?;
    let mut numbers =
        numbers.chunks_exact(8).filter_map(|chunk| chunk.first_chunk()).map(|chunk| u64::from_le_bytes(*chunk));
    let mut number = || numbers.next();
    let (busy_ms, bytes_in, bytes_out, held) = (number()?, number()?, number()?, number()?);
    let fault = DeviceFault::from_wire(u32::from_le_bytes(*rest.first_chunk()?));
    let busy_ms = match u32::from_le_bytes(*known) {
        0 => None,
        1 => Some(busy_ms),
        _ => return None,
    };
    Some((u32::from_le_bytes(*ordinal), DeviceUse { busy_ms, bytes_in, bytes_out, held, fault }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_arrive_however_their_bytes_are_divided() {
        let uses = [
            (3, DeviceUse { busy_ms: Some(7), bytes_in: 1, bytes_out: u64::MAX, held: 2, fault: None }),
            (u32::MAX, DeviceUse { busy_ms: None, bytes_in: 4, bytes_out: 5, held: 6, fault: DeviceFault::cuda(214) }),
        ];
        let bytes = encode(&uses);
        for part in [1, 7, RECORD_LEN, 100] {
            let mut reader = UseReader::default();
            let read: Vec<_> = bytes.chunks(part).flat_map(|part| reader.take(part)).collect();
            assert_eq!(read, uses);
            assert!(reader.begun.is_empty());
        }
    }

    #[test]
    fn a_malformed_record_is_passed_over() {
        let good = encode(&[(1, DeviceUse::default())]);
        let mut bad = good.clone();
        bad[4] = 9;
        assert_eq!(UseReader::default().take(&[bad, good].concat()).len(), 1);
    }
}
