//! Samplers and guiders: arithmetic on latents, wherever their memory is. A latent is a handle that lives as long as the
//! sampling (or the guider's step) that lent it.
use crate::ffi::*;
use crate::{c_text, caught, params_at, size, text, told, zeros, Call, Error, Host, Value};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::raw::c_void;
use std::slice;

/// Rows to be filled with `..SAMPLER`.
pub const SAMPLER: kiln_sampler =
    zeros!(kiln_sampler, size = size::<kiln_sampler>(), param_stride = size::<kiln_param>());
pub const SCHEDULE: kiln_schedule = zeros!(kiln_schedule, size = size::<kiln_schedule>());
pub const GUIDER: kiln_guider = zeros!(
    kiln_guider,
    size = size::<kiln_guider>(),
    model_stride = size::<kiln_guider_model>(),
    set_stride = size::<kiln_guider_set>(),
    param_stride = size::<kiln_param>(),
    unconditional = -1
);

#[derive(Clone, Copy)]
pub struct Latent<'a> {
    pub raw: *mut kiln_latent,
    life: PhantomData<&'a kiln_latent>,
}

impl<'a> Latent<'a> {
    fn of(raw: *mut kiln_latent) -> Self {
        Latent { raw, life: PhantomData }
    }
}

fn split(parts: &[(f64, Latent)]) -> (Vec<f64>, Vec<*mut kiln_latent>) {
    (parts.iter().map(|p| p.0).collect(), parts.iter().map(|p| p.1.raw).collect())
}

/// What a sampler's run() gets.
pub struct Sampling<'a> {
    pub raw: &'a kiln_sampling,
}

impl<'a> Sampling<'a> {
    /// The steps to be done: a saved state begins later than 0.
    pub fn steps(&self) -> Range<usize> {
        self.raw.first..self.raw.n
    }
    /// The levels, one more than there are steps.
    pub fn sigma(&self) -> &'a [f64] {
        unsafe { slice::from_raw_parts(self.raw.sigma, self.raw.n + 1) }
    }
    /// The latent: sampled in place.
    pub fn x(&self) -> Latent<'a> {
        Latent::of(self.raw.x)
    }
    /// out = the model's guess of the clean latent for x at this level, guidance and all.
    pub fn denoise(&self, x: Latent<'a>, sigma: f64, out: Latent<'a>) -> Result<(), Error> {
        Error::from(unsafe { self.raw.denoise.unwrap()(self.raw, x.raw, sigma, out.raw) })
    }
    /// The unconditional guess of the last denoise().
    pub fn unconditional(&self, out: Latent<'a>) -> Result<(), Error> {
        Error::from(unsafe { self.raw.unconditional.unwrap()(self.raw, out.raw) })
    }
    /// out = the sum of the parts, each a factor and a latent; out may be one of them.
    pub fn lincomb(&self, out: Latent<'a>, parts: &[(f64, Latent<'a>)]) {
        let (factor, x) = split(parts);
        unsafe { self.raw.lincomb.unwrap()(self.raw, out.raw, x.len(), factor.as_ptr(), x.as_ptr()) }
    }
    pub fn norm(&self, x: Latent<'a>) -> f64 {
        unsafe { self.raw.norm.unwrap()(self.raw, x.raw) }
    }
    /// Unit Gaussian noise for the step between two levels.
    pub fn noise(&self, from: f64, to: f64, out: Latent<'a>) -> Result<(), Error> {
        Error::from(unsafe { self.raw.noise.unwrap()(self.raw, from, to, out.raw) })
    }
    /// A latent that is kept across steps, zeros when first asked for.
    pub fn slot(&self, name: &str) -> Result<Latent<'a>, Error> {
        let raw = unsafe { self.raw.slot.unwrap()(self.raw, c_text(name).as_ptr()) };
        if raw.is_null() { Err(Error::no_memory()) } else { Ok(Latent::of(raw)) }
    }
    /// Numbers that are kept across steps, zeros at first. Cells, as one name is one memory.
    pub fn scalars(&self, name: &str, n: usize) -> Result<&'a [Cell<f64>], Error> {
        let at = unsafe { self.raw.scalars.unwrap()(self.raw, c_text(name).as_ptr(), n) };
        if at.is_null() { Err(Error::no_memory()) } else { Ok(unsafe { slice::from_raw_parts(at as *const Cell<f64>, n) }) }
    }
    /// After step i: progress, preview, saved state, cancel.
    pub fn step(&self, i: usize, denoised: Latent<'a>) -> Result<(), Error> {
        Error::from(unsafe { self.raw.step.unwrap()(self.raw, i, denoised.raw) })
    }
    pub fn percent_to_sigma(&self, percent: f64) -> f64 {
        unsafe { self.raw.percent_to_sigma.unwrap()(self.raw, percent) }
    }
    /// What a step of adaptive length is judged by; see sampler.h.
    pub fn error(&self, a: Latent<'a>, b: Latent<'a>, before: Latent<'a>, atol: f64, rtol: f64) -> f64 {
        unsafe { self.raw.error.unwrap()(self.raw, a.raw, b.raw, before.raw, atol, rtol) }
    }
}

/// What a sampler's `run` in the row calls; `P` is the struct of its options (`()`: it has none).
///
/// # Safety
/// `s` is what the engine gave, and `P` is `#[repr(C)]` as the row says.
pub unsafe fn run<P: 'static>(s: *const kiln_sampling, f: fn(&Sampling, &P) -> Result<(), Error>) -> kiln_status {
    let raw = &*s;
    told(caught(|| f(&Sampling { raw }, params_at::<P>(raw.options))), |status, text| {
        raw.fail.unwrap()(s, status, text!("%s"), text)
    })
}

/// One evaluation as a guider sees it.
pub struct Step<'a> {
    pub raw: &'a kiln_guider_step,
}

impl<'a> Step<'a> {
    pub fn sigma(&self) -> f64 {
        self.raw.sigma
    }
    pub fn x(&self) -> Latent<'a> {
        Latent::of(self.raw.x)
    }
    /// The guess of x0 under conditioning i; None: it was not evaluated.
    pub fn guess(&self, i: usize) -> Option<Latent<'a>> {
        if i >= self.raw.n_guess as usize {
            return None;
        }
        let raw = unsafe { *self.raw.guess.add(i) };
        if raw.is_null() { None } else { Some(Latent::of(raw)) }
    }
    /// out = negative + cfg (positive - negative), or what hangs on the model in its place, then its other guidance.
    pub fn guided(&self, positive: Latent<'a>, negative: Option<Latent<'a>>, cfg: f64, out: Latent<'a>) -> Result<(), Error> {
        let negative = negative.map_or(std::ptr::null_mut(), |n| n.raw);
        Error::from(unsafe { self.raw.guided.unwrap()(self.raw, positive.raw, negative, cfg, out.raw) })
    }
    /// Lets the model's other guidance act on `out`, which the guider made itself.
    pub fn patch(&self, positive: Latent<'a>, negative: Option<Latent<'a>>, cfg: f64, out: Latent<'a>) -> Result<(), Error> {
        let negative = negative.map_or(std::ptr::null_mut(), |n| n.raw);
        Error::from(unsafe { self.raw.patch.unwrap()(self.raw, positive.raw, negative, cfg, out.raw) })
    }
    pub fn lincomb(&self, out: Latent<'a>, parts: &[(f64, Latent<'a>)]) {
        let (factor, x) = split(parts);
        unsafe {
            let latents = &*self.raw.latents;
            latents.lincomb.unwrap()(latents, out.raw, x.len(), factor.as_ptr(), x.as_ptr())
        }
    }
}

fn say(status: kiln_status, text: *const std::os::raw::c_char) -> kiln_status {
    if let Some(h) = Host::get() {
        unsafe { h.raw.log.unwrap()(KILN_LOG_ERROR as std::os::raw::c_int, text) }
    }
    status
}

/// What a guider's `combine` in the row calls. A guider has no message of its own: an error's text is logged.
///
/// # Safety
/// `s` and `out` are what the engine gave, and `P` is `#[repr(C)]` as the row says.
pub unsafe fn combine<P: 'static>(
    s: *const kiln_guider_step,
    out: *mut kiln_latent,
    f: fn(&Step, &P, Latent) -> Result<(), Error>,
) -> kiln_status {
    let raw = &*s;
    told(caught(|| f(&Step { raw }, params_at::<P>(raw.params), Latent::of(out))), say)
}

/// What a guider's `wants` in the row calls: the sets that matter at this level, as bits. After a panic: all of them.
///
/// # Safety
/// `params` is what the engine gave, and `P` is `#[repr(C)]` as the row says.
pub unsafe fn wants<P: 'static>(params: *const c_void, sigma: f64, f: fn(&P, f64) -> u32) -> u32 {
    caught(|| Ok(f(params_at::<P>(params), sigma))).unwrap_or(u32::MAX)
}

impl<'a> Call<'a> {
    /// A GUIDER of this kind of its parts: a map of models, conditionings and settings by the row's names.
    pub fn guider_new(&self, kind: &str, parts: Value<'a>) -> Result<Value<'a>, Error> {
        let api: &kiln_sampling_api = unsafe { self.ability(KILN_SAMPLING_ABILITY) }?;
        let mut out = std::ptr::null_mut();
        Error::from(unsafe { api.guider_new.unwrap()(self.raw, c_text(kind).as_ptr(), parts.into_raw(), &mut out) })?;
        self.owned(out)
    }
}
