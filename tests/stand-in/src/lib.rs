//! `libmneme_stand_in.so`: a replacement for libamdhip64 that checks its callers.
//!
//! It exports HIP's functions. It checks each call against its contract, using records of all memory, handles and code.
//! The CPU device, which it loads, then does the work. A wrong call ends the process with a sentence. So recorder and
//! replayer run as they do with AMD's library, which silently accepts some of these mistakes.
//! `docs/how-it-works/stand-in.md` says how tests use it.
//!
//! - `exports`: all functions of HIP's library by name;
//! - `call`: the dispatch of every call; `mistake`: the handling of wrong calls;
//! - `books`: records of existing objects and their permitted uses;
//! - `memory`, `mappings`, `pools`, `copies`, `code`, `launches`, `streams`, `devices`, `program`: the calls;
//! - `profiler`: a stand-in for librocprofiler-sdk, which sees launches here;
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
