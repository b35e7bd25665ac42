//! The surroundings of `ACCORD_COMPARE`: CPU devices to compare with, arrays' names and types, and the user.

use crate::kernels::Kernels;
use crate::{cluster, output, source};
use accord_debuginfo::{Layout, Scalar as DeclaredScalar};
use accord_runtime::compare::{ArrayDescription, ComparisonHost, Elements, Field, Scalar};
use accord_runtime::ports::DeviceClient;
use accord_types::{DeviceInfo, HostRange, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// This process and its machine.
pub(crate) struct Surroundings {
    kernels: Arc<Kernels>,
    begin: Instant,
}

impl Surroundings {
    /// Creates the surroundings. `kernels` knows the program's GPU code.
    pub(crate) fn new(kernels: Arc<Kernels>) -> Self {
        Self { kernels, begin: Instant::now() }
    }
}

impl ComparisonHost for Surroundings {
    fn mirror(&self, _device: &DeviceInfo, addresses: u64) -> Result<Arc<dyn DeviceClient>> {
        cluster::further_cpu_device(&self.kernels, addresses)
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn array(&self, range: HostRange) -> ArrayDescription {
        let Some(variable) = source::variable_of(range) else {
            let index = Box::new(|number| format!("[{number}]"));
            return ArrayDescription {
                name: format!("{:#x}", range.start),
                declared: String::new(),
                elements: None,
                index,
            };
        };
        let text = variable.to_string();
        let declared = text.strip_prefix(&variable.name).unwrap_or_default();
        let declared = declared.trim_matches([' ', '(', ')']).to_owned();
        let elements = variable.layout.as_ref().and_then(elements);
        let layout = variable.layout.filter(|_| elements.is_some());
        let index = move |number| layout.as_ref().map_or_else(|| format!("[{number}]"), |layout| layout.index(number));
        ArrayDescription { name: variable.name, declared, elements, index: Box::new(index) }
    }

    fn report(&self, line: &str) {
        output::print(&format!("accord: {line}\n"));
    }
}

/// Returns the declared elements of an array; `None` if it has none that can be compared.
fn elements(layout: &Layout) -> Option<Elements> {
    let field = |field: &accord_debuginfo::Field| {
        let bytes = |bytes: u64| usize::try_from(bytes).ok();
        let scalar = match field.scalar {
            DeclaredScalar::Float(size) => Scalar::Float(bytes(size)?),
            DeclaredScalar::Integer(size) => Scalar::Integer(bytes(size)?),
            DeclaredScalar::Pointer => Scalar::Pointer,
        };
        Some(Field { offset: bytes(field.offset)?, scalar, path: field.path.clone() })
    };
    let fields = layout.fields.iter().map(field).collect::<Option<Vec<_>>>()?;
    let (bytes, before) = (usize::try_from(layout.bytes).ok()?, usize::try_from(layout.before()).ok()?);
    (!fields.is_empty()).then_some(Elements { bytes, before, fields })
}
