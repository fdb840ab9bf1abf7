//! Plugins for kiln in Rust.
//!
//! `ffi` is the contract as the headers have it (scripts/rust-bindings makes it of them). Over it lie a call whose inputs
//! are slices, values that give up their references, samplings and guidances whose latents live no longer than they may,
//! recordings of ops, and models: errors become messages, and no panic leaves a function that the engine calls. What has
//! no wrapper here is reached through `ffi`.
#[allow(non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code, clippy::all)]
pub mod ffi;

pub mod model;
pub mod noise;
pub mod ops;
pub mod sampling;
pub mod values;

pub use values::Value;

use ffi::*;
use std::any::Any;
use std::ffi::CString;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

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

pub(crate) const fn size<T>() -> u32 {
    std::mem::size_of::<T>() as u32
}

/// A struct of the contract with all members 0 but those given.
macro_rules! zeros {
    ($t:ty $(, $member:ident = $value:expr)*) => {{
        #[allow(unused_mut, unused_unsafe)]
        let mut t: $t = unsafe { std::mem::transmute([0u8; std::mem::size_of::<$t>()]) };
        $(t.$member = $value;)*
        t
    }};
}
pub(crate) use zeros;

/// Rows with nothing in them but their sizes, to be filled with `..PORT`.
pub const PORT: kiln_port = zeros!(kiln_port);
pub const PARAM: kiln_param = zeros!(kiln_param);
pub const NODE: kiln_node = zeros!(
    kiln_node,
    size = size::<kiln_node>(),
    devices = KILN_CPU,
    revision = 1,
    in_stride = size::<kiln_port>(),
    out_stride = size::<kiln_port>(),
    param_stride = size::<kiln_param>()
);

/// The table of a plugin with these nodes.
pub const fn plugin(
    id: *const c_char,
    version: *const c_char,
    license: *const c_char,
    nodes: *const *const kiln_node,
    n: usize,
) -> Row<kiln_plugin> {
    let Row(table) = plugin_open(id, version, license, nodes, n, None);
    Row(table)
}

/// What a row calls when the plugin is loaded.
pub type Open = unsafe extern "C" fn(*const kiln_host) -> kiln_status;

/// The table of a plugin that registers more than nodes: `open` calls `kiln::open`.
pub const fn plugin_open(
    id: *const c_char,
    version: *const c_char,
    license: *const c_char,
    nodes: *const *const kiln_node,
    n: usize,
    open: Option<Open>,
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
        open,
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
    pub fn unsupported(text: impl Into<String>) -> Self {
        Error { status: KILN_ERR_UNSUPPORTED, text: text.into() }
    }
    pub(crate) fn no_memory() -> Self {
        Error { status: KILN_ERR_NOMEM, text: String::new() }
    }
    pub(crate) fn from(status: kiln_status) -> Result<(), Self> {
        if status == KILN_OK {
            return Ok(());
        }
        Err(Error { status, text: String::new() })
    }
}

fn words_of(panic: Box<dyn Any + Send>) -> Error {
    let words = panic.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
    Error { status: KILN_ERR_BUG, text: words.map_or("it panicked".to_string(), |w| format!("it panicked: {}", w)) }
}

/// f's result, where a panic is an error.
pub(crate) fn caught<T>(f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(words_of(panic)))
}

/// The status of an error whose text `say` has told.
pub(crate) fn told(result: Result<(), Error>, say: impl FnOnce(kiln_status, *const c_char) -> kiln_status) -> kiln_status {
    match result {
        Ok(()) => KILN_OK,
        Err(e) => match CString::new(e.text) {
            Ok(text) if !text.as_bytes().is_empty() => say(e.status, text.as_ptr()),
            _ => e.status,
        },
    }
}

/// Text as C has it; what stands behind a NUL is left out.
pub(crate) fn c_text(s: &str) -> CString {
    CString::new(s.split('\0').next().unwrap_or("")).unwrap_or_default()
}

/// P where the engine has filled one; a P without members lies anywhere.
pub(crate) unsafe fn params_at<'a, P>(p: *const c_void) -> &'a P {
    if std::mem::size_of::<P>() == 0 {
        &*std::ptr::NonNull::<P>::dangling().as_ptr()
    } else {
        &*(p as *const P)
    }
}

/// The engine, as long as the plugin is loaded.
#[derive(Clone, Copy)]
pub struct Host {
    pub raw: &'static kiln_host,
}

static HOST: AtomicPtr<kiln_host> = AtomicPtr::new(std::ptr::null_mut());

impl Host {
    /// The engine that called `kiln::open`.
    pub fn get() -> Option<Host> {
        unsafe { HOST.load(Ordering::Acquire).as_ref() }.map(|raw| Host { raw })
    }
    /// The table of an ability; `id` is the header's KILN_..._ABILITY, which `T` belongs to.
    ///
    /// # Safety
    /// `T` is the struct of that ability.
    pub unsafe fn ability<T: 'static>(&self, id: &'static [u8]) -> Result<&'static T, Error> {
        debug_assert_eq!(id.last(), Some(&0));
        let table = self.raw.ability.unwrap()(id.as_ptr() as *const c_char) as *const T;
        table.as_ref().ok_or_else(|| {
            Error::unsupported(format!("this kiln has no {}", String::from_utf8_lossy(&id[..id.len() - 1])))
        })
    }
    pub fn log(&self, level: u32, text: &str) {
        unsafe { self.raw.log.unwrap()(level as std::os::raw::c_int, c_text(text).as_ptr()) }
    }
    pub fn register_sampler(&self, row: &'static Row<kiln_sampler>) -> Result<(), Error> {
        let api: &kiln_sampler_api = unsafe { self.ability(KILN_SAMPLER_ABILITY) }?;
        Error::from(unsafe { api.register_sampler.unwrap()(&row.0) })
    }
    pub fn register_schedule(&self, row: &'static Row<kiln_schedule>) -> Result<(), Error> {
        let api: &kiln_sampler_api = unsafe { self.ability(KILN_SAMPLER_ABILITY) }?;
        Error::from(unsafe { api.register_schedule.unwrap()(&row.0) })
    }
    pub fn register_guider(&self, row: &'static Row<kiln_guider>) -> Result<(), Error> {
        let api: &kiln_sampling_api = unsafe { self.ability(KILN_SAMPLING_ABILITY) }?;
        Error::from(unsafe { api.register_guider.unwrap()(&row.0) })
    }
    pub fn register_family(&self, row: &'static Row<kiln_model_family>) -> Result<(), Error> {
        let api: &kiln_model_api = unsafe { self.ability(KILN_MODEL_ABILITY) }?;
        Error::from(unsafe { api.register_family.unwrap()(&row.0) })
    }
    pub fn register_op(&self, row: &'static Row<kiln_op_kind>) -> Result<(), Error> {
        let api: &kiln_ops = unsafe { self.ability(KILN_OPS_ABILITY) }?;
        Error::from(unsafe { api.register_op.unwrap()(&row.0) })
    }
}

/// What a plugin's `open` calls: f registers what the plugin has.
///
/// # Safety
/// `host` is what the engine gave.
pub unsafe fn open(host: *const kiln_host, f: fn(Host) -> Result<(), Error>) -> kiln_status {
    HOST.store(host as *mut kiln_host, Ordering::Release);
    let h = Host { raw: &*host };
    told(caught(|| f(h)), |status, text| {
        h.raw.log.unwrap()(KILN_LOG_ERROR as std::os::raw::c_int, text);
        status
    })
}

/// What run() gets; its inputs live as long as it does.
pub struct Call<'a> {
    pub raw: &'a kiln_call,
}

impl<'a> Call<'a> {
    pub(crate) fn host(&self) -> &'a kiln_host {
        unsafe { &*self.raw.host }
    }
    fn view(&self, v: *const kiln_value) -> Result<(kiln_tensor, Vec<i64>), Error> {
        let mut t = zeros!(kiln_tensor, size = size::<kiln_tensor>());
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
            return Err(Error::no_memory());
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
    told(caught(|| f(&Call { raw }, params_at::<P>(raw.params))), |status, text| {
        (*raw.host).fail.unwrap()(raw.ctx, status, text!("%s"), text)
    })
}
