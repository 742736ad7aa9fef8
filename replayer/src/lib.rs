//! Replaying a recorded kernel: compile it under any configuration, run it on the recorded memory, verify every byte.
//!
//! ```text
//! supervisor            one thread, no LLVM, no device
//!  ├─ decoder           decodes the snapshot into shared memory, once
//!  ├─ nursery           has LLVM and the assembler loaded
//!  │   └─ builder       compiles one configuration
//!  └─ executor          one device context with the snapshot resident; replaced when a kernel breaks it
//! ```

pub mod alone;
pub mod arguments;
pub mod bisect;
pub mod builder;
pub mod child;
pub mod comparison;
pub mod confinement;
pub mod decoder;
pub mod elements;
pub mod engine;
pub mod executor;
pub mod frame;
pub mod interface;
pub mod lines;
pub mod observed;
pub mod one_shot;
pub mod output;
pub mod outputs;
pub mod program;
pub mod refusal;
pub mod replacement;
pub mod results;
pub mod scene;
pub mod serve;
pub mod snapshot;
pub mod subject;
pub mod supervisor;
pub mod sweep;
pub mod target;
pub mod tolerances;
pub mod variations;
