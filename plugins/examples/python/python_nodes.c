/* python_nodes.c - nodes written in Python, to try an idea: CPython in a plugin. Every .py file in python_nodes.data is
 * loaded at start; what its decorators say (python_nodes.data/kiln_node.py) becomes the rows of this plugin's table,
 * and run() calls the function. Those files are the plugin's data, so they are part of results' keys: one that was
 * edited computes again.
 *
 * One function of Python's runs at a time (the GIL), which is let go while the engine is called. Not for what has to be
 * fast: docs/writing-a-plugin.md is.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kiln/value.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>

enum { NODES_MAX = 64, FAULTS_MAX = 64 };

static const kiln_host *host;
static const kiln_value_api *values;
static PyObject *told; /* kiln_node.told */
static char *fault[FAULTS_MAX];
static size_t n_fault;

typedef struct {
    PyObject *fn;
    int wants_progress;
} python_node;

static python_node nodes[NODES_MAX];
static kiln_node row[NODES_MAX];
static const kiln_node *rows[NODES_MAX];

static kiln_status open_plugin(const kiln_host *h);

extern KILN_EXPORT kiln_plugin kiln_plugin_v1;
kiln_plugin kiln_plugin_v1 = {.magic = KILN_MAGIC,
                              .size = (uint32_t)sizeof kiln_plugin_v1,
                              .abi_major = KILN_ABI_MAJOR,
                              .abi_minor = KILN_ABI_MINOR,
                              .id = "org.example.python-nodes",
                              .version = "1.0.0",
                              .license = "MIT",
                              .node = rows,
                              .open = open_plugin};

/* ---- tensors as buffers ---- */

static const struct {
    uint32_t dtype;
    char format[2];
    uint32_t bytes;
} formats[] = {{KILN_F32, "f", 4}, {KILN_F64, "d", 8}, {KILN_U8, "B", 1},    {KILN_I32, "i", 4},
               {KILN_I64, "q", 8}, {KILN_I64, "l", 8}, {KILN_BOOL8, "?", 1}, {KILN_F16, "e", 2}};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

/* Holds a reference to its value: a buffer of it may outlive the call. */
typedef struct {
    PyObject_HEAD kiln_value *value;
    void *data;
    char format[2];
    int rank;
    Py_ssize_t bytes, item, dim[KILN_MAX_RANK], stride[KILN_MAX_RANK];
} tensor_object;

static PyTypeObject *tensor_type;

static void tensor_free(PyObject *self)
{
    host->unref(((tensor_object *)self)->value);
    PyObject_Free(self);
    Py_DECREF(tensor_type);
}

static int tensor_buffer(PyObject *self, Py_buffer *b, int flags)
{
    tensor_object *t = (tensor_object *)self;
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "an input is only read; make the output anew");
        return -1;
    }
    *b = (Py_buffer){.buf = t->data,
                     .obj = Py_NewRef(self),
                     .len = t->bytes,
                     .itemsize = t->item,
                     .readonly = 1,
                     .ndim = t->rank,
                     .format = t->format,
                     .shape = t->dim,
                     .strides = t->stride};
    return 0;
}

static PyObject *from_tensor(kiln_ctx *ctx, kiln_value *v)
{
    kiln_tensor t = {.size = sizeof t};
    size_t f = 0;
    if (host->view(ctx, v, &t) != KILN_OK) return PyErr_Format(PyExc_ValueError, "an input cannot be read");
    while (f < N_FORMATS && formats[f].dtype != t.dtype) f++;
    if (f == N_FORMATS) return PyErr_Format(PyExc_TypeError, "an input has dtype %u, which Python has not", t.dtype);
    tensor_object *o = PyObject_New(tensor_object, tensor_type);
    if (!o) return NULL;
    o->value = host->ref(v), o->data = t.data, o->rank = (int)t.rank, o->item = formats[f].bytes;
    memcpy(o->format, formats[f].format, sizeof o->format);
    o->bytes = o->item;
    for (int i = o->rank - 1; i >= 0; i--)
        o->dim[i] = (Py_ssize_t)t.dim[i], o->stride[i] = o->bytes, o->bytes *= t.dim[i];
    PyObject *view = PyMemoryView_FromObject((PyObject *)o);
    Py_DECREF(o);
    return view;
}

/* ---- values to Python ---- */

static PyObject *from_value(kiln_ctx *ctx, kiln_value *v);

static PyObject *from_list(kiln_ctx *ctx, const kiln_value *v)
{
    size_t n = values->count(v);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = from_value(ctx, values->list_at(v, i));
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *from_map(kiln_ctx *ctx, const kiln_value *v)
{
    PyObject *map = PyDict_New();
    for (size_t i = 0; map && i < values->count(v); i++) {
        const char *key = NULL;
        PyObject *item = from_value(ctx, values->map_at(v, i, &key));
        if (!item || PyDict_SetItemString(map, key, item) != 0) Py_CLEAR(map);
        Py_XDECREF(item);
    }
    return map;
}

static PyObject *from_value(kiln_ctx *ctx, kiln_value *v)
{
    int64_t whole = 0;
    double number = 0;
    int truth = 0;
    size_t n = 0;
    const char *text;
    switch (v ? values->kind(v) : 0) {
    case 0: Py_RETURN_NONE;
    case KILN_V_TENSOR: return from_tensor(ctx, v);
    case KILN_V_INT: values->get_int(v, &whole); return PyLong_FromLongLong(whole);
    case KILN_V_FLOAT: values->get_float(v, &number); return PyFloat_FromDouble(number);
    case KILN_V_BOOL: values->get_bool(v, &truth); return PyBool_FromLong(truth);
    case KILN_V_STRING: text = values->get_string(v, &n); return PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace");
    case KILN_V_LIST: return from_list(ctx, v);
    case KILN_V_MAP: return from_map(ctx, v);
    default:
        return PyErr_Format(PyExc_TypeError, "an input is a %s, an object of C's; use a plugin in C for it",
                            values->object_type(v));
    }
}

/* ---- values from Python ---- */

static kiln_value *no_memory(void) { return PyErr_NoMemory(), NULL; }

static kiln_value *to_value(kiln_ctx *ctx, PyObject *o);

/* A dense copy of `b` in a tensor; f64 becomes f32. */
static kiln_value *fill(kiln_ctx *ctx, const Py_buffer *b, uint32_t dtype)
{
    int64_t dim[KILN_MAX_RANK];
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v;
    double *wide = dtype == KILN_F64 ? PyMem_Malloc((size_t)b->len + 1) : NULL;
    if (dtype == KILN_F64 && !wide) return no_memory();
    for (int i = 0; i < b->ndim; i++) dim[i] = b->shape[i];
    PyThreadState *state = PyEval_SaveThread(); /* the engine may wait for memory that another node has */
    v = host->tensor_new(ctx, wide ? KILN_F32 : dtype, KILN_CPU, (uint32_t)b->ndim, dim);
    PyEval_RestoreThread(state);
    if (!v || host->view(ctx, v, &t) != KILN_OK ||
        PyBuffer_ToContiguous(wide ? (void *)wide : t.data, b, b->len, 'C') != 0) {
        PyMem_Free(wide);
        host->unref(v);
        return PyErr_Occurred() ? NULL : no_memory();
    }
    for (size_t i = 0; wide && i < (size_t)b->len / sizeof *wide; i++) ((float *)t.data)[i] = (float)wide[i];
    PyMem_Free(wide);
    return v;
}

static kiln_value *to_tensor(kiln_ctx *ctx, PyObject *o)
{
    Py_buffer b;
    if (PyObject_GetBuffer(o, &b, PyBUF_FULL_RO) != 0) return NULL;
    const char *format = b.format ? b.format : "B";
    kiln_value *v = NULL;
    size_t f = 0;
    format += *format == '@' || *format == '=' || *format == '<';
    while (f < N_FORMATS && (strcmp(formats[f].format, format) != 0 || b.itemsize != (Py_ssize_t)formats[f].bytes)) f++;
    if (f == N_FORMATS)
        PyErr_Format(PyExc_TypeError, "an output has numbers of type '%s'; make them f32, f16, i32, i64, u8 or bool",
                     b.format);
    else if (b.ndim < 1 || b.ndim > (int)KILN_MAX_RANK)
        PyErr_Format(PyExc_TypeError, "an output has %d dimensions; a tensor has 1 to %d", b.ndim, (int)KILN_MAX_RANK);
    else
        v = fill(ctx, &b, formats[f].dtype);
    PyBuffer_Release(&b);
    return v;
}

static kiln_value *to_list(kiln_ctx *ctx, PyObject *o)
{
    kiln_value *list = values->new_list(ctx);
    PyObject *items = list ? PySequence_Fast(o, "a list") : NULL;
    for (Py_ssize_t i = 0; items && i < PySequence_Fast_GET_SIZE(items); i++) {
        kiln_value *item = to_value(ctx, PySequence_Fast_GET_ITEM(items, i));
        int done = item && values->list_push(list, item) == KILN_OK;
        host->unref(item);
        if (!done) Py_CLEAR(items);
    }
    if (items) return Py_DECREF(items), list;
    host->unref(list);
    return PyErr_Occurred() ? NULL : no_memory();
}

static kiln_value *to_map(kiln_ctx *ctx, PyObject *o)
{
    kiln_value *map = values->new_map(ctx);
    PyObject *key, *item;
    int done = map != NULL;
    for (Py_ssize_t at = 0; done && PyDict_Next(o, &at, &key, &item);) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
        kiln_value *v = name ? to_value(ctx, item) : NULL;
        done = v && values->map_set(map, name, v) == KILN_OK;
        host->unref(v);
        if (!name && !PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "an output's key is %R; keys are texts", key);
    }
    if (done) return map;
    host->unref(map);
    return PyErr_Occurred() ? NULL : no_memory();
}

static kiln_value *to_value(kiln_ctx *ctx, PyObject *o)
{
    kiln_value *v = NULL;
    Py_ssize_t n = 0;
    if (PyBool_Check(o)) {
        v = values->new_bool(ctx, o == Py_True);
    } else if (PyLong_Check(o)) {
        long long whole = PyLong_AsLongLong(o);
        if (!PyErr_Occurred()) v = values->new_int(ctx, whole);
    } else if (PyFloat_Check(o)) {
        v = values->new_float(ctx, PyFloat_AS_DOUBLE(o));
    } else if (PyUnicode_Check(o)) {
        const char *text = PyUnicode_AsUTF8AndSize(o, &n);
        if (text) v = values->new_string(ctx, text, (size_t)n);
    } else if (PyList_Check(o) || PyTuple_Check(o)) {
        return to_list(ctx, o);
    } else if (PyDict_Check(o)) {
        return to_map(ctx, o);
    } else if (PyObject_CheckBuffer(o)) {
        return to_tensor(ctx, o);
    } else {
        PyErr_Format(PyExc_TypeError, "an output is %.60s; give a tensor, a number, a text, a list or a dict",
                     Py_TYPE(o)->tp_name);
    }
    return v || PyErr_Occurred() ? v : no_memory();
}

/* ---- a call ---- */

typedef struct {
    const kiln_call *call;
    kiln_status stopped;
} running;

/* The capsule's context is the running call; NULL when that is over. */
static PyObject *progress(PyObject *self, PyObject *args)
{
    unsigned long long done = 0, total = 0;
    running *r = PyCapsule_GetContext(self);
    if (!PyArg_ParseTuple(args, "|KK:progress", &done, &total)) return NULL;
    if (!r) return PyErr_Format(PyExc_RuntimeError, "progress() belongs to a call that is over");
    PyThreadState *state = PyEval_SaveThread();
    kiln_status status = r->call->host->progress(r->call->ctx, done, total, "Python");
    PyEval_RestoreThread(state);
    if (status == KILN_OK) Py_RETURN_NONE;
    r->stopped = status;
    PyErr_SetNone(PyExc_KeyboardInterrupt); /* which `except Exception` does not catch */
    return NULL;
}

static PyMethodDef progress_method = {"progress", progress, METH_VARARGS,
                                      "progress(done, total): how far the call is."};

static PyObject *parameter(const kiln_param *p, const char *at)
{
    switch (p->type) {
    case KILN_P_BOOL: return PyBool_FromLong(*(const int32_t *)(const void *)at);
    case KILN_P_INT: return PyLong_FromLongLong(*(const int64_t *)(const void *)at);
    case KILN_P_FLOAT: return PyFloat_FromDouble(*(const double *)(const void *)at);
    case KILN_P_ENUM: return PyUnicode_FromString(p->choice[*(const int32_t *)(const void *)at].name);
    default:
        return PyUnicode_DecodeUTF8(*(const char *const *)(const void *)at,
                                    (Py_ssize_t)strlen(*(const char *const *)(const void *)at), "replace");
    }
}

static int put(PyObject *map, const char *name, PyObject *item)
{
    int done = item && PyDict_SetItemString(map, name, item) == 0;
    Py_XDECREF(item);
    return done;
}

/* The function's arguments by name; NULL with Python's error set. */
static PyObject *arguments(const kiln_node *node, const kiln_call *c, PyObject *progress_of)
{
    PyObject *map = PyDict_New();
    int done = map != NULL;
    for (uint32_t i = 0; done && i < node->n_in; i++) done = put(map, node->in[i].name, from_value(c->ctx, c->in[i]));
    for (uint32_t i = 0; done && i < node->n_param; i++)
        done =
            put(map, node->param[i].name, parameter(&node->param[i], (const char *)c->params + node->param[i].offset));
    if (done && progress_of) done = PyDict_SetItemString(map, "progress", progress_of) == 0;
    if (!done) Py_CLEAR(map);
    return map;
}

static int outputs(const kiln_node *node, const kiln_call *c, PyObject *result)
{
    int several = node->n_out > 1;
    if (several && (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) != (Py_ssize_t)node->n_out)) {
        PyErr_Format(PyExc_TypeError, "%s gave %.60s; return a tuple of its %u outputs", node->type,
                     Py_TYPE(result)->tp_name, node->n_out);
        return 0;
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        if (!(c->out[i] = to_value(c->ctx, several ? PyTuple_GET_ITEM(result, (Py_ssize_t)i) : result))) return 0;
    return 1;
}

/* Python's error as one line, with its places. */
static char *sentence(void)
{
    PyObject *type, *error, *trace, *text = NULL;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    if (told && error) text = PyObject_CallOneArg(told, error);
    const char *words = text ? PyUnicode_AsUTF8(text) : NULL;
    char *copy = strdup(words ? words : "an error of Python's that cannot be told");
    PyErr_Clear();
    Py_XDECREF(text), Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
    return copy;
}

static kiln_status run(size_t which, const kiln_call *c)
{
    const python_node *p = &nodes[which];
    running r = {.call = c};
    char *words = NULL;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *capsule = PyCapsule_New(&nodes, "kiln call", NULL), *report = NULL, *map = NULL, *result = NULL;
    if (capsule && PyCapsule_SetContext(capsule, &r) == 0) report = PyCFunction_New(&progress_method, capsule);
    if (report) map = arguments(&row[which], c, p->wants_progress ? report : NULL);
    PyObject *none = map ? PyTuple_New(0) : NULL;
    if (none) result = PyObject_Call(p->fn, none, map);
    int done = result && outputs(&row[which], c, result);
    kiln_status why = !done && PyErr_ExceptionMatches(PyExc_MemoryError) ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    if (!done) words = sentence();
    if (capsule) PyCapsule_SetContext(capsule, NULL);
    Py_XDECREF(result), Py_XDECREF(none), Py_XDECREF(map), Py_XDECREF(report), Py_XDECREF(capsule);
    PyGILState_Release(state);
    kiln_status status = done        ? KILN_OK
                         : r.stopped ? r.stopped
                                     : c->host->fail(c->ctx, why, "%s", words ? words : "out of memory");
    free(words);
    return status;
}

/* run() is not told which node it is of: one function a node. */
#define RUN(a, b)                                                                                                      \
    static kiln_status run_##a##b(const kiln_call *c) { return run((a)*8 + (b), c); }
#define RUN8(a) RUN(a, 0) RUN(a, 1) RUN(a, 2) RUN(a, 3) RUN(a, 4) RUN(a, 5) RUN(a, 6) RUN(a, 7)
#define NAME8(a) run_##a##0, run_##a##1, run_##a##2, run_##a##3, run_##a##4, run_##a##5, run_##a##6, run_##a##7
/* clang-format off */
RUN8(0) RUN8(1) RUN8(2) RUN8(3) RUN8(4) RUN8(5) RUN8(6) RUN8(7)
    /* clang-format on */
    static kiln_status (*const run_of[NODES_MAX])(const kiln_call *) = {NAME8(0), NAME8(1), NAME8(2), NAME8(3),
                                                                        NAME8(4), NAME8(5), NAME8(6), NAME8(7)};

/* ---- the table ---- */

/* The text under a key of a dict, which lives as long as that. */
static const char *text_of(PyObject *map, const char *key)
{
    PyObject *item = PyDict_GetItemString(map, key);
    return item ? PyUnicode_AsUTF8(item) : NULL;
}
static double number_of(PyObject *map, const char *key)
{
    PyObject *item = PyDict_GetItemString(map, key);
    return item ? PyFloat_AsDouble(item) : 0;
}
static int truth_of(PyObject *map, const char *key)
{
    PyObject *item = PyDict_GetItemString(map, key);
    return item && PyObject_IsTrue(item) == 1;
}

static kiln_port *ports(PyObject *list, uint32_t *n)
{
    *n = (uint32_t)PyList_Size(list);
    kiln_port *port = calloc(*n + 1u, sizeof *port);
    for (uint32_t i = 0; port && i < *n; i++) {
        PyObject *map = PyList_GetItem(list, (Py_ssize_t)i);
        port[i] = (kiln_port){.name = text_of(map, "name"), .doc = text_of(map, "doc"), .type = text_of(map, "type")};
    }
    return port;
}

static kiln_choice *choices(PyObject *map)
{
    PyObject *tuple = PyDict_GetItemString(map, "choices");
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
    kiln_choice *choice = calloc((size_t)n + 1, sizeof *choice);
    for (Py_ssize_t i = 0; choice && i < n; i++)
        choice[i].name = PyUnicode_AsUTF8(PyTuple_GetItem(tuple, i)), choice[i].doc = choice[i].name,
        choice[i].value = i;
    return choice;
}

static kiln_param *params(PyObject *list, uint32_t *n)
{
    static const struct {
        const char *name;
        uint32_t type;
    } kinds[] = {{"FLOAT", KILN_P_FLOAT},
                 {"INT", KILN_P_INT},
                 {"BOOLEAN", KILN_P_BOOL},
                 {"ENUM", KILN_P_ENUM},
                 {"STRING", KILN_P_STRING}};
    *n = (uint32_t)PyList_Size(list);
    kiln_param *param = calloc(*n + 1u, sizeof *param);
    for (uint32_t i = 0; param && i < *n; i++) {
        PyObject *map = PyList_GetItem(list, (Py_ssize_t)i);
        size_t k = 0;
        while (strcmp(kinds[k].name, text_of(map, "kind")) != 0) k++;
        param[i] = (kiln_param){
            .name = text_of(map, "name"), .doc = text_of(map, "doc"), .type = kinds[k].type, .offset = 8 * i};
        if (kinds[k].type == KILN_P_STRING) {
            param[i].def_str = text_of(map, "default"), param[i].flags = KILN_PARAM_MULTILINE;
            continue;
        }
        param[i].def = number_of(map, "default");
        if (kinds[k].type == KILN_P_ENUM)
            param[i].choice = choices(map), param[i].choice_stride = (uint32_t)sizeof(kiln_choice);
        else if (kinds[k].type != KILN_P_BOOL)
            param[i].min = number_of(map, "min"), param[i].max = number_of(map, "max"),
            param[i].step = number_of(map, "step");
    }
    return param;
}

static void add_node(PyObject *map)
{
    size_t i = kiln_plugin_v1.n_node;
    kiln_node *r = &row[i];
    nodes[i] = (python_node){.fn = PyDict_GetItemString(map, "run"), .wants_progress = truth_of(map, "progress")};
    Py_INCREF(map); /* its texts and its function */
    *r = (kiln_node){.size = sizeof *r,
                     .flags = (truth_of(map, "pure") ? KILN_NODE_PURE : 0u) |
                              (truth_of(map, "reentrant") ? KILN_NODE_REENTRANT : 0u),
                     .devices = KILN_CPU,
                     .revision = 1,
                     .type = text_of(map, "type"),
                     .title = text_of(map, "title"),
                     .category = text_of(map, "category"),
                     .doc = text_of(map, "doc"),
                     .in_stride = sizeof(kiln_port),
                     .out_stride = sizeof(kiln_port),
                     .param_stride = sizeof(kiln_param),
                     .run = run_of[i]};
    r->in = ports(PyDict_GetItemString(map, "inputs"), &r->n_in);
    r->out = ports(PyDict_GetItemString(map, "outputs"), &r->n_out);
    r->param = params(PyDict_GetItemString(map, "params"), &r->n_param);
    r->params_size = 8u * r->n_param;
    if (!r->in || !r->out || !r->param) return;
    rows[i] = r;
    kiln_plugin_v1.n_node++;
}

static void add_fault(const char *text)
{
    char *copy = n_fault < FAULTS_MAX ? strdup(text) : NULL;
    if (copy) fault[n_fault++] = copy;
}

/* ---- Python ---- */

static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, (void *)tensor_free}, {Py_bf_getbuffer, (void *)tensor_buffer}, {0, NULL}};
static PyType_Spec tensor_spec = {
    .name = "kiln.Tensor", .basicsize = sizeof(tensor_object), .flags = Py_TPFLAGS_DEFAULT, .slots = tensor_slots};

static void read_folder(const char *folder)
{
    PyObject *path = PySys_GetObject("path"), *own = PyUnicode_DecodeFSDefault(folder);
    PyObject *module = path && own && PyList_Insert(path, 0, own) == 0 ? PyImport_ImportModule("kiln_node") : NULL;
    PyObject *both = module ? PyObject_CallMethod(module, "load", "O", own) : NULL;
    told = module ? PyObject_GetAttrString(module, "told") : NULL;
    tensor_type = (PyTypeObject *)PyType_FromSpec(&tensor_spec);
    if (both && tensor_type) {
        PyObject *list = PyTuple_GetItem(both, 0), *faults = PyTuple_GetItem(both, 1);
        for (Py_ssize_t i = 0; i < PyList_Size(list) && kiln_plugin_v1.n_node < NODES_MAX; i++)
            add_node(PyList_GetItem(list, i));
        for (Py_ssize_t i = 0; i < PyList_Size(faults); i++) add_fault(PyUnicode_AsUTF8(PyList_GetItem(faults, i)));
    }
    if (PyErr_Occurred()) {
        char *words = sentence();
        add_fault(words ? words : "out of memory");
        free(words);
    }
    Py_XDECREF(own), Py_XDECREF(module), Py_XDECREF(both);
}

/* As a library in somebody else's process: no signal handlers, no environment, no files written (a __pycache__ would be
 * part of the plugin's data), hashes that are the same in every process. */
static const char *begin_python(void)
{
    PyPreConfig before;
    PyConfig config;
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&before);
    if (PyStatus_Exception(status)) return status.err_msg;
    PyConfig_InitIsolatedConfig(&config);
    config.write_bytecode = 0, config.use_hash_seed = 1, config.hash_seed = 0;
    status = PyConfig_SetString(&config, &config.home, PYTHON_PREFIX);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) return status.err_msg ? status.err_msg : "Python cannot be started";
    PyRun_SimpleString("import sys; sys.stdout = sys.stderr"); /* standard output is for the paths of results */
    return NULL;
}

/* A copy of the process gets a Python that nobody else is in. */
static PyGILState_STATE forking;
static void before_fork(void) { forking = PyGILState_Ensure(); }
static void after_fork(void) { PyGILState_Release(forking); }
static void in_the_copy(void)
{
    PyOS_AfterFork_Child();
    PyGILState_Release(forking);
}

/* The table is read before open(), so its rows have to be there when the file is loaded. The file's own path is where
 * its data is; extension modules want libpython's names in sight, which a plugin's libraries are not. */
__attribute__((constructor)) static void load(void)
{
    Dl_info own, python;
    char path[PATH_MAX], folder[PATH_MAX + 8];
    if (!dladdr(&kiln_plugin_v1, &own) || !realpath(own.dli_fname, path) ||
        !dladdr((void *)Py_IsInitialized, &python)) {
        add_fault("its own file cannot be found");
        return;
    }
    snprintf(folder, sizeof folder, "%.*s.data", (int)(strlen(path) - (strlen(path) > 3 ? 3 : 0)), path);
    dlopen(python.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    if (Py_IsInitialized()) { /* kiln is a library in a Python */
        PyGILState_STATE state = PyGILState_Ensure();
        read_folder(folder);
        PyGILState_Release(state);
        return;
    }
    const char *why = begin_python();
    if (why) {
        add_fault(why);
        return;
    }
    read_folder(folder);
    PyEval_SaveThread();
    pthread_atfork(before_fork, after_fork, in_the_copy);
}

static kiln_status open_plugin(const kiln_host *h)
{
    host = h;
    values = h->ability(KILN_VALUE_ABILITY);
    for (size_t i = 0; i < n_fault; i++) h->log(KILN_LOG_ERROR, fault[i]);
    return values ? KILN_OK : KILN_ERR_UNSUPPORTED;
}
