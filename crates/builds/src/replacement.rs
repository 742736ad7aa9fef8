//! Code that replaces the recorded kernel.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mneme_recording::CodeKind;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The code to build instead of the recorded code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Replacement {
    /// LLVM assembly or bitcode.
    Ir(#[serde(serialize_with = "to_base64", deserialize_with = "from_base64")] Vec<u8>),
    Ptx(String),
    /// Machine code of a GPU, NVIDIA's or AMD's.
    Cubin(#[serde(serialize_with = "to_base64", deserialize_with = "from_base64")] Vec<u8>),
}

/// The error for unsuitable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CodeError {
    #[error("the PTX is not text")]
    PtxNotText,
    #[error("a code object of the CPU device replaces no other code")]
    CpuObject,
    #[error("modules are cut off")]
    CutOff,
}

impl Replacement {
    /// # Errors
    /// PTX that is not text, or a kind of code that cannot replace other code.
    pub fn of(kind: CodeKind, bytes: Vec<u8>) -> Result<Self, CodeError> {
        match kind {
            CodeKind::Bitcode | CodeKind::Llir => Ok(Self::Ir(bytes)),
            CodeKind::Ptx => String::from_utf8(bytes).map(Self::Ptx).map_err(|_| CodeError::PtxNotText),
            CodeKind::Cubin | CodeKind::CodeObject => Ok(Self::Cubin(bytes)),
            CodeKind::CpuObject => Err(CodeError::CpuObject),
        }
    }

    pub fn kind(&self) -> CodeKind {
        match self {
            Self::Ir(_) => CodeKind::Bitcode,
            Self::Ptx(_) => CodeKind::Ptx,
            Self::Cubin(_) => CodeKind::Cubin,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Ir(bytes) | Self::Cubin(bytes) => bytes,
            Self::Ptx(text) => text.as_bytes(),
        }
    }
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    BASE64_STANDARD.decode(text).map_err(serde::de::Error::custom)
}
