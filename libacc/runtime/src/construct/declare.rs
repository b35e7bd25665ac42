//! `declare` of local variables (OpenACC 3.3, 2.13).

use super::kind::{Absent, Data, Kind};
use super::{Entries, on_host};
use crate::{LocalThread, Runtime};
use accord_types::{Error, ErrorCode, Result};

/// GCC's number for `create`.
const ALLOC: u16 = 0x00;
/// GCC's number for `acc_async_sync`.
const SYNC: i32 = -2;

impl Runtime {
    /// Implements `declare` of local variables, at the start and at the end of their scope (2.13). Each entry is independent.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::parallel`].
    pub fn declare(&self, t: &mut LocalThread, flags: i32, entries: &mut Entries<'_>) -> Result<()> {
        self.declare_all(t, flags, entries).map_err(|error| error.call("declare"))
    }

    fn declare_all(&self, t: &mut LocalThread, flags: i32, entries: &mut Entries<'_>) -> Result<()> {
        if on_host(flags) || self.target(t)?.is_none() {
            return Ok(());
        }
        for i in 0..entries.hosts.len() {
            let (host, size, word) = (entries.hosts[i], entries.sizes[i], entries.kinds[i]);
            let (hosts, sizes, kinds) = (&mut [host], &[size], &[word]);
            let one = &mut Entries::new(hosts, sizes, kinds);
            match Kind::decode(word)? {
                Kind::DevicePtr | Kind::Pointer | Kind::Descriptor => {}
                Kind::Release { .. } => self.exit_data(t, flags, one, SYNC, &[])?,
                Kind::Data(Data { copy_in: false, copy_out: true, .. }) => self.exit_data(t, flags, one, SYNC, &[])?,
                // Only what is absent: the end of the scope has one `declare`, too.
                Kind::Data(data) if word & 0xff == ALLOC && data.absent == Absent::Create => {
                    if !self.is_present(t, host, size)? {
                        self.enter_data(t, flags, one, SYNC, &[])?;
                    }
                }
                Kind::Data(_) => self.enter_data(t, flags, one, SYNC, &[])?,
                other => {
                    return Err(Error::new(ErrorCode::InvalidArgument, format!("an entry of kind {other:?}")));
                }
            }
        }
        Ok(())
    }
}
