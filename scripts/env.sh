# shellcheck shell=bash
# What every script of this folder needs: where things are, and how to say what is being done. Source it, do not run it:
#     source scripts/env.sh
# The variables are useful in an interactive shell too. CUDA_PATH is set even where it was set before: the CUDA that a
# machine happens to have is often newer than what clang 19 takes.

MNEME_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export MNEME_ROOT
# Where Debian has LLVM 19, or Fedora.
if [ -z "${LLVM_SYS_191_PREFIX:-}" ]; then
    LLVM_SYS_191_PREFIX=/usr/lib/llvm-19
    [ -d "$LLVM_SYS_191_PREFIX" ] || [ ! -d /usr/lib64/llvm19 ] || LLVM_SYS_191_PREFIX=/usr/lib64/llvm19
fi
export LLVM_SYS_191_PREFIX
export CUDA_PATH=$MNEME_ROOT/.deps/cuda

# The LLVM whose builder the workspace makes, and others whose builders are made where their development files are
# installed.
llvm_default=19
llvm_others=(20 21 22 23)

# What of the workspace makes programs and libraries that are installed; the rest is for tests.
installed_crates=(mneme-cc mneme-cli mneme-compiler mneme-cpu mneme-mcp mneme-rec mneme-replayer mneme-tuner)

# True where a version's archives can be linked.
have_llvm() { local sys=LLVM_SYS_${1}1_PREFIX; [ -f "${!sys:-/usr/lib/llvm-$1}/lib/liblldELF.a" ]; }

# The profile of what is built and installed here: packages are made with MNEME_PROFILE=release.
profile=${MNEME_PROFILE:-dev}
# Prints the folder of what that profile makes.
built_folder() { printf '%s\n' "${CARGO_TARGET_DIR:-$MNEME_ROOT/target}/${profile/#dev/debug}"; }

# Makes what is installed, without what breaks kernels on purpose, which is for the tests.
build_installed() {
    cargo build --profile "$profile" --quiet "${installed_crates[@]/#/--package=}" --no-default-features \
        --features "mneme-compiler/llvm$llvm_default" "$@"
}

# Makes the builder of a version of LLVM beside the other programs: build_builder NN [FEATURES].
build_builder() {
    cargo build --profile "$profile" --quiet --package mneme-compiler --no-default-features --features "llvm$1${2:+,$2}" --bin "mneme-build-$1"
}

# Makes the builders of all other versions that can be linked here; what an earlier build has left of others goes, as it
# is of an earlier source: build_other_builders [FEATURES].
build_other_builders() {
    local version
    for version in "${llvm_others[@]}"; do
        rm -f "$(built_folder)/mneme-build-$version"
        have_llvm "$version" || continue
        step "Building with LLVM $version"
        build_builder "$version" "$@"
    done
}

# Builds the end-to-end suite, and prints the path of its executable. The whole workspace, as scripts/test has it.
suite_executable() {
    local suite
    suite=$(cargo test --workspace --test e2e --no-run --message-format=json 2>/dev/null |
        jq -r 'select(.reason == "compiler-artifact" and .executable != null and .target.name == "e2e") | .executable')
    [ -x "$suite" ] || die "the suite cannot be built: run 'cargo test --workspace --test e2e --no-run' to see why"
    printf '%s\n' "$suite"
}

# The oldest glibc that bundles and wheels run with: what is loaded into applications, and programs.
glibc_libraries=2.17
glibc_programs=2.28

# Sets `portable_rust` and `portable_link`: options of rustc and of linkers that link for every glibc from those on.
portable_flags() {
    "$MNEME_ROOT/scripts/glibc/assemble"
    # Libraries of this machine (the unwinder) may want the glibc of this machine.
    portable_link=("-B$MNEME_ROOT/.deps/glibc" "-L$MNEME_ROOT/.deps/glibc" -Wl,--allow-shlib-undefined)
    portable_rust=("${portable_link[@]/#/-Clink-arg=}")
}

# Lets cargo build with these from here on, into target/portable; and the tests compile their programs with them.
portable() {
    portable_flags
    export CARGO_TARGET_DIR=$MNEME_ROOT/target/portable RUSTFLAGS="${portable_rust[*]}" LDFLAGS="${portable_link[*]}"
    # Libraries of that glibc which newer ones have within the C library.
    export MNEME_TEST_LDFLAGS="$LDFLAGS -static-libstdc++ -lpthread -ldl"
}

# The version of the workspace, which everything that is packed has.
mneme_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$MNEME_ROOT/Cargo.toml"; }

# clang's linker wrapper looks for nvlink on PATH only.
case :$PATH: in *:"$CUDA_PATH/bin":*) ;; *) PATH=$PATH:$CUDA_PATH/bin ;; esac

# rustup's default home, for shells that have not read ~/.profile.
if ! command -v cargo >/dev/null 2>&1 && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
fi

export PATH

# One short line a step.
step() { printf '==> %s\n' "$*"; }

# Ends a script with its usage, asked for (`--help`) or called for by a command line that makes no sense: usage TEXT
# ARGUMENT.
usage() {
    case ${2:-} in -h | --help) printf 'Usage: %s\n' "$1"; exit 0 ;; esac
    printf 'usage: %s\n' "$1" >&2
    exit 64
}

# One sentence, and out.
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Prints a command as one would type it, then runs it.
show() {
    local word line=
    for word; do
        if [[ $word =~ ^[][A-Za-z0-9_./:=,+@%^~-]+$ ]]; then line+=" $word"; else line+=" '${word//\'/\'\\\'\'}'"; fi
    done
    printf '\n$%s\n' "$line"
    "$@"
}

# clang's switches for a CUDA program against the toolkit that scripts/setup assembles. clang 19 knows CUDA up to 12.5
# by name and merely warns about 12.9.
cuda_flags() {
    printf '%s\n' -x cuda "--cuda-path=$CUDA_PATH" "--cuda-gpu-arch=${MNEME_TEST_ARCH:-sm_90}" -O3 -std=c++17 -Wno-unknown-cuda-version
}

# Link switches, shared (the default) or static.
cudart_flags() {
    case ${1:-shared} in
        shared) printf '%s\n' "-L$CUDA_PATH/lib64" "-Wl,-rpath,$CUDA_PATH/lib64" -lcudart ;;
        static) printf '%s\n' "-L$CUDA_PATH/lib64" -lcudart_static -ldl -lrt -lpthread ;;
        *) die "cudart is linked 'shared' or 'static', not '$1'" ;;
    esac
}

# Whether clang of the default LLVM reads the device libraries of HIP that are here; those of Debian sid are for a newer
# one. As mneme_system::toolkits has it.
have_hip() {
    local folder folders=(/usr/lib/x86_64-linux-gnu/amdgcn/bitcode /usr/amdgcn/bitcode /opt/rocm/amdgcn/bitcode) version
    for ((version = 17; version <= llvm_default; version++)); do
        folders+=("/usr/lib/llvm-$version/lib/clang/$version/amdgcn/bitcode")
    done
    for folder in "${folders[@]}"; do
        [ ! -f "$folder/ocml.bc" ] || return 0
    done
    return 1
}

# Whether nvcc takes this machine's host compiler and C library; those of Debian sid are too new for CUDA 13.
have_nvcc() {
    local folder status=0
    folder=$(mktemp -d)
    echo '__global__ void kernel() {}' >"$folder/kernel.cu"
    "$MNEME_ROOT/.deps/nvcc/bin/nvcc" -c "$folder/kernel.cu" -o "$folder/kernel.o" >/dev/null 2>&1 || status=1
    rm -rf "$folder"
    return $status
}

# True where the driver lists a GPU.
have_gpu() { [ -e /dev/nvidiactl ] && ls /dev/nvidia[0-9]* >/dev/null 2>&1; }
