//! Plugins for kiln in Rust.
//!
//! `ffi` is the contract as the headers have it (scripts/rust-bindings makes it of them). The rest is for nodes: a call
//! whose inputs are slices, errors as messages, panics that do not leave run(). Samplers, models and ops are tables of
//! `ffi`.
#[allow(non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code, clippy::all)]
pub mod ffi;

use ffi::*;
use std::ffi::CString;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;

/// A row that the engine reads: static, and never written to.
#[repr(transparent)]
pub struct Row<T>(pub T);
unsafe impl<T> Sync for Row<T> {}

/// A text for a row, as the contract has it: `text!("gain")`.
#[macro_export]
macro_rules! text {
    ($s:expr) => {
        concat!($s, "\0").as_ptr() as *const std::os::raw::c_char
    };
}

/// Rows with nothing in them, to be filled with `..PORT`.
pub const PORT: kiln_port = unsafe { std::mem::transmute([0u8; std::mem::size_of::<kiln_port>()]) };
pub const PARAM: kiln_param = unsafe { std::mem::transmute([0u8; std::mem::size_of::<kiln_param>()]) };
pub const NODE: kiln_node = unsafe {
    let mut n: kiln_node = std::mem::transmute([0u8; std::mem::size_of::<kiln_node>()]);
    n.size = std::mem::size_of::<kiln_node>() as u32;
    n.devices = KILN_CPU;
    n.revision = 1;
    n.in_stride = std::mem::size_of::<kiln_port>() as u32;
    n.out_stride = std::mem::size_of::<kiln_port>() as u32;
    n.param_stride = std::mem::size_of::<kiln_param>() as u32;
    n
};

/// The table of a plugin with these nodes.
pub const fn plugin(
    id: *const std::os::raw::c_char,
    version: *const std::os::raw::c_char,
    license: *const std::os::raw::c_char,
    nodes: *const *const kiln_node,
    n: usize,
) -> Row<kiln_plugin> {
    Row(kiln_plugin {
        magic: KILN_MAGIC,
        size: std::mem::size_of::<kiln_plugin>() as u32,
        abi_major: KILN_ABI_MAJOR as u16,
        abi_minor: KILN_ABI_MINOR as u16,
        n_node: n as u32,
        id,
        version,
        license,
        node: nodes,
        open: None,
        close: None,
    })
}

/// Why a call ends: a status, and a sentence that names place and remedy ("": there is a message already).
#[derive(Debug)]
pub struct Error {
    pub status: kiln_status,
    pub text: String,
}

impl Error {
    pub fn invalid(text: impl Into<String>) -> Self {
        Error { status: KILN_ERR_INVALID, text: text.into() }
    }
    fn from(status: kiln_status) -> Result<(), Self> {
        if status == KILN_OK {
            return Ok(());
        }
        Err(Error { status, text: String::new() })
    }
}

/// What run() gets; its inputs live as long as it does.
pub struct Call<'a> {
    raw: &'a kiln_call,
}

impl<'a> Call<'a> {
    fn host(&self) -> &'a kiln_host {
        unsafe { &*self.raw.host }
    }
    fn view(&self, v: *const kiln_value) -> Result<(kiln_tensor, Vec<i64>), Error> {
        let mut t: kiln_tensor = unsafe { std::mem::zeroed() };
        t.size = std::mem::size_of::<kiln_tensor>() as u32;
        Error::from(unsafe { self.host().view.unwrap()(self.raw.ctx, v, &mut t) })?;
        if t.dtype != KILN_F32 {
            return Err(Error::invalid("a tensor of f32 is wanted"));
        }
        let dim = unsafe { slice::from_raw_parts(t.dim, t.rank as usize) }.to_vec();
        Ok((t, dim))
    }
    /// 1: only shapes are asked for, and tensors are empty slices.
    pub fn estimating(&self) -> bool {
        self.raw.estimate != 0
    }
    /// Input i: its numbers, dense, and its shape.
    pub fn input(&self, i: usize) -> Result<(&'a [f32], Vec<i64>), Error> {
        let (t, dim) = self.view(unsafe { *self.raw.in_.add(i) })?;
        let n = if t.data.is_null() { 0 } else { dim.iter().product::<i64>() as usize };
        Ok((if n == 0 { &[] } else { unsafe { slice::from_raw_parts(t.data as *const f32, n) } }, dim))
    }
    /// Output i, a tensor to be filled; to be asked for once.
    pub fn output(&self, i: usize, shape: &[i64]) -> Result<&'a mut [f32], Error> {
        let v = unsafe { self.host().tensor_new.unwrap()(self.raw.ctx, KILN_F32, KILN_CPU, shape.len() as u32, shape.as_ptr()) };
        if v.is_null() {
            return Err(Error { status: KILN_ERR_NOMEM, text: String::new() });
        }
        unsafe { *self.raw.out.add(i) = v };
        let (t, dim) = self.view(v)?;
        let n = if t.data.is_null() { 0 } else { dim.iter().product::<i64>() as usize };
        Ok(if n == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(t.data as *mut f32, n) } })
    }
    /// Shows how far it is; an error when it shall stop. To be called every 100 ms.
    pub fn progress(&self, done: usize, total: usize, what: &str) -> Result<(), Error> {
        let what = CString::new(what).unwrap_or_default();
        Error::from(unsafe { self.host().progress.unwrap()(self.raw.ctx, done as u64, total as u64, what.as_ptr()) })
    }
}

/// What a node's `run` in the row calls: `P` is the struct of its parameters (`()`: it has none). Nothing that `f` does leaves it: an error and a panic
/// become the node's message.
///
/// # Safety
/// `c` is what the engine gave, and `P` is `#[repr(C)]` as the node's rows say.
pub unsafe fn run<P: 'static>(c: *const kiln_call, f: fn(&Call, &P) -> Result<(), Error>) -> kiln_status {
    let raw = &*c;
    let result = catch_unwind(AssertUnwindSafe(|| {
        if std::mem::size_of::<P>() == 0 {
            f(&Call { raw }, &*std::ptr::NonNull::<P>::dangling().as_ptr())
        } else {
            f(&Call { raw }, &*(raw.params as *const P))
        }
    }));
    let error = match result {
        Ok(Ok(())) => return KILN_OK,
        Ok(Err(e)) => e,
        Err(_) => Error { status: KILN_ERR_BUG, text: "it panicked".to_string() },
    };
    match CString::new(error.text) {
        Ok(text) if !text.as_bytes().is_empty() => {
            (*raw.host).fail.unwrap()(raw.ctx, error.status, text!("%s"), text.as_ptr())
        }
        _ => error.status,
    }
}
