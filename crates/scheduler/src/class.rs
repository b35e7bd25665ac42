//! Classes of devices: what requests, quotas and billing weights choose by.

use accord_types::DeviceType;

/// The properties that make devices interchangeable. An instance of a divided GPU (MIG) has a model of its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeviceClass {
    /// The device type as programs name it.
    pub kind: DeviceType,
    /// The model as requests name it: lower case, as in `h200`.
    pub model: String,
    /// Bytes of memory that one process may use: the driver's part is left out.
    pub memory: u64,
    /// Bytes of the driver's part for each process: the context of a GPU. 0 for CPU devices.
    pub context: u64,
    /// Compute capability, major and minor; (0, 0) for devices without one.
    pub compute: (u16, u16),
}

impl DeviceClass {
    /// Returns how a request names it: `nvidia/h200`, or the type alone where the model has no name.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = crate::request::words::type_name(self.kind).unwrap_or_else(|| self.kind.name());
        if self.model.is_empty() { kind.to_owned() } else { format!("{kind}/{}", self.model) }
    }
}

/// Chooses classes. Absent and zero fields match everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClassFilter {
    /// The device type; [`DeviceType::NotHost`] matches every type.
    pub kind: DeviceType,
    /// The model.
    pub model: Option<String>,
    /// Bytes of memory of the whole device, at least.
    pub memory_at_least: u64,
    /// Compute capability, at least.
    pub compute_at_least: (u16, u16),
}

impl ClassFilter {
    /// The filter that matches every class.
    pub const ALL: Self = Self { kind: DeviceType::NotHost, model: None, memory_at_least: 0, compute_at_least: (0, 0) };

    /// Whether devices of `class` are meant.
    #[must_use]
    pub fn matches(&self, class: &DeviceClass) -> bool {
        (self.kind == DeviceType::NotHost || self.kind == class.kind)
            && self.model.as_ref().is_none_or(|model| *model == class.model)
            && class.memory >= self.memory_at_least
            && class.compute >= self.compute_at_least
    }
}
