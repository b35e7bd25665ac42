//! Each list and text of each message has a bound, which the receiver enforces.

use accord_proto::bounds::Bounded;
use accord_proto::v1;
use prost::Message;
use std::path::Path;

/// Number of elements above the bound of any list.
const TOO_MANY: usize = 1 << 18;
/// Number of bytes above the bound of any text.
const TOO_LONG: usize = 8 << 20;

/// A field of variable length.
struct Field {
    message: String,
    name: String,
    number: u32,
    repeated: bool,
    kind: String,
}

/// Returns all such fields of the `.proto` files, and the names of all messages.
fn fields() -> (Vec<Field>, Vec<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("accord/v1");
    let (mut fields, mut messages) = (Vec::new(), Vec::new());
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut message = String::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split("//").next().unwrap().split_whitespace().collect();
            match words[..] {
                ["message", name, ..] => {
                    message = name.to_owned();
                    messages.push(message.clone());
                }
                ["enum" | "service", ..] => message.clear(),
                [ref label @ .., kind, name, "=", number] if !message.is_empty() => {
                    let repeated = label == ["repeated"];
                    assert!(repeated || label.is_empty() || label == ["optional"], "{line}");
                    if repeated || matches!(kind, "string" | "bytes") {
                        let number = number.trim_end_matches(';').parse().unwrap();
                        let (name, kind) = (name.to_owned(), kind.to_owned());
                        fields.push(Field { message: message.clone(), name, number, repeated, kind });
                    }
                }
                _ => {}
            }
        }
    }
    (fields, messages)
}

fn varint(mut number: usize, to: &mut Vec<u8>) {
    while number > 127 {
        to.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Returns an encoded message whose only field exceeds its bound.
fn too_long(field: &Field) -> Vec<u8> {
    let mut bytes = Vec::new();
    let is_number = matches!(field.kind.as_str(), "uint32" | "uint64" | "KernelLimit");
    // Texts, packed numbers (those of an enumeration, too) and messages are length-delimited.
    let tag = (field.number << 3 | 2) as usize;
    if field.repeated && !is_number {
        for _ in 0..TOO_MANY {
            varint(tag, &mut bytes);
            varint(0, &mut bytes);
        }
    } else {
        let length = if is_number { TOO_MANY } else { TOO_LONG };
        varint(tag, &mut bytes);
        varint(length, &mut bytes);
        // Copies blocks, unlike `resize`, which sets each byte.
        bytes.extend_from_slice(&[if field.kind == "string" { b'x' } else { 0 }].repeat(length));
    }
    bytes
}

/// Returns the result of decoding and checking a message with this name; `None` if the list below lacks the name.
fn received(message: &str, bytes: &[u8]) -> Option<Result<(), String>> {
    fn read<M: Message + Bounded + Default>(bytes: &[u8]) -> Result<(), String> {
        M::decode(bytes).unwrap().check().map_err(|malformed| malformed.to_string())
    }
    macro_rules! messages {
        ($($name:ident)*) => {
            match message {
                $(stringify!($name) => Some(read::<v1::$name>(bytes)),)*
                _ => None,
            }
        };
    }
    messages! {
        AgentMessage ClusterView CloseSessionReply CloseSessionRequest CoordinatorMessage DescribeRequest Device DeviceAttribute DeviceFigures
        DeviceLoad DevicePair DeviceRef Drain DrainNodeReply DrainNodeRequest ExecutorStart ExpectMeasurement Goodbye GpuAware Gpus Hardware
        HeldDevice Heartbeat JobGrant ScriptFailed JobReleased JobSuspended JoinWorld KernelLimits Label Leaving Link LoadReport MeasureNode MeasurePath NearDevice Node NodeFigures NodeLost NumaNode OpenPageReply OpenPageRequest PageStart Path PathMeasured
        PathTimes Rank RankLost Register Registered ReleaseJob Session SessionClosed SessionEnded SessionGrant SessionLimits SessionOpened SessionStarted
        ShutdownReply ShutdownRequest Stop SuspendJob SuspendJobRequest Viewer
        CreateReservationReply CreateReservationRequest DeleteReservationReply DeleteReservationRequest ListReservationsReply
        ListReservationsRequest Reservation ReservedDevices ReservedTarget WatchDrainRequest
        Quarantined QuarantineReply QuarantineRequest TestDevice
        LogLine NodeLog SendSessionLog SessionLog SessionLogsReply SessionLogsRequest
        DeviceTested DeviceUse JobEvent SessionUse UseEnded UseReport
        ClusterSummary DeviceLine JobLine NodeLine UserLine WatchReply WatchRequest WatchRow
        ApplyPolicyReply ApplyPolicyRequest ChangeJobRequest EndedJob ExplainReply HistoryReply HistoryRequest Job JobDevices JobReply
        JobRequest PauseReply PauseRequest PolicyChange PolicyFinding QueueReply QueueRequest UsageReply UsageRequest UsageRow WhatIfReply WhatIfRequest
    }
}

#[test]
fn every_list_and_text_has_a_bound() {
    let (fields, messages) = fields();
    assert!(fields.len() > 60 && messages.len() > 40, "{} fields of {} messages", fields.len(), messages.len());
    let mut wrong = Vec::new();
    for message in messages {
        if received(&message, &[]).is_none() {
            wrong.push(format!("{message}: not in this test's list"));
        }
    }
    for field in fields {
        let named = format!("{}.{}", field.message, field.name);
        match received(&field.message, &too_long(&field)) {
            Some(Err(why)) if why.contains(&named) => {}
            outcome => wrong.push(format!("{named}: {outcome:?}")),
        }
    }
    assert!(wrong.is_empty(), "without a bound in proto/src/bounds.rs:\n{}", wrong.join("\n"));
}
