//! The parameters of CUDA kernels, which take their arguments themselves in place of an argument block.

use accord_types::kernel_launch::EncodedLaunch;

/// The parameter of a region's kernel: the address of its argument block.
const REGION: &str = "%in_ar0";
/// Bytes of an address.
const ADDRESS: usize = 8;

/// The parameters of a kernel, in the layout of the driver's parameter buffer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EntryParameters {
    list: Vec<EntryParameter>,
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct EntryParameter {
    at: usize,
    bytes: usize,
}

impl EntryParameters {
    /// Largest parameter buffer that every driver accepts.
    pub const BYTES_MAX: usize = 4096;

    /// Reads the parameters of the kernel `name` from PTX. Returns `None` if the text does not define the kernel, or the kernel is a
    /// region's, or its parameters can't be read.
    #[must_use]
    pub fn read(text: &str, name: &str) -> Option<Self> {
        text.match_indices(".entry ").find_map(|(at, directive)| {
            let rest = text[at + directive.len()..].trim_start().strip_prefix(name)?.trim_start();
            let Some(rest) = rest.strip_prefix('(') else { return rest.starts_with('{').then(Self::default) };
            let (list, body) = rest.split_once(')')?;
            // A declaration ends here.
            if body.trim_start().starts_with(';') {
                return None;
            }
            Self::of_list(list)
        })
    }

    fn of_list(list: &str) -> Option<Self> {
        let mut parameters = Self::default();
        for parameter in list.split(',').map(str::trim).filter(|parameter| !parameter.is_empty()) {
            let (alignment, bytes) = size(parameter)?;
            let at = parameters.bytes.checked_next_multiple_of(alignment)?;
            parameters.list.push(EntryParameter { at, bytes });
            parameters.bytes = at.checked_add(bytes).filter(|end| *end <= Self::BYTES_MAX)?;
        }
        Some(parameters)
    }

    /// Returns the bytes of the parameter buffer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the arguments of a launch are those of the parameters. An argument by value fills one parameter or several: the parts
    /// of a complex number are parameters of their own.
    #[must_use]
    pub fn fit(&self, launch: &EncodedLaunch<'_>) -> bool {
        self.fill(launch, 0, |_, _| {})
    }

    /// Writes the arguments of a launch that [fits](EntryParameters::fit) to `buffer`, which has [`EntryParameters::bytes`]. `base` is
    /// the device address of a copy of the launch, to which arguments by address lead.
    pub fn pack(&self, launch: &EncodedLaunch<'_>, base: u64, buffer: &mut [u8]) {
        self.fill(launch, base, |at, value| buffer[at..at + value.len()].copy_from_slice(value));
    }

    /// Calls `write` with offset and value of each parameter. Returns `false` if the arguments do not fit the parameters.
    fn fill(&self, launch: &EncodedLaunch<'_>, base: u64, mut write: impl FnMut(usize, &[u8])) -> bool {
        let mut parameters = self.list.iter();
        for argument in launch.arguments() {
            let address = base.wrapping_add(argument.at as u64).to_ne_bytes();
            let mut rest = if argument.by_address { &address[..] } else { argument.bytes };
            while !rest.is_empty() {
                let Some(parameter) = parameters.next() else { return false };
                let Some((value, more)) = rest.split_at_checked(parameter.bytes) else { return false };
                write(parameter.at, value);
                rest = more;
            }
        }
        parameters.next().is_none()
    }
}

/// Returns alignment and size of a parameter such as `.param .align 8 .b8 name[24]`; `None` if it is a region's or unknown.
fn size(parameter: &str) -> Option<(usize, usize)> {
    let mut words = parameter.split_whitespace();
    if words.next() != Some(".param") {
        return None;
    }
    let mut word = words.next()?;
    let mut alignment = None;
    if word == ".align" {
        alignment = Some(words.next()?.parse().ok().filter(|alignment: &usize| alignment.is_power_of_two())?);
        word = words.next()?;
    }
    let element = match word {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => ADDRESS,
        ".b128" => 16,
        _ => return None,
    };
    let name = words.last()?;
    if name == REGION {
        return None;
    }
    let count = match name.split_once('[') {
        Some((_, count)) => count.strip_suffix(']')?.parse().ok()?,
        None => 1,
    };
    Some((alignment.unwrap_or(element), element.checked_mul(count)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::kernel_launch::{KernelArgument, KernelLaunch};

    /// As LLVM and GCC write them.
    const TEXT: &str = "\
.version 6.0
.target sm_70
.visible .entry k_long(
	.param .u64 .ptr .align 1 k_long_param_0
)
{
ret;
}
.visible .entry k(
	.param .u64 .ptr .align 1 k_param_0,
	.param .u32 k_param_1,
	.param .align 8 .b8 k_param_2[12],
	.param .f64 k_param_3,
	.param .f64 k_param_4
)
{
	ret;
}
.visible .entry none()
{
}
.visible .entry main$_omp_fn$0 (.param .u64 %in_ar0);
.visible .entry main$_omp_fn$0 (.param .u64 %in_ar0)
{
}
";

    fn bytes(launch: &KernelLaunch) -> Vec<u8> {
        launch.encode().iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn argument(bytes: &[u8], by_address: bool) -> KernelArgument {
        KernelArgument { bytes: bytes.to_vec(), by_address }
    }

    #[test]
    fn parameters_have_the_offsets_of_their_types() {
        let parameters = EntryParameters::read(TEXT, "k").unwrap();
        let places: Vec<_> = parameters.list.iter().map(|one| (one.at, one.bytes)).collect();
        assert_eq!(places, [(0, 8), (8, 4), (16, 12), (32, 8), (40, 8)]);
        assert_eq!(parameters.bytes(), 48);
        assert_eq!(EntryParameters::read(TEXT, "k_long").unwrap().bytes(), 8);
        assert_eq!(EntryParameters::read(TEXT, "none"), Some(EntryParameters::default()));
        assert_eq!(EntryParameters::read(TEXT, "main$_omp_fn$0"), None, "a region's");
        assert_eq!(EntryParameters::read(TEXT, "other"), None);
        assert_eq!(EntryParameters::read(".entry k(.param .b8 x[5000])\n{", "k"), None, "too large");
        assert_eq!(EntryParameters::read(".entry k(.param .what x)\n{", "k"), None);
    }

    #[test]
    fn arguments_fill_the_parameters_in_order() {
        let complex = [1.5f64.to_ne_bytes(), 2.5f64.to_ne_bytes()].concat();
        let launch = KernelLaunch {
            arguments: vec![
                argument(&[9; 40], true),
                argument(&[1, 2, 3, 4], false),
                argument(&[7; 12], false),
                argument(&complex, false),
            ],
            ..KernelLaunch::default()
        };
        let bytes = bytes(&launch);
        let launch = EncodedLaunch::new(&bytes).unwrap();
        let parameters = EntryParameters::read(TEXT, "k").unwrap();
        let mut buffer = vec![0; parameters.bytes()];
        assert!(parameters.fit(&launch));
        parameters.pack(&launch, 0x1000, &mut buffer);
        let at = launch.arguments().next().unwrap().at;
        assert_eq!(buffer[..8], (0x1000 + at as u64).to_ne_bytes());
        assert_eq!((&buffer[8..12], &buffer[16..28]), (&[1, 2, 3, 4][..], &[7; 12][..]));
        assert_eq!(buffer[32..], complex);
    }

    #[test]
    fn arguments_of_other_sizes_or_numbers_are_refused() {
        let parameters = EntryParameters::read(".entry k(.param .u32 a, .param .u64 b)\n{", "k").unwrap();
        let fits = |arguments: &[KernelArgument]| {
            let bytes = bytes(&KernelLaunch { arguments: arguments.to_vec(), ..KernelLaunch::default() });
            parameters.fit(&EncodedLaunch::new(&bytes).unwrap())
        };
        let (four, eight) = (argument(&[0; 4], false), argument(&[0; 8], false));
        assert!(fits(&[four.clone(), eight.clone()]));
        assert!(!fits(&[eight.clone(), eight.clone()]));
        assert!(!fits(std::slice::from_ref(&four)));
        assert!(!fits(&[four.clone(), eight.clone(), four.clone()]));
        assert!(!fits(&[four, argument(&[0; 4], false)]));
    }
}
