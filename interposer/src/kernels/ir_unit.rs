//! A unit of IR, shared by the kernels of an image.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mneme_image::ir_section::{SymbolKind, Unit, VariableInfo};
use mneme_model::hash::checksum;
use mneme_recording::RecordingError;
use mneme_recording::publication::CodeFiles;

/// Address spaces of constant and of global memory in NVPTX.
pub const CONSTANT_SPACE: u32 = 4;
pub const GLOBAL_SPACE: u32 = 1;

/// A unit, with properties that are computed once for all its kernels.
#[derive(Clone)]
pub struct IrUnit(Arc<Shared>);

struct Shared {
    unit: Unit<'static>,
    checksum: OnceLock<Option<u64>>,
    variables: OnceLock<Vec<String>>,
    /// A file of the recording that contains its bitcode.
    file: Mutex<Option<String>>,
}

impl IrUnit {
    pub fn new(unit: Unit<'_>) -> Self {
        let (checksum, variables, file) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Self(Arc::new(Shared { unit: unit.into_owned(), checksum, variables, file }))
    }

    /// XXH3-64 of its bitcode, or `None` if that is damaged.
    pub fn checksum(&self) -> Option<u64> {
        *self.0.checksum.get_or_init(|| self.bitcode().ok().map(|bitcode| checksum(&bitcode)))
    }

    /// The names of the device variables that it defines.
    pub fn variables(&self) -> &[String] {
        self.0.variables.get_or_init(|| {
            let is_on_device = |info: &VariableInfo| matches!(info.space, GLOBAL_SPACE | CONSTANT_SPACE);
            let variables = self.table.symbols.iter().filter(|symbol| {
                let is_variable = symbol.kind == SymbolKind::Variable && symbol.defined;
                is_variable && symbol.variable.as_ref().is_some_and(is_on_device)
            });
            variables.map(|symbol| symbol.name.clone()).collect()
        })
    }

    /// Adds its bitcode to a recording under a name. Kernels of one unit share a file. Returns the bytes written.
    pub fn add_to(&self, files: &mut CodeFiles<'_>, name: &str) -> Result<u64, RecordingError> {
        let mut file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*file
            && known != name
            && files.contains(known)?
        {
            files.link(known, name);
            return Ok(0);
        }
        let bitcode = self.bitcode().map_err(RecordingError::io(name))?;
        files.add(name, &bitcode)?;
        *file = Some(name.to_owned());
        Ok(bitcode.len() as u64)
    }
}

impl Deref for IrUnit {
    type Target = Unit<'static>;
    fn deref(&self) -> &Unit<'static> {
        &self.0.unit
    }
}

impl Borrow<Unit<'static>> for IrUnit {
    fn borrow(&self) -> &Unit<'static> {
        &self.0.unit
    }
}
