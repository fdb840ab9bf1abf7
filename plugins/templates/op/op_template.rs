//! my_plugin.c - an op of tensor programs, and a node that uses it.
//!
//! To begin with it is a running maximum, y[t] = max(x[0], .., x[t]), which no op of kiln's is: each number needs the one
//! before. As a node: what is bright in a picture stays so to its right.
use kiln::ffi::*;
use kiln::ops::{OpCall, Program, EXAMPLE, OP, OPERAND};
use kiln::{text, Call, Error, Row, NODE, PORT};
use std::os::raw::c_void;

// ---- the op: x [N,T,C] -> y [N,T,C] ----

fn shape_of(c: &OpCall) -> Result<Vec<i64>, Error> {
    let dim = c.shape(0);
    if dim.len() != 3 {
        return Err(Error::invalid(format!("x must be [N,T,C]; it has {} dimensions", dim.len())));
    }
    Ok(dim.to_vec())
}

/// What the op is, plainly: what runs faster is held against it.
fn plainly(c: &OpCall, y: &mut [f32]) -> Result<(), Error> {
    let (x, row, rows) = (c.input(0), c.shape(0)[2] as usize, c.shape(0)[1] as usize);
    for at in 0..x.len() {
        let t = at / row % rows;
        y[at] = if t > 0 && y[at - row] > x[at] { y[at - row] } else { x[at] };
    }
    Ok(())
}

/// One tile is one n, on any thread.
fn quickly(c: &OpCall, n: u64, y: &mut [f32]) {
    let (dim, row) = (c.shape(0), c.shape(0)[2] as usize);
    y.copy_from_slice(c.part_of_input(0, n, dim[0] as u64));
    for i in row..y.len() {
        y[i] = if y[i - row] > y[i] { y[i - row] } else { y[i] };
    }
}

unsafe extern "C" fn shape(c: *const kiln_op_call, out: *mut kiln_op_result) -> kiln_status {
    kiln::ops::shape(c, out, shape_of)
}

unsafe extern "C" fn reference(c: *const kiln_op_call) -> kiln_status {
    kiln::ops::reference(c, plainly)
}

unsafe extern "C" fn tiles(c: *const kiln_op_call) -> u64 {
    OpCall { raw: &*c }.shape(0)[0] as u64
}

unsafe extern "C" fn tile(c: *const kiln_op_call, n: u64, _workspace: *mut c_void) {
    kiln::ops::tile(c, n, tiles(c), quickly)
}

/// What kiln plugin check tries it on; odd sizes find most.
static ODD: [i64; 3] = [3, 37, 5];
static ONE: [i64; 3] = [1, 1, 1];
const fn example(dim: &'static [i64; 3]) -> [kiln_op_operand; 8] {
    let mut in_ = [OPERAND; 8];
    in_[0] = kiln_op_operand { dtype: KILN_F32, rank: 3, dim: dim.as_ptr(), low: -1.0, high: 1.0 };
    in_
}
static EXAMPLES: Row<[kiln_op_example; 2]> = Row([
    kiln_op_example { n_in: 1, name: text!("odd sizes"), in_: example(&ODD), ..EXAMPLE },
    kiln_op_example { n_in: 1, name: text!("one number"), in_: example(&ONE), ..EXAMPLE },
]);

static KIND: Row<kiln_op_kind> = Row(kiln_op_kind {
    version: 1, // raise it when its results change
    name: text!("org.example.my-plugin"),
    doc: text!("The largest number so far along T."),
    n_in: 1,
    n_out: 1,
    types: 1 << KILN_F32,
    shape: Some(shape),
    reference: Some(reference),
    tiles: Some(tiles),
    tile: Some(tile),
    relative: 0.0, // it chooses among numbers: not a bit may differ
    example: EXAMPLES.0.as_ptr(),
    n_example: 2,
    ..OP
});

// ---- the node ----

fn lasting(c: &Call, _params: &()) -> Result<(), Error> {
    let from = c.bind_input(0)?;
    let dim = from.shape();
    let to = c.bind_output(0, dim)?;
    let program = Program::new(c, "my-plugin", KILN_F32)?;
    let x = program.input("x", KILN_F32, dim);
    let rows = program.reshape(x, &[dim[0] * dim[1], dim[2], dim[3]]); // each row of pixels by itself
    let y = program.custom(&KIND, &[rows]);
    program.output("y", program.reshape(y, dim));
    program.plan()?;
    program.run(&[("x", from)], &[("y", to)])
}

unsafe extern "C" fn run(c: *const kiln_call) -> kiln_status {
    kiln::run(c, lasting)
}

static IN: Row<[kiln_port; 1]> =
    Row([kiln_port { name: text!("image"), doc: text!("The picture."), type_: text!("IMAGE"), ..PORT }]);
static OUT: Row<[kiln_port; 1]> =
    Row([kiln_port { name: text!("IMAGE"), doc: text!("Its running maximum."), type_: text!("IMAGE"), ..PORT }]);
static LASTS: Row<kiln_node> = Row(kiln_node {
    flags: KILN_NODE_PURE | KILN_NODE_ESTIMATES,
    revision: 1,
    type_: text!("MyPlugin"),
    title: text!("My Plugin"),
    category: text!("image"),
    doc: text!("What is bright in a picture stays so to its right."),
    in_: IN.0.as_ptr(),
    n_in: 1,
    out: OUT.0.as_ptr(),
    n_out: 1,
    run: Some(run),
    ..NODE
});

unsafe extern "C" fn open(host: *const kiln_host) -> kiln_status {
    kiln::open(host, |h| h.register_op(&KIND))
}

static NODES: Row<[*const kiln_node; 1]> = Row([&LASTS.0]);

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
