//! Targets for code objects of AMD GPUs and of the CPU device.

use mneme_image::code_object::{self, sample};
use mneme_image::{cpu_object, elf};

use super::{FuzzTarget, nothing};

pub const CPU_OBJECT: FuzzTarget = FuzzTarget { name: "cpu_object", seeds: cpu_seeds, seal: nothing, run: run_cpu };
pub const CODE_OBJECT: FuzzTarget = FuzzTarget { name: "code_object", seeds, seal: nothing, run };

fn seeds() -> Vec<Vec<u8>> {
    let seeds = [sample::code_object(5, 0x53f), sample::code_object(4, 0xe2f)];
    assert!(seeds.iter().all(|seed| code_object::parse(seed).is_some()), "the seeds are well-formed");
    seeds.into()
}

fn run(input: &[u8]) {
    code_object::parse(input);
    code_object::holding_addresses(input);
}

/// An object with nothing but the table, which names one variable.
fn cpu_seeds() -> Vec<Vec<u8>> {
    let table = serde_json::json!({
        "version": cpu_object::VERSION, "kernels": [], "refused": [],
        "variables": [{"name": "v", "symbol": "v", "size": 8, "constant": false}],
    });
    let table = serde_json::to_vec(&table).expect("plain data serialises");
    let seed = super::image::with_section(cpu_object::SECTION, &table);
    assert_eq!(elf::section(&seed, cpu_object::SECTION), Some(&table[..]), "the seed is well-formed");
    vec![seed]
}

fn run_cpu(input: &[u8]) {
    cpu_object::holding_addresses(input);
}
