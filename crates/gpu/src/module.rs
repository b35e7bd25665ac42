//! Links and loads images on the device, and looks their symbols up.

use super::cache::{Cache, Key};
use super::context::Context;
use super::driver::DriverError;
use super::function::{Function, GangBlocks, KernelParameters, Occupancy, Parameters};
use super::gangs::Gangs;
use super::launch::WARP;
use accord_image::{
    BlockPath, EntryParameters, GangCount, GangUse, Image, ImageFunction, Kernel, PARAMETER_SM_MIN, REWRITE_VERSION,
    Refusal, gangs_apart, rewrite, with_atomics,
};
use accord_types::{DevicePtr, Error, ErrorCode, FunctionSpec, Result};
use cudarc::driver::sys::{
    CUdevice_attribute as Attribute, CUfunction, CUfunction_attribute, CUjit_option, CUjitInputType, CUlinkState,
    CUmodule,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::{CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// Oldest driver (CUDA 11.7) that reads the PTX version of rewritten objects.
const REWRITE_DRIVER_MIN: i32 = 11_070;

/// A loaded image.
pub(crate) struct Module {
    image: Arc<Image>,
    raw: CUmodule,
    /// How each kernel receives its argument block, by the kernel's name in the PTX.
    kernels: HashMap<String, BlockPath>,
    /// How each kernel's code uses its number of gangs.
    gangs: HashMap<String, GangUse>,
    /// Whether gangs can share thread blocks, by region.
    shares_blocks: Vec<bool>,
    /// Kernels whose gangs update the same memory.
    atomic: HashSet<String>,
    context: Arc<Context>,
}

// SAFETY: modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads an image from the cache, or compiles and caches it. The context is current.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` with the compiler's text.
    pub(crate) fn load(context: &Arc<Context>, image: Arc<Image>, cache: Option<&Cache>) -> Result<Self> {
        let sm = sm(context);
        let driver = driver_version(context);
        let texts = texts(&image, if driver >= REWRITE_DRIVER_MIN { sm } else { PARAMETER_SM_MIN - 1 })?;
        let key =
            |rewritten: bool| Key { image: image.id(), sm, driver, rewritten: rewritten.then_some(REWRITE_VERSION) };
        let mut kernels: HashMap<String, BlockPath> = texts
            .iter()
            .flat_map(|text| &text.kernels)
            .map(|kernel| (kernel.name.clone(), kernel.block.clone()))
            .collect();
        let gangs = (texts.iter().flat_map(|text| &text.kernels))
            .map(|kernel| (kernel.name.clone(), kernel.gangs.clone()))
            .collect();
        let rewritten = texts.iter().any(|text| matches!(text.rewritten, Cow::Owned(_)));
        let ways: &[bool] = if rewritten { &[true, false] } else { &[false] };
        let mut raw = None;
        for &way in ways {
            if let Some(code) = cache.and_then(|cache| cache.load(&key(way))) {
                // Cached code that the driver refuses is compiled again.
                raw = load_code(context, &code).ok().map(|module| (way, module));
            }
            if raw.is_some() {
                break;
            }
        }
        let mut failure = None;
        if raw.is_none() {
            for &way in ways {
                let objects: Vec<&str> =
                    texts.iter().map(|text| if way { &*text.rewritten } else { text.original }).collect();
                match link(context, &objects, cache.map(|cache| (cache, key(way)))) {
                    Ok(module) => {
                        raw = Some((way, module));
                        break;
                    }
                    Err(error) => failure = Some(error),
                }
            }
        }
        let Some((way, raw)) = raw else {
            return Err(failure.unwrap_or_else(|| Error::new(ErrorCode::DeviceInit, "the program's GPU code is empty")));
        };
        if rewritten && !way {
            for block in kernels.values_mut().filter(|block| matches!(block, BlockPath::Parameter(_))) {
                *block = BlockPath::Memory(Refusal::Driver);
            }
        }
        let shares = |function: &ImageFunction| {
            let kernel = texts.iter().flat_map(|text| &text.kernels).find(|kernel| kernel.name == function.name);
            kernel.is_some_and(|kernel| kernel.shares_blocks)
        };
        let apart = gangs_apart(&image);
        let functions = image.functions.iter().zip(&apart);
        let shares_blocks = functions.map(|(function, apart)| way && apart.is_none() && shares(function)).collect();
        let atomic = with_atomics(texts.iter().map(|text| text.original)).into_iter().map(str::to_owned).collect();
        let module = Self {
            kernels,
            gangs,
            shares_blocks,
            atomic,
            raw,
            context: Arc::clone(context),
            image: Arc::clone(&image),
        };
        module.prepare()?;
        Ok(module)
    }

    /// Returns how each kernel receives its argument block.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = (&str, &BlockPath)> {
        self.kernels.iter().map(|(name, block)| (name.as_str(), block))
    }

    /// Returns a region by its number in the image. `spec` is for messages.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if the region does not exist.
    pub(crate) fn function(&self, index: u32, spec: &FunctionSpec) -> Result<Function> {
        let name = &spec.name;
        let Some(known) = self.image.functions.get(index as usize) else {
            return Err(missing(&format!("region {name} (number {index})")));
        };
        let raw =
            self.raw_function(&known.name).map_err(|error| missing(&format!("region {}: {error}", known.name)))?;
        let dims = known.dims.map(u32::from);
        let driver = self.context.driver;
        let threads_max = self.limit(raw, CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        // Known numbers of threads limit the driver's choice.
        let limit = if dims[1] != 0 && dims[2] != 0 { (dims[1] * dims[2]) as i32 } else { 0 };
        let (mut grid, mut block) = (0, 0);
        // SAFETY: all values are valid for writing, the function is the module's.
        unsafe {
            driver.cuOccupancyMaxPotentialBlockSize(&raw mut grid, &raw mut block, raw, std::ptr::null(), 0, limit)?;
        }
        let parameters = match (self.kernels.get(&known.name), self.entry(&known.name)) {
            (Some(BlockPath::Parameter(layout)), _) => Parameters::Block(*layout),
            (None, Some(entry)) => {
                Parameters::Kernel(KernelParameters { entry, shared_max: self.dynamic_shared(raw)? })
            }
            _ => Parameters::BlockAddress,
        };
        // Gangs that update the same memory wait for these updates.
        let atomic = self.atomic.contains(&known.name);
        let shares_blocks = self.shares_blocks.get(index as usize).is_some_and(|shares| *shares) && !atomic;
        let blocks = shares_blocks.then(|| self.gang_blocks(raw, threads_max)).flatten();
        Ok(Function {
            name: name.clone(),
            place: (spec.object.path.clone(), spec.offset),
            raw,
            parameters,
            dims,
            count: self.gangs.get(&known.name).map_or(GangCount::AsGiven, |gangs| gangs.count(known.dims[0])),
            threads_max,
            blocks,
            occupancy: Occupancy { grid: grid.unsigned_abs(), block: block.unsigned_abs() },
            gangs: if atomic { Gangs::few() } else { Gangs::measured(&self.context) },
        })
    }

    /// Returns the parameters of a CUDA kernel; `None` if the function is a region's.
    fn entry(&self, name: &str) -> Option<EntryParameters> {
        let mut texts = self.image.objects.iter().filter_map(|object| std::str::from_utf8(object).ok());
        texts.find_map(|text| EntryParameters::read(text, name))
    }

    /// Returns a limit of a function's launches.
    fn limit(&self, raw: CUfunction, attribute: CUfunction_attribute) -> Result<u32, DriverError> {
        let mut value = 0;
        // SAFETY: the value is valid for writing, the function is the module's.
        unsafe { self.context.driver.cuFuncGetAttribute(&raw mut value, attribute, raw) }?;
        Ok(value.unsigned_abs())
    }

    /// Allows a kernel all shared memory that the device gives a block which opts in. Returns the most bytes of dynamic shared memory.
    fn dynamic_shared(&self, raw: CUfunction) -> Result<u32, DriverError> {
        let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let usual = self.limit(raw, dynamic)?;
        let most = self.context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        let fixed = self.limit(raw, CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let most = most.unsigned_abs().saturating_sub(fixed);
        if most <= usual {
            return Ok(usual);
        }
        // SAFETY: the function is the module's.
        unsafe { self.context.driver.cuFuncSetAttribute(raw, dynamic, most.cast_signed()) }?;
        Ok(most)
    }

    /// Returns the number of gangs of one warp in the blocks of a kernel.
    fn gang_blocks(&self, raw: CUfunction, threads_max: u32) -> Option<GangBlocks> {
        let driver = self.context.driver;
        let fitting = |gangs: u32| {
            let (threads, mut blocks) = (gangs * WARP, 0);
            // SAFETY: the value is valid for writing, the function is the module's.
            let asked = unsafe {
                driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, raw, threads.cast_signed(), 0)
            };
            if asked.is_ok() && threads <= threads_max { blocks.unsigned_abs() } else { 0 }
        };
        let multiprocessors = self.context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        GangBlocks::choose(multiprocessors.unsigned_abs(), fitting)
    }

    /// Returns the address of a variable by its number in the image.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if the variable does not exist or has another size.
    pub(crate) fn variable(&self, index: u32, len: u64) -> Result<DevicePtr> {
        let Some(known) = self.image.variables.get(index as usize) else {
            return Err(missing(&format!("variable number {index}")));
        };
        let (start, bytes) =
            self.raw_variable(&known.name).map_err(|error| missing(&format!("variable {}: {error}", known.name)))?;
        // For a link variable the device has only its address.
        if bytes as u64 != len && bytes != size_of::<u64>() {
            return Err(missing(&format!("variable {} with {len} bytes: the device's has {bytes}", known.name)));
        }
        Ok(DevicePtr(start))
    }

    fn raw_function(&self, name: &str) -> Result<CUfunction, DriverError> {
        let mut raw = null_mut();
        let name = c_string(name);
        // SAFETY: `raw` is valid for writing, the name ends with a zero byte.
        unsafe { self.context.driver.cuModuleGetFunction(&raw mut raw, self.raw, name.as_ptr()) }?;
        Ok(raw)
    }

    fn raw_variable(&self, name: &str) -> Result<(u64, usize), DriverError> {
        let (mut start, mut bytes) = (0, 0);
        let name = c_string(name);
        // SAFETY: both are valid for writing, the name ends with a zero byte.
        unsafe { self.context.driver.cuModuleGetGlobal_v2(&raw mut start, &raw mut bytes, self.raw, name.as_ptr()) }?;
        Ok((start, bytes))
    }

    /// Prepares GCC's run-time library on the device for the first region.
    fn prepare(&self) -> Result<(), DriverError> {
        let driver = self.context.driver;
        if let Ok((at, 8)) = self.raw_variable("__nvptx_clocktick") {
            let kilohertz = self.context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).max(1);
            let seconds = 1e-3 / f64::from(kilohertz);
            // SAFETY: the variable has 8 bytes, and the driver reads the value before it returns.
            unsafe { driver.cuMemcpyHtoDAsync_v2(at, (&raw const seconds).cast(), 8, null_mut()) }?;
        }
        // GCC 13 and later: constructors of variables in `declare`.
        if let Ok(constructors) = self.raw_function("__do_global_ctors__entry") {
            // SAFETY: the function takes no parameters.
            unsafe {
                driver.cuLaunchKernel(constructors, 1, 1, 1, 1, 1, 1, 0, null_mut(), null_mut(), null_mut())?;
                driver.cuStreamSynchronize(null_mut())?;
            }
        }
        Ok(())
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let Ok(_current) = self.context.enter() else { return };
        // SAFETY: no code of the module runs any more.
        let _ = unsafe { self.context.driver.cuModuleUnload(self.raw) };
    }
}

struct Text<'a> {
    original: &'a str,
    rewritten: Cow<'a, str>,
    kernels: Vec<Kernel>,
}

fn texts(image: &Image, sm: u32) -> Result<Vec<Text<'_>>> {
    image
        .objects
        .iter()
        .map(|object| {
            let original = std::str::from_utf8(object)
                .map_err(|_| Error::new(ErrorCode::DeviceInit, "the program's GPU code is not PTX text"))?;
            let rewritten = rewrite(original, sm);
            Ok(Text { original, rewritten: rewritten.text, kernels: rewritten.kernels })
        })
        .collect()
}

/// Compiles and links PTX objects, loads the code and stores it.
fn link(context: &Context, objects: &[&str], cache: Option<(&Cache, Key)>) -> Result<CUmodule> {
    const LOG: usize = 8 << 10;
    let driver = context.driver;
    let mut log = vec![0u8; LOG];
    let mut options = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG)];
    let mut state: CUlinkState = null_mut();
    // SAFETY: options and values match; the log outlives the link.
    unsafe { driver.cuLinkCreate_v2(2, options.as_mut_ptr(), values.as_mut_ptr(), &raw mut state) }?;
    let linked = (|| {
        for (number, object) in objects.iter().enumerate() {
            // The driver wants the final zero byte.
            let mut text = Vec::with_capacity(object.len() + 1);
            text.extend_from_slice(object.as_bytes());
            text.push(0);
            let name = c_string(&format!("object{number}"));
            // SAFETY: the text is valid for its length, and the driver copies it.
            unsafe {
                driver.cuLinkAddData_v2(
                    state,
                    CUjitInputType::CU_JIT_INPUT_PTX,
                    text.as_mut_ptr().cast(),
                    text.len(),
                    name.as_ptr(),
                    0,
                    null_mut(),
                    null_mut(),
                )
            }?;
        }
        let (mut code, mut size) = (null_mut(), 0);
        // SAFETY: both are valid for writing.
        unsafe { driver.cuLinkComplete(state, &raw mut code, &raw mut size) }?;
        // SAFETY: the code holds until the link is destroyed.
        let bytes = unsafe { std::slice::from_raw_parts(code.cast::<u8>(), size) };
        let module = load_code(context, bytes)?;
        if let Some((cache, key)) = cache {
            cache.store(&key, bytes);
        }
        Ok(module)
    })();
    // SAFETY: the state was created above, and is not used any more.
    let _ = unsafe { driver.cuLinkDestroy(state) };
    linked.map_err(|error: DriverError| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(LOG);
        let printed = String::from_utf8_lossy(&log[..end]).trim().replace('\n', "; ");
        Error::new(
            ErrorCode::DeviceInit,
            format!("the driver can't compile the program's GPU code: {error}: {printed}"),
        )
        .remedy("compile with GCC 12 or later, or update the NVIDIA driver")
    })
}

fn load_code(context: &Context, code: &[u8]) -> Result<CUmodule, DriverError> {
    let mut module = null_mut();
    // SAFETY: `module` is valid for writing, and machine code carries its own length.
    unsafe { context.driver.cuModuleLoadData(&raw mut module, code.as_ptr().cast()) }?;
    Ok(module)
}

/// Returns the compute capability, 90 for `sm_90`.
pub(crate) fn sm(context: &Context) -> u32 {
    let major = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    let minor = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    (major * 10 + minor).unsigned_abs()
}

fn driver_version(context: &Context) -> i32 {
    let mut version = 0;
    // SAFETY: the value is valid for writing. An error leaves 0, which counts as old.
    let _ = unsafe { context.driver.cuDriverGetVersion(&raw mut version) };
    version
}

/// Converts a name. No name in PTX contains a zero byte, so that one with such a byte is cut and not found.
fn c_string(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text.as_bytes()[..end] as &[u8]).unwrap_or_default()
}

fn missing(what: &str) -> Error {
    Error::new(ErrorCode::DeviceInit, format!("the program's GPU code has no {what}"))
        .remedy("compile and link all of the program with -foffload=nvptx-none")
}

const _: () = assert!(size_of::<c_char>() == 1);
