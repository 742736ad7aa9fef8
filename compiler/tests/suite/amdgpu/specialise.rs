//! Tests of the changes that a configuration makes to code.

use mneme_builds::{Keep, Target};
use mneme_compiler::{BuildRequest, InputCode, RecordedLaunch, build};
use mneme_image::code_object::AmdKernel;
use mneme_model::configuration::{Configuration, Specialize};
use mneme_model::launch::Dim3;
use mneme_recording::manifest::{Allocation, AllocationKind, RecordedArgument, RecordedVariable};

use super::clang::{Program, build_for, have_rocm, kernel_of, usual};

const DEVICE: &str = "gfx90a:sramecc+:xnack-";

fn program(version: u32) -> Program<'static> {
    Program { file: "kernels.hip", arch: "gfx90a", version, flags: &[] }
}

/// The IR after the pipeline, the kernel in the code object, and the log.
fn built(
    ir: &[u8],
    kernel: &str,
    configuration: &Configuration,
    recorded: RecordedLaunch<'_>,
) -> (String, AmdKernel, Vec<String>) {
    let (modules, target) = ([ir], Target::gpu(DEVICE));
    let mut request = BuildRequest::new(InputCode::Ir(&modules), kernel, &target, configuration);
    request.recorded = recorded;
    request.keep = Keep { after: true, ..Keep::default() };
    let artifact = build(&request).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let (_, found) = kernel_of(&artifact.image, kernel);
    (artifact.ir.unwrap(), found, artifact.log)
}

/// The definition of a kernel in a module's text.
fn body<'t>(ir: &'t str, kernel: &str) -> &'t str {
    let start = ir.find(&format!("void @{kernel}(")).expect("it is there");
    ir[start..].split("\n}").next().unwrap()
}

fn arguments(parts: &[&[u8]]) -> Vec<RecordedArgument> {
    let mut offset = 0;
    parts
        .iter()
        .map(|bytes| {
            offset = u32::next_multiple_of(offset, bytes.len().min(8) as u32);
            let argument = RecordedArgument { offset, bytes: bytes.to_vec() };
            offset += bytes.len() as u32;
            argument
        })
        .collect()
}

#[test]
fn scalars_become_constants() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let pointer = 0x7000_0000_0000_u64.to_le_bytes();
    let values = arguments(&[&pointer, &pointer, &77i32.to_le_bytes(), &2.5f32.to_le_bytes()]);
    let recorded = RecordedLaunch { arguments: &values, ..RecordedLaunch::default() };
    let configuration = Configuration { specialize: true.into(), ..usual() };
    let (ir, kernel, log) = built(&ir, "scale", &configuration, recorded);
    let body = body(&ir, "scale");
    assert!(body.contains("2.500000e+00") && body.contains(", 77\n"), "{body}");
    assert_eq!(kernel.explicit().count(), 4, "the parameters stay");
    assert!(log.iter().any(|line| line.contains("argument 3 (float by) is folded")), "{log:?}");
}

#[test]
fn aggregates_lose_their_numbers_and_keep_their_pointers() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let mut numbers = [9i32.to_le_bytes(), 0.5f32.to_le_bytes()].concat();
    numbers.extend(4.25f64.to_le_bytes());
    let pointer = 0x7000_0000_0000_u64.to_le_bytes();
    let buffers = [&pointer[..], &pointer, &11i32.to_le_bytes(), &3i16.to_le_bytes(), &[0; 2]].concat();
    let values: Vec<RecordedArgument> = [(0, numbers), (16, buffers), (40, vec![5]), (48, pointer.to_vec())]
        .map(|(offset, bytes)| RecordedArgument { offset, bytes })
        .into();
    let recorded = RecordedLaunch { arguments: &values, ..RecordedLaunch::default() };
    let configuration = Configuration { specialize: Specialize::All, ..usual() };
    let (ir, kernel, _) = built(&ir, "by_value", &configuration, recorded);
    let body = body(&ir, "by_value");
    // 4.25 + 11 for the last store, and 3 for the step. The pointers are still read.
    assert!(body.contains("1.525000e+01"), "{body}");
    assert!(body.contains("mul") && body.contains(", 3\n"), "{body}");
    assert!(body.contains("extractvalue") || body.contains("load ptr"), "{body}");
    assert_eq!(kernel.explicit().map(|argument| argument.size).collect::<Vec<_>>(), [16, 24, 1, 8]);
}

#[test]
fn dimensions_are_constants_in_every_version() {
    if !have_rocm() {
        return;
    }
    for version in [4, 5] {
        let ir = program(version).ir();
        let configuration =
            Configuration { specialize_dims: true, grid: Dim3::new(5, 7, 1), block: Dim3::new(64, 2, 1), ..usual() };
        let (ir, kernel, _) = built(&ir, "grid", &configuration, RecordedLaunch::default());
        let body = body(&ir, "grid");
        assert!(body.contains("store i32 163,"), "64 · 2 + 5 · 7, version {version}: {body}");
        assert!(!body.contains("implicitarg") && !body.contains("dispatch.ptr"), "version {version}: {body}");
        assert!(!body.contains("workgroup.id.z"), "there is one block along z: {body}");
        assert_eq!(kernel.required_workgroup_size, Some([64, 2, 1]), "version {version}");
        let whole = built(&program(version).ir(), "grid", &usual(), RecordedLaunch::default());
        assert_eq!(whole.1.required_workgroup_size, None);
        assert!(whole.1.code_size > kernel.code_size);
    }
}

#[test]
fn bounds_are_the_blocks_and_change_registers() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let bound = |max_threads, min_blocks_per_sm| Configuration {
        set_launch_bounds: true,
        max_threads,
        min_blocks_per_sm,
        ..usual()
    };
    let of = |configuration: &Configuration| built(&ir, "bounded", configuration, RecordedLaunch::default()).1;
    assert_eq!(of(&usual()).max_workgroup_size, 128, "the source's");
    assert_eq!(of(&bound(None, 0)).max_workgroup_size, 256, "the block's");
    assert_eq!(of(&bound(Some(512), 0)).max_workgroup_size, 512);
    // Eight blocks of four waves on four units are eight waves on each unit, each with 64 registers.
    let crowded = of(&bound(Some(256), 8));
    assert!(crowded.vgprs <= 64, "{crowded:?}");
}

#[test]
fn registers_are_limited_or_the_limit_is_refused() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let limited = |maxnreg| Configuration { maxnreg, ..usual() };
    let free = build_for(&[&ir], "bounded", DEVICE, &usual()).unwrap();
    let (_, free) = kernel_of(&free.image, "bounded");
    assert!(free.vgprs > 24, "{free:?}");
    let narrow = build_for(&[&ir], "bounded", DEVICE, &limited(24)).unwrap();
    let (_, narrow) = kernel_of(&narrow.image, "bounded");
    assert!(narrow.vgprs <= 24 && narrow.private_segment > 0 && narrow.vgpr_spills > 0, "{narrow:?}");
    let error = build_for(&[&ir], "says", DEVICE, &limited(4)).expect_err("no code has so few").to_string();
    assert!(error.contains("maxnreg is 4") || error.contains("ran out of registers"), "{error}");
}

#[test]
fn dynamic_shared_memory_becomes_static() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let configuration = Configuration { specialize: Specialize::All, shared_mem: 1024, ..usual() };
    let (_, kernel, log) = built(&ir, "dynamic", &configuration, RecordedLaunch::default());
    assert_eq!(kernel.group_segment, 1024, "{log:?}");
    assert_eq!(built(&ir, "dynamic", &usual(), RecordedLaunch::default()).1.group_segment, 0);
}

#[test]
fn variables_are_where_they_were_recorded() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let variable = |name: &str, address, size, constant| RecordedVariable {
        name: name.into(),
        address,
        size,
        constant,
        code: false,
        functions: Vec::new(),
    };
    let variables = [variable("total", 0x7f12_3400, 4, false), variable("weights", 0x7f56_7800, 64, true)];
    let recorded = RecordedLaunch { variables: &variables, ..RecordedLaunch::default() };
    let (ir, ..) = built(&ir, "variables", &usual(), recorded);
    assert!(ir.contains(&0x7f12_3400.to_string()) && ir.contains(&0x7f56_7800.to_string()), "{ir}");
    assert!(!ir.contains("@total") && !ir.contains("@weights"), "{ir}");
}

#[test]
fn facts_hold_for_pointers_to_global_memory() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let (out, input) = (0x7000_0000_0000_u64, 0x7000_0010_0000_u64);
    let values = arguments(&[&out.to_le_bytes(), &input.to_le_bytes(), &77i32.to_le_bytes(), &2.5f32.to_le_bytes()]);
    let allocation = |address| {
        let kind = AllocationKind::Arena;
        Allocation { address, size: 4096, kind, ..Allocation::default() }
    };
    let allocations = [allocation(out), allocation(input)];
    let recorded = RecordedLaunch { arguments: &values, allocations: &allocations, ..RecordedLaunch::default() };
    let (ir, ..) = built(&ir, "scale", &Configuration { facts: true, ..usual() }, recorded);
    let head = body(&ir, "scale").lines().next().unwrap();
    assert!(head.contains("noalias") && head.contains("dereferenceable(4096)") && head.contains("align 256"), "{head}");
}

#[test]
fn fast_math_reaches_the_device_library() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let fast = built(&ir, "functions", &Configuration { fast_math: true, ..usual() }, RecordedLaunch::default());
    let exact = built(&ir, "functions", &usual(), RecordedLaunch::default());
    assert!(fast.1.code_size * 4 < exact.1.code_size * 3, "{} and {} bytes", fast.1.code_size, exact.1.code_size);
}

#[test]
fn what_does_not_fit_is_refused_in_one_sentence() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let refuse = |device: &str, configuration: &Configuration| {
        let error = build_for(&[&ir], "scale", device, configuration).expect_err("it is refused");
        assert!(error.is_usage(), "{error}");
        error.to_string()
    };
    let other = refuse("gfx1100", &usual());
    assert!(other.contains("the IR is for gfx90a and the device is gfx1100"), "{other}");
    let vendor = refuse("sm_90", &usual());
    assert!(vendor.contains("the IR is for AMD GPUs (amdgcn-amd-amdhsa) and the device is sm_90"), "{vendor}");
    let words = Configuration { ptxas_options: Some(vec!["--fmad=false".into()]), ..usual() };
    assert!(refuse(DEVICE, &words).contains("ptxas_options is not available for AMD GPUs"));
    let ptx = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
    let target = Target::gpu(DEVICE);
    let error = build(&BuildRequest::new(InputCode::Ptx(ptx), "k", &target, &usual())).unwrap_err().to_string();
    assert!(error.contains("the kernel's code is PTX for NVIDIA GPUs and the device is gfx90a"), "{error}");
}

#[test]
fn machine_code_is_taken_as_it_is() {
    if !have_rocm() {
        return;
    }
    let image = program(5).code_object();
    let of = |device: &str, kernel: &str| {
        let target = Target::gpu(device);
        build(&BuildRequest::new(InputCode::Cubin(&image), kernel, &target, &usual()))
    };
    assert_eq!(of(DEVICE, "scale").unwrap().image, image);
    let error = of("gfx908", "scale").unwrap_err().to_string();
    assert!(error.contains("the machine code is for gfx90a and the device is gfx908"), "{error}");
    assert!(of(DEVICE, "none").unwrap_err().to_string().contains("no kernel named none"));
}

#[test]
fn instructions_come_as_text_where_they_are_wanted() {
    if !have_rocm() {
        return;
    }
    let ir = program(5).ir();
    let (modules, target, configuration) = ([&ir[..]], Target::gpu(DEVICE), usual());
    let mut request = BuildRequest::new(InputCode::Ir(&modules), "scale", &target, &configuration);
    assert_eq!(build(&request).unwrap().isa, None);
    request.keep.isa = true;
    let artifact = build(&request).unwrap();
    let isa = artifact.isa.unwrap();
    assert!(isa.contains("s_endpgm") && isa.contains(".amdhsa_kernel scale") && isa.contains("gfx90a"), "{isa}");
    assert!(artifact.assembler.contains("lld"));
}
