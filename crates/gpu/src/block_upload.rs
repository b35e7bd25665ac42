//! Argument blocks in device memory.

use super::driver::DriverError;
use super::stream::Stream;
use accord_types::ArgBlock;

/// Copies a block to the stream's own device memory, with its relative words made absolute.
pub(super) fn upload(stream: &Stream, block: &ArgBlock<'_>) -> Result<u64, DriverError> {
    let at = stream.block()?;
    let mut bytes = [0; ArgBlock::BYTES_MAX];
    let bytes = &mut bytes[..block.bytes.len()];
    bytes.copy_from_slice(block.bytes);
    for pointer in block.relative_offsets() {
        let cell = &mut bytes[pointer..pointer + 8];
        let mut offset = [0; 8];
        offset.copy_from_slice(cell);
        let offset = u64::from_ne_bytes(offset);
        cell.copy_from_slice(&at.wrapping_add(offset).to_ne_bytes());
    }
    // SAFETY: the target is as long as the largest block. The driver reads so few bytes before it returns.
    unsafe { stream.shared.context.driver.cuMemcpyHtoDAsync_v2(at, bytes.as_ptr().cast(), bytes.len(), stream.raw) }?;
    Ok(at)
}
