//! Values other than tensors: what a node takes in and gives out. A `Value` has a reference of its own and gives it up
//! when it goes; a container takes one of its own of what is put into it.
use crate::ffi::*;
use crate::{c_text, Call, Error};
use std::os::raw::c_char;

pub struct Value<'a> {
    raw: *mut kiln_value,
    host: &'a kiln_host,
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        unsafe { self.host.unref.unwrap()(self.raw) }
    }
}

impl Value<'_> {
    pub fn raw(&self) -> *mut kiln_value {
        self.raw
    }
    /// The reference, for a function that takes it over.
    pub fn into_raw(self) -> *mut kiln_value {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }
}

impl<'a> Call<'a> {
    /// The table of an ability; see `Host::ability`.
    ///
    /// # Safety
    /// `T` is the struct of that ability.
    pub unsafe fn ability<T: 'static>(&self, id: &'static [u8]) -> Result<&'a T, Error> {
        crate::Host { raw: &*self.raw.host }.ability(id)
    }
    fn values(&self) -> Result<&'a kiln_value_api, Error> {
        unsafe { self.ability(KILN_VALUE_ABILITY) }
    }
    pub(crate) fn owned(&self, raw: *mut kiln_value) -> Result<Value<'a>, Error> {
        if raw.is_null() {
            return Err(Error::no_memory());
        }
        Ok(Value { raw, host: self.host() })
    }
    pub fn new_map(&self) -> Result<Value<'a>, Error> {
        self.owned(unsafe { self.values()?.new_map.unwrap()(self.raw.ctx) })
    }
    pub fn new_list(&self) -> Result<Value<'a>, Error> {
        self.owned(unsafe { self.values()?.new_list.unwrap()(self.raw.ctx) })
    }
    pub fn new_float(&self, x: f64) -> Result<Value<'a>, Error> {
        self.owned(unsafe { self.values()?.new_float.unwrap()(self.raw.ctx, x) })
    }
    pub fn new_int(&self, x: i64) -> Result<Value<'a>, Error> {
        self.owned(unsafe { self.values()?.new_int.unwrap()(self.raw.ctx, x) })
    }
    pub fn new_text(&self, s: &str) -> Result<Value<'a>, Error> {
        self.owned(unsafe { self.values()?.new_string.unwrap()(self.raw.ctx, s.as_ptr() as *const c_char, s.len()) })
    }
    /// Puts an item into a map that this call made and has not given away yet.
    pub fn set(&self, map: &Value, key: &str, item: &Value) -> Result<(), Error> {
        Error::from(unsafe { self.values()?.map_set.unwrap()(map.raw, c_text(key).as_ptr(), item.raw) })
    }
    /// Likewise input i, as it is.
    pub fn set_input(&self, map: &Value, key: &str, i: usize) -> Result<(), Error> {
        let input = unsafe { *self.raw.in_.add(i) };
        Error::from(unsafe { self.values()?.map_set.unwrap()(map.raw, c_text(key).as_ptr(), input) })
    }
    pub fn push(&self, list: &Value, item: &Value) -> Result<(), Error> {
        Error::from(unsafe { self.values()?.list_push.unwrap()(list.raw, item.raw) })
    }
    /// Input i as a number.
    pub fn number(&self, i: usize) -> Result<f64, Error> {
        let mut x = 0.0;
        Error::from(unsafe { self.values()?.get_float.unwrap()(*self.raw.in_.add(i), &mut x) })?;
        Ok(x)
    }
    /// Input i as a text.
    pub fn text(&self, i: usize) -> Result<&'a str, Error> {
        let mut n = 0usize;
        let at = unsafe { self.values()?.get_string.unwrap()(*self.raw.in_.add(i), &mut n) };
        if at.is_null() {
            return Err(Error::invalid("a text is wanted"));
        }
        let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, n) };
        std::str::from_utf8(bytes).map_err(|_| Error::invalid("the text is not UTF-8"))
    }
    /// Output i.
    pub fn give(&self, i: usize, value: Value) {
        unsafe { *self.raw.out.add(i) = value.into_raw() }
    }
}
