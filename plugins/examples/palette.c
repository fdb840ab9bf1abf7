/* palette.c - a plugin's own object type, "PALETTE": a node that makes one, and a node that applies it to a picture.
 * Shows: objects with a release function, and "kiln.store/1": how an object becomes plain data and back, so that the
 * next process finds it in the cache.
 */
#include "kiln/store.h"
#include "kiln/value.h"

#include <stdlib.h>

enum { COLOURS_MAX = 256 };

typedef struct {
    int64_t n;
    float rgb[COLOURS_MAX][3];
} palette;

static const kiln_host *host;
static const kiln_value_api *values;

/* Takes ownership of p, also when it fails. */
static kiln_value *palette_value(kiln_ctx *ctx, palette *p)
{
    kiln_value *v = values->new_object(ctx, "PALETTE", p, free, NULL);
    if (!v) free(p);
    return v;
}

/* ---- the stored form: {"colours": f32 [n, 3]} ---- */

static kiln_value *palette_to_plain(kiln_ctx *ctx, const kiln_value *object)
{
    const palette *p = values->object(object, "PALETTE");
    kiln_tensor t = {.size = sizeof t};
    kiln_value *map = values->new_map(ctx),
               *rgb = p ? host->tensor_new(ctx, KILN_F32, KILN_CPU, 2, (int64_t[]){p->n, 3}) : NULL;
    int done = map && rgb && host->view(ctx, rgb, &t) == KILN_OK;
    if (done) {
        for (int64_t i = 0; i < p->n * 3; i++) ((float *)t.data)[i] = p->rgb[i / 3][i % 3];
        done = values->map_set(map, "colours", rgb) == KILN_OK;
    }
    host->unref(rgb);
    if (done) return map;
    host->unref(map);
    return NULL;
}

static kiln_value *palette_from_plain(kiln_ctx *ctx, const kiln_value *plain)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *rgb = values->map_get(plain, "colours");
    /* Another build of this plugin may have written it: check everything that the code below relies on. */
    if (!rgb || host->view(ctx, rgb, &t) != KILN_OK || t.dtype != KILN_F32 || t.rank != 2 || t.dim[0] < 1 ||
        t.dim[0] > COLOURS_MAX || t.dim[1] != 3)
        return host->fail(ctx, KILN_ERR_INVALID, "this is no palette: colours must be f32 of 1 to %d rows of 3",
                          COLOURS_MAX),
               NULL;
    palette *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->n = t.dim[0];
    for (int64_t i = 0; i < p->n * 3; i++) p->rgb[i / 3][i % 3] = ((const float *)t.data)[i];
    return palette_value(ctx, p);
}

static const kiln_stored_type stored = {
    .size = sizeof stored,
    .revision = 1,
    .type = "PALETTE",
    .doc = "Colours in order.",
    .to_plain = palette_to_plain,
    .from_plain = palette_from_plain,
};

/* ---- ExamplePalette: colours between two brightnesses of a tint ---- */

typedef struct {
    int64_t colours;
    double red, green, blue;
} make_params;

static const kiln_port make_out[] = {{.name = "PALETTE", .type = "PALETTE", .doc = "From black to the tint."}};
static const kiln_param make_param[] = {
    {.name = "colours",
     .type = KILN_P_INT,
     .offset = offsetof(make_params, colours),
     .def = 4,
     .min = 2,
     .max = COLOURS_MAX,
     .doc = "How many."},
    {.name = "red",
     .type = KILN_P_FLOAT,
     .offset = offsetof(make_params, red),
     .def = 1,
     .min = 0,
     .max = 1,
     .doc = "Red of the brightest."},
    {.name = "green",
     .type = KILN_P_FLOAT,
     .offset = offsetof(make_params, green),
     .def = 1,
     .min = 0,
     .max = 1,
     .doc = "Green of the brightest."},
    {.name = "blue",
     .type = KILN_P_FLOAT,
     .offset = offsetof(make_params, blue),
     .def = 1,
     .min = 0,
     .max = 1,
     .doc = "Blue of the brightest."},
};

static kiln_status make_run(const kiln_call *c)
{
    const make_params *m = c->params;
    kiln_status status = c->host->progress(c->ctx, 0, 1, "palette");
    if (status) return status;
    palette *p = calloc(1, sizeof *p);
    if (!p) return KILN_ERR_NOMEM;
    p->n = m->colours;
    for (int64_t i = 0; i < p->n; i++) {
        double bright = (double)i / (double)(p->n - 1);
        p->rgb[i][0] = (float)(bright * m->red), p->rgb[i][1] = (float)(bright * m->green),
        p->rgb[i][2] = (float)(bright * m->blue);
    }
    c->out[0] = palette_value(c->ctx, p);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_node make = {
    .size = sizeof make,
    .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "ExamplePalette",
    .title = "Palette",
    .category = "examples",
    .doc = "Colours from black to a tint.",
    KILN_ARRAY(out, make_out),
    KILN_ARRAY(param, make_param),
    .params_size = sizeof(make_params),
    .run = make_run,
};

/* ---- ExampleApplyPalette: each pixel's nearest colour ---- */

static const kiln_port apply_in[] = {
    {.name = "image", .type = "IMAGE", .dtypes = 1 << KILN_F32, .doc = "Picture to paint anew."},
    {.name = "palette", .type = "PALETTE", .doc = "The colours it may have."},
};
static const kiln_port apply_out[] = {
    {.name = "IMAGE", .type = "IMAGE", .dtypes = 1 << KILN_F32, .doc = "The picture in those colours."}};

static const float *nearest(const palette *p, const float *pixel)
{
    const float *best = p->rgb[0];
    float least = 0;
    for (int64_t i = 0; i < p->n; i++) {
        float d = 0;
        for (int k = 0; k < 3; k++) d += (pixel[k] - p->rgb[i][k]) * (pixel[k] - p->rgb[i][k]);
        if (i == 0 || d < least) least = d, best = p->rgb[i];
    }
    return best;
}

static kiln_status apply_run(const kiln_call *c)
{
    const palette *p = values->object(c->in[1], "PALETTE");
    kiln_tensor from = {.size = sizeof from}, to = {.size = sizeof to};
    kiln_status status = c->host->view(c->ctx, c->in[0], &from);
    if (status) return status;
    if (!p)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "palette: this is not a palette of this plugin; make it with ExamplePalette");
    if (from.dim[3] < 3)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "image has %lld channels; colours need 3",
                             (long long)from.dim[3]);
    c->out[0] = c->host->tensor_new(c->ctx, KILN_F32, KILN_CPU, from.rank, from.dim);
    if (!c->out[0]) return KILN_ERR_NOMEM;
    if (c->estimate) return KILN_OK;
    if ((status = c->host->view(c->ctx, c->out[0], &to))) return status;
    size_t n = (size_t)(from.dim[0] * from.dim[1] * from.dim[2]), channels = (size_t)from.dim[3];
    for (size_t i = 0; i < n; i++) {
        const float *pixel = (const float *)from.data + i * channels;
        float *out = (float *)to.data + i * channels;
        if (i % 16384 == 0 && (status = c->host->progress(c->ctx, i, n, "painting"))) return status;
        const float *colour = nearest(p, pixel);
        for (size_t k = 0; k < channels; k++) out[k] = k < 3 ? colour[k] : pixel[k];
    }
    return KILN_OK;
}

static const kiln_node apply = {
    .size = sizeof apply,
    .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "ExampleApplyPalette",
    .title = "Apply palette",
    .category = "examples",
    .doc = "Gives each pixel the nearest colour of a palette.",
    KILN_ARRAY(in, apply_in),
    KILN_ARRAY(out, apply_out),
    .run = apply_run,
};

static kiln_status open_plugin(const kiln_host *h)
{
    const kiln_store_api *store = h->ability(KILN_STORE_ABILITY);
    host = h;
    values = h->ability(KILN_VALUE_ABILITY);
    if (!values) return KILN_ERR_UNSUPPORTED;
    return store ? store->register_type(&stored) : KILN_OK; /* an older kiln works too: it does not keep palettes */
}

KILN_PLUGIN_OPEN("org.example.palette", "1.0.0", "MIT", open_plugin, &make, &apply);
