//! The target for code objects of AMD GPUs.

use mneme_core::image::code_object::{self, sample};

use super::{Target, nothing};

pub const CODE_OBJECT: Target = Target { name: "code_object", seeds, seal: nothing, run };

fn seeds() -> Vec<Vec<u8>> {
    let seeds = [sample::code_object(5, 0x53f), sample::code_object(4, 0xe2f)];
    assert!(seeds.iter().all(|seed| code_object::parse(seed).is_some()), "the seeds are well-formed");
    seeds.into()
}

fn run(input: &[u8]) {
    code_object::parse(input);
    code_object::holding_addresses(input);
}
