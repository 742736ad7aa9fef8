//! `libmneme_stand_in.so`: a library in libamdhip64's place that checks how it is called.
//!
//! It has HIP's functions. Each call is first looked at as its contract says, by books that are kept of all memory,
//! handles and code; then the CPU device, which is loaded beside it, does the work. A wrong call ends the process with
//! a sentence. So recorder and replayer run as they do over AMD's library, which would take some of these mistakes and
//! go on. `docs/how-it-works/stand-in.md` says how tests use it.
//!
//! - `exports`: every function that HIP's library has, by name;
//! - `call`: what each goes through; `mistake`: what becomes of a wrong one;
//! - `books`: what there is, and what may be done with it;
//! - `memory`, `mappings`, `pools`, `copies`, `code`, `launches`, `streams`, `devices`, `program`: the calls;
//! - `profiler`: librocprofiler-sdk, which knows of launches here;
//! - `backend`: the CPU device; `compilation`: the code objects' IR, compiled for it.

mod backend;
mod books;
mod call;
mod code;
mod compilation;
mod copies;
mod devices;
mod exports;
mod launches;
mod mappings;
mod memory;
mod mistake;
mod pools;
mod profiler;
mod program;
mod streams;
