//! my_plugin.c - a node that multiplies a picture by a factor: rows that say what it takes and gives, and run().
use kiln::ffi::*;
use kiln::{text, Call, Error, Row, NODE, PARAM, PORT};

#[repr(C)]
struct Params {
    gain: f64, // members are f64, i64, u64, i32 or texts, in the order and at the offsets that the rows below say
}

fn scale(c: &Call, p: &Params) -> Result<(), Error> {
    let (from, shape) = c.input(0)?;
    let to = c.output(0, &shape)?;
    let n = from.len(); // 0 in an estimate, where only shapes are asked for
    for i in 0..n {
        if i % 65536 == 0 {
            c.progress(i, n, "my-plugin")?;
        }
        to[i] = (f64::from(from[i]) * p.gain).min(1.0) as f32;
    }
    Ok(())
}

unsafe extern "C" fn run(c: *const kiln_call) -> kiln_status {
    kiln::run(c, scale)
}

static IN: Row<[kiln_port; 1]> =
    Row([kiln_port { name: text!("image"), doc: text!("Picture to scale."), type_: text!("IMAGE"), ..PORT }]);
static OUT: Row<[kiln_port; 1]> =
    Row([kiln_port { name: text!("IMAGE"), doc: text!("The scaled picture."), type_: text!("IMAGE"), ..PORT }]);
static PARAMS: Row<[kiln_param; 1]> = Row([kiln_param {
    name: text!("gain"),
    doc: text!("Factor for every sample."),
    type_: KILN_P_FLOAT,
    offset: 0,
    def: 1.0,
    min: 0.0,
    max: 16.0,
    step: 0.01,
    ..PARAM
}]);
static SCALE: Row<kiln_node> = Row(kiln_node {
    flags: KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,
    revision: 1, // raise it when the same inputs give another picture
    type_: text!("MyPlugin"),
    title: text!("My Plugin"),
    category: text!("image"),
    doc: text!("Multiplies every sample of a picture by a factor; what goes past white stays white."),
    in_: IN.0.as_ptr(),
    n_in: 1,
    out: OUT.0.as_ptr(),
    n_out: 1,
    param: PARAMS.0.as_ptr(),
    n_param: 1,
    params_size: std::mem::size_of::<Params>(),
    run: Some(run),
    ..NODE
});

static NODES: Row<[*const kiln_node; 1]> = Row([&SCALE.0]);

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static kiln_plugin_v1: Row<kiln_plugin> =
    kiln::plugin(text!("org.example.my-plugin"), text!("0.1.0"), text!("MIT"), NODES.0.as_ptr(), 1);
