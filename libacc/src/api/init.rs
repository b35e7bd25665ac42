//! Starting and ending the use of devices (OpenACC 3.3, 3.2.7, 3.2.8).

use super::device_type;
use crate::abi_boundary::routine;
use crate::prof;

routine! {
    /// Starts the devices of a type (3.2.7).
    fn acc_init(kind: i32) = |runtime, local| prof::asking(|| runtime.init(local, device_type(kind)?));
    /// Starts one device of a type, which becomes the current one (3.2.7).
    fn acc_init_device(num: i32, kind: i32) =
        |runtime, local| prof::asking(|| runtime.init_device(local, num, device_type(kind)?));
    /// Ends the use of the devices of a type (3.2.8).
    fn acc_shutdown(kind: i32) = |runtime, local| prof::asking(|| runtime.shutdown(local, device_type(kind)?));
    /// Ends the use of one device of a type (3.2.8).
    fn acc_shutdown_device(num: i32, kind: i32) =
        |runtime, local| prof::asking(|| runtime.shutdown_device(local, num, device_type(kind)?));
}
