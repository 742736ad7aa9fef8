//! The replayer's device on top of the stand-in.

use mneme_device::{ContextLimit, Device, DeviceError, RESERVATION, hip};
use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

use crate::code;
use crate::library::Hip;

fn launch(attributes: LaunchAttributes) -> Launch {
    Launch { grid: Dim3::new(2, 1, 1), block: Dim3::new(64, 1, 1), shared_mem: 0, attributes }
}

pub fn everything() {
    let missing = hip::open(&Hip::path(), 7).err().expect("there is no such device");
    assert!(matches!(missing, DeviceError::NoSuchDevice { ordinal: 7, count: 1, .. }), "{missing}");
    let device = hip::open(&Hip::path(), 0).unwrap();
    let described = device.description();
    assert_eq!((described.arch.as_str(), described.driver.as_str()), ("gfx90a:sramecc+:xnack-", "6.4"));
    assert!(described.name.contains("gfx90a") && described.memory > 0, "{described:?}");
    let limits = &described.limits;
    assert_eq!((limits.warp_size, limits.shared_mem, limits.max_threads), (64, 64 << 10, 1024));
    assert_eq!(limits.max_block, Dim3::new(1024, 1024, 1024));
    assert_eq!(device.cache_bytes(), u64::from(limits.l2_cache.unwrap()));

    // Memory at recorded addresses.
    let (at, page) = (0x10_0000_0000, device.page_size());
    device.reserve_at(at, RESERVATION).unwrap();
    let clash = device.reserve_at(at, RESERVATION).unwrap_err();
    assert!(matches!(clash, DeviceError::Clash { address, .. } if address == at), "{clash}");
    device.map_at(at, page).unwrap();
    let mut read = vec![1; 64];
    device.read(at, &mut read).unwrap();
    assert_eq!(read, vec![0; 64], "new memory is zero");
    let values: Vec<u8> = (0..100_u32).flat_map(u32::to_le_bytes).collect();
    device.write(at, &values).unwrap();
    let copy = device.map_anywhere(page).unwrap();
    device.copy(copy, at, 400).unwrap();
    device.protect(copy, page).unwrap();
    let out = device.allocate(400).unwrap();
    device.zero(out, 400).unwrap();

    // A kernel, its constant, and what it uses.
    let module = device.load(&code::gfx90a()).unwrap();
    assert!(device.variable(module, "none").unwrap().is_none());
    let (step, size) = device.variable(module, "step").unwrap().unwrap();
    assert_eq!(size, 4);
    device.write(step, &3_u32.to_le_bytes()).unwrap();
    let unknown = device.function(module, "none").unwrap_err().to_string();
    assert!(unknown.contains("hipModuleGetFunction") && unknown.contains("hipErrorNotFound"), "{unknown}");
    let function = device.function(module, "add_step").unwrap();
    assert_eq!(device.function_use(function).static_shared, 0);
    let plain = launch(LaunchAttributes::default());
    assert!(device.occupancy(function, &plain).unwrap().0 > 0);
    let arguments = [out.to_le_bytes().to_vec(), copy.to_le_bytes().to_vec(), 100_u32.to_le_bytes().to_vec()];
    device.allow_dynamic_shared(function, 50_000).unwrap();
    device.run(function, &plain, &arguments).unwrap();
    let mut sums = vec![0; 400];
    device.read(out, &mut sums).unwrap();
    let expected: Vec<u8> = (3..103_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(sums, expected);

    // The device refuses features that AMD's GPUs lack, and reports a refused launch.
    let cluster = LaunchAttributes { cluster: Some(Dim3::new(2, 1, 1)), ..LaunchAttributes::default() };
    let refused = device.run(function, &launch(cluster), &arguments).unwrap_err();
    assert!(refused.is_refused_launch() && refused.to_string().contains("no clusters"), "{refused}");
    let cooperative = LaunchAttributes { cooperative: true, ..LaunchAttributes::default() };
    let one_block = Launch { grid: Dim3::new(1, 1, 1), ..launch(cooperative) };
    device.run(function, &one_block, &arguments).unwrap();
    device.set_limit(ContextLimit::Stack, 4096).unwrap();
    device.unload(module).unwrap();
    device.free(out).unwrap();
}
