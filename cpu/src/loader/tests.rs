//! Tests that load objects made by the C compiler, and call them.

use mneme_image::cpu_object::CpuVariable;
use proptest::prelude::*;

use super::*;
use crate::testing;

const SOURCE: &str = r#"
    static int counter = 5;
    int *pointer_to_own = &counter;
    float (*table[2])(float) = { sinf, sinf };
    int zeroed[1000];
    const int fixed[4] = { 1, 2, 3, 4 };
    extern int far_away __attribute__((weak));
    static const char text[] = "constant";
    u64 probe(float x, float *y) {
        char copy[9];
        memcpy(copy, text, 9);
        *y = table[1](x) + sinf(x);
        zeroed[999] += ++*pointer_to_own;
        return zeroed[999] + (copy[8] == 0) * 1000 + (&far_away == 0) * 10000;
    }
"#;

#[test]
fn code_data_and_imports_find_one_another() {
    let variable = CpuVariable { name: "zeroed".into(), symbol: "zeroed".into(), size: 4000, constant: false };
    let loaded = testing::load(SOURCE, vec![], vec![variable]);
    let probe = loaded.symbol("probe").unwrap();
    // SAFETY: the function defined above.
    let probe: extern "C" fn(f32, *mut f32) -> u64 = unsafe { std::mem::transmute(probe as usize) };
    let mut y = 0.0;
    assert_eq!(probe(0.5, &mut y), 11006);
    assert_eq!(y, 2.0 * 0.5f32.sin());
    assert_eq!(probe(0.5, &mut y), 11013);
    let zeroed = loaded.symbol("zeroed").unwrap();
    // SAFETY: an array of 1000 ints in the loaded object.
    assert_eq!(unsafe { *(zeroed as *const i32).add(999) }, 13);
    assert!((0x5000_0000_0000..0x5200_0000_0000).contains(&zeroed));
}

#[test]
fn no_page_is_writable_and_executable() {
    // The host sets constants too.
    let fixed = CpuVariable { name: "fixed".into(), symbol: "fixed".into(), size: 16, constant: true };
    let loaded = testing::load(SOURCE, vec![], vec![fixed]);
    let permissions = |address: u64| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let found = maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            (number(start)..number(end)).contains(&address).then(|| rest[..4].to_owned())
        });
        found.unwrap()
    };
    assert_eq!(permissions(loaded.symbol("probe").unwrap()), "r-xp");
    for variable in ["zeroed", "fixed"] {
        assert_eq!(permissions(loaded.symbol(variable).unwrap()), "rw-p", "{variable}");
    }
}

#[test]
fn what_is_not_offered_is_named() {
    let object = testing::object("int system(const char *); void k(void) { system(\"true\"); }", vec![], vec![]);
    assert!(matches!(load(&object, PlacementRange::Application), Err(LoadError::Import(name)) if name == "system"));
}

#[test]
fn a_kernel_without_code_is_refused() {
    // Symbols at the end of a section, in an empty section, in data, and undefined.
    let source = r#"
        __asm__(".pushsection .text.end,\"ax\"\nnop\n.globl at_end\nat_end:\n.popsection");
        __asm__(".pushsection .text.none,\"ax\"\n.globl in_none\nin_none:\n.popsection");
        int in_data = 3;
        void whole(void) {}
    "#;
    let object = |kernel| testing::object(source, vec![testing::kernel(kernel, 0, false)], vec![]);
    for kernel in ["at_end", "in_none", "in_data", "nowhere"] {
        let refused = load(&object(kernel), PlacementRange::Application);
        assert!(matches!(refused, Err(LoadError::Damaged(ref what)) if what.contains(kernel)), "{kernel}");
    }
    assert!(load(&object("whole"), PlacementRange::Application).is_ok());
}

#[test]
fn other_files_are_refused() {
    let executable = std::fs::read("/proc/self/exe").unwrap();
    assert!(matches!(load(&executable, PlacementRange::Application), Err(LoadError::Damaged(_))));
    assert!(!is_code_object(&executable) && !is_code_object(b"\x7fELF"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn damage_is_an_error_and_never_a_panic(at in 0usize..8192, byte in any::<u8>(), length in 0usize..8192) {
        thread_local!(static OBJECT: Vec<u8> = testing::object(SOURCE, vec![], vec![]));
        let mut object = OBJECT.with(Clone::clone);
        if let Some(place) = object.get_mut(at) {
            *place = byte;
        }
        let _ = load(&object, PlacementRange::Application);
        object.truncate(length);
        let _ = load(&object, PlacementRange::Application);
    }
}
