//! Tests of programs whose kernels have no IR from `mneme-cc`.
//!
//! They run with the stand-in driver, and check which kernels are recorded and which refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_image::{cubin, fatbin};
use mneme_model::hash::checksum;
use mneme_recording::CodeKind;
use mneme_recording::database::{CodeFile, InstanceRecord, KernelRecord};
use mneme_recording::manifest::MemoryState;

use super::{Run, record};

/// The output of nvcc for the application's kernel and another one.
fn ptx(extra: &str, body: &str) -> String {
    format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.global .align 4 .u32 counter = 100;\n{extra}\n\
         .visible .entry unrelated(.param .u64 p) {{ ret; }}\n\
         .visible .entry _Z3addPii(.param .u64 data, .param .u32 count)\n{{\n.reg .b32 %r<9>; .reg .b64 %rd<9>;\n\
         ld.param.u64 %rd1, [data];\nld.param.u32 %r1, [count];\nld.global.u32 %r2, [counter];\nadd.u32 %r1, %r1, %r2;\n\
         st.global.u32 [%rd1], %r1;\n{body}\nret;\n}}\n"
    )
}

/// A program of the CUDA toolkit, from scripts/setup or installed on this machine.
fn tool(name: &str, arguments: &[&str], folder: &Path) -> Option<()> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/cuda/bin").join(name);
    let program = if own.exists() { own } else { PathBuf::from(name) };
    match Command::new(program).args(arguments).current_dir(folder).output() {
        Ok(output) => assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            mneme_fixtures::skip(format_args!("no {name} on this machine"));
            return None;
        }
    }
    Some(())
}

fn record_image(bytes: &[u8], environment: &[(&str, &str)]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("image");
    std::fs::write(&file, bytes).unwrap();
    let mut all = vec![("IMAGE_FILE", file.to_str().unwrap())];
    all.extend_from_slice(environment);
    record(&["proc", "return"], &all)
}

/// Returns the only kernel, its kind and its recorded code, and checks the properties of all recordings without IR.
fn recorded(run: &Run) -> (KernelRecord, CodeKind, Vec<u8>) {
    let [kernel] = &run.kernels()[..] else { panic!("one kernel: {}", run.stderr()) };
    assert_eq!(kernel.kernel_name, "_Z3addPii");
    assert_eq!(kernel.instances.len(), 2, "{}", run.stderr());
    let layout: Vec<_> = kernel.ours.arguments.iter().map(|argument| (argument.offset, argument.size)).collect();
    assert_eq!(layout, [(0, 8), (8, 4)]);
    let instance = kernel.instances.values().next().unwrap();
    let prologue = MemoryState::load(&run.data().join(&instance.prologue)).unwrap();
    assert_eq!(
        prologue.header.variables.iter().map(|variable| variable.name.as_str()).collect::<Vec<_>>(),
        ["counter"]
    );
    let code = std::fs::read(run.data().join(&kernel.modules[0])).unwrap();
    (kernel.clone(), CodeKind::of(&kernel.modules[0]), code)
}

/// The forms of the application's own code that every instance names.
fn originals(run: &Run, kernel: &KernelRecord) -> Vec<Vec<u8>> {
    let forms = |instance: &InstanceRecord| {
        let read = |code: &CodeFile| {
            let bytes = std::fs::read(run.data().join(&code.file)).unwrap();
            assert_eq!(code.checksum, checksum(&bytes), "{}", code.file);
            bytes
        };
        instance.ours.original.iter().map(read).collect::<Vec<_>>()
    };
    let all: Vec<_> = kernel.instances.values().map(forms).collect();
    assert!(all.iter().all(|one| *one == all[0]));
    all[0].clone()
}

#[test]
fn ptx_is_recorded_without_what_the_kernel_does_not_need() {
    let run = record_image(ptx("", "").as_bytes(), &[]);
    let (kernel, kind, code) = recorded(&run);
    assert_eq!(kind, CodeKind::Ptx);
    assert_eq!(kernel.modules, [format!("RecordedPTX_{}.ptx", kernel.static_hash)]);
    let text = String::from_utf8(code).unwrap();
    assert!(text.contains(".visible .global .align 4 .u32 counter") && !text.contains("unrelated"), "{text}");
    let again = record_image(ptx(".visible .entry another() { ret; }", "").as_bytes(), &[]);
    assert_eq!(
        recorded(&again).0.static_hash,
        kernel.static_hash,
        "code that is not the kernel's does not change its identity"
    );
}

#[test]
fn machine_code_and_fat_binaries_are_recorded_however_they_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("k.ptx"), ptx("", "")).unwrap();
    if tool("ptxas", &["-arch=sm_90", "k.ptx", "-o", "k.cubin"], folder.path()).is_none() {
        return;
    }
    let image = std::fs::read(path("k.cubin")).unwrap();
    let (kernel, kind, code) = recorded(&record_image(&image, &[]));
    assert_eq!((kind, code == image), (CodeKind::Cubin, true));
    assert_eq!(kernel.ours.ir_arch, "sm_90");
    let (elf, text) = ("--image3=kind=elf,sm=90,file=k.cubin", "--image3=kind=ptx,sm=90,file=k.ptx");
    for (mode, images, expected) in [
        ("none", vec![elf, text], CodeKind::Ptx),
        ("speed", vec![elf, text], CodeKind::Ptx),
        ("size", vec![elf, text], CodeKind::Ptx),
        ("speed", vec![elf], CodeKind::Cubin),
        ("size", vec![elf], CodeKind::Cubin),
        ("size", vec![text], CodeKind::Ptx),
        // PTX for another architecture may differ from the running code.
        ("size", vec![elf, "--image3=kind=ptx,sm=80,file=k.ptx"], CodeKind::Cubin),
    ] {
        let compression = format!("--compress-mode={mode}");
        let mut arguments = vec!["-64", "--compress-all", &compression, "--create=k.fatbin"];
        arguments.extend(&images);
        // fatbinary has these modes since CUDA 12.8.
        if tool("fatbinary", &arguments, folder.path()).is_none() {
            return;
        }
        let fat = std::fs::read(path("k.fatbin")).unwrap();
        assert_eq!(fatbin::entries(&fat).len(), images.len());
        let run = record_image(&fat, &[]);
        let (kernel, kind, code) = recorded(&run);
        assert_eq!(kind, expected, "{mode} {images:?}");
        assert!(
            kind == CodeKind::Ptx || cubin::parse(&code).is_some_and(|cubin| !cubin.kernels.is_empty()),
            "{mode} {images:?}"
        );
        assert_eq!(kernel.ours.ir_arch, "sm_90");
        // The code that the driver received, machine code first.
        let given: Vec<Vec<u8>> = [(elf, &image), (text, &std::fs::read(path("k.ptx")).unwrap())]
            .into_iter()
            .filter(|(name, _)| images.contains(name))
            .map(|(_, bytes)| bytes.clone())
            .collect();
        assert_eq!(originals(&run, &kernel), given, "{mode} {images:?}");
    }
}

/// Triton loads only machine code, and keeps the sources from which it was made.
#[test]
fn what_triton_keeps_of_machine_code_is_recorded_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = ptx("", "").replace(".version 7.8\n.target sm_90", ".version 8.0\n.target sm_90a");
    std::fs::write(at("k.ptx"), &text).unwrap();
    if tool("ptxas", &["-arch=sm_90a", "k.ptx", "-o", "k.cubin"], folder.path()).is_none() {
        return;
    }
    let image = std::fs::read(at("k.cubin")).unwrap();
    let (cache, entry) = (at("cache"), at("cache/ABC"));
    let [cubin, ptx, llir] = ["cubin", "ptx", "llir"].map(|extension| entry.join(format!("_Z3addPii.{extension}")));
    std::fs::create_dir_all(&entry).unwrap();
    for (path, contents) in [(&cubin, &image), (&ptx, &text.clone().into_bytes()), (&llir, &b"; IR\n".to_vec())] {
        std::fs::write(path, contents).unwrap();
    }
    let record = || record_image(&image, &[("TRITON_CACHE_DIR", cache.to_str().unwrap())]);
    let run = record();
    let (kernel, kind, code) = recorded(&run);
    assert_eq!((kind, kernel.ours.ir_arch.as_str()), (CodeKind::Ptx, "sm_90a"));
    assert!(String::from_utf8(code).unwrap().contains("_Z3addPii"));
    assert_eq!(originals(&run, &kernel), [image.clone(), text.into_bytes(), b"; IR\n".to_vec()]);
    let instance = kernel.instances.values().next().unwrap();
    assert_eq!(CodeKind::of(&instance.ours.original[2].file), CodeKind::Llir);
    // The stages are not used if the cubin differs, or the PTX lacks the kernel.
    std::fs::write(&cubin, &image[1..]).unwrap();
    assert_eq!(recorded(&record()).1, CodeKind::Cubin);
    std::fs::write(&cubin, &image).unwrap();
    std::fs::write(&ptx, ptx_of_another_kernel()).unwrap();
    assert_eq!(recorded(&record()).1, CodeKind::Cubin);
}

fn ptx_of_another_kernel() -> &'static str {
    ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry other() { ret; }\n"
}

#[test]
fn the_ir_that_proteus_puts_into_device_code_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let bitcode = b"BC\xc0\xde what Proteus calls the unit's IR";
    let numbers = bitcode.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let variable = format!(".visible .global .align 1 .b8 _jit_bitcode_tu_7[{}] = {{{numbers}}};", bitcode.len());
    std::fs::write(folder.path().join("k.ptx"), ptx(&variable, "")).unwrap();
    if tool("ptxas", &["-arch=sm_90", "k.ptx", "-o", "k.cubin"], folder.path()).is_none() {
        return;
    }
    let run = record_image(&std::fs::read(folder.path().join("k.cubin")).unwrap(), &[]);
    let (kernel, kind, code) = recorded(&run);
    assert_eq!((kind, code.as_slice()), (CodeKind::Bitcode, &bitcode[..]));
    assert_eq!(kernel.modules, [format!("RecordedIR_{}.bc", kernel.static_hash)]);
}

#[test]
fn ir_beside_the_program_comes_before_ptx() {
    let folder = tempfile::tempdir().unwrap();
    let text = "define void @_Z3addPii(ptr %data, i32 %count) { ret void }\n";
    std::fs::write(folder.path().join("k.ll"), text).unwrap();
    let run = record_image(ptx("", "").as_bytes(), &[("MNEME_IR_PATH", folder.path().to_str().unwrap())]);
    let (kernel, kind, code) = recorded(&run);
    assert_eq!((kind, code.as_slice()), (CodeKind::Bitcode, text.as_bytes()));
    assert_eq!(kernel.modules, [format!("RecordedIR_{}.ll", kernel.static_hash)]);
}

#[test]
fn what_cannot_be_replayed_is_refused_by_name() {
    let call =
        "{ .param .b64 n; .param .b64 r; st.param.b64 [n], 16; call.uni (r), malloc, (n); ld.param.b64 %rd3, [r]; }";
    for (extra, body, reason) in [
        (".extern .func (.param .b64 r) malloc (.param .b64 n);", call, "it allocates memory on the device"),
        (".global .align 4 .u32 hidden;", "st.global.u32 [hidden], %r1;", "its variable hidden is private"),
        (
            ".global .texref picture;",
            "tex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [picture, {%r5}];",
            "the texture or surface reference picture",
        ),
    ] {
        let run = record_image(ptx(extra, body).as_bytes(), &[]);
        assert!(run.stdout().contains("result 303 201"), "{}", run.stdout());
        assert!(run.stderr().contains(reason), "{reason}: {}", run.stderr());
        assert!(run.kernels().is_empty());
    }
}
