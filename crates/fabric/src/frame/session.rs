//! Messages between a program and the coordinator's session endpoint, as bytes. Numbers are little-endian; texts and
//! lists follow their length.

use accord_types::texts::{ADDRESS_MAX, NAME_MAX, REQUEST_TEXT_MAX, WORDS_MAX, cut};
use accord_types::{
    ATTRIBUTES_MAX, DeviceFault, DeviceId, DeviceInfo, DeviceKind, DeviceUse, Error, ErrorCode, HeldJob, JobToken,
    Lease, LeasedDevice, NodeId, OrderPolicy, QueuedJob, Rank, Result, SessionId, SessionKey, SessionRequest,
};

/// Bytes before each message: length of the rest (u32), kind (u8), zeros.
pub const HEADER_LEN: usize = 8;
/// Longest message from a program, in bytes.
pub const REQUEST_MAX: usize = 64 << 10;
/// Longest message to a program, in bytes: a lease of [`DEVICES_MAX`] devices, each with long names and many processors.
pub const REPLY_MAX: usize = 32 << 20;
/// Most devices that a lease lists.
pub const DEVICES_MAX: usize = 49_152;
/// Most processors of a device's worker.
pub const PROCESSORS_MAX: usize = 8_192;

/// Most devices whose use one message reports, or that one message says are in use.
pub const USES_MAX: usize = 1_024;
/// Shortest encoding of the use of one device, in bytes.
const USE_LEAST: usize = 37;
/// Encoding of a device's id, in bytes.
const DEVICE_BYTES: usize = 8;

/// A message after the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Program: open a session.
    Open(SessionRequest),
    /// Program: continue this session after its earlier connection was lost.
    Attach(Claim),
    /// A command: hold a job with these devices, for as long as the connection lasts.
    Hold(SessionRequest),
    /// Program: may it use this device? Answered by [`Message::UseAnswered`].
    MayUse(DeviceId),
    /// Program: it uses these devices. Follows [`Message::Attach`].
    InUse(Vec<DeviceId>),
    /// Coordinator: the program may use the device, or an error.
    UseAnswered {
        /// The device.
        device: DeviceId,
        /// The reason why the program may not use it.
        error: Option<Error>,
    },
    /// Program: its use so far of devices that it drives itself.
    Used(Vec<(DeviceId, DeviceUse)>),
    /// Coordinator: the session is open.
    Granted(Lease),
    /// Coordinator: the request waits. The coordinator repeats the message when its content changes.
    Queued(QueuedJob),
    /// Coordinator: the job has its devices.
    Held(HeldJob),
    /// Coordinator: the program may continue its session.
    Attached,
    /// Coordinator: the request is refused, or the session no longer exists.
    Refused(Error),
    /// Coordinator: another one leads the cluster, as the text says. The program may ask that one, or later.
    NotLeading(String),
    /// Coordinator: the devices of a node are lost.
    NodeLost {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
    },
    /// Coordinator: a node's agent was stopped, and its devices are lost.
    NodeLeft {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
    },
    /// Coordinator: the session's executor on a node has ended unexpectedly.
    ExecutorEnded {
        /// The node.
        node: NodeId,
        /// The agent's description of the cause.
        why: String,
    },
    /// Coordinator: a text for the program's standard error.
    Warning(String),
    /// Coordinator: the session was ended; the reason, and a remedy after a semicolon.
    Ended(String),
}

/// A program's claim to its session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The session.
    pub session: SessionId,
    /// The session's key, which authenticates the claim.
    pub key: SessionKey,
    /// The request that opened the session.
    pub request: SessionRequest,
}

impl Message {
    /// Encodes the message with its header.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes the header: kind and length of the rest.
    ///
    /// # Errors
    /// Returns an error if the message would be longer than `max`, or the header is malformed.
    pub fn header(bytes: &[u8; HEADER_LEN], max: usize) -> Result<(u8, usize)> {
        header(bytes, max)
    }

    /// Decodes the body of a message of a kind.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if a text is too long, and `acc_error_device_unavailable` if the bytes are
    /// not exactly one message of this kind.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self> {
        decode(kind, body)
    }
}

const OPEN: u8 = 1;
const ATTACH: u8 = 3;
const HOLD: u8 = 4;
const USED: u8 = 5;
const MAY_USE: u8 = 6;
const IN_USE: u8 = 7;
const GRANTED: u8 = 16;
const REFUSED: u8 = 17;
const NODE_LOST: u8 = 18;
const WARNING: u8 = 19;
const ENDED: u8 = 20;
const ATTACHED: u8 = 21;
const EXECUTOR_ENDED: u8 = 22;
const NODE_LEFT: u8 = 23;
const QUEUED: u8 = 24;
const HELD: u8 = 25;
const USE_ANSWERED: u8 = 26;
const NOT_LEADING: u8 = 27;

/// Stands for the position of a job on hold, which has none.
const NO_POSITION: u32 = u32::MAX;

fn encode(message: &Message) -> Vec<u8> {
    let mut out = Writer(vec![0; HEADER_LEN]);
    let kind = match message {
        Message::Open(request) => {
            out.request(request);
            OPEN
        }
        Message::Attach(claim) => {
            out.u64(claim.session.0);
            out.0.extend(claim.key.0);
            out.request(&claim.request);
            ATTACH
        }
        Message::Attached => ATTACHED,
        Message::Hold(request) => {
            out.request(request);
            HOLD
        }
        Message::Held(held) => {
            out.token(&held.token);
            out.u32(held.devices);
            HELD
        }
        Message::Queued(queued) => {
            out.token(&queued.token);
            out.u32(queued.position.unwrap_or(NO_POSITION));
            out.text(&queued.why, WORDS_MAX);
            out.option(queued.starts_in_ms, Writer::u64);
            QUEUED
        }
        Message::MayUse(device) => {
            out.device(*device);
            MAY_USE
        }
        Message::InUse(devices) => {
            out.length(devices.len().min(USES_MAX));
            devices.iter().take(USES_MAX).for_each(|device| out.device(*device));
            IN_USE
        }
        Message::UseAnswered { device, error } => {
            out.device(*device);
            out.option(error.as_ref(), Writer::error);
            USE_ANSWERED
        }
        Message::Used(uses) => {
            out.length(uses.len().min(USES_MAX));
            for (device, used) in uses.iter().take(USES_MAX) {
                out.device(*device);
                out.option(used.busy_ms, Writer::u64);
                for number in [used.bytes_in, used.bytes_out, used.held] {
                    out.u64(number);
                }
                out.u32(used.fault.map_or(0, DeviceFault::to_wire));
            }
            USED
        }
        Message::Granted(lease) => {
            out.lease(lease);
            GRANTED
        }
        Message::Refused(error) => {
            out.error(error);
            REFUSED
        }
        Message::NotLeading(text) => {
            out.text(text, WORDS_MAX);
            NOT_LEADING
        }
        Message::NodeLost { node, name } => {
            out.u32(node.0);
            out.text(name, NAME_MAX);
            NODE_LOST
        }
        Message::NodeLeft { node, name } => {
            out.u32(node.0);
            out.text(name, NAME_MAX);
            NODE_LEFT
        }
        Message::ExecutorEnded { node, why } => {
            out.u32(node.0);
            out.text(why, WORDS_MAX);
            EXECUTOR_ENDED
        }
        Message::Warning(text) => {
            out.text(text, WORDS_MAX);
            WARNING
        }
        Message::Ended(text) => {
            out.text(text, WORDS_MAX);
            ENDED
        }
    };
    let mut bytes = out.0;
    let length = u32::try_from(bytes.len() - HEADER_LEN).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4] = kind;
    bytes
}

fn header(bytes: &[u8; HEADER_LEN], max: usize) -> Result<(u8, usize)> {
    let [a, b, c, d, kind, zeros @ ..] = *bytes;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if zeros != [0; 3] {
        return Err(malformed("the header's reserved bytes are not 0"));
    }
    if length > max {
        return Err(malformed(&format!("a message of {length} bytes, at most {max} are allowed")));
    }
    Ok((kind, length))
}

fn decode(kind: u8, body: &[u8]) -> Result<Message> {
    let mut reader = Reader(body);
    let message = match kind {
        OPEN => Message::Open(reader.request()?),
        MAY_USE => Message::MayUse(reader.device()?),
        IN_USE => Message::InUse(reader.list(USES_MAX, DEVICE_BYTES, Reader::device)?),
        USE_ANSWERED => Message::UseAnswered { device: reader.device()?, error: reader.option(Reader::error)? },
        USED => Message::Used(reader.list(USES_MAX, USE_LEAST, |reader| {
            let device = reader.device()?;
            let busy_ms = reader.option(Reader::u64)?;
            let (bytes_in, bytes_out, held) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let fault = DeviceFault::from_wire(reader.u32()?);
            Ok((device, DeviceUse { busy_ms, bytes_in, bytes_out, held, fault }))
        })?),
        ATTACH => {
            Message::Attach(Claim { session: SessionId(reader.u64()?), key: reader.key()?, request: reader.request()? })
        }
        GRANTED => Message::Granted(reader.lease()?),
        REFUSED => Message::Refused(reader.error()?),
        NOT_LEADING => Message::NotLeading(reader.text(WORDS_MAX)?),
        NODE_LOST => Message::NodeLost { node: NodeId(reader.u32()?), name: reader.text(NAME_MAX)? },
        NODE_LEFT => Message::NodeLeft { node: NodeId(reader.u32()?), name: reader.text(NAME_MAX)? },
        EXECUTOR_ENDED => Message::ExecutorEnded { node: NodeId(reader.u32()?), why: reader.text(WORDS_MAX)? },
        WARNING => Message::Warning(reader.text(WORDS_MAX)?),
        ENDED => Message::Ended(reader.text(WORDS_MAX)?),
        ATTACHED => Message::Attached,
        HOLD => Message::Hold(reader.request()?),
        HELD => Message::Held(HeldJob { token: reader.token()?, devices: reader.u32()? }),
        QUEUED => Message::Queued(QueuedJob {
            token: reader.token()?,
            position: Some(reader.u32()?).filter(|position| *position != NO_POSITION),
            why: reader.text(WORDS_MAX)?,
            starts_in_ms: reader.option(Reader::u64)?,
        }),
        _ => return Err(malformed(&format!("message kind {kind} does not exist"))),
    };
    if reader.0.is_empty() { Ok(message) } else { Err(malformed("bytes after the message's end")) }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn length(&mut self, value: usize) {
        self.u32(u32::try_from(value).unwrap_or(u32::MAX));
    }

    /// Writes a text, cut to the longest that a reader accepts.
    fn text(&mut self, value: &str, max: usize) {
        let value = cut(value, max);
        self.length(value.len());
        self.0.extend(value.as_bytes());
    }

    /// Writes a flag, then the value.
    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn request(&mut self, request: &SessionRequest) {
        self.text(&request.node_name, NAME_MAX);
        self.u32(request.pid);
        self.text(&request.program, NAME_MAX);
        self.option(request.rank, |out, rank| {
            for number in [rank.rank, rank.size, rank.local_rank, rank.local_size] {
                out.u32(number);
            }
            out.u64(rank.job);
        });
        self.option(request.kind, |out, kind| out.u8(kind.number()));
        self.u8(match request.order {
            OrderPolicy::Local => 0,
            OrderPolicy::Global => 1,
            OrderPolicy::Rank => 2,
        });
        // A program that requests neither omits the end of the message, as programs of the previous release do.
        if request.devices.is_some() || request.job.is_some() {
            self.text(request.devices.as_deref().unwrap_or_default(), REQUEST_TEXT_MAX);
            self.option(request.job.as_ref(), Self::token);
        }
    }

    fn token(&mut self, token: &JobToken) {
        self.u64(token.job);
        self.0.extend_from_slice(&token.key.0);
    }

    fn lease(&mut self, lease: &Lease) {
        self.u64(lease.session.0);
        self.0.extend(lease.key.0);
        self.option(lease.own_node, |out, node| out.u32(node.0));
        self.u64(lease.memory_quota);
        self.u32(lease.stream_quota);
        self.u8(u8::from(lease.plain_tcp));
        self.u8(u8::from(lease.is_of_job));
        self.length(lease.devices.len());
        for LeasedDevice { info, address, is_shared } in &lease.devices {
            self.u8(u8::from(*is_shared));
            self.info(info);
            self.text(address, ADDRESS_MAX);
        }
    }

    fn device(&mut self, device: DeviceId) {
        self.u32(device.node.0);
        self.u32(device.ordinal);
    }

    fn info(&mut self, info: &DeviceInfo) {
        self.device(info.id);
        self.text(&info.node_name, NAME_MAX);
        self.u8(info.kind.number());
        self.text(&info.name, NAME_MAX);
        self.text(&info.vendor, NAME_MAX);
        self.text(&info.driver, NAME_MAX);
        self.text(&info.uuid, NAME_MAX);
        self.u64(info.memory);
        self.u32(info.units);
        self.length(info.attributes.len());
        for (number, value) in &info.attributes {
            self.u16(*number);
            self.u32(value.cast_unsigned());
        }
        self.option(info.numa, Self::u32);
        self.length(info.cpus.len());
        for &cpu in &info.cpus {
            self.u32(cpu);
        }
    }

    fn error(&mut self, error: &Error) {
        self.u16(error.code().to_wire());
        self.text(error.cause(), WORDS_MAX);
        self.option(error.remedy_text(), |out, remedy| out.text(remedy, WORDS_MAX));
        self.option(error.place().node.as_deref(), |out, node| out.text(node, NAME_MAX));
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count).ok_or_else(|| malformed("it ends too early"))?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn key(&mut self) -> Result<SessionKey> {
        let key = SessionKey::from_bytes(self.bytes(SessionKey::LEN)?);
        key.ok_or_else(|| malformed("a session's key that was not drawn by chance"))
    }

    fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[value]| value)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn length(&mut self) -> Result<usize> {
        self.u32().map(|length| usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn text(&mut self, max: usize) -> Result<String> {
        let length = self.length()?;
        if length > max {
            let cause = format!("a name or text has {length} bytes, at most {max} are allowed");
            return Err(Error::new(ErrorCode::InvalidArgument, cause).remedy("shorten it"));
        }
        let bytes = self.bytes(length)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| malformed("a text is not UTF-8"))
    }

    fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed("a flag is neither 0 nor 1")),
        }
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// Reads a list whose elements take at least `least` bytes each. So a declared length never reserves more memory than
    /// was sent.
    fn list<T>(&mut self, max: usize, least: usize, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let length = self.length()?;
        if length > max {
            return Err(malformed(&format!("a list of {length}, at most {max} are allowed")));
        }
        if length.saturating_mul(least) > self.0.len() {
            return Err(malformed("it ends too early"));
        }
        (0..length).map(|_| read(self)).collect()
    }

    fn token(&mut self) -> Result<JobToken> {
        Ok(JobToken { job: self.u64()?, key: self.key()? })
    }

    fn request(&mut self) -> Result<SessionRequest> {
        let mut request = SessionRequest {
            node_name: self.text(NAME_MAX)?,
            pid: self.u32()?,
            program: self.text(NAME_MAX)?,
            rank: self.option(|reader| {
                Ok(Rank {
                    rank: reader.u32()?,
                    size: reader.u32()?,
                    local_rank: reader.u32()?,
                    local_size: reader.u32()?,
                    job: reader.u64()?,
                })
            })?,
            kind: self.option(Self::kind)?,
            order: match self.u8()? {
                0 => OrderPolicy::Local,
                1 => OrderPolicy::Global,
                2 => OrderPolicy::Rank,
                _ => return Err(malformed("unknown order of devices")),
            },
            devices: None,
            job: None,
        };
        if !self.0.is_empty() {
            request.devices = Some(self.text(REQUEST_TEXT_MAX)?).filter(|text| !text.is_empty());
            request.job = self.option(Self::token)?;
        }
        Ok(request)
    }

    fn device(&mut self) -> Result<DeviceId> {
        Ok(DeviceId { node: NodeId(self.u32()?), ordinal: self.u32()? })
    }

    fn kind(&mut self) -> Result<DeviceKind> {
        Ok(DeviceKind::from_number(self.u8()?))
    }

    fn lease(&mut self) -> Result<Lease> {
        /// Two ids, eight lengths, a kind, two flags, memory and units.
        const DEVICE_LEAST: usize = 8 + 8 * 4 + 3 + 12;
        Ok(Lease {
            session: SessionId(self.u64()?),
            key: self.key()?,
            own_node: self.option(|reader| reader.u32().map(NodeId))?,
            memory_quota: self.u64()?,
            stream_quota: self.u32()?,
            plain_tcp: self.flag()?,
            is_of_job: self.flag()?,
            devices: self.list(DEVICES_MAX, DEVICE_LEAST, |reader| {
                let is_shared = reader.flag()?;
                Ok(LeasedDevice { info: reader.info()?, address: reader.text(ADDRESS_MAX)?, is_shared })
            })?,
        })
    }

    fn info(&mut self) -> Result<DeviceInfo> {
        Ok(DeviceInfo {
            id: self.device()?,
            node_name: self.text(NAME_MAX)?,
            kind: self.kind()?,
            name: self.text(NAME_MAX)?,
            vendor: self.text(NAME_MAX)?,
            driver: self.text(NAME_MAX)?,
            uuid: self.text(NAME_MAX)?,
            memory: self.u64()?,
            units: self.u32()?,
            compute: (0, 0),
            context: 0,
            attributes: self.list(ATTRIBUTES_MAX, 6, |reader| Ok((reader.u16()?, reader.u32()?.cast_signed())))?,
            numa: self.option(Self::u32)?,
            cpus: self.list(PROCESSORS_MAX, 4, Self::u32)?,
        })
    }

    fn error(&mut self) -> Result<Error> {
        let code = ErrorCode::from_wire(self.u16()?);
        let mut error = Error::new(code, self.text(WORDS_MAX)?);
        if let Some(remedy) = self.option(|reader| reader.text(WORDS_MAX))? {
            error = error.remedy(remedy);
        }
        if let Some(node) = self.option(|reader| reader.text(NAME_MAX))? {
            error = error.node(node);
        }
        Ok(error)
    }
}

fn malformed(why: &str) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, format!("the session's peer does not follow the protocol: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lease(devices: u32) -> Lease {
        let device = |ordinal| LeasedDevice {
            info: DeviceInfo {
                id: DeviceId { node: NodeId(1), ordinal },
                node_name: "h1".into(),
                kind: DeviceKind::CPU,
                name: "CPU".into(),
                vendor: "someone".into(),
                driver: "0.1.0".into(),
                uuid: "GPU-0".into(),
                memory: 1 << 40,
                units: 2,
                compute: (0, 0),
                context: 0,
                attributes: vec![(16, 132), (97, -1)],
                numa: (ordinal == 1).then_some(0),
                cpus: vec![0, 3],
            },
            address: "10.0.0.1:7447".into(),
            is_shared: ordinal == 1,
        };
        Lease {
            session: SessionId(7),
            key: SessionKey(std::array::from_fn(|at| (at * at * 7 + 5) as u8)),
            own_node: Some(NodeId(1)),
            devices: (0..devices).map(device).collect(),
            memory_quota: 0,
            stream_quota: 32,
            plain_tcp: devices == 1,
            is_of_job: devices == 3,
        }
    }

    fn device(ordinal: u32) -> DeviceId {
        DeviceId { node: NodeId(2), ordinal }
    }

    fn messages() -> Vec<Message> {
        let request = SessionRequest {
            node_name: "h1".into(),
            pid: 4711,
            program: "app".into(),
            rank: Some(Rank { rank: 1, size: 4, local_rank: 1, local_size: 2, job: 0 }),
            kind: Some(DeviceKind::CUDA),
            order: OrderPolicy::Rank,
            devices: None,
            job: None,
        };
        vec![
            Message::Open(request.clone()),
            Message::Open(SessionRequest { rank: None, kind: None, order: OrderPolicy::Local, ..request.clone() }),
            Message::Attach(Claim {
                session: SessionId(9),
                key: SessionKey(std::array::from_fn(|at| (at * at * 7 + 6) as u8)),
                request,
            }),
            Message::Attached,
            Message::MayUse(device(3)),
            Message::InUse(vec![device(3), device(4)]),
            Message::UseAnswered { device: device(3), error: None },
            Message::UseAnswered {
                device: device(4),
                error: Some(Error::new(ErrorCode::DeviceUnavailable, "held").node("h2")),
            },
            Message::Granted(lease(3)),
            Message::Refused(Error::new(ErrorCode::DeviceUnavailable, "none").remedy("wait").node("h2")),
            Message::NodeLost { node: NodeId(2), name: "h2".into() },
            Message::ExecutorEnded { node: NodeId(2), why: "k".into() },
            Message::NotLeading("n".into()),
            Message::Warning("w".into()),
            Message::Ended("e".into()),
        ]
    }

    #[test]
    fn key_without_randomness_is_refused() {
        for key in [[0; SessionKey::LEN], std::array::from_fn(|at| at as u8), *b"the session's key, as I like it."] {
            let message = Message::Granted(Lease { key: SessionKey(key), ..lease(1) }).encode();
            let (kind, body) = split(&message);
            let error = decode(kind, body).unwrap_err();
            assert!(error.cause().contains("not drawn by chance"), "{error}");
        }
    }

    fn split(bytes: &[u8]) -> (u8, &[u8]) {
        let (head, body) = bytes.split_first_chunk::<HEADER_LEN>().unwrap();
        let (kind, length) = header(head, usize::MAX).unwrap();
        assert_eq!(length, body.len());
        (kind, body)
    }

    #[test]
    fn every_message_comes_back() {
        for message in messages() {
            let bytes = encode(&message);
            let (kind, body) = split(&bytes);
            assert_eq!(decode(kind, body).unwrap(), message);
        }
    }

    #[test]
    fn cut_and_lengthened_messages_are_refused() {
        for message in messages() {
            let bytes = encode(&message);
            let (kind, body) = split(&bytes);
            for length in 0..body.len() {
                assert!(decode(kind, &body[..length]).is_err(), "{message:?} cut to {length}");
            }
            assert!(decode(kind, &[body, &[0]].concat()).is_err());
        }
    }

    #[test]
    fn announced_lengths_are_bounded() {
        let huge = [0xff, 0xff, 0xff, 0xff, OPEN, 0, 0, 0];
        assert!(header(&huge, REQUEST_MAX).is_err());
        assert!(decode(WARNING, &[0xff; 4]).is_err());
        let mut lease = encode(&Message::Granted(lease(0)))[HEADER_LEN..].to_vec();
        let count = lease.len() - 4;
        lease[count..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode(GRANTED, &lease).is_err());
    }

    #[test]
    fn texts_and_lists_are_bounded() {
        let long = |length: usize| "x".repeat(length);
        let request = |node_name, program| SessionRequest {
            node_name,
            pid: 1,
            program,
            rank: None,
            kind: None,
            order: OrderPolicy::Local,
            devices: None,
            job: None,
        };
        // Writers cut long texts, so that each message decodes to shorter ones.
        let mut wide = lease(1);
        wide.devices[0].info.name = long(NAME_MAX + 1);
        wide.devices[0].address = long(ADDRESS_MAX + 1);
        for message in [
            Message::Open(request(long(NAME_MAX + 1), long(60_000))),
            Message::Granted(wide),
            Message::Refused(Error::new(ErrorCode::DeviceUnavailable, long(WORDS_MAX + 1)).remedy(long(WORDS_MAX + 1))),
            Message::NodeLost { node: NodeId(2), name: long(NAME_MAX + 1) },
            Message::ExecutorEnded { node: NodeId(2), why: long(WORDS_MAX + 1) },
            Message::NotLeading(long(WORDS_MAX + 1)),
            Message::Warning(long(WORDS_MAX + 1)),
            Message::Ended(long(WORDS_MAX + 1)),
        ] {
            let bytes = encode(&message);
            let (kind, body) = split(&bytes);
            assert!(decode(kind, body).unwrap() != message && body.len() < 3 * WORDS_MAX, "{kind}");
        }
        // Readers refuse long texts.
        let texts = |first: usize, second: usize| {
            let mut out = Writer(Vec::new());
            out.text(&long(first), first);
            out.u32(1);
            out.text(&long(second), second);
            out.0.extend([0; 3]);
            decode(OPEN, &out.0)
        };
        assert!(texts(NAME_MAX, NAME_MAX).is_ok());
        for too_long in [texts(NAME_MAX + 1, 1), texts(1, NAME_MAX + 1)] {
            assert!(too_long.unwrap_err().cause().contains("at most 255"));
        }
        for kind in [WARNING, ENDED, NOT_LEADING] {
            let mut out = Writer(Vec::new());
            out.text(&long(WORDS_MAX + 1), WORDS_MAX + 1);
            assert!(decode(kind, &out.0).is_err());
        }
        let mut wide = lease(1);
        wide.devices[0].info.cpus = vec![0; PROCESSORS_MAX + 1];
        assert!(decode(GRANTED, &encode(&Message::Granted(wide))[HEADER_LEN..]).is_err());
    }

    proptest! {
        #[test]
        fn garbage_never_panics(kind: u8, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(kind, &body);
        }
    }
}
