//! Tests of kernels with random parameter lists.
//!
//! The code for every target has to use the recorded layout. The tests need clang 19.

use std::fmt::Write as _;
use std::process::Command;

use mneme_builds::{ImageKind, Target};
use mneme_compiler::unit::{UnitOrigin, describe};
use mneme_compiler::{BuildRequest, InputCode, build, signature};
use mneme_image::ir_section::SymbolKind;
use mneme_image::{cubin, ptx};
use mneme_model::configuration::{Configuration, Specialize};
use mneme_model::launch::Dim3;
use mneme_recording::database::ArgumentLayout;
use mneme_recording::manifest::RecordedArgument;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

const SCALARS: [&str; 9] =
    ["char", "short", "int", "long long", "float", "double", "bool", "double *", "const unsigned *"];
/// clang's vectors. Those of three elements take the space of four.
const VECTORS: [(&str, &str, u32); 5] = [
    ("float2", "float", 2),
    ("float3", "float", 3),
    ("float4", "float", 4),
    ("double2", "double", 2),
    ("short2", "short", 2),
];
const LARGEST: u32 = 4096;

/// A member or a parameter: type and array length.
fn simple() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => select(&SCALARS[..]).prop_map(str::to_owned),
        1 => select(&VECTORS[..]).prop_map(|(name, _, _)| name.to_owned()),
    ]
}

/// A structure: alignment, and members with their array lengths.
fn structure() -> impl Strategy<Value = (u32, Vec<(String, u32)>)> {
    let count = prop_oneof![3 => Just(1u32), 2 => 2u32..9, 1 => 10u32..400];
    ((0u32..7).prop_map(|power| 1 << power), prop::collection::vec((simple(), count), 1..5))
}

/// A parameter: a simple type, or one of the structures.
fn parameter() -> impl Strategy<Value = Result<String, prop::sample::Index>> {
    prop_oneof![3 => simple().prop_map(Ok), 2 => any::<prop::sample::Index>().prop_map(Err)]
}

/// Source with kernels `k0`, `k1`, …
fn source(runner: &mut TestRunner, kernels: usize) -> String {
    let mut text =
        String::from("#define DEVICE __attribute__((device))\n#define KERNEL extern \"C\" __attribute__((global))\n");
    for (name, element, count) in VECTORS {
        writeln!(text, "typedef {element} {name} __attribute__((ext_vector_type({count})));").unwrap();
    }
    text += "DEVICE unsigned sum(const void *p, unsigned n) { unsigned s = 0; for (unsigned i = 0; i < n; ++i) s = s * 31 + \
             ((const unsigned char *)p)[i]; return s; }\n";
    // The whole list may have at most 4 KiB, including padding.
    text += "template <class... T> constexpr bool fits() { return (0 + ... + (sizeof(T) + 64)) <= 4096; }\n";
    let structures = 8;
    for index in 0..structures {
        let (alignment, members) = structure().new_tree(runner).unwrap().current();
        // A member's own alignment may be larger. The least alignment needs no attribute.
        let attribute = if alignment == 1 { String::new() } else { format!("__attribute__((aligned({alignment}))) ") };
        write!(text, "struct {attribute}S{index} {{").unwrap();
        for (number, (kind, count)) in members.iter().enumerate() {
            write!(text, " {kind} m{number}{};", if *count == 1 { String::new() } else { format!("[{count}]") })
                .unwrap();
        }
        text += " };\n";
    }
    text += "template <bool Fits, class T> struct Pick { typedef T type; };\ntemplate <class T> struct Pick<false, T> { typedef int type; };\n";
    for kernel in 0..kernels {
        let parameters = prop::collection::vec(parameter(), 1..10).new_tree(runner).unwrap().current();
        let ways = prop::collection::vec(0u8..5, parameters.len()).new_tree(runner).unwrap().current();
        let types: Vec<String> = parameters
            .iter()
            .map(|it| it.as_ref().map_or_else(|index| format!("S{}", index.index(structures)), Clone::clone))
            .collect();
        // If the list is too large, each large parameter becomes a number.
        for (index, kind) in types.iter().enumerate() {
            writeln!(
                text,
                "typedef Pick<fits<{}>() || sizeof({kind}) <= {}, {kind}>::type P{kernel}_{index};",
                types.join(", "),
                LARGEST / 16
            )
            .unwrap();
        }
        let list: Vec<String> = (0..types.len()).map(|index| format!("P{kernel}_{index} p{index}")).collect();
        write!(text, "KERNEL void k{kernel}(unsigned *out, {}) {{ unsigned s = 0;", list.join(", ")).unwrap();
        for (index, way) in ways.iter().enumerate() {
            match way {
                0 => {}
                1 => write!(text, " s += sum(&p{index}, sizeof p{index});").unwrap(),
                2 => write!(text, " s += ((unsigned char *)&p{index})[s % sizeof p{index}];").unwrap(),
                3 => write!(
                    text,
                    " ((unsigned char *)&p{index})[s % sizeof p{index}] = 1; s += sum(&p{index}, sizeof p{index});"
                )
                .unwrap(),
                _ => write!(text, " {{ auto copy = p{index}; s += sum(&copy, sizeof copy); }}").unwrap(),
            }
        }
        text += " *out = s; }\n";
    }
    text
}

fn bitcode(source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernels.cu");
    std::fs::write(&file, source).unwrap();
    let output = Command::new(concat!("clang++-", env!("MNEME_LLVM_MAJOR")))
        .args([
            "-x", "cuda", "--cuda-gpu-arch=sm_90", "-nocudainc", "-nocudalib", "-O3", "-std=c++17", "-w",
            "--cuda-device-only",
        ])
        .args(["-emit-llvm", "-c", "-Xclang", "-disable-llvm-passes", "-o", "-"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}\n{source}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn the_code_takes_the_recorded_arguments() {
    let mut runner =
        TestRunner::new_with_rng(ProptestConfig::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut aligned = 0;
    for round in 0..4 {
        let source = source(&mut runner, 8);
        let bitcode = bitcode(&source);
        let table = describe(
            &bitcode,
            &UnitOrigin {
                arch: "sm_90".into(),
                unit: "test".into(),
                source: "kernels.cu".into(),
                ..UnitOrigin::default()
            },
        )
        .unwrap();
        let kernels: Vec<_> = table.symbols.iter().filter(|symbol| symbol.kind == SymbolKind::Kernel).collect();
        assert_eq!(kernels.len(), 8);
        for (number, kernel) in kernels.into_iter().enumerate() {
            let recorded: Vec<ArgumentLayout> = kernel
                .arguments
                .iter()
                .map(|argument| ArgumentLayout {
                    offset: argument.offset,
                    size: argument.size,
                    kind: argument.kind.clone(),
                })
                .collect();
            let arguments: Vec<RecordedArgument> = recorded
                .iter()
                .map(|layout| RecordedArgument { offset: layout.offset, bytes: vec![7; layout.size as usize] })
                .collect();
            let target = |variant: usize| match variant {
                0 => Target::Cpu { arch: "sm_90".into() },
                // Parameters begin at another address in constant memory.
                1 => Target::Nvptx { arch: "sm_80".into() },
                _ => Target::Nvptx { arch: "sm_90".into() },
            };
            for variant in [number % 2, 2, 3] {
                let mut configuration = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(64, 1, 1), 0);
                match variant {
                    3 => configuration.specialize = Specialize::All,
                    1 => (configuration.passes, configuration.codegen_opt) = ("default<O0>".into(), 0),
                    _ => {}
                }
                let (target, modules) = (target(variant), [&bitcode[..]]);
                let mut request = BuildRequest::new(InputCode::Ir(&modules), &kernel.name, &target, &configuration);
                (request.recorded.arguments, request.recorded.signature) = (&arguments, &recorded);
                let artifact = build(&request)
                    .unwrap_or_else(|error| panic!("{} of round {round}: {error}\n{source}", kernel.name));
                if variant == 3 {
                    let folded = artifact.log.iter().filter(|line| line.contains("is folded")).count();
                    // Structures with many pointers are not folded, nor are vectors.
                    let scalars = ["i32", "i64", "float", "double"];
                    let scalars = recorded.iter().filter(|layout| scalars.contains(&&*layout.kind)).count();
                    assert!(folded >= scalars, "{:?}\n{:?}\n{source}", artifact.log, kernel.arguments);
                }
                if let Some(ptx) = &artifact.ptx {
                    signature::check(
                        &kernel.name,
                        &recorded,
                        &sizes(&ptx::PtxModule::parse(ptx).parameters(&kernel.name).unwrap()),
                    )
                    .unwrap();
                }
                if artifact.kind == ImageKind::Cubin {
                    let cubin = cubin::parse(&artifact.image).unwrap();
                    let found = &cubin.kernels.iter().find(|it| it.name == kernel.name).unwrap().parameters;
                    signature::check(&kernel.name, &recorded, &sizes(found))
                        .unwrap_or_else(|error| panic!("{error}\n{source}"));
                    aligned +=
                        usize::from(found.iter().zip(&recorded).any(|(found, recorded)| found.0 != recorded.offset));
                }
            }
        }
    }
    assert!(aligned > 0, "no list has a parameter that lies elsewhere than in C");
}

/// The sizes of parameters in bytes.
fn sizes(parameters: &[(u32, u32)]) -> Vec<u32> {
    parameters.iter().map(|(_, size)| *size).collect()
}

#[test]
fn pointers_in_structures_are_described() {
    let source = "struct Inner { float x[2]; void *p[3]; };\n\
                  struct View { int count; const long *values; Inner inner; unsigned long number; };\n\
                  struct Lists { void *rows[100]; long sizes[100]; };\n\
                  extern \"C\" __attribute__((global)) void k(View view, double d, int *p, Lists lists) { *p = view.count + d; }\n";
    let table = describe(
        &bitcode(source),
        &UnitOrigin { arch: "sm_90".into(), unit: "test".into(), source: "kernels.cu".into(), ..UnitOrigin::default() },
    )
    .unwrap();
    let kernel = table.symbols.iter().find(|symbol| symbol.kind == SymbolKind::Kernel).unwrap();
    let pointers: Vec<_> = kernel.arguments.iter().map(|argument| argument.pointers.clone()).collect();
    let rows = (0..100).map(|row| 8 * row).collect();
    assert_eq!(pointers, [Some(vec![8, 24, 32, 40]), None, None, Some(rows)]);
}
