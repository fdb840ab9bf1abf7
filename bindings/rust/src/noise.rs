//! How a model counts noise: the rows of standard_sampling.h for a table of levels, in Rust, with the same numbers. A way
//! that is none of these is a kiln_model_sampling of one's own (`Noise::own`).
use crate::ffi::*;
use crate::{size, zeros};
use std::ffi::CString;
use std::os::raw::c_void;

/// What the network's answer p means at level s; formulas and sources: kiln_prediction in standard_sampling.h.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Prediction {
    /// x0 = x - s p (Ho et al. 2020)
    Eps = 1,
    /// x0 = x / (s^2 + 1) - s p / sqrt(s^2 + 1) (Salimans and Ho 2022, appendix D)
    V = 2,
    /// x0 = p
    X0 = 3,
    /// x0 = x - s p, where x = (1 - s) x0 + s noise and the network sees x (Lipman et al. 2022)
    Flow = 4,
}

struct Standard {
    prediction: Prediction,
    sigma: Vec<f64>,
    multiplier: f64,
    shift: f64,
    identity: CString,
    table: kiln_model_sampling,
}

/// Lives as long as the MODEL, in one place.
pub struct Noise(Kind);

enum Kind {
    Standard(Box<Standard>),
    Own(&'static kiln_model_sampling),
}

unsafe impl Send for Noise {}
unsafe impl Sync for Noise {}

/// DDPM's discrete levels: beta from start to end, linear in its square root if `scaled` (Stable Diffusion);
/// abar = prod(1 - beta), sigma = sqrt((1 - abar) / abar).
pub fn discrete_sigmas(scaled: bool, start: f64, end: f64, n: usize) -> Vec<f64> {
    let (a, b) = if scaled { (start.sqrt(), end.sqrt()) } else { (start, end) };
    let mut abar = 1.0;
    (0..n)
        .map(|i| {
            let beta = a + (b - a) * i as f64 / (n.max(2) - 1) as f64;
            abar *= 1.0 - if scaled { beta * beta } else { beta };
            ((1.0 - abar) / abar).sqrt()
        })
        .collect()
}

fn shifted(shift: f64, share: f64) -> f64 {
    shift * share / (1.0 + (shift - 1.0) * share)
}

/// The place of a level in a table, interpolated in log sigma, and back.
fn sigma_to_t(table: &[f64], sigma: f64) -> f64 {
    let last = table.len() - 1;
    if sigma <= table[0] {
        return 0.0;
    }
    if sigma >= table[last] {
        return last as f64;
    }
    let low = table.partition_point(|&level| level <= sigma) - 1;
    let (a, b) = (table[low].ln(), table[low + 1].ln());
    low as f64 + (sigma.ln() - a) / (b - a)
}

fn t_to_sigma(table: &[f64], t: f64) -> f64 {
    if t <= 0.0 {
        return table[0];
    }
    if t >= (table.len() - 1) as f64 {
        return table[table.len() - 1];
    }
    let low = t as usize;
    let part = t - low as f64;
    ((1.0 - part) * table[low].ln() + part * table[low + 1].ln()).exp()
}

unsafe fn standard<'a>(s: *const kiln_model_sampling) -> &'a Standard {
    &*((*s).self_ as *const Standard)
}

unsafe extern "C" fn level(s: *const kiln_model_sampling, sigma: f64, out: *mut kiln_level) {
    let variance = sigma * sigma + 1.0;
    let out = &mut *out; // one by one: the caller's struct may be shorter
    out.input = 1.0 / variance.sqrt();
    out.of_x = 1.0;
    out.of_prediction = -sigma;
    out.clean = 1.0;
    out.noise = sigma;
    match standard(s).prediction {
        Prediction::Eps => {}
        Prediction::V => {
            out.of_x = 1.0 / variance;
            out.of_prediction = -sigma / variance.sqrt();
        }
        Prediction::X0 => {
            out.of_x = 0.0;
            out.of_prediction = 1.0;
        }
        Prediction::Flow => {
            out.input = 1.0;
            out.clean = 1.0 - sigma;
        }
    }
}

unsafe extern "C" fn timestep(s: *const kiln_model_sampling, sigma: f64) -> f64 {
    let s = standard(s);
    s.multiplier * if s.prediction == Prediction::Flow { sigma } else { sigma_to_t(&s.sigma, sigma) }
}

unsafe extern "C" fn sigma_at(s: *const kiln_model_sampling, t: f64, _facts: *const kiln_run_facts) -> f64 {
    let s = standard(s);
    match s.prediction {
        Prediction::Flow => shifted(s.shift, t / s.multiplier),
        _ => t_to_sigma(&s.sigma, t / s.multiplier),
    }
}

unsafe extern "C" fn percent_to_sigma(s: *const kiln_model_sampling, percent: f64, facts: *const kiln_run_facts) -> f64 {
    let own = standard(s);
    let flow = own.prediction == Prediction::Flow;
    if percent >= 1.0 {
        return 0.0;
    }
    if flow {
        return if percent <= 0.0 { 1.0 } else { shifted(own.shift, 1.0 - percent) };
    }
    if percent <= 0.0 {
        return f64::INFINITY;
    }
    sigma_at(s, (1.0 - percent) * own.multiplier * (own.sigma.len() - 1) as f64, facts)
}

/// A start at the top has the variance that the network was trained with there (ComfyUI's noise_scaling).
unsafe extern "C" fn start(s: *const kiln_model_sampling, sigma: f64, clean: *mut f64, noise: *mut f64) {
    let flow = standard(s).prediction == Prediction::Flow;
    let top = (*s).sigma_max;
    *clean = if flow { 1.0 - sigma } else { 1.0 };
    *noise = sigma;
    if (sigma > top || (sigma - top).abs() <= 1e-5 * top) && !flow {
        *noise = (1.0 + sigma * sigma).sqrt();
    }
}

impl Noise {
    /// Levels of training, ascending, two or more.
    pub fn table_of(prediction: Prediction, sigma: Vec<f64>) -> Self {
        Self::standard(prediction, sigma, 1.0, 1.0)
    }
    /// A flow of 1,000 levels, shift u / (1 + (shift - 1) u), whose timestep is multiplier * sigma (Esser et al. 2024, eq. 23).
    pub fn flow(shift: f64, multiplier: f64) -> Self {
        let sigma = (1..=1000).map(|i| shifted(shift, i as f64 / 1000.0)).collect();
        Self::standard(Prediction::Flow, sigma, multiplier, shift)
    }
    pub fn own(table: &'static kiln_model_sampling) -> Self {
        Noise(Kind::Own(table))
    }
    fn standard(prediction: Prediction, sigma: Vec<f64>, multiplier: f64, shift: f64) -> Self {
        assert!(sigma.len() >= 2 && sigma.windows(2).all(|w| w[0] < w[1]), "levels ascend, and are two or more");
        let table = zeros!(
            kiln_model_sampling,
            size = size::<kiln_model_sampling>(),
            level = Some(level),
            timestep = Some(timestep),
            sigma_at = Some(sigma_at),
            percent_to_sigma = Some(percent_to_sigma),
            start = Some(start)
        );
        let identity = CString::new(format!("kiln crate {} {:?} {:?}", prediction as u32, multiplier, shift)).unwrap();
        let mut s = Box::new(Standard { prediction, sigma, multiplier, shift, identity, table });
        s.table.process = if prediction == Prediction::Flow { KILN_PROCESS_FLOW } else { KILN_PROCESS_DIFFUSION };
        s.table.self_ = &*s as *const Standard as *const c_void;
        s.table.identity = s.identity.as_ptr();
        s.table.sigma_min = s.sigma[0];
        s.table.sigma_max = s.sigma[s.sigma.len() - 1];
        s.table.sigma = s.sigma.as_ptr();
        s.table.n_sigma = s.sigma.len() as u32;
        Noise(Kind::Standard(s))
    }
    pub fn table(&self) -> *const kiln_model_sampling {
        match &self.0 {
            Kind::Standard(s) => &s.table,
            Kind::Own(table) => *table,
        }
    }
}
