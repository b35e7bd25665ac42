//! Copies between devices of which at least one is on another node.

use super::connection::Connection;
use super::device_client::RemoteDeviceClient;
use super::peer_liveness::PushSource;
use crate::cluster::LocalDeviceClient;
use crate::connection::{MayStall, Need};
use accord_device::CopySink;
use accord_executor::incoming_transfers::{Destination, due_after};
use accord_executor::push::ToPeer;
use accord_fabric::frame::Command;
use accord_fabric::peer::PeerId;
use accord_fabric::route::Directions;
use accord_fabric::transfer::Exchange;
use accord_types::{DevicePtr, QueueId, Result, TransferId};
use std::sync::Arc;

/// One end of a copy.
pub(crate) struct End<'a, P: ?Sized> {
    pub(crate) client: &'a P,
    pub(crate) start: DevicePtr,
}

/// Copies between two devices of other nodes, directly from one executor to the other.
///
/// # Errors
/// Returns the failure of either device or connection.
pub(crate) fn remote_to_remote(
    queue: QueueId,
    source: &End<'_, RemoteDeviceClient>,
    target: &End<'_, RemoteDeviceClient>,
    len: u64,
) -> Result<()> {
    let (from, to) = (source.client.connection()?, target.client.connection()?);
    if Arc::ptr_eq(&from, &to) {
        return same_executor(queue, &from, source, target, len);
    }
    let transfer = from.spec.transfer();
    // Checked first: a queue that can't push must not leave the target waiting.
    from.machine().last(source.client.device(), queue)?;
    // Both commands name the present lane between the two.
    let towards = from.machine().on_lane_to(to.link.peer());
    expect(&to, target, transfer, from.link.peer().on_lane(towards.lane()), len)?;
    let directions = Directions::payload(&to.spec.endpoint, &to.spec.node_name);
    push(&from, queue, source, transfer, towards, &directions, len)?;
    let device = source.client.device();
    let pushed = from.machine().last(device, queue)?;
    let pushing: Arc<dyn PushSource> = from.clone();
    to.alive.pushed_by(Arc::downgrade(&pushing), (from.link.peer(), device, queue), pushed);
    Ok(())
}

fn same_executor(
    queue: QueueId,
    connection: &Arc<Connection>,
    source: &End<'_, RemoteDeviceClient>,
    target: &End<'_, RemoteDeviceClient>,
    len: u64,
) -> Result<()> {
    let mut machine = connection.machine_with_room(Need::Operation(source.client.device(), queue))?;
    let seq = machine.last(target.client.device(), QueueId::SYNC)?.0;
    let command = Command::Relay {
        device: source.client.device(),
        queue: queue.0,
        src: source.start.0,
        target: target.client.device(),
        dst: target.start.0,
        len,
        seq,
    };
    machine.operate((source.client.device(), queue), MayStall::Yes, &command, &[], connection.now())?;
    connection.send(machine, queue)
}

/// Copies from a device of this machine to one of another node.
///
/// # Errors
/// Returns the failure of either device or of the connection.
pub(crate) fn local_to_remote(
    exchange: &Arc<Exchange>,
    queue: QueueId,
    source: &End<'_, dyn LocalDeviceClient>,
    target: &End<'_, RemoteDeviceClient>,
    len: u64,
) -> Result<()> {
    let connection = target.client.connection()?;
    let transfer = connection.spec.transfer();
    exchange.wait_to_push()?;
    // A target that can't expect the copy must not leave the push waiting. If the push then can't begin, the session is
    // over or the link is lost.
    expect(&connection, target, transfer, PeerId::PROGRAM, len)?;
    let pushing = connection.link.push(exchange, transfer, len)?;
    let hosted = source.client.hosted()?;
    let device = hosted.device().clone();
    let same_host = connection.spec.same_host_peer(connection.link.peer());
    // Otherwise its errors would look like the source's.
    let node_name = Some(connection.spec.node_name.clone());
    let state = hosted.queue(queue)?;
    let pushing = pushing.of((device.info().id, state.stream()));
    let sink = ToPeer { pushing, device: device.clone(), len, same_host, node_name };
    state.advance(device.copy_out(state.stream(), source.start, len, CopySink::peer(sink))?);
    Ok(())
}

/// Copies from a device of another node to one of this machine.
///
/// # Errors
/// Returns the failure of either device or of the connection.
pub(crate) fn remote_to_local(
    exchange: &Arc<Exchange>,
    queue: QueueId,
    source: &End<'_, RemoteDeviceClient>,
    target: &End<'_, dyn LocalDeviceClient>,
    len: u64,
) -> Result<()> {
    let connection = source.client.connection()?;
    connection.machine().last(source.client.device(), queue)?;
    let transfer = connection.spec.transfer();
    let (hosted, dst) = (target.client.hosted()?, target.start);
    let destination = Destination::new(&hosted, dst, len, connection.spec.same_host_peer(connection.link.peer()));
    connection.serve_bulk_lanes();
    exchange.wait_to_expect()?;
    exchange.expect(transfer, connection.link.peer(), len, Arc::new(destination))?;
    due_after(exchange, transfer, &hosted, hosted.last_synchronous(), ());
    push(&connection, queue, source, transfer, PeerId::PROGRAM, &[], len)
}

/// Makes the executor of `target` expect a transfer, after the program's synchronous operations there.
fn expect(
    connection: &Arc<Connection>,
    target: &End<'_, RemoteDeviceClient>,
    transfer: TransferId,
    from: PeerId,
    len: u64,
) -> Result<()> {
    let device = target.client.device();
    let mut machine = connection.machine_with_room(Need::Expect)?;
    let seq = machine.last(device, QueueId::SYNC)?.0;
    let command = Command::Expect { device, dst: target.start.0, len, transfer: transfer.0, from, seq };
    machine.put(&command, &[], connection.now())?;
    drop(machine);
    // Another node waits for it.
    connection.flush()
}

/// Makes the executor of `source` push a transfer.
fn push(
    connection: &Arc<Connection>,
    queue: QueueId,
    source: &End<'_, RemoteDeviceClient>,
    transfer: TransferId,
    to: PeerId,
    there: &[&[u8]],
    len: u64,
) -> Result<()> {
    let device = source.client.device();
    let command = Command::Push { device, queue: queue.0, src: source.start.0, len, transfer: transfer.0, to };
    let mut machine = connection.machine_with_room(Need::of(&command))?;
    let put = machine.push((device, queue), &command, there, connection.now());
    connection.send(machine, queue).and(put)
}
