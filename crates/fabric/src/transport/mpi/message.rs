//! The messages between ranks: a header, then a lane's bytes if it carries any.
//!
//! Both ranks may open lanes at the same time. So a message names its lane by the rank that opened it, and by that rank's
//! number for it.

use std::io::{self, ErrorKind};

/// Bytes of the header.
pub const HEADER_LEN: usize = 16;
/// Values of [`MessageKind::Landed`].
pub(super) const LANDED: u64 = 1;
pub(super) const THROWN_AWAY: u64 = 2;
/// Most bytes of a lane in one message.
pub(super) const DATA_MAX: usize = 128 << 10;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MessageKind {
    /// Opens a lane. The value is unused.
    Open = 1,
    /// Bytes of a lane. The value is their number.
    Data = 2,
    /// The total that the sender of bytes may have sent: the value.
    Credit = 3,
    /// A request for credit by the sender of bytes.
    Want = 4,
    /// Returns unused credit. The value is the total that the sender of bytes believed that it might send.
    Return = 5,
    /// The end of the sender's stream.
    Finish = 6,
    /// The end of the sender's stream. The sender also reads no more.
    Close = 7,
    /// Announces the sending rank's node of the cluster, which is the value. Belongs to no lane.
    Node = 8,
    /// Offers the lane's next bytes, which are in an exposed buffer. The value is their number. They are sent as messages of
    /// their own when the receiver requests them.
    Offer = 9,
    /// Requests offered bytes, as many as the value, in a message with the tag.
    Take = 10,
    /// Reports that the message with the tag has arrived for a posted receive. The value is 1 if it was received, 2 if it was
    /// discarded.
    Landed = 11,
}

impl MessageKind {
    fn from_raw(raw: u8) -> Option<Self> {
        let of_lanes = [Self::Open, Self::Data, Self::Credit, Self::Want, Self::Return, Self::Finish, Self::Close];
        let all = of_lanes.into_iter().chain([Self::Node, Self::Offer, Self::Take, Self::Landed]);
        all.into_iter().find(|kind| *kind as u8 == raw)
    }
}

/// A lane as one of its two ranks names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LaneKey {
    /// The other rank.
    pub peer: u32,
    /// Whether this rank opened the lane.
    pub(super) opened_here: bool,
    pub(super) number: u32,
}

/// The header of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The kind.
    pub kind: MessageKind,
    /// Whether the sending rank opened the lane.
    pub by_opener: bool,
    /// The lane's number at the rank that opened it.
    pub number: u32,
    /// The value, by its [`MessageKind`].
    pub value: u64,
    /// The tag, for [`MessageKind::Take`] and [`MessageKind::Landed`]; 0 otherwise.
    pub tag: u16,
}

impl Header {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.by_opener);
        bytes[2..4].copy_from_slice(&self.tag.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// Decodes the header of a complete message.
    ///
    /// # Errors
    /// Returns `InvalidData` if the message is malformed.
    pub fn decode(message: &[u8]) -> io::Result<Self> {
        let broken = |why| io::Error::new(ErrorKind::InvalidData, format!("a message that is none: {why}"));
        let (header, rest) = message.split_first_chunk::<HEADER_LEN>().ok_or_else(|| broken("too short"))?;
        let kind = MessageKind::from_raw(header[0]).ok_or_else(|| broken("of no kind"))?;
        let tag = u16::from_le_bytes([header[2], header[3]]);
        let has_tag = matches!(kind, MessageKind::Take | MessageKind::Landed);
        if header[1] > 1 || (tag != 0) != has_tag {
            return Err(broken("its reserved bytes are not 0"));
        }
        let number = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let mut value = [0; 8];
        value.copy_from_slice(&header[8..]);
        let value = u64::from_le_bytes(value);
        let bytes = if kind == MessageKind::Data { value } else { 0 };
        if bytes != rest.len() as u64 || rest.len() > DATA_MAX || (kind == MessageKind::Data && bytes == 0) {
            return Err(broken("of another length"));
        }
        if value == 0 && matches!(kind, MessageKind::Offer | MessageKind::Take) {
            return Err(broken("about no bytes"));
        }
        if kind == MessageKind::Landed && !matches!(value, LANDED | THROWN_AWAY) {
            return Err(broken("of no outcome"));
        }
        Ok(Self { kind, by_opener: header[1] == 1, number, value, tag })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_others_are_refused() {
        let header = Header { kind: MessageKind::Data, by_opener: true, number: 7, value: 3, tag: 0 };
        let message = [&header.encode()[..], b"abc"].concat();
        assert_eq!(Header::decode(&message).unwrap(), header);
        assert!(Header::decode(&message[..18]).is_err());
        assert!(Header::decode(&message[..9]).is_err());
        let take = Header { kind: MessageKind::Take, tag: 513, ..header };
        assert_eq!(Header::decode(&take.encode()).unwrap(), take);
        assert!(Header::decode(&Header { tag: 0, ..take }.encode()).is_err());
        assert!(Header::decode(&Header { value: 0, ..take }.encode()).is_err());
        let landed = Header { kind: MessageKind::Landed, value: LANDED, ..take };
        assert_eq!(Header::decode(&landed.encode()).unwrap(), landed);
        assert!(Header::decode(&Header { value: 3, ..landed }.encode()).is_err());
        assert!(Header::decode(&Header { tag: 0, ..landed }.encode()).is_err());
        for (at, value) in [(0, 0), (0, 12), (1, 2), (2, 1), (8, 0), (15, 255)] {
            let mut wrong = message.clone();
            wrong[at] = value;
            assert!(Header::decode(&wrong).is_err(), "{at}: {value}");
        }
    }
}
