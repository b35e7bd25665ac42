//! The parts of a frame that the switch reads.

/// The kernel's header ahead of a frame (`struct virtio_net_hdr`): checksums still to be filled in, and TCP segments
/// that are sent as one. It is kept, so that the frame leaves unchanged.
pub const OFFLOAD_LEN: usize = 10;

const ADDRESS_LEN: usize = 6;
const ETHERNET_LEN: usize = 14;
const IPV4: [u8; 2] = [8, 0];
const TCP: u8 = 6;
/// Header lengths are in words.
const WORD: usize = 4;

/// An Ethernet frame, after [`OFFLOAD_LEN`] bytes of the kernel's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame(Vec<u8>);

/// An Ethernet address.
pub(crate) type Address = [u8; ADDRESS_LEN];

impl Frame {
    /// Creates a frame, or `None` if there are too few bytes.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() >= OFFLOAD_LEN + ETHERNET_LEN).then_some(Self(bytes))
    }

    /// Returns all bytes, unchanged.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn ethernet(&self) -> &[u8] {
        self.0.get(OFFLOAD_LEN..).unwrap_or_default()
    }

    fn address(&self, at: usize) -> Address {
        self.ethernet().get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
    }

    pub(crate) fn target(&self) -> Address {
        self.address(0)
    }

    pub(crate) fn source(&self) -> Address {
        self.address(ADDRESS_LEN)
    }

    /// Whether it carries payload of a TCP connection over IPv4, so that it is more than an acknowledgement.
    pub(crate) fn has_payload(&self) -> bool {
        self.payload_len().is_some_and(|len| len > 0)
    }

    fn payload_len(&self) -> Option<usize> {
        let ethernet = self.ethernet();
        let ip = ethernet.get(ETHERNET_LEN..).filter(|_| ethernet[2 * ADDRESS_LEN..ETHERNET_LEN] == IPV4)?;
        let header = usize::from(ip.first()? & 0xf) * WORD;
        let total = usize::from(u16::from_be_bytes(*ip.get(2..)?.first_chunk()?));
        let tcp = ip.get(header..).filter(|_| ip.get(9) == Some(&TCP))?;
        let tcp_header = usize::from(tcp.get(12)? >> 4) * WORD;
        total.checked_sub(header + tcp_header)
    }
}

/// Whether the address is multicast or broadcast.
pub(crate) fn is_group(address: Address) -> bool {
    address[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers of Ethernet, IPv4 and TCP, with options in both.
    fn tcp(payload: u8) -> Vec<u8> {
        let mut bytes = vec![0; OFFLOAD_LEN + ETHERNET_LEN + 24 + 32];
        let ethernet = &mut bytes[OFFLOAD_LEN..];
        ethernet[12] = 8;
        let ip = &mut ethernet[ETHERNET_LEN..];
        (ip[0], ip[3], ip[9]) = (0x46, 24 + 32 + payload, TCP);
        ip[24 + 12] = 8 << 4;
        bytes.resize(bytes.len() + usize::from(payload), 7);
        bytes
    }

    #[test]
    fn an_acknowledgement_carries_nothing() {
        for (payload, carries) in [(0, false), (1, true), (100, true)] {
            assert_eq!(Frame::new(tcp(payload)).unwrap().has_payload(), carries, "{payload}");
        }
        // Padding, as in short frames.
        let mut filled = tcp(0);
        filled.resize(200, 0);
        assert!(!Frame::new(filled).unwrap().has_payload());
    }

    #[test]
    fn other_protocols_carry_nothing_that_is_counted() {
        let changed = |at: usize, to: u8| {
            let mut bytes = tcp(9);
            bytes[OFFLOAD_LEN + at] = to;
            Frame::new(bytes).unwrap().has_payload()
        };
        assert!(changed(0, 1));
        assert!(!changed(12, 0x86));
        assert!(!changed(ETHERNET_LEN + 9, 17));
    }

    #[test]
    fn truncated_frames_have_no_payload() {
        let whole = tcp(9);
        for len in 0..whole.len() {
            let frame = Frame::new(whole[..len].to_vec());
            assert_eq!(frame.is_some(), len >= OFFLOAD_LEN + ETHERNET_LEN);
            assert!(!frame.is_some_and(|frame| frame.has_payload()) || len > OFFLOAD_LEN + ETHERNET_LEN + 24 + 12);
        }
    }
}
