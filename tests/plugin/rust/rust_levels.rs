//! rust_levels.rs - what the crate's noise levels give, bit by bit: rust_levels.c prints the same of standard_sampling.h.
use kiln::ffi::*;
use kiln::noise::{discrete_sigmas, Noise, Prediction};

fn print(name: &str, noise: &Noise) {
    let t = noise.table();
    let s = unsafe { &*t };
    let mut all = vec![s.sigma_min, s.sigma_max, s.process as f64];
    for i in 0..40 {
        let share = i as f64 / 32.0 - 0.0625;
        let sigma = s.sigma_max * (share + 0.0625) * (share + 0.0625);
        let mut l: kiln_level = unsafe { std::mem::zeroed() };
        l.size = std::mem::size_of::<kiln_level>() as u32;
        let (mut clean, mut rest) = (0.0, 0.0);
        unsafe {
            s.level.unwrap()(t, sigma, &mut l);
            s.start.unwrap()(t, sigma, &mut clean, &mut rest);
            all.extend([l.input, l.of_x, l.of_prediction, l.clean, l.noise, clean, rest]);
            all.push(s.timestep.unwrap()(t, sigma));
            all.push(s.sigma_at.unwrap()(t, 999.0 * share, std::ptr::null()));
            all.push(s.percent_to_sigma.unwrap()(t, share, std::ptr::null()));
        }
    }
    for (i, x) in all.iter().enumerate() {
        println!("{} {} {:016x}", name, i, x.to_bits());
    }
}

fn main() {
    let levels = || discrete_sigmas(true, 0.00085, 0.012, 1000);
    print("eps", &Noise::table_of(Prediction::Eps, levels()));
    print("v", &Noise::table_of(Prediction::V, levels()));
    print("x0", &Noise::table_of(Prediction::X0, discrete_sigmas(false, 0.0001, 0.02, 100)));
    print("flow", &Noise::flow(3.0, 1000.0));
}
