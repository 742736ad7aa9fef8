//! Tests of LLVM IR in HIP's containers, as LLVM's own tools write them.
//!
//! It is in a code object with sections of Proteus's, in an offload bundle, in the section `.hip_fatbin` of a host
//! object.

use std::path::Path;
use std::process::Command;

use mneme_image::{bitcode, bundle, elf, embedded};

const PROCESSOR: &str = "gfx90a";

/// Runs a tool of LLVM 19, which must succeed; false where this machine does not have it.
fn tool(name: &str, folder: &Path, arguments: &[&str]) -> bool {
    let Ok(status) = Command::new(name).args(arguments).current_dir(folder).status() else {
        mneme_fixtures::skip(format_args!("no {name} on this machine"));
        return false;
    };
    assert!(status.success(), "{name} {arguments:?}");
    true
}

#[test]
fn sections_of_proteus_come_out_of_plain_and_compressed_bundles() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let kernel = |name: &str, operator: &str| {
        format!("__attribute__((amdgpu_kernel)) void {name}(int *p) {{ p[0] {operator}= 3; }}\n")
    };
    std::fs::write(at("k.c"), kernel("scale", "*") + &kernel("shift", "+")).unwrap();
    let clang = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-nogpuinc", "-O1", "-w", "-c", "k.c"];
    let sections = [".jit.bitcode.scaleunit.5eed", ".jit.bitcode.shiftunit.5eed"];
    let adding = sections.map(|section| format!("--add-section={section}=k.bc"));
    let steps: [(&str, Vec<&str>); 5] = [
        ("clang-19", [&clang[..], &["-emit-llvm", "-o", "k.bc"]].concat()),
        ("clang-19", [&clang[..], &["-o", "k.o"]].concat()),
        ("ld.lld-19", vec!["-shared", "k.o", "-o", "k.co"]),
        ("llvm-objcopy-19", vec![&adding[0], &adding[1], "k.co"]),
        ("clang-19", vec!["-x", "c", "-c", "/dev/null", "-o", "host.o"]),
    ];
    if !steps.iter().all(|(name, arguments)| tool(name, folder.path(), arguments)) {
        return;
    }
    let expected = std::fs::read(at("k.bc")).unwrap();
    for compression in [&[][..], &["-compress"]] {
        let targets = format!("-targets=host-x86_64-unknown-linux--,hipv4-amdgcn-amd-amdhsa--{PROCESSOR}");
        let bundling =
            ["-type=o", "-bundle-align=4096", &targets, "-input=/dev/null", "-input=k.co", "-output=k.hipfb"];
        let embedding = ["--add-section=.hip_fatbin=k.hipfb", "host.o", "program.o"];
        if !tool("clang-offload-bundler-19", folder.path(), &[&bundling[..], compression].concat())
            || !tool("llvm-objcopy-19", folder.path(), &embedding)
        {
            return;
        }
        let program = elf::MappedFile::open(&at("program.o")).unwrap();
        assert!(elf::needs(program.bytes()).device_code);
        let image = program.section(".hip_fatbin").unwrap();
        assert_eq!(image.starts_with(bundle::COMPRESSED_MAGIC), !compression.is_empty());
        let plain = bundle::plain(image).unwrap();
        let entries = bundle::entries(&plain);
        let device = entries.iter().find(|entry| entry.processor() == PROCESSOR).unwrap();
        let found = embedded::in_code_object(device.bytes);
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), sections);
        for (_, module) in found {
            assert_eq!(module, expected);
            assert_eq!(bitcode::triple(module).as_deref(), Some("amdgcn-amd-amdhsa"));
            assert!(bitcode::mentions(module, "scale") && bitcode::mentions(module, "shift"));
        }
    }
}
