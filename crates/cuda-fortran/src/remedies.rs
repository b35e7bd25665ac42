//! What to write instead of parts of CUDA that are not supported, by their names in lower case.

const ARRAYS: &str = "arrays of textures are not supported: use a device array, cudaMalloc3D or cudaMallocPitch";
const GRAPHS: &str = "graphs are not supported: launch the kernels themselves";
const GRIDS: &str = "a grid can't wait for all its blocks: end the kernel there, and launch another one";
const HOST_ARRAYS: &str = "give the array attribute device or managed";
const TEXTURES: &str = "textures are not supported: pass the device array to the kernel";

/// Starts of the names of routines and types, with remedies.
const NAMES: &[(&str, &str)] = &[
    ("cudaarrayptr", ARRAYS),
    ("cudachannelformatdesc", ARRAYS),
    ("cudafreearray", ARRAYS),
    ("cudamalloc3darray", ARRAYS),
    ("cudamallocarray", ARRAYS),
    ("cudamemcpy2darraytoarray", ARRAYS),
    ("cudamemcpy2dfromarray", ARRAYS),
    ("cudamemcpy2dtoarray", ARRAYS),
    ("cudamemcpyarraytoarray", ARRAYS),
    ("cudamemcpyfromarray", ARRAYS),
    ("cudamemcpytoarray", ARRAYS),
    ("dstarray", ARRAYS),
    ("srcarray", ARRAYS),
    ("cudabindtexture", TEXTURES),
    ("cudaunbindtexture", TEXTURES),
    ("cudagraph", GRAPHS),
    ("cudastreambegincapture", GRAPHS),
    ("cudastreamendcapture", GRAPHS),
    ("cudalaunchhostfunc", "call the procedure after cudaStreamSynchronize"),
    ("cudastreamaddcallback", "call the procedure after cudaStreamSynchronize"),
    ("cudastreamattachmemasync", "leave it out: all streams may use managed memory"),
    ("cudalaunchcooperativekernel", "end the kernel where the grid has to wait for all its blocks"),
    ("cudaipc", "pass arrays between processes by MPI"),
    ("cudamallocasync", "use cudaMalloc"),
    ("cudafreeasync", "use cudaFree"),
    ("cudamempool", "use cudaMalloc"),
    ("cudaprofilerstart", "leave it out, and see accord run --timeline"),
    ("cudaprofilerstop", "leave it out, and see accord run --timeline"),
    ("mpi_sizeof", "use storage_size(x) / 8"),
];

/// Parts of flang's errors in lower case, with remedies.
const PARTS: &[(&str, &str)] = &[
    ("attributes(texture)", TEXTURES),
    ("of generic 'syncthreads'", GRIDS),
    ("cannot be present in device context", HOST_ARRAYS),
];

/// Returns what to do instead of calling a routine with this name.
#[must_use]
pub fn of_routine(name: &str) -> Option<&'static str> {
    let is_routine = |start: &str| start.starts_with("cuda") || start.starts_with("mpi_");
    NAMES.iter().find(|(start, _)| is_routine(start) && name.starts_with(start)).map(|(_, remedy)| *remedy)
}

/// Returns what to do about the first of flang's errors that quotes such a name, or has such a part.
#[must_use]
pub fn of_errors(errors: &str) -> Option<&'static str> {
    let errors: Vec<String> =
        errors.lines().filter(|line| line.contains("error:")).map(str::to_ascii_lowercase).collect();
    let quoted = errors.iter().flat_map(|line| line.split('\'').skip(1).step_by(2));
    let names = quoted.filter_map(|name| NAMES.iter().find(|(start, _)| name.starts_with(start)));
    let parts = PARTS.iter().filter(|(part, _)| errors.iter().any(|line| line.contains(part)));
    names.chain(parts).map(|(_, remedy)| *remedy).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_flangs_errors_have_remedies() {
        let errors = "error: Semantic errors in a.cuf\n./a.cuf:3:8: error: Derived type 'cudaarrayptr' not found\n";
        assert_eq!(of_errors(errors), Some(ARRAYS));
        assert_eq!(of_errors("a.cuf:2:29: error: ATTRIBUTES(TEXTURE) is obsolete"), Some(TEXTURES));
        assert_eq!(of_errors("a.cuf:2:2: error: No explicit type declared for 'x'"), None);
        assert_eq!(
            of_errors("a.cuf:9:5: error: No specific subroutine of generic 'syncthreads' matches the actual arguments"),
            Some(GRIDS)
        );
        assert_eq!(of_routine("srcarray"), None);
        assert_eq!(of_routine("cudagraphlaunch"), Some(GRAPHS));
    }
}
