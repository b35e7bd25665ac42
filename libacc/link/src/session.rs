//! A session's devices, wherever they are.

use crate::cluster::LocalPort;
use crate::local_copy;
use accord_runtime::ports::{Cluster, Port};
use accord_types::{DevicePtr, Error, ErrorCode, QueueId, Result};
use std::sync::Arc;

/// The devices of this machine, in the order of their numbers.
pub(crate) struct Session {
    ports: Vec<Arc<dyn Port>>,
    locals: Vec<Arc<dyn LocalPort>>,
}

impl Session {
    pub(crate) fn of_this_machine(locals: Vec<Arc<dyn LocalPort>>) -> Self {
        let ports = locals.iter().map(|p| Arc::clone(p) as Arc<dyn Port>).collect();
        Self { ports, locals }
    }

    fn local(&self, index: usize) -> Result<&Arc<dyn LocalPort>> {
        self.locals.get(index).ok_or_else(|| {
            Error::new(ErrorCode::DeviceUnavailable, format!("there is no device {index}"))
        })
    }
}

impl Cluster for Session {
    fn ports(&self) -> &[Arc<dyn Port>] {
        &self.ports
    }

    fn copy_between(
        &self,
        queue: QueueId,
        source: usize,
        src: DevicePtr,
        target: usize,
        dst: DevicePtr,
        len: u64,
    ) -> Result<()> {
        let (from, to) = (self.local(source)?, self.local(target)?);
        if source == target {
            return from.copy(queue, dst, src, len);
        }
        local_copy::copy(queue, &**from, src, &**to, dst, len)
    }
}
