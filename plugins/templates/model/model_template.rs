//! my_plugin.c - a model family: how its files are recognised, and its network, as a recording of ops.
//!
//! To begin with it is a network for which a cell of the latent is all there is:
//!
//!   h = silu(in(x) + time(sinusoid(timestep)))      [N,H,W,hidden]
//!   the predicted noise = out(h) + brightness       [N,H,W,4]
//!
//! The latents are Stable Diffusion 1's (4 channels, a cell for 8x8 pixels), the noise levels its training's.
use kiln::ffi::*;
use kiln::model::{Denoiser, Network, Recording, Weights, FAMILY, INPUT, LATENT, SCALING};
use kiln::noise::{discrete_sigmas, Noise, Prediction};
use kiln::ops::{Tensor, KILN_ACT_SILU};
use kiln::{text, Call, Error, Row, NODE, PARAM, PORT};
use std::os::raw::c_int;

const CHANNELS: i64 = 4;

static SCALE: f64 = 0.18215;
static LATENT_SCALING: Row<kiln_latent_scaling> = Row(kiln_latent_scaling { n: 1, scale: &SCALE, ..SCALING });
static LATENTS: Row<kiln_latent_format> = Row(kiln_latent_format {
    rank: 4,
    channels: CHANNELS as i32,
    factor: 8,
    scaling: &LATENT_SCALING.0,
    ..LATENT
});

/// What a CONDITIONING may say to it. A text would be KILN_INPUT_TOKENS under the key "tokens".
static INPUTS: Row<[kiln_input_spec; 1]> = Row([kiln_input_spec {
    kind: KILN_INPUT_SCALAR,
    flags: KILN_INPUT_OPTIONAL,
    name: text!("brightness"),
    doc: text!("is added to the predicted noise"),
    ..INPUT
}]);

// ---- the network ----

struct Cells {
    hidden: i64,
    sinusoid: i64,
}

impl Network for Cells {
    fn record(&self, r: &Recording) -> Tensor {
        let n = r.shape(r.x())[0];
        let t = r.timestep_embedding(r.timestep(), self.sinusoid, true); // [N,sinusoid]
        let t = r.linear_of(t, "my_plugin.time", self.sinusoid, self.hidden);
        let h = r.linear_of(r.x(), "my_plugin.in", CHANNELS, self.hidden);
        let h = r.act(r.add(h, r.reshape(t, &[n, 1, 1, self.hidden])), KILN_ACT_SILU);
        let h = r.linear_of(h, "my_plugin.out", self.hidden, CHANNELS);
        r.add(h, r.reshape(r.named("brightness"), &[n, 1, 1, 1]))
    }
}

// ---- recognising and opening a file ----

fn recognised(w: &Weights) -> c_int {
    if w.size_of("my_plugin.in.weight", 1) == CHANNELS {
        90
    } else {
        0
    }
}

fn opened(w: &Weights) -> Result<(Cells, Noise), Error> {
    let network =
        Cells { hidden: w.size_of("my_plugin.in.weight", 0), sinusoid: w.size_of("my_plugin.time.weight", 1) };
    Ok((network, Noise::table_of(Prediction::Eps, discrete_sigmas(true, 0.00085, 0.012, 1000))))
}

unsafe extern "C" fn detect(w: *const kiln_weights_api, set: *const kiln_weights) -> c_int {
    kiln::model::detect(w, set, recognised)
}

unsafe extern "C" fn open_model(host: *const kiln_host, ctx: *mut kiln_ctx, set: *mut kiln_weights) -> *mut kiln_value {
    // `family` and all that decides what is recorded, but shapes and weights
    let what = Denoiser { family: text!("my-plugin"), latent: &LATENTS, inputs: INPUTS.0.as_ptr(), n_inputs: 1 };
    kiln::model::open(host, ctx, set, &what, opened)
}

static ROW: Row<kiln_model_family> = Row(kiln_model_family {
    kind: KILN_FAMILY_DENOISER.as_ptr() as *const _,
    name: text!("my-plugin"),
    doc: text!("a network cell by cell"),
    detect: Some(detect),
    open: Some(open_model),
    ..FAMILY
});

// ---- a node that makes its CONDITIONING: [{brightness: a number}] ----

#[repr(C)]
struct Params {
    brightness: f64,
}

fn condition(c: &Call, p: &Params) -> Result<(), Error> {
    let (list, entry) = (c.new_list()?, c.new_map()?);
    c.set(&entry, "brightness", &c.new_float(p.brightness)?)?;
    c.push(&list, &entry)?;
    c.give(0, list);
    Ok(())
}

unsafe extern "C" fn run(c: *const kiln_call) -> kiln_status {
    kiln::run(c, condition)
}

static OUT: Row<[kiln_port; 1]> = Row([kiln_port {
    name: text!("CONDITIONING"),
    doc: text!("What steers the model."),
    type_: text!("CONDITIONING"),
    ..PORT
}]);
static PARAMS: Row<[kiln_param; 1]> = Row([kiln_param {
    name: text!("brightness"),
    doc: text!("Is added to the predicted noise."),
    type_: KILN_P_FLOAT,
    offset: 0,
    def: 0.0,
    min: -1.0,
    max: 1.0,
    step: 0.01,
    ..PARAM
}]);
static CONDITIONS: Row<kiln_node> = Row(kiln_node {
    flags: KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,
    revision: 1,
    type_: text!("MyPlugin"),
    title: text!("My Plugin"),
    category: text!("conditioning"),
    doc: text!("What steers a model of this family."),
    out: OUT.0.as_ptr(),
    n_out: 1,
    param: PARAMS.0.as_ptr(),
    n_param: 1,
    params_size: std::mem::size_of::<Params>(),
    run: Some(run),
    ..NODE
});

unsafe extern "C" fn open(host: *const kiln_host) -> kiln_status {
    kiln::open(host, |h| h.register_family(&ROW))
}

static NODES: Row<[*const kiln_node; 1]> = Row([&CONDITIONS.0]);

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static kiln_plugin_v1: Row<kiln_plugin> = kiln::plugin_open(
    text!("org.example.my-plugin"),
    text!("0.1.0"),
    text!("MIT"),
    NODES.0.as_ptr(),
    1,
    Some(open),
);
