//! Tensor programs: recordings of ops, programs that a node runs, and ops of a plugin's own.
use crate::ffi::*;
use crate::{c_text, caught, size, text, told, zeros, Call, Error, Host};
use std::marker::PhantomData;
use std::ops::Deref;
use std::slice;

/// Rows to be filled with `..OP`, `..EXAMPLE`, `..OPERAND`.
pub const OP: kiln_op_kind =
    zeros!(kiln_op_kind, size = size::<kiln_op_kind>(), version = 1, example_stride = size::<kiln_op_example>());
pub const EXAMPLE: kiln_op_example = zeros!(kiln_op_example, size = size::<kiln_op_example>());
pub const OPERAND: kiln_op_operand = zeros!(kiln_op_operand);

fn all(dim: &[i64]) -> usize {
    dim.iter().product::<i64>() as usize
}

// ---- an op of one's own ----

/// The tensors of an op that is computed or whose shape is asked for.
pub struct OpCall<'a> {
    pub raw: &'a kiln_op_call,
}

impl<'a> OpCall<'a> {
    fn operand(&self, i: usize) -> &'a kiln_tensor {
        assert!(i < self.raw.n_in as usize, "the op has {} operands", self.raw.n_in);
        unsafe { &*self.raw.in_.add(i) }
    }
    fn result(&self, i: usize) -> &'a kiln_tensor {
        assert!(i < self.raw.n_out as usize, "the op has {} results", self.raw.n_out);
        unsafe { &*self.raw.out.add(i) }
    }
    pub fn shape(&self, i: usize) -> &'a [i64] {
        let t = self.operand(i);
        unsafe { slice::from_raw_parts(t.dim, t.rank as usize) }
    }
    pub fn out_shape(&self, i: usize) -> &'a [i64] {
        let t = self.result(i);
        unsafe { slice::from_raw_parts(t.dim, t.rank as usize) }
    }
    /// Operand i, of f32, dense.
    pub fn input(&self, i: usize) -> &'a [f32] {
        self.part_of_input(i, 0, 1)
    }
    /// Part k of n equal parts of operand i.
    pub fn part_of_input(&self, i: usize, k: u64, n: u64) -> &'a [f32] {
        let (at, each) = part(self.operand(i), all(self.shape(i)), k, n);
        if each == 0 { &[] } else { unsafe { slice::from_raw_parts(at, each) } }
    }
}

/// Where part k of n equal parts of a tensor of f32 begins, and its numbers.
fn part(t: &kiln_tensor, numbers: usize, k: u64, n: u64) -> (*mut f32, usize) {
    assert!(t.dtype == KILN_F32 && k < n && numbers % n as usize == 0);
    let each = numbers / n as usize;
    if t.data.is_null() { (std::ptr::null_mut(), 0) } else { (unsafe { (t.data as *mut f32).add(k as usize * each) }, each) }
}

/// What `shape` in the row calls: f gives the result's shape, which has the operands' type.
///
/// # Safety
/// `c` and `out` are what the engine gave; the op has one result.
pub unsafe fn shape(c: *const kiln_op_call, out: *mut kiln_op_result, f: fn(&OpCall) -> Result<Vec<i64>, Error>) -> kiln_status {
    let raw = &*c;
    let result = caught(|| {
        let dim = f(&OpCall { raw })?;
        if dim.len() > KILN_MAX_RANK as usize {
            return Err(Error::invalid("a tensor has at most 8 dimensions"));
        }
        (*out).rank = dim.len() as u32;
        std::ptr::copy_nonoverlapping(dim.as_ptr(), (*out).dim, dim.len());
        Ok(())
    });
    told(result, |_, text| raw.fail.unwrap()(raw.engine, text!("%s"), text))
}

/// What `reference` in the row calls: f fills the result.
///
/// # Safety
/// `c` is what the engine gave; the op has one result, of f32.
pub unsafe fn reference(c: *const kiln_op_call, f: fn(&OpCall, &mut [f32]) -> Result<(), Error>) -> kiln_status {
    let raw = &*c;
    let result = caught(|| {
        let call = OpCall { raw };
        let (at, n) = part(call.result(0), all(call.out_shape(0)), 0, 1);
        f(&call, if n == 0 { &mut [] } else { slice::from_raw_parts_mut(at, n) })
    });
    told(result, |_, text| raw.fail.unwrap()(raw.engine, text!("%s"), text))
}

/// What `tile` in the row calls, where the tiles are `n` equal parts of the result: f fills part k. A tile cannot fail, so
/// a panic ends the process (kiln says whose plugin it was).
///
/// # Safety
/// `c` is what the engine gave; the op has one result, of f32, in `n` tiles.
pub unsafe fn tile(c: *const kiln_op_call, k: u64, n: u64, f: fn(&OpCall, u64, &mut [f32])) {
    let raw = &*c;
    let result = caught(|| {
        let call = OpCall { raw };
        let (at, each) = part(call.result(0), all(call.out_shape(0)), k, n);
        f(&call, k, if each == 0 { &mut [] } else { slice::from_raw_parts_mut(at, each) });
        Ok(())
    });
    if let Err(e) = result {
        if let Some(h) = Host::get() {
            h.log(KILN_LOG_ERROR, &e.text);
        }
        std::process::abort();
    }
}

// ---- recording ----

/// A tensor in a recording; what cannot be recorded makes one that carries its error to the end.
pub type Tensor = kiln_t;

/// Where ops are recorded: a model's network, or a program of one's own. The ops without a function here are
/// `rec.ops.NAME.unwrap()(rec.program, ...)`.
#[derive(Clone, Copy)]
pub struct Recorder<'a> {
    pub ops: &'a kiln_ops,
    pub program: *mut kiln_program,
    pub life: PhantomData<&'a kiln_program>,
}

/// As the activations of kiln_act.
pub use crate::ffi::{KILN_ACT_GELU, KILN_ACT_RELU, KILN_ACT_SIGMOID, KILN_ACT_SILU, KILN_ACT_TANH};

impl<'a> Recorder<'a> {
    /// No tensor: a bias that is not there.
    pub const NONE: Tensor = kiln_t { id: 0 };

    pub fn input(&self, name: &str, dtype: u32, dim: &[i64]) -> Tensor {
        unsafe { self.ops.input.unwrap()(self.program, c_text(name).as_ptr(), dtype, dim.len() as u32, dim.as_ptr()) }
    }
    pub fn output(&self, name: &str, x: Tensor) {
        unsafe { self.ops.output.unwrap()(self.program, c_text(name).as_ptr(), x) }
    }
    pub fn shape(&self, x: Tensor) -> Vec<i64> {
        let mut dim = [0i64; KILN_MAX_RANK as usize];
        let rank = unsafe { self.ops.shape.unwrap()(self.program, x, dim.as_mut_ptr(), KILN_MAX_RANK) };
        dim[..rank.min(KILN_MAX_RANK) as usize].to_vec()
    }
    pub fn constant(&self, data: &[f32], dim: &[i64]) -> Tensor {
        assert_eq!(data.len(), all(dim));
        unsafe { self.ops.constant.unwrap()(self.program, data.as_ptr(), dim.len() as u32, dim.as_ptr()) }
    }
    pub fn linear(&self, x: Tensor, w: Tensor, b: Tensor) -> Tensor {
        unsafe { self.ops.linear.unwrap()(self.program, x, w, b) }
    }
    pub fn layer_norm(&self, x: Tensor, eps: f32, gamma: Tensor, beta: Tensor) -> Tensor {
        unsafe { self.ops.layer_norm.unwrap()(self.program, x, eps, gamma, beta) }
    }
    pub fn group_norm(&self, x: Tensor, groups: i32, eps: f32, gamma: Tensor, beta: Tensor) -> Tensor {
        unsafe { self.ops.group_norm.unwrap()(self.program, x, groups, eps, gamma, beta) }
    }
    pub fn conv2d(&self, x: Tensor, w: Tensor, b: Tensor, options: &kiln_conv2d) -> Tensor {
        unsafe { self.ops.conv2d.unwrap()(self.program, x, w, b, options) }
    }
    pub fn attention(&self, q: Tensor, k: Tensor, v: Tensor, options: &kiln_attention) -> Tensor {
        unsafe { self.ops.attention.unwrap()(self.program, q, k, v, options) }
    }
    pub fn add(&self, a: Tensor, b: Tensor) -> Tensor {
        unsafe { self.ops.add.unwrap()(self.program, a, b) }
    }
    pub fn mul(&self, a: Tensor, b: Tensor) -> Tensor {
        unsafe { self.ops.mul.unwrap()(self.program, a, b) }
    }
    pub fn affine(&self, x: Tensor, scale: f32, shift: f32) -> Tensor {
        unsafe { self.ops.affine.unwrap()(self.program, x, scale, shift) }
    }
    pub fn act(&self, x: Tensor, kind: kiln_act) -> Tensor {
        unsafe { self.ops.act.unwrap()(self.program, x, kind) }
    }
    pub fn concat(&self, x: &[Tensor], axis: u32) -> Tensor {
        unsafe { self.ops.concat.unwrap()(self.program, x.as_ptr(), x.len() as u32, axis) }
    }
    pub fn slice(&self, x: Tensor, axis: u32, start: i64, length: i64) -> Tensor {
        unsafe { self.ops.slice.unwrap()(self.program, x, axis, start, length) }
    }
    pub fn reshape(&self, x: Tensor, dim: &[i64]) -> Tensor {
        unsafe { self.ops.reshape.unwrap()(self.program, x, dim.len() as u32, dim.as_ptr()) }
    }
    /// The axes are as many as x has.
    pub fn permute(&self, x: Tensor, axes: &[u32]) -> Tensor {
        assert_eq!(axes.len(), self.shape(x).len());
        unsafe { self.ops.permute.unwrap()(self.program, x, axes.as_ptr()) }
    }
    /// [N] timesteps as [N, dim] of cosines and sines.
    pub fn timestep_embedding(&self, t: Tensor, dim: i64, cos_first: bool) -> Tensor {
        let options = zeros!(
            kiln_timestep_embedding,
            size = size::<kiln_timestep_embedding>(),
            cos_first = cos_first as u32
        );
        unsafe { self.ops.timestep_embedding.unwrap()(self.program, t, dim, &options) }
    }
    /// An op of one's own, without attributes and with one result.
    pub fn custom(&self, op: &'static crate::Row<kiln_op_kind>, x: &[Tensor]) -> Tensor {
        let none = std::ptr::null();
        unsafe { self.ops.custom.unwrap()(self.program, &op.0, x.as_ptr(), x.len() as u32, none, 0, std::ptr::null_mut()) }
    }
}

// ---- a program of one's own ----

/// A recording that a node plans and runs.
pub struct Program<'a> {
    rec: Recorder<'a>,
    ctx: *mut kiln_ctx,
}

impl<'a> Deref for Program<'a> {
    type Target = Recorder<'a>;
    fn deref(&self) -> &Recorder<'a> {
        &self.rec
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        unsafe { self.rec.ops.program_free.unwrap()(self.rec.program) }
    }
}

/// A tensor that a program reads or writes: an input or an output of the node.
#[derive(Clone, Copy)]
pub struct Bound<'a> {
    raw: kiln_tensor,
    life: PhantomData<&'a kiln_tensor>,
}

impl<'a> Bound<'a> {
    pub fn shape(&self) -> &'a [i64] {
        unsafe { slice::from_raw_parts(self.raw.dim, self.raw.rank as usize) }
    }
    fn bind(&self, name: *const std::os::raw::c_char) -> kiln_bind {
        kiln_bind { size: size::<kiln_bind>(), name, tensor: self.raw }
    }
}

impl<'a> Program<'a> {
    pub fn new(c: &Call<'a>, name: &str, precision: u32) -> Result<Self, Error> {
        let ops: &'a kiln_ops = unsafe { c.ability(KILN_OPS_ABILITY) }?;
        let name = c_text(name);
        let options = zeros!(
            kiln_program_options,
            size = size::<kiln_program_options>(),
            name = name.as_ptr(),
            precision = precision
        );
        let program = unsafe { ops.program_new.unwrap()(c.raw.ctx, &options) };
        if program.is_null() {
            return Err(Error::no_memory());
        }
        Ok(Program { rec: Recorder { ops, program, life: PhantomData }, ctx: c.raw.ctx })
    }
    /// Ends the recording; an op that could not be recorded is told here.
    pub fn plan(&self) -> Result<(), Error> {
        Error::from(unsafe { self.rec.ops.plan.unwrap()(self.ctx, self.rec.program, std::ptr::null_mut()) })
    }
    pub fn run(&self, from: &[(&str, Bound)], to: &[(&str, Bound)]) -> Result<(), Error> {
        let names = |list: &[(&str, Bound)]| list.iter().map(|(name, _)| c_text(name)).collect::<Vec<_>>();
        let (in_names, out_names) = (names(from), names(to));
        let bind = |list: &[(&str, Bound)], names: &[std::ffi::CString]| {
            list.iter().zip(names).map(|((_, t), n)| t.bind(n.as_ptr())).collect::<Vec<_>>()
        };
        let (input, output) = (bind(from, &in_names), bind(to, &out_names));
        Error::from(unsafe {
            let run = self.rec.ops.run.unwrap();
            run(self.ctx, self.rec.program, input.as_ptr(), input.len(), output.as_ptr(), output.len())
        })
    }
}

impl<'a> Call<'a> {
    fn bound(&self, v: *const kiln_value) -> Result<Bound<'a>, Error> {
        let mut raw = zeros!(kiln_tensor, size = size::<kiln_tensor>());
        Error::from(unsafe { self.host().view.unwrap()(self.raw.ctx, v, &mut raw) })?;
        Ok(Bound { raw, life: PhantomData })
    }
    /// Input i, a tensor, for a program.
    pub fn bind_input(&self, i: usize) -> Result<Bound<'a>, Error> {
        self.bound(unsafe { *self.raw.in_.add(i) })
    }
    /// Output i, a new tensor of f32, for a program.
    pub fn bind_output(&self, i: usize, shape: &[i64]) -> Result<Bound<'a>, Error> {
        let new = self.host().tensor_new.unwrap();
        let v = unsafe { new(self.raw.ctx, KILN_F32, KILN_CPU, shape.len() as u32, shape.as_ptr()) };
        if v.is_null() {
            return Err(Error::no_memory());
        }
        unsafe { *self.raw.out.add(i) = v };
        self.bound(v)
    }
}
