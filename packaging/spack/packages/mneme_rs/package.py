"""Spack recipe: `spack repo add packaging/spack`, then `spack install mneme-rs`."""

from spack.package import *


class MnemeRs(Package):
    """Record-replay and autotuning for GPU kernels: records a kernel of a running CUDA or HIP application, replays it
    alone from LLVM IR, verifies every byte it writes, and searches the fastest launch shape and pipeline."""

    homepage = "https://github.com/mneme-rs/mneme"
    git = "https://github.com/mneme-rs/mneme.git"
    license("Apache-2.0 WITH LLVM-exception")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("rust@1.89:", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    # The builders link LLVM and lld statically; clang compiles what is recorded.
    depends_on("llvm@19 +clang +lld +polly ~llvm_dylib targets=nvptx,amdgpu,x86", type=("build", "link", "run"))
    depends_on("zlib-api", type="build")
    depends_on("zstd libs=static,shared", type="build")
    depends_on("libffi", type="build")
    conflicts("target=aarch64:", msg="nobody has tried the recipe there")

    def setup_build_environment(self, env):
        env.set("LLVM_SYS_191_PREFIX", self.spec["llvm"].prefix)

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        crates = ["cc", "cli", "compiler", "cpu", "mcp", "rec", "replayer", "tuner"]
        cargo(
            "build",
            "--release",
            "--locked",
            *[f"--package=mneme-{crate}" for crate in crates],
            "--no-default-features",
            "--features=mneme-compiler/llvm19",
        )
        Executable("scripts/install")(prefix)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def doctor(self):
        Executable(join_path(self.prefix.bin, "mneme"))("doctor")
