//! Sends GPU code to an executor: each image once, before anything names it.

use super::connection::Connection;
use crate::connection::Need;
use accord_fabric::frame::{Command, PAYLOAD_MAX};
use accord_types::{ImageId, ImageRef, Result};
use std::sync::Arc;

/// Sends all images that are known by now: the device compiles them when it starts.
///
/// # Errors
/// Returns an error if the connection is lost.
pub(super) fn send_all(connection: &Arc<Connection>) -> Result<()> {
    connection.spec.session.images.ids().into_iter().try_for_each(|id| send(connection, id))
}

/// Sends the image of a function or variable if the executor doesn't have it.
///
/// # Errors
/// Returns an error if the connection is lost.
pub(super) fn send_of(connection: &Arc<Connection>, what: Option<ImageRef>) -> Result<()> {
    what.map_or(Ok(()), |what| send(connection, what.image))
}

fn send(connection: &Arc<Connection>, id: ImageId) -> Result<()> {
    // Held until the whole image is being sent: pieces of two images must not mix, and a thread that finds the
    // image sent may name it.
    let mut sent = connection.images_sent.take();
    if sent.contains(&id) {
        return Ok(());
    }
    // The executor reports an unknown image, naming the region.
    let Some(image) = connection.spec.session.images.get(id) else { return Ok(()) };
    let bytes = image.encode()?;
    let len = bytes.len() as u64;
    for (offset, piece) in (0..).step_by(PAYLOAD_MAX).zip(bytes.chunks(PAYLOAD_MAX)) {
        let mut machine = connection.machine_with_room(Need::Command)?;
        machine.put(&Command::Image { offset, len }, &[piece], connection.now())?;
        connection.send_later(machine)?;
    }
    sent.insert(id);
    Ok(())
}
