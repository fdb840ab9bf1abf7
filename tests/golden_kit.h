/* golden_kit.h - for tests of plugins: reads golden files into arrays, and records and runs one block of a model on
 * them, with the engine's own "kiln.ops/1". */
#ifndef KILN_TESTS_GOLDEN_KIT_H
#define KILN_TESTS_GOLDEN_KIT_H

#include "harness.h"
#include "rig.h"
#include "weights/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    float *data; /* NULL: the tensor does not exist */
    uint32_t rank;
    int64_t dim[KILN_MAX_RANK];
    size_t n;
} array;

static inline kiln_weights *open_weights(const char *path)
{
    char full[600];
    error e = {0};
    snprintf(full, sizeof full, "%s/%s", test_root(), path);
    kiln_weights *w = weights_open(full, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

/* A tensor of type f32, i64 or u8 as f32, in which ids and bytes are exact. */
static inline array array_read(const kiln_weights *w, const char *name)
{
    kiln_weight_info info = {.size = sizeof info};
    array a = {0};
    const char *bytes = w ? weights_bytes(w, name, &info) : NULL;
    if (!bytes) return a;
    a.rank = info.rank;
    a.n = 1;
    for (uint32_t i = 0; i < info.rank; i++) a.n *= (size_t)(a.dim[i] = info.dim[i]);
    a.data = malloc(a.n * sizeof(float) + 1);
    for (size_t i = 0; info.dtype == KILN_I64 && i < a.n; i++) {
        int64_t v;
        memcpy(&v, bytes + 8 * i, 8);
        a.data[i] = (float)v;
    }
    for (size_t i = 0; info.dtype == KILN_U8 && i < a.n; i++) a.data[i] = (float)(unsigned char)bytes[i];
    if (info.dtype == KILN_F32) memcpy(a.data, bytes, a.n * sizeof(float));
    return a;
}

static inline array golden(const kiln_weights *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline array golden(const kiln_weights *w, const char *fmt, ...)
{
    char name[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    return array_read(w, name);
}

/* A block that is being recorded, and its inputs, which are bound as they are made. */
typedef struct {
    const kiln_ops *ops;
    kiln_ctx *ctx;
    kiln_program *p;
    kiln_bind in[16];
    int64_t dim[16][KILN_MAX_RANK];
    size_t n_in;
    void *owned[16];
    size_t n_owned;
} piece;

static inline kiln_tensor window_of(void *data, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    kiln_tensor t = {.size = sizeof t, .dtype = dtype, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data};
    return t;
}

static inline piece piece_new(uint32_t precision)
{
    piece c = {.ops = rig_host()->ability(KILN_OPS_ABILITY), .ctx = rig_ctx()};
    kiln_program_options options = {.size = sizeof options, .name = "test", .precision = precision};
    c.p = c.ops->program_new(c.ctx, &options);
    return c;
}

/* The array as an input of the piece, in f32 or (whole numbers) i32; it now belongs to the piece. */
static inline kiln_t piece_input(piece *c, array a, uint32_t dtype)
{
    static const char *const names[] = {"in0", "in1", "in2", "in3", "in4",  "in5",
                                        "in6", "in7", "in8", "in9", "in10", "in11"};
    if (!CHECK_MSG(a.data != NULL, "input %zu of the piece is missing in the golden", c->n_in)) return (kiln_t){0};
    for (size_t i = 0; dtype == KILN_I32 && i < a.n; i++) {
        int32_t v = (int32_t)a.data[i];
        memcpy(&a.data[i], &v, sizeof v);
    }
    kiln_bind *b = &c->in[c->n_in];
    int64_t *dim = memcpy(c->dim[c->n_in], a.dim, sizeof a.dim);
    *b = (kiln_bind)KILN_BIND(names[c->n_in], window_of(a.data, dtype, a.rank, dim));
    c->n_in++;
    c->owned[c->n_owned++] = a.data;
    return c->ops->input(c->p, b->name, dtype, a.rank, a.dim);
}

/* Plans, runs and compares `out` with `wanted` (freed): ||a-b|| / ||b|| <= tolerance. */
static inline void piece_check(piece *c, kiln_t out, array wanted, double tolerance, const char *what)
{
    kiln_status status = KILN_OK;
    float *got = wanted.data ? calloc(wanted.n + 1, sizeof *got) : NULL;
    if (CHECK_MSG(wanted.data != NULL, "%s: not in the golden", what)) {
        kiln_bind b = KILN_BIND("out", window_of(got, KILN_F32, wanted.rank, wanted.dim));
        c->ops->output(c->p, "out", out);
        status = c->ops->plan(c->ctx, c->p, NULL);
        if (status == KILN_OK) status = c->ops->run(c->ctx, c->p, c->in, c->n_in, &b, 1);
        CHECK_MSG(status == KILN_OK, "%s: %s", what, rig_message());
        if (status == KILN_OK) check_array(got, wanted.data, wanted.n, tolerance, what, __FILE__, __LINE__);
    }
    free(got);
    free(wanted.data);
    for (size_t i = 0; i < c->n_owned; i++) free(c->owned[i]);
    c->ops->program_free(c->p);
}

/* ---- other names ---- */

/* tiny-sd1 seen under the names of a single-file checkpoint (single_file_names.txt); `prefix` picks a part ("unet/").
 */
static inline kiln_weights *single_file_view(kiln_weights *set, const char *prefix)
{
    static char text[1 << 18];
    static kiln_weight_rule rule[2000];
    char path[600];
    size_t n = 0;
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/single_file_names.txt", test_root());
    FILE *f = fopen(path, "rb");
    if (!CHECK_MSG(f != NULL, "%s is missing", path)) return NULL;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    for (char *line = strtok(text, "\n"); line && n < 2000; line = strtok(NULL, "\n")) {
        char *tab = strchr(line, '\t');
        if (!tab || strncmp(line, prefix, strlen(prefix)) != 0) continue;
        *tab = 0;
        rule[n++] = (kiln_weight_rule)KILN_RULE(.from = line, .to = tab + 1);
    }
    kiln_weights *view = weights_view(set, rule, n, &e);
    CHECK_MSG(view != NULL && n > 50, "%zu names of '%s': %s", n, prefix, e.message);
    return view;
}

/* Checks that `view` has every tensor `part`NAME of `set` as NAME, with the same bytes and rank, and no others. */
static inline void check_same_tensors(const kiln_weights *set, const char *part, const kiln_weights *view,
                                      const char *leave_out)
{
    size_t n = strlen(part), seen = 0;
    for (size_t i = 0; i < weights_count(set); i++) {
        kiln_weight_info a = {.size = sizeof a}, b = {.size = sizeof b};
        weights_at(set, i, &a);
        if (strncmp(a.name, part, n) != 0 || (leave_out && strstr(a.name, leave_out))) continue;
        seen++;
        if (!CHECK_MSG(weights_find(view, a.name + n, &b) == KILN_OK, "%s is missing", a.name)) continue;
        CHECK_MSG(weights_bytes(set, a.name, &a) == weights_bytes(view, a.name + n, &b) && a.rank == b.rank,
                  "%s is another tensor", a.name);
    }
    CHECK(seen > 20);
    CHECK_EQ(weights_count(view), seen);
}

#endif
