//! Options that make a configuration: how the kernel is launched and compiled.

use clap::Args;
use mneme_model::configuration::{CODEGEN_METHODS, Configuration, DEFAULT_CODEGEN_METHOD};

use super::CompilationOptions;

#[derive(Args, Debug)]
pub struct LaunchOptions {
    /// Blocks along x, also -gidx [default: as recorded, like all dimensions]
    #[arg(long, alias = "gidx", value_name = "N")]
    pub grid_dim_x: Option<u32>,
    /// Blocks along y, also -gidy
    #[arg(long, alias = "gidy", value_name = "N")]
    pub grid_dim_y: Option<u32>,
    /// Blocks along z, also -gidz
    #[arg(long, alias = "gidz", value_name = "N")]
    pub grid_dim_z: Option<u32>,
    /// Threads of a block along x, also -bidx
    #[arg(long, alias = "bidx", value_name = "N")]
    pub block_dim_x: Option<u32>,
    /// Threads of a block along y, also -bidy
    #[arg(long, alias = "bidy", value_name = "N")]
    pub block_dim_y: Option<u32>,
    /// Threads of a block along z, also -bidz
    #[arg(long, alias = "bidz", value_name = "N")]
    pub block_dim_z: Option<u32>,
    /// Dynamic shared memory, bytes, also -shem
    #[arg(long, alias = "shem", value_name = "BYTES")]
    pub shared_mem: Option<u32>,

    /// Fold grid and block dimensions into the code, also -sdims
    #[arg(long, alias = "sdims")]
    pub specialize_dims: bool,
    /// Tell the compiler the launch bounds, also -slb (see --max-threads and --min-blocks-per-sm)
    #[arg(long, alias = "slb")]
    pub set_launch_bounds: bool,
    /// Threads of a block that the compiler may rely on [default: those of the block]
    #[arg(long, value_name = "N")]
    pub max_threads: Option<u32>,
    /// Blocks that should fit on a multiprocessor
    #[arg(long, alias = "min-threads-per-block", value_name = "N", default_value_t = 0)]
    pub min_blocks_per_sm: u32,

    /// Optimisation level of LLVM's code generator, 0 to 3, also -co [default: the application's]
    #[arg(long, alias = "co", value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub codegen_opt: Option<u8>,
    /// A code generator's name in the existing Mneme; printed, without effect
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CODEGEN_METHOD, value_parser = CODEGEN_METHODS)]
    pub codegen_method: String,
    /// Keep functions and variables that the kernel does not reach
    #[arg(long, overrides_with = "prune")]
    pub no_prune: bool,
    #[arg(long, hide = true)]
    pub prune: bool,
    /// Hide everything except the kernel, so passes know every caller of a function
    #[arg(long)]
    pub internalize: bool,
    #[arg(long, hide = true, overrides_with = "internalize")]
    pub no_internalize: bool,

    #[command(flatten)]
    pub compilation: CompilationOptions,
}

impl LaunchOptions {
    /// The recorded configuration with the changes of these options, compiled with the pipeline `passes`, or as
    /// recorded.
    pub fn configuration(&self, passes: Option<&str>, recorded: Configuration) -> Configuration {
        let mut configuration = recorded;
        let (grid, block) = (&mut configuration.grid, &mut configuration.block);
        for (value, place) in [
            (self.grid_dim_x, &mut grid.x),
            (self.grid_dim_y, &mut grid.y),
            (self.grid_dim_z, &mut grid.z),
            (self.block_dim_x, &mut block.x),
            (self.block_dim_y, &mut block.y),
            (self.block_dim_z, &mut block.z),
            (self.shared_mem, &mut configuration.shared_mem),
        ] {
            *place = value.unwrap_or(*place);
        }
        let configuration = self.compilation.apply(configuration);
        Configuration {
            set_launch_bounds: self.set_launch_bounds,
            max_threads: self.max_threads,
            min_blocks_per_sm: self.min_blocks_per_sm,
            specialize_dims: self.specialize_dims,
            passes: passes.map_or_else(|| configuration.passes.clone(), str::to_owned),
            codegen_opt: self.codegen_opt.unwrap_or(configuration.codegen_opt),
            codegen_method: self.codegen_method.clone(),
            prune: !self.no_prune,
            internalize: self.internalize,
            ..configuration
        }
    }
}
