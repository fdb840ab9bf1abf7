//! my_plugin.c - a sampler: once this plugin is on the search path, KSampler's list has "my_plugin".
//!
//! It is Euler's method for dx/dsigma = (x - x0) / sigma (Karras et al. 2022, arXiv:2206.00364, section 3), to begin with.
//! The order it says is the order it is held to.
use kiln::ffi::*;
use kiln::sampling::{Sampling, SAMPLER};
use kiln::{text, Error, Row};

fn euler(s: &Sampling, _options: &()) -> Result<(), Error> {
    let guess = s.slot("guess")?; // slots are kept in a saved state: what a step hands to the next
    let (x, sigma) = (s.x(), s.sigma());
    for i in s.steps() {
        s.denoise(x, sigma[i], guess)?; // guess = x0, guidance and all
        let ratio = sigma[i + 1] / sigma[i];
        s.lincomb(x, &[(ratio, x), (1.0 - ratio, guess)]); // x0 + (x - x0) next / sigma
        s.step(i, guess)?; // progress, cancel, saved state
    }
    Ok(())
}

unsafe extern "C" fn run(s: *const kiln_sampling) -> kiln_status {
    kiln::sampling::run(s, euler)
}

static ROW: Row<kiln_sampler> = Row(kiln_sampler {
    name: text!("my_plugin"),
    doc: text!("Euler's method."),
    source: text!("Karras et al. 2022, arXiv:2206.00364"),
    order: 1,
    evaluations: 1.0,
    run: Some(run),
    ..SAMPLER
});

unsafe extern "C" fn open(host: *const kiln_host) -> kiln_status {
    kiln::open(host, |h| h.register_sampler(&ROW))
}

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static kiln_plugin_v1: Row<kiln_plugin> = kiln::plugin_open(
    text!("org.example.my-plugin"),
    text!("0.1.0"),
    text!("MIT"),
    std::ptr::null(),
    0,
    Some(open),
);
