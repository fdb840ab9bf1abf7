/* graph_kit.h - for tests of tensor programs: a file of made-up weights, and random programs that use them.
 *
 * A program depends on its seed alone, so a test can record the same program twice and treat the two differently.
 */
#ifndef KILN_TESTS_GRAPH_KIT_H
#define KILN_TESTS_GRAPH_KIT_H

#include "harness.h"

#include "graph/program.h"
#include "tensor/dtype.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers ---- */

typedef struct {
    uint64_t state;
} dice;

static inline uint32_t dice_next(dice *d)
{
    uint64_t z = (d->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}
static inline uint32_t dice_below(dice *d, uint32_t n) { return dice_next(d) % n; }
static inline float dice_real(dice *d) { return (float)(int32_t)dice_next(d) * 0x1p-31f; } /* -1..1 */

/* ---- a safetensors file with random values ---- */

typedef struct {
    char name[32];
    uint32_t dtype, rank;
    int64_t dim[4];
    float spread, centre; /* values are centre + spread * (-1..1) */
} made_tensor;

static inline size_t made_count(const made_tensor *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

static inline const char *made_type(uint32_t dtype)
{
    return dtype == KILN_F16 ? "F16" : dtype == KILN_BF16 ? "BF16" : "F32";
}

/* The header, padded with spaces to a multiple of 8, as the format requires. */
static inline size_t made_header(const made_tensor *t, size_t n, char *text, size_t capacity)
{
    size_t at = (size_t)snprintf(text, capacity, "{"), offset = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = made_count(&t[i]) * dtype_size(t[i].dtype);
        at += (size_t)snprintf(text + at, capacity - at, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "",
                               t[i].name, made_type(t[i].dtype));
        for (uint32_t k = 0; k < t[i].rank; k++)
            at += (size_t)snprintf(text + at, capacity - at, "%s%lld", k ? "," : "", (long long)t[i].dim[k]);
        at += (size_t)snprintf(text + at, capacity - at, "],\"data_offsets\":[%zu,%zu]}", offset, offset + bytes);
        offset += bytes;
    }
    at += (size_t)snprintf(text + at, capacity - at, "}");
    while (at % 8) text[at++] = ' ';
    return at;
}

static inline int made_write(const char *path, const made_tensor *t, size_t n, uint64_t seed)
{
    static char text[1 << 16];
    dice d = {seed};
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    uint64_t length = made_header(t, n, text, sizeof text - 8);
    fwrite(&length, 8, 1, f);
    fwrite(text, 1, length, f);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < made_count(&t[i]); k++) {
            float v = t[i].centre + t[i].spread * dice_real(&d);
            uint32_t element = 0;
            dtype_convert(&element, t[i].dtype, &v, KILN_F32, 1);
            fwrite(&element, dtype_size(t[i].dtype), 1, f);
        }
    return fclose(f) == 0;
}

/* conv.O.I.K, lin.O.I.V (V: three of each), bias.O, gamma.O for channels 8, 16, 32; f16 and f32 mixed; experts, four of
 * 8 x 16. */
static inline size_t made_list(made_tensor *t)
{
    static const int64_t channels[] = {8, 16, 32};
    size_t n = 0;
    for (int o = 0; o < 3; o++) {
        int64_t O = channels[o];
        t[n] = (made_tensor){.dtype = KILN_F32, .rank = 1, .dim = {O}, .spread = 0.1f};
        snprintf(t[n++].name, sizeof t[0].name, "bias.%d", (int)O);
        t[n] = (made_tensor){.dtype = KILN_F16, .rank = 1, .dim = {O}, .spread = 0.2f, .centre = 1};
        snprintf(t[n++].name, sizeof t[0].name, "gamma.%d", (int)O);
        for (int i = 0; i < 3; i++) {
            int64_t I = channels[i];
            float unit = I == 8 ? 0.6f : I == 16 ? 0.43f : 0.3f; /* sqrt(3 / I) keeps the variance of activations */
            for (int k = 1; k <= 3; k += 2) {
                t[n] = (made_tensor){
                    .dtype = k == 3 ? KILN_F16 : KILN_F32, .rank = 4, .dim = {O, I, k, k}, .spread = unit / (float)k};
                snprintf(t[n++].name, sizeof t[0].name, "conv.%d.%d.%d", (int)O, (int)I, k);
            }
            for (int v = 0; v < 3; v++) {
                t[n] = (made_tensor){.dtype = KILN_F16, .rank = 2, .dim = {O, I}, .spread = unit};
                snprintf(t[n++].name, sizeof t[0].name, "lin.%d.%d.%d", (int)O, (int)I, v);
            }
        }
    }
    t[n++] = (made_tensor){.name = "experts", .dtype = KILN_F16, .rank = 3, .dim = {4, 8, 16}, .spread = 0.43f};
    return n;
}

static inline kiln_weights *made_weights(void)
{
    made_tensor list[64];
    char path[512];
    error e = {0};
    snprintf(path, sizeof path, "%s/made.safetensors", test_folder());
    if (!made_write(path, list, made_list(list), 1)) return NULL;
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

/* test_main() with the made-up weights in *set. */
static inline int made_test_main(int argc, char **argv, const test_case *cases, size_t n, kiln_weights **set)
{
    *set = made_weights();
    if (!*set) return 1;
    int failed = test_main(argc, argv, cases, n);
    weights_unref(*set);
    return failed;
}

/* ---- short forms of recording ---- */

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

typedef struct {
    recording *r;
    kiln_weights *w;
    dice d;
} recorder;

__attribute__((format(printf, 4, 5))) static inline kiln_t put_weight(recorder *c, uint32_t rank, const int64_t *dim,
                                                                      const char *fmt, ...)
{
    char name[32];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    return record_weight(c->r, c->w, name, rank, dim, 0);
}
static inline kiln_t put1(recorder *c, op_kind kind, op_attr a, kiln_t x) { return record_op(c->r, kind, &a, &x, 1); }
static inline kiln_t put2(recorder *c, op_kind kind, op_attr a, kiln_t x, kiln_t y)
{
    return record_op(c->r, kind, &a, (const kiln_t[]){x, y}, 2);
}
static inline const shape *put_shape(const recorder *c, kiln_t t)
{
    static const shape nothing;
    const op *o = recorded(c->r, t);
    return o ? &o->shape : &nothing;
}
static inline int64_t put_columns(const recorder *c, kiln_t t)
{
    const shape *s = put_shape(c, t);
    return s->rank ? s->dim[s->rank - 1] : 0;
}
static inline kiln_t put_bias(recorder *c, int O, int with)
{
    return with ? put_weight(c, 1, DIMS(O), "bias.%d", O) : (kiln_t){0};
}
static inline kiln_t put_linear(recorder *c, kiln_t x, int O, int v, int bias)
{
    int I = (int)put_columns(c, x);
    kiln_t w = put_weight(c, 2, DIMS(O, I), "lin.%d.%d.%d", O, I, v);
    return record_op(c->r, OP_LINEAR, NULL, (const kiln_t[]){x, w, put_bias(c, O, bias)}, 3);
}
static inline kiln_t put_conv(recorder *c, kiln_t x, int O, int k, int stride)
{
    int I = (int)put_columns(c, x), pad = k / 2;
    op_attr a = {.conv2d = {.stride = {stride, stride}, .pad = {pad, pad, pad, pad}, .dilation = {1, 1}, .groups = 1}};
    kiln_t w = put_weight(c, 4, DIMS(O, I, k, k), "conv.%d.%d.%d", O, I, k);
    return record_op(c->r, OP_CONV2D, &a, (const kiln_t[]){x, w, put_bias(c, O, 1)}, 3);
}
static inline kiln_t put_norm(recorder *c, kiln_t x, int groups)
{
    int C = (int)put_columns(c, x);
    op_attr a = {.norm = {.groups = groups, .eps = 1e-5f}};
    kiln_t gamma = put_weight(c, 1, DIMS(C), "gamma.%d", C), beta = put_bias(c, C, 1);
    return record_op(c->r, groups ? OP_GROUP_NORM : OP_LAYER_NORM, &a, (const kiln_t[]){x, gamma, beta}, 3);
}
static inline kiln_t put_act(recorder *c, kiln_t x, uint32_t kind)
{
    return put1(c, OP_ACT, (op_attr){.act = {kind}}, x);
}
static inline kiln_t put_add(recorder *c, kiln_t x, kiln_t y) { return put2(c, OP_ADD, (op_attr){0}, x, y); }
static inline kiln_t put_slice(recorder *c, kiln_t x, uint32_t axis, int64_t start, int64_t length)
{
    return put1(c, OP_SLICE, (op_attr){.slice = {axis, start, length}}, x);
}
static inline kiln_t put_attention(recorder *c, kiln_t q, kiln_t k, kiln_t v)
{
    op_attr a = {.attention = {.heads = 2, .scale = 0.5f}};
    return record_op(c->r, OP_ATTENTION, &a, (const kiln_t[]){q, k, v, {0}}, 4);
}

/* A transformer block on a picture: reshape, norm, q k v (of one x, or k and v of another), linear, residual. */
static inline kiln_t put_block(recorder *c, kiln_t x, int cross)
{
    const shape s = *put_shape(c, x);
    int C = (int)s.dim[3];
    kiln_t t = record_reshape(c->r, x, 3, DIMS(s.dim[0], s.dim[1] * s.dim[2], C)), n = put_norm(c, t, 0);
    kiln_t y = cross ? put_act(c, t, KILN_ACT_TANH) : n;
    kiln_t q = put_linear(c, n, C, 0, 0), k = put_linear(c, y, C, 1, 0), v = put_linear(c, y, C, 2, 0);
    kiln_t a = put_add(c, put_linear(c, put_attention(c, q, k, v), C, 0, 1), t);
    kiln_t wide = put_linear(c, put_norm(c, a, 0), 2 * C, 1, 1);
    a = put_add(c, put_linear(c, put1(c, OP_GEGLU, (op_attr){0}, wide), C, 2, 1), a);
    return record_reshape(c->r, a, 4, s.dim);
}

/* ---- random programs ---- */

enum { RANDOM_LIVE = 6 };

/* One more picture [2,H,W,C], computed from those in `live`. */
static inline kiln_t put_random(recorder *c, const kiln_t *live)
{
    kiln_t x = live[dice_below(&c->d, RANDOM_LIVE)], y = live[dice_below(&c->d, RANDOM_LIVE)];
    const shape s = *put_shape(c, x), t = *put_shape(c, y);
    int C = (int)s.dim[3], other = dice_below(&c->d, 2) ? 8 : 16;
    int64_t length;
    kiln_t joined;
    switch (dice_below(&c->d, 16)) {
    case 0: return put_conv(c, x, other, 3, 1);
    case 1: return put_conv(c, x, other, 1, 1);
    case 2: return put_act(c, put_norm(c, x, 4), KILN_ACT_SILU);
    case 3: return put_norm(c, x, 2);
    case 4: return put_act(c, put_conv(c, x, C, 3, 1), 1 + dice_below(&c->d, KILN_ACT_TANH));
    case 5: return put_add(c, put_conv(c, x, C, 3, 1), x);
    case 6: return shape_equal(&s, &t) ? put_add(c, x, y) : put1(c, OP_AFFINE, (op_attr){.affine = {0.5f, 0.25f}}, x);
    case 7: return put2(c, OP_MUL, (op_attr){0}, x, put_bias(c, C, 1));
    case 8: return put_block(c, x, 0);
    case 9: return put_block(c, x, 1);
    case 10: /* concatenated channels, and a slice of them */
        if (s.dim[1] != t.dim[1] || C + t.dim[3] > 32) return put_act(c, x, KILN_ACT_SIGMOID);
        joined = put2(c, OP_CONCAT, (op_attr){.concat = {3}}, dice_below(&c->d, 2) ? put_conv(c, x, C, 1, 1) : x, y);
        return C + t.dim[3] != 24 && dice_below(&c->d, 2)
                   ? put_conv(c, joined, C, 1, 1)
                   : put_slice(c, joined, 3, 8, other == 16 && C + t.dim[3] >= 24 ? 16 : 8);
    case 11: /* split and concatenated along the batch */
        joined = put2(c, OP_CONCAT, (op_attr){.concat = {0}}, put_slice(c, x, 0, 1, 1),
                      put_act(c, put_slice(c, x, 0, 0, 1), KILN_ACT_RELU));
        return joined;
    case 12: /* a slice of the height, which is not a view */
        length = s.dim[1] / 2 > 0 ? s.dim[1] / 2 : 1;
        return put1(c, OP_UPSAMPLE, (op_attr){.upsample = {s.dim[1], s.dim[2]}},
                    put_slice(c, x, 1, s.dim[1] - length, length));
    case 13: return put1(c, OP_PERMUTE, (op_attr){.permute = {{0, 2, 1, 3}}}, x);
    case 14: return put1(c, OP_UPSAMPLE, (op_attr){.upsample = {4, 4}}, put_conv(c, x, other, 3, 2));
    default: return put_add(c, put_norm(c, x, 4), put_slice(c, x, 0, 0, 1));
    }
}

/* Inputs "x" [2,4,4,8] f32 and "y" [2,4,4,16] bf16; outputs "a" and "b". */
static inline void record_random_program(recording *r, kiln_weights *w, uint64_t seed, uint32_t steps)
{
    recorder c = {.r = r, .w = w, .d = {seed * 77 + 5}};
    kiln_t live[RANDOM_LIVE];
    live[0] = record_input(r, "x", KILN_F32, 4, DIMS(2, 4, 4, 8));
    live[1] = record_input(r, "y", KILN_BF16, 4, DIMS(2, 4, 4, 16));
    for (uint32_t i = 2; i < RANDOM_LIVE; i++) live[i] = live[i % 2];
    record_scope_push(r, "random");
    for (uint32_t i = 0; i < steps; i++) live[dice_below(&c.d, RANDOM_LIVE)] = put_random(&c, live);
    kiln_t a = put_act(&c, live[0], KILN_ACT_TANH);
    for (uint32_t i = 1; i < RANDOM_LIVE; i++) /* adds what is left to "a", so that little stays unread */
        if (put_columns(&c, live[i]) == put_columns(&c, a)) a = put_add(&c, a, live[i]);
    record_output(r, "a", a);
    record_output(r, "b", put_norm(&c, live[1], 2));
    record_scope_pop(r);
}

#endif
