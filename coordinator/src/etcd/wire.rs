//! The messages of etcd's API that the coordinator uses, with the field numbers of `etcdserverpb/rpc.proto` and `mvccpb/kv.proto`.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The first key after the range; empty: `key` alone.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(int64, tag = "4")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
}

/// The answer to a put, a deletion or the end of a lease.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Done {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(crate) request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "Response", tags = "1, 2, 3")]
    pub(crate) response: Option<Response>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(Done),
    #[prost(message, tag = "3")]
    Delete(Done),
}

/// A comparison for equality.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    #[prost(enumeration = "Target", tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(oneof = "Wanted", tags = "5, 6")]
    pub(crate) wanted: Option<Wanted>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum Wanted {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Target {
    Version = 0,
    Create = 1,
    Mod = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseKeepAliveRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseKeepAliveResponse {
    /// Seconds; 0 or less: the lease has expired.
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

impl RequestOp {
    pub(crate) fn put(key: Vec<u8>, value: Vec<u8>) -> Self {
        Self { request: Some(Request::Put(PutRequest { key, value, lease: 0 })) }
    }

    /// Deletes the keys from `key` on, before `range_end`; an empty `range_end` deletes `key` alone.
    pub(crate) fn delete(key: Vec<u8>, range_end: Vec<u8>) -> Self {
        Self { request: Some(Request::Delete(DeleteRangeRequest { key, range_end })) }
    }

    pub(crate) fn get(key: Vec<u8>) -> Self {
        Self { request: Some(Request::Range(RangeRequest { key, ..RangeRequest::default() })) }
    }
}

impl Compare {
    /// Whether the key was created at this revision; 0: whether it does not exist.
    pub(crate) fn created(key: Vec<u8>, revision: i64) -> Self {
        Self { target: Target::Create.into(), key, wanted: Some(Wanted::CreateRevision(revision)) }
    }

    /// Whether the key was last modified at this revision; 0: whether it does not exist.
    pub(crate) fn modified(key: Vec<u8>, revision: i64) -> Self {
        Self { target: Target::Mod.into(), key, wanted: Some(Wanted::ModRevision(revision)) }
    }
}

impl TxnResponse {
    /// Returns the first value of the operation at this place, if that was a get that found its key.
    pub(crate) fn found(&self, at: usize) -> Option<&KeyValue> {
        match self.responses.get(at)?.response.as_ref()? {
            Response::Range(range) => range.kvs.first(),
            Response::Put(_) | Response::Delete(_) => None,
        }
    }

    pub(crate) fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those of etcd's own encoder.
    #[test]
    fn messages_have_etcds_field_numbers() {
        let request = TxnRequest {
            compare: vec![Compare::created(b"k".to_vec(), 7)],
            success: vec![RequestOp::put(b"k".to_vec(), b"v".to_vec())],
            failure: vec![RequestOp::delete(b"k".to_vec(), b"l".to_vec())],
        };
        // compare { target: CREATE key: "k" create_revision: 7 } success { request_put { key: "k" value: "v" } }
        // failure { request_delete_range { key: "k" range_end: "l" } }
        let wanted = [
            &[0x0a, 7, 0x10, 1, 0x1a, 1, b'k', 0x28, 7][..],
            &[0x12, 8, 0x12, 6, 0x0a, 1, b'k', 0x12, 1, b'v'],
            &[0x1a, 8, 0x1a, 6, 0x0a, 1, b'k', 0x12, 1, b'l'],
        ];
        assert_eq!(request.encode_to_vec(), wanted.concat());
    }
}
