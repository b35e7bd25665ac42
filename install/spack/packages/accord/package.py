"""Accord, for Spack: `spack repo add` the folder two levels up, then `spack install accord`."""

import os

from spack.package import *


class Accord(Package):
    """All the accelerators of a cluster as one OpenACC device space. Programs that GCC compiled with -fopenacc run unmodified."""

    # The sources: this recipe lies in them. ACCORD_SOURCES names a checkout elsewhere, as a path or an address of git.
    git = os.environ.get("ACCORD_SOURCES", os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..", "..")))

    license("Apache-2.0")

    version("0.1.0", tag="v0.1.0")
    version("main", branch="main")

    variant("mpi", default=False, description="Lanes between nodes by MPI (accord run --fabric mpi)")

    depends_on("c", type="build")
    depends_on("fortran", type="build")
    depends_on("rust@1.88:", type="build")
    depends_on("gmake", type="build")
    depends_on("mold", type="build")
    # Loaded by agents at run time.
    depends_on("hwloc@2:2", type="run")
    depends_on("mpi", when="+mpi")
    depends_on("llvm@14: +clang", type="build", when="+mpi")

    requires("platform=linux")
    requires("target=x86_64:")
    # Programs are compiled by users with the GCC that they load.
    depends_on("gcc@12:15", type="run")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        packages = ["libacc", "accord-cuf", "accord"]
        cargo("build", "--release", "--locked", "--features", "accord/services", *(word for name in packages for word in ("-p", name)))
        if "+mpi" in spec:
            Executable("scripts/build-mpi")(extra_env={"MPICC": spec["mpi"].mpicc})
        Executable("scripts/install")(extra_env={"PREFIX": prefix})

    def setup_run_environment(self, env):
        env.set("ACCORD_HOME", self.prefix)
        env.prepend_path("LIBRARY_PATH", self.prefix.lib)
        env.prepend_path("LD_LIBRARY_PATH", self.prefix.lib)
        env.prepend_path("LD_LIBRARY_PATH", self.spec["hwloc"].prefix.lib)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        Executable(self.prefix.bin.accord)("--version")
