//! my_plugin.c - a kind of GUIDER, and the node that makes one: what a sampler gets for x0, from the model's guesses under
//! each conditioning.
//!
//! It is classifier-free guidance (Ho and Salimans 2022, arXiv:2207.12598), negative + cfg (positive - negative), to begin
//! with.
use kiln::ffi::*;
use kiln::sampling::{Latent, Step, GUIDER};
use kiln::{text, Call, Error, Row, NODE, PARAM, PORT};
use std::os::raw::c_void;

#[repr(C)]
struct Params {
    cfg: f64,
}

const POSITIVE: usize = 0;
const NEGATIVE: usize = 1;

static PARAMS: Row<[kiln_param; 1]> = Row([kiln_param {
    name: text!("cfg"),
    doc: text!("Scale of the guidance."),
    type_: KILN_P_FLOAT,
    offset: 0,
    def: 8.0,
    min: 0.0,
    max: 100.0,
    step: 0.1,
    ..PARAM
}]);

// ---- the kind ----

fn guess(g: &Step, p: &Params, out: Latent) -> Result<(), Error> {
    let positive = g.guess(POSITIVE).ok_or_else(|| Error::invalid("the positive was not evaluated"))?;
    g.guided(positive, g.guess(NEGATIVE), p.cfg, out)
}

unsafe extern "C" fn combine(g: *const kiln_guider_step, out: *mut kiln_latent) -> kiln_status {
    kiln::sampling::combine(g, out, guess)
}

/// At a scale of 1 the negative does not count, and is not evaluated.
unsafe extern "C" fn wants(params: *const c_void, sigma: f64) -> u32 {
    kiln::sampling::wants(params, sigma, |p: &Params, _| if p.cfg == 1.0 { 1 << POSITIVE } else { 1 << POSITIVE | 1 << NEGATIVE })
}

static MODEL: Row<[kiln_guider_model; 1]> = Row([kiln_guider_model { name: text!("model") }]);
static SET: Row<[kiln_guider_set; 2]> = Row([
    kiln_guider_set { name: text!("positive"), model: 0 },
    kiln_guider_set { name: text!("negative"), model: 0 },
]);
static KIND: Row<kiln_guider> = Row(kiln_guider {
    name: text!("my-plugin"),
    doc: text!("Classifier-free guidance."),
    model: MODEL.0.as_ptr(),
    n_model: 1,
    set: SET.0.as_ptr(),
    n_set: 2,
    unconditional: NEGATIVE as i32,
    param: PARAMS.0.as_ptr(),
    n_param: 1,
    params_size: std::mem::size_of::<Params>(),
    wants: Some(wants),
    combine: Some(combine),
    ..GUIDER
});

// ---- the node: its inputs and its parameter, under their names, are the GUIDER ----

fn make(c: &Call, p: &Params) -> Result<(), Error> {
    let parts = c.new_map()?;
    c.set(&parts, "cfg", &c.new_float(p.cfg)?)?;
    for (i, name) in ["model", "positive", "negative"].into_iter().enumerate() {
        c.set_input(&parts, name, i)?;
    }
    c.give(0, c.guider_new("my-plugin", parts)?);
    Ok(())
}

unsafe extern "C" fn run(c: *const kiln_call) -> kiln_status {
    kiln::run(c, make)
}

static IN: Row<[kiln_port; 3]> = Row([
    kiln_port { name: text!("model"), doc: text!("The denoiser."), type_: text!("MODEL"), ..PORT },
    kiln_port {
        name: text!("positive"),
        doc: text!("What the picture should show."),
        type_: text!("CONDITIONING"),
        ..PORT
    },
    kiln_port { name: text!("negative"), doc: text!("What it should not."), type_: text!("CONDITIONING"), ..PORT },
]);
static OUT: Row<[kiln_port; 1]> = Row([kiln_port {
    name: text!("GUIDER"),
    doc: text!("A model with its conditionings."),
    type_: text!("GUIDER"),
    ..PORT
}]);
static GUIDES: Row<kiln_node> = Row(kiln_node {
    flags: KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,
    revision: 1,
    type_: text!("MyPlugin"),
    title: text!("My Plugin"),
    category: text!("sampling/custom_sampling/guiders"),
    doc: text!("Classifier-free guidance."),
    in_: IN.0.as_ptr(),
    n_in: 3,
    out: OUT.0.as_ptr(),
    n_out: 1,
    param: PARAMS.0.as_ptr(),
    n_param: 1,
    params_size: std::mem::size_of::<Params>(),
    run: Some(run),
    ..NODE
});

/// Where a plugin is tried, before it is loaded, kiln's own plugins are not there.
unsafe extern "C" fn open(host: *const kiln_host) -> kiln_status {
    kiln::open(host, |h| h.register_guider(&KIND))
}

static NODES: Row<[*const kiln_node; 1]> = Row([&GUIDES.0]);

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
