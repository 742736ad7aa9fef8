//! Launches as before CUDA 4.0: what a launch needs is set on the function, call by call.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::work::LaunchExtents;
use super::{context, function, launch};
use crate::abi::In;
use crate::status::{Status, StatusResult};

/// A parameter buffer is no larger, bytes.
const MOST: usize = 4096;

#[derive(Clone)]
struct Prepared {
    block: [u32; 3],
    shared: u32,
    parameters: Vec<u8>,
}

static PREPARED: Mutex<BTreeMap<usize, Prepared>> = Mutex::new(BTreeMap::new());

fn change(handle: usize, change: impl FnOnce(&mut Prepared) -> StatusResult) -> StatusResult {
    context::usable()?;
    function::get(handle)?;
    let mut all = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
    change(all.entry(handle).or_insert(Prepared { block: [1; 3], shared: 0, parameters: Vec::new() }))
}

pub fn set_block(handle: usize, block: [i32; 3]) -> StatusResult {
    change(handle, |prepared| {
        if block.iter().any(|extent| *extent < 1) {
            return Err(Status::INVALID_VALUE);
        }
        prepared.block = block.map(|extent| extent as u32);
        Ok(())
    })
}

pub fn set_shared(handle: usize, bytes: u32) -> StatusResult {
    change(handle, |prepared| {
        prepared.shared = bytes;
        Ok(())
    })
}

pub fn set_size(handle: usize, bytes: u32) -> StatusResult {
    change(handle, |prepared| {
        if bytes as usize > MOST {
            return Err(Status::INVALID_VALUE);
        }
        prepared.parameters.resize(bytes as usize, 0);
        Ok(())
    })
}

/// Puts `count` bytes at an offset of the parameter buffer.
pub fn set_bytes(handle: usize, offset: i32, bytes: In<u8>, count: usize) -> StatusResult {
    change(handle, |prepared| {
        let start = usize::try_from(offset).map_err(|_| Status::INVALID_VALUE)?;
        let end = start.checked_add(count).filter(|end| *end <= MOST).ok_or(Status::INVALID_VALUE)?;
        if prepared.parameters.len() < end {
            prepared.parameters.resize(end, 0);
        }
        for (index, place) in prepared.parameters[start..end].iter_mut().enumerate() {
            *place = bytes.at(index)?;
        }
        Ok(())
    })
}

pub fn set_word(handle: usize, offset: i32, value: u32) -> StatusResult {
    set_bytes(handle, offset, In::from(&value.to_le_bytes()[0]), 4)
}

pub fn launch(handle: usize, width: i32, height: i32, stream: usize) -> StatusResult {
    let prepared =
        PREPARED.lock().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned().ok_or(Status::INVALID_VALUE)?;
    let shape = LaunchExtents {
        grid: [width.max(0) as u32, height.max(0) as u32, 1],
        block: prepared.block,
        shared: prepared.shared,
    };
    let size = prepared.parameters.len();
    let extra = [1, prepared.parameters.as_ptr() as usize, 2, (&raw const size) as usize, 0];
    let extra = if size == 0 { In::of_place(0) } else { In::of_place(extra.as_ptr() as usize) };
    launch::launch(handle, shape, stream, In::of_place(0), extra)
}
