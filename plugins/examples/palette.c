/* palette.c - an object type of one's own that outlives the process: a list of colours, made by one node and drawn by another.
 * Shows: objects, and kiln.store/1: how an object becomes plain data and back. Run a workflow with it twice: the palette comes
 * from the cache.
 */
#include "kiln/store.h"

#include <stdlib.h>
#include <string.h>

enum { COLOURS_MAX = 64 };

typedef struct {
    int64_t n;
    float rgb[COLOURS_MAX][3];
} palette;

static const kiln_value_api *values;
static const kiln_host *engine;

static kiln_value *wrap(kiln_ctx *ctx, const palette *from)
{
    palette *own = malloc(sizeof *own);
    if (!own) return NULL;
    *own = *from;
    kiln_value *v = values->new_object(ctx, "EXAMPLE_PALETTE", own, free, NULL);
    if (!v) free(own);
    return v;
}

/* ---- the stored form: a tensor f32 [n,3] ------------------------------------------------------------------------------- */

static kiln_value *to_plain(kiln_ctx *ctx, const kiln_value *object)
{
    const palette *p = values->object(object, "EXAMPLE_PALETTE");
    kiln_value *plain = engine->tensor_new(ctx, KILN_F32, KILN_CPU, 2, (int64_t[]){p->n, 3});
    kiln_tensor t = {.size = sizeof t};
    if (!plain || engine->view(ctx, plain, &t)) return NULL;
    memcpy(t.data, p->rgb, (size_t)p->n * sizeof p->rgb[0]);
    return plain;
}

static kiln_value *from_plain(kiln_ctx *ctx, const kiln_value *plain)
{
    kiln_tensor t = {.size = sizeof t};
    palette p = {0};
    if (engine->view(ctx, plain, &t) || t.dtype != KILN_F32 || t.rank != 2 || t.dim[0] < 1 || t.dim[0] > COLOURS_MAX || t.dim[1] != 3) return NULL;
    p.n = t.dim[0];
    memcpy(p.rgb, t.data, (size_t)p.n * sizeof p.rgb[0]);
    return wrap(ctx, &p);
}

static const kiln_stored_type stored = {.size = sizeof stored, .revision = 1, .type = "EXAMPLE_PALETTE", .doc = "A list of colours.", .to_plain = to_plain, .from_plain = from_plain};

/* ---- ExamplePalette: from one colour to another ---------------------------------------------------------------------------- */

typedef struct {
    int64_t n;
    double red;
} make_params;

static const kiln_port make_out[] = {{.name = "PALETTE", .type = "EXAMPLE_PALETTE", .doc = "The colours."}};
static const kiln_param make_param[] = {
    {.name = "colours", .type = KILN_P_INT, .offset = offsetof(make_params, n), .def = 4, .min = 1, .max = COLOURS_MAX, .doc = "How many."},
    {.name = "red", .type = KILN_P_FLOAT, .offset = offsetof(make_params, red), .def = 1, .min = 0, .max = 1, .doc = "Red of the last one."},
};

static kiln_status make_run(const kiln_call *c)
{
    const make_params *q = c->params;
    palette p = {.n = q->n};
    for (int64_t i = 0; i < p.n; i++) p.rgb[i][0] = (float)(q->red * (double)(i + 1) / (double)p.n);
    c->out[0] = wrap(c->ctx, &p);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_node make = {
    .size = sizeof make, .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT, .devices = KILN_CPU, .revision = 1, .type = "ExamplePalette", .title = "Palette",
    .category = "examples", .doc = "Colours from black to red.", KILN_ARRAY(out, make_out), KILN_ARRAY(param, make_param), .params_size = sizeof(make_params), .run = make_run,
};

/* ---- ExamplePaletteImage: a pixel a colour ------------------------------------------------------------------------------------ */

typedef struct {
    int64_t height;
} draw_params;

static const kiln_port draw_in[] = {{.name = "palette", .type = "EXAMPLE_PALETTE", .doc = "The colours."}};
static const kiln_port draw_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "A column a colour."}};
static const kiln_param draw_param[] = {{.name = "height", .type = KILN_P_INT, .offset = offsetof(draw_params, height), .def = 1, .min = 1, .max = 4096, .doc = "Pixels."}};

static kiln_status draw_run(const kiln_call *c)
{
    const draw_params *q = c->params;
    const palette *p = values->object(c->in[0], "EXAMPLE_PALETTE");
    kiln_tensor t = {.size = sizeof t};
    if (!p) return c->host->fail(c->ctx, KILN_ERR_INVALID, "that is no palette of this plugin");
    c->out[0] = c->host->tensor_new(c->ctx, KILN_F32, KILN_CPU, 4, (int64_t[]){1, q->height, p->n, 3});
    if (!c->out[0]) return KILN_ERR_NOMEM;
    kiln_status status = c->host->view(c->ctx, c->out[0], &t);
    for (int64_t y = 0; !status && y < q->height; y++) memcpy((float *)t.data + y * p->n * 3, p->rgb, (size_t)p->n * sizeof p->rgb[0]);
    return status;
}

static const kiln_node draw = {
    .size = sizeof draw, .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT, .devices = KILN_CPU, .revision = 1, .type = "ExamplePaletteImage", .title = "Palette as a picture",
    .category = "examples", .doc = "Draws a palette.", KILN_ARRAY(in, draw_in), KILN_ARRAY(out, draw_out), KILN_ARRAY(param, draw_param), .params_size = sizeof(draw_params),
    .run = draw_run,
};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_store_api *store = host->ability(KILN_STORE_ABILITY);
    engine = host;
    values = host->ability(KILN_VALUE_ABILITY);
    if (!values) return KILN_ERR_UNSUPPORTED;
    return store ? store->register_type(&stored) : KILN_OK;
}

KILN_PLUGIN_OPEN("org.example.palette", "1.0.0", "MIT", open_plugin, &make, &draw);
