//! Classes of devices, by which requests, quotas and billing weights select devices.

use accord_types::DeviceType;

/// The properties that make devices interchangeable. An instance of a divided GPU (MIG) has its own model.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeviceClass {
    /// The device type, as in programs.
    pub kind: DeviceType,
    /// The model, as in requests: lower case, such as `h200`.
    pub model: String,
    /// Bytes of memory for one process, without the driver's share.
    pub memory: u64,
    /// Bytes of the driver's share for each process, the context of a GPU. 0 for CPU devices.
    pub context: u64,
    /// Compute capability, major and minor; (0, 0) for devices without one.
    pub compute: (u16, u16),
}

impl DeviceClass {
    /// Returns the name in requests: `nvidia/h200`, or the type alone for a model without a name.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = crate::request::words::type_name(self.kind).unwrap_or_else(|| self.kind.name());
        if self.model.is_empty() { kind.to_owned() } else { format!("{kind}/{}", self.model) }
    }
}

/// Selects classes. Absent and zero fields match everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClassFilter {
    /// The device type; [`DeviceType::NotHost`] matches every type.
    pub kind: DeviceType,
    /// The model.
    pub model: Option<String>,
    /// Least bytes of memory of the whole device.
    pub memory_at_least: u64,
    /// Least compute capability.
    pub compute_at_least: (u16, u16),
}

impl ClassFilter {
    /// The filter that matches every class.
    pub const ALL: Self = Self { kind: DeviceType::NotHost, model: None, memory_at_least: 0, compute_at_least: (0, 0) };

    /// Whether the filter matches devices of `class`.
    #[must_use]
    pub fn matches(&self, class: &DeviceClass) -> bool {
        (self.kind == DeviceType::NotHost || self.kind == class.kind)
            && self.model.as_ref().is_none_or(|model| *model == class.model)
            && class.memory >= self.memory_at_least
            && class.compute >= self.compute_at_least
    }
}
