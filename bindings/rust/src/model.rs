//! Model families: a file that is recognised, a network that is recorded, a MODEL that owns both.
use crate::ffi::*;
use crate::noise::Noise;
use crate::ops::{Recorder, Tensor};
use crate::{c_text, caught, size, zeros, Error, Host, Row};
use std::marker::PhantomData;
use std::os::raw::{c_char, c_int, c_void};

/// Rows to be filled with `..FAMILY`, `..LATENT`, `..SCALING`, `..INPUT`.
pub const FAMILY: kiln_model_family = zeros!(kiln_model_family, size = size::<kiln_model_family>());
pub const LATENT: kiln_latent_format = zeros!(kiln_latent_format, size = size::<kiln_latent_format>());
pub const SCALING: kiln_latent_scaling = zeros!(kiln_latent_scaling, size = size::<kiln_latent_scaling>());
pub const INPUT: kiln_input_spec = zeros!(kiln_input_spec, size = size::<kiln_input_spec>());

/// The tensors of a file: their names and shapes.
pub struct Weights<'a> {
    api: &'a kiln_weights_api,
    set: *const kiln_weights,
}

impl Weights<'_> {
    /// The shape of a tensor; None: there is none of that name.
    pub fn shape(&self, name: &str) -> Option<Vec<i64>> {
        let mut info = zeros!(kiln_weight_info, size = size::<kiln_weight_info>());
        if unsafe { self.api.find.unwrap()(self.set, c_text(name).as_ptr(), &mut info) } != KILN_OK {
            return None;
        }
        Some(unsafe { std::slice::from_raw_parts(info.dim, info.rank as usize) }.to_vec())
    }
    /// The size of a dimension of a tensor; 0: there is no such tensor or dimension.
    pub fn size_of(&self, name: &str, dimension: usize) -> i64 {
        self.shape(name).and_then(|dim| dim.get(dimension).copied()).unwrap_or(0)
    }
}

/// One evaluation of a network that is being recorded.
pub struct Recording<'a> {
    pub rec: Recorder<'a>,
    pub inputs: &'a kiln_denoise_inputs,
    weights: *mut kiln_weights,
}

impl<'a> std::ops::Deref for Recording<'a> {
    type Target = Recorder<'a>;
    fn deref(&self) -> &Recorder<'a> {
        &self.rec
    }
}

impl Recording<'_> {
    /// The noisy latent, [N,...,C].
    pub fn x(&self) -> Tensor {
        self.inputs.x
    }
    pub fn timestep(&self) -> Tensor {
        self.inputs.timestep
    }
    /// The input of this name; Recorder::NONE: there is none.
    pub fn named(&self, name: &str) -> Tensor {
        let mut at = self.inputs.input as *const u8; // its structs may be longer than ours
        for _ in 0..self.inputs.n_input {
            let t = unsafe { &*(at as *const kiln_named_tensor) };
            let is = unsafe { std::ffi::CStr::from_ptr(t.name) }.to_bytes() == name.as_bytes();
            if is && t.owner.is_null() {
                return t.tensor;
            }
            at = unsafe { at.add(t.size as usize) };
        }
        Recorder::NONE
    }
    pub fn weight(&self, name: &str, dim: &[i64]) -> Tensor {
        let weight = self.rec.ops.weight.unwrap();
        unsafe { weight(self.rec.program, self.weights, c_text(name).as_ptr(), dim.len() as u32, dim.as_ptr()) }
    }
    pub fn weight_optional(&self, name: &str, dim: &[i64]) -> Tensor {
        let weight = self.rec.ops.weight_optional.unwrap();
        unsafe { weight(self.rec.program, self.weights, c_text(name).as_ptr(), dim.len() as u32, dim.as_ptr()) }
    }
    /// x through NAME.weight [to, from] and NAME.bias [to].
    pub fn linear_of(&self, x: Tensor, name: &str, from: i64, to: i64) -> Tensor {
        let b = self.weight(&format!("{}.bias", name), &[to]);
        self.rec.linear(x, self.weight(&format!("{}.weight", name), &[to, from]), b)
    }
}

/// What a family opens: the numbers that it read from a file, and the network they decide.
pub trait Network: Sized + Send + Sync + 'static {
    /// Records one evaluation: x's shape with the latent's channels.
    fn record(&self, r: &Recording) -> Tensor;
}

/// What a MODEL owns. The engine holds pointers into it: it does not move.
struct Opened<N: Network> {
    denoiser: kiln_denoiser,
    noise: Noise,
    network: N,
}

unsafe extern "C" fn record_of<N: Network>(
    denoiser: *const kiln_denoiser,
    ops: *const kiln_ops,
    program: *mut kiln_program,
    weights: *mut kiln_weights,
    inputs: *const kiln_denoise_inputs,
) -> kiln_t {
    let opened = &*((*denoiser).self_ as *const Opened<N>);
    let rec = Recorder { ops: &*ops, program, life: PhantomData };
    let recorded = caught(|| Ok(opened.network.record(&Recording { rec, inputs: &*inputs, weights })));
    recorded.unwrap_or_else(|e| (*ops).fail.unwrap()(program, crate::text!("%s"), c_text(&e.text).as_ptr()))
}

unsafe extern "C" fn release_of<N: Network>(opened: *mut c_void) {
    drop(Box::from_raw(opened as *mut Opened<N>));
}

/// What does not depend on the file.
pub struct Denoiser {
    /// All that decides what is recorded, but shapes and weights.
    pub family: *const c_char,
    pub latent: &'static Row<kiln_latent_format>,
    pub inputs: *const kiln_input_spec,
    pub n_inputs: usize,
}

/// What a family's `detect` in the row calls: f says how sure it is, 0 to 100. After a panic: not mine.
///
/// # Safety
/// The arguments are what the engine gave.
pub unsafe fn detect(api: *const kiln_weights_api, set: *const kiln_weights, f: fn(&Weights) -> c_int) -> c_int {
    caught(|| Ok(f(&Weights { api: &*api, set }))).unwrap_or(0)
}

/// What a family's `open` in the row calls: f reads the file's shapes and makes the network and how it counts noise.
///
/// # Safety
/// The arguments are what the engine gave; the denoiser's pointers are static.
pub unsafe fn open<N: Network>(
    host: *const kiln_host,
    ctx: *mut kiln_ctx,
    set: *mut kiln_weights,
    what: &Denoiser,
    f: fn(&Weights) -> Result<(N, Noise), Error>,
) -> *mut kiln_value {
    let h = Host { raw: &*host };
    let result = caught(|| {
        let api: &kiln_weights_api = h.ability(KILN_WEIGHTS_ABILITY)?;
        let models: &kiln_model_api = h.ability(KILN_MODEL_ABILITY)?;
        let (network, noise) = f(&Weights { api, set })?;
        let mut opened = Box::new(Opened {
            denoiser: zeros!(kiln_denoiser, size = size::<kiln_denoiser>(), record = Some(record_of::<N>)),
            noise,
            network,
        });
        let at: *mut Opened<N> = &mut *opened;
        let d = &mut opened.denoiser;
        d.family = what.family;
        d.self_ = at as *mut c_void;
        d.latent = &what.latent.0;
        d.sampling = opened.noise.table();
        d.input = what.inputs;
        d.n_input = what.n_inputs as u32;
        d.input_stride = size::<kiln_input_spec>();
        let model = zeros!(
            kiln_model,
            size = size::<kiln_model>(),
            denoiser = &(*at).denoiser,
            weights = set,
            owned = at as *mut c_void,
            release = Some(release_of::<N>)
        );
        let value = models.model_new.unwrap()(ctx, &model);
        if !value.is_null() {
            std::mem::forget(opened); // the MODEL has it
        }
        Ok(value)
    });
    result.unwrap_or_else(|e| {
        if !e.text.is_empty() {
            (*host).fail.unwrap()(ctx, e.status, crate::text!("%s"), c_text(&e.text).as_ptr());
        }
        std::ptr::null_mut()
    })
}
