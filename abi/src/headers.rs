//! Reads the vendors' headers, for tests that compare declarations with them.

use std::collections::BTreeSet;

use regex::Regex;

pub fn expression(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

pub fn found(text: &str, pattern: &str) -> BTreeSet<String> {
    expression(pattern).captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// The types of a list of parameters, without their names.
pub fn types(parameters: &str) -> Vec<String> {
    let name = expression(r"\w+\s*(\[\w*\])?$");
    let parameters = parameters.split(',').map(str::trim).filter(|parameter| !["", "void"].contains(parameter));
    let of = |parameter: &str| {
        let array = if parameter.ends_with(']') { "*" } else { "" };
        format!("{}{array}", name.replace(parameter, "").trim())
    };
    parameters.map(of).collect()
}

/// How an argument or a result is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// What a function that returns nothing does.
    Nothing,
    Pointer,
    /// A pointer to what only the driver knows.
    Handle,
    /// Bytes.
    Integer(usize),
    Float,
    Structure(String),
}

impl Passed {
    /// The table writes some handles as integers or as pointers.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let may_be = |one: &Self| matches!(one, Self::Pointer | Self::Handle | Self::Integer(8));
        self == other || (may_be(self) && may_be(other) && (*self == Self::Handle || *other == Self::Handle))
    }
}

pub fn in_rust(text: &str) -> Passed {
    match text {
        _ if text.starts_with('*') => Passed::Pointer,
        "()" => Passed::Nothing,
        "CUcontext" | "CUevent" | "CUstream" | "CUfunction" | "CUkernel" | "CUlibrary" | "CUmodule" | "CUarray"
        | "CUmemoryPool" => Passed::Handle,
        "usize" | "u64" | "c_ulonglong" | "CUdeviceptr" | "CUmemGenericAllocationHandle" => Passed::Integer(8),
        "c_int" | "c_uint" | "u32" | "CUdevice" | "Status" => Passed::Integer(4),
        "c_ushort" => Passed::Integer(2),
        "c_char" | "c_uchar" | "bool" => Passed::Integer(1),
        "f32" => Passed::Float,
        other => Passed::Structure(other.to_owned()),
    }
}
