/* test_patched_network.c - what hooks make of a UNet's features, against ComfyUI's nodes on the same
 * (tests/golden/model_patch.safetensors), and the small sums they are made of. In f32 and, where a bound is known,
 * bf16.
 */
#include "golden_kit.h"

#include "attention_guidance.h"
#include "attention_multiply.h"
#include "deep_shrink.h"
#include "free_u.h"
#include "hyper_tile.h"
#include "kiln/resize.h"
#include "program_math.h"
#include "weight_sum.h"

#include <math.h>

static kiln_weights *goldens(void)
{
    static kiln_weights *w;
    return w = w ? w : open_weights("tests/golden/model_patch.safetensors");
}

static kiln_recording recording_of(const piece *c, const kiln_denoise_inputs *in)
{
    return (kiln_recording){.size = sizeof(kiln_recording), .ops = c->ops, .program = c->p, .in = in};
}

/* An input of numbers that nobody looks at. */
static kiln_t zeros(piece *c, uint32_t rank, const int64_t *dim)
{
    array a = {.rank = rank, .n = 1};
    for (uint32_t i = 0; i < rank; i++) a.n *= (size_t)(a.dim[i] = dim[i]);
    a.data = calloc(a.n, sizeof(float));
    return piece_input(c, a, KILN_F32);
}

/* ---- the small sums ---- */

static void test_quotient(void)
{
    piece c = piece_new(KILN_F32);
    kiln_recording r = recording_of(&c, NULL);
    const float a[] = {0, 1, -1, 1e-4f, 3, 0.5f, 300, 4}, b[] = {1, 1, 2, 1e-4f, 7, 4e3f, 1e3f, 0};
    array x = {.rank = 2, .n = 8, .dim = {8, 1}, .data = malloc(sizeof a)}, y = x, wanted = x;
    y.data = malloc(sizeof b), wanted.data = malloc(sizeof b);
    memcpy(x.data, a, sizeof a), memcpy(y.data, b, sizeof b);
    for (int i = 0; i < 8; i++) wanted.data[i] = b[i] == 0 ? 0 : a[i] / b[i];
    kiln_t p = piece_input(&c, x, KILN_F32), q = piece_input(&c, y, KILN_F32);
    piece_check(&c, program_quotient(&r, p, q), wanted, 2e-6, "a / b");
}

/* ---- FreeU ---- */

/* One place of one stage; x is what comes up, or the skip beside it. */
static void check_free_u(int stage, int version, int skip, uint32_t precision, double tolerance)
{
    const double number[2][4] = {{1.1, 1.2, 0.9, 0.2}, {1.3, 0.7, 0.8, 2.5}};
    const char *node = version == 1 ? "FreeU" : "FreeU_V2";
    char what[60];
    piece c = piece_new(precision);
    kiln_recording r = recording_of(&c, NULL);
    model_patch *p = free_u_new(number[version - 1], version);
    kiln_t x = piece_input(&c, golden(goldens(), "free_u.%d.x", stage), KILN_F32),
           s = piece_input(&c, golden(goldens(), "free_u.%d.skip", stage), KILN_F32);
    kiln_place_info info = {.size = sizeof info, .place = "output.0", .beside = skip ? x : s};
    info.timestep_embedding = zeros(&c, 2, KILN_DIMS(2, 16));
    kiln_t out = p->hook[skip].at(&p->hook[skip], &r, skip ? s : x, &info);
    snprintf(what, sizeof what, "%s, stage %d, %s", node, stage, skip ? "skip" : "in");
    out = c.ops->affine(c.p, out, 1, 0);
    piece_check(&c, out, golden(goldens(), "free_u.%d.%s.%s", stage, node, skip ? "skip" : "x"), tolerance, what);
    free(p);
}

static void test_free_u(void)
{
    for (int stage = 0; stage < 5; stage++)
        for (int version = 1; version < 3; version++) {
            check_free_u(stage, version, 0, KILN_F32, 1e-6);
            check_free_u(stage, version, 1, KILN_F32, 1e-6);
            check_free_u(stage, version, 0, KILN_BF16, 1.5e-2); /* four roundings to 8 bits */
            check_free_u(stage, version, 1, KILN_BF16, 1.5e-2);
        }
}

/* ---- scaling ---- */

static void check_scaling(const char *name, int method, int64_t h, int64_t w)
{
    piece c = piece_new(KILN_F32);
    kiln_recording r = recording_of(&c, NULL);
    kiln_t x = piece_input(&c, golden(goldens(), "scaling.x"), KILN_F32);
    piece_check(&c, program_resize(&r, x, h, w, method),
                golden(goldens(), "scaling.%s.%lldx%lld", name, (long long)h, (long long)w), 1e-6, name);
}

static void test_scaling(void)
{
    const struct {
        const char *name;
        int method;
    } row[] = {{"nearest-exact", RESIZE_NEAREST},
               {"bilinear", RESIZE_BILINEAR},
               {"area", RESIZE_AREA},
               {"bicubic", RESIZE_BICUBIC}};
    for (size_t i = 0; i < COUNT(row); i++) {
        check_scaling(row[i].name, row[i].method, 3, 4);
        check_scaling(row[i].name, row[i].method, 9, 8);
    }
}

/* Down at its block and up again where a skip is larger; the shapes are the hook's to say. */
static void test_deep_shrink_shapes(void)
{
    piece c = piece_new(KILN_F32);
    kiln_recording r = recording_of(&c, NULL);
    model_patch *p = deep_shrink_new(&(deep_shrink_settings){
        .block = 3, .factor = 1.7, .end = 0.35, .after_skip = 1, .down = RESIZE_BICUBIC, .up = RESIZE_AREA});
    int64_t small[4], large[4];
    kiln_t x = zeros(&c, 4, KILN_DIMS(1, 12, 7, 4));
    kiln_place_info info = {.size = sizeof info, .place = "input.3.after_skip", .beside = x};
    CHECK_STR(p->hook[0].place[0], "input.3.after_skip");
    kiln_t y = p->hook[0].at(&p->hook[0], &r, x, &info);
    kiln_t z = p->hook[1].at(&p->hook[1], &r, y, &info);
    c.ops->shape(c.p, y, small, 4), c.ops->shape(c.p, z, large, 4);
    CHECK_EQ(small[1], 7), CHECK_EQ(small[2], 4);
    CHECK_EQ(large[1], 12), CHECK_EQ(large[2], 7);
    CHECK_EQ(p->hook[1].at(&p->hook[1], &r, x, &info).id, x.id); /* of the same size: left alone */
    free(p);
    p = deep_shrink_new(&(deep_shrink_settings){.block = 1, .factor = 9, .end = 1});
    kiln_t tiny = zeros(&c, 4, KILN_DIMS(1, 4, 4, 4));
    p->hook[0].at(&p->hook[0], &r, tiny, &info);
    const char *message = NULL;
    CHECK(c.ops->error(c.p, &message) != KILN_OK);
    CHECK_MSG(message && strstr(message, "leaves none"), "%s", message ? message : "no message");
    for (size_t i = 0; i < c.n_owned; i++) free(c.owned[i]);
    c.ops->program_free(c.p);
    free(p);
}

/* ---- HyperTile ---- */

static void check_hyper_tile(const char *name, int64_t rows, int64_t columns, const hyper_tile_settings *s)
{
    piece c = piece_new(KILN_F32);
    kiln_denoise_inputs in = {.size = sizeof in};
    kiln_recording r = recording_of(&c, &in);
    model_patch *p = hyper_tile_new(s);
    in.x = zeros(&c, 4, KILN_DIMS(2, rows, columns, 4));
    kiln_attention_info a = {.size = sizeof a, .heads = 2, .place = "input.1.attn1"};
    a.q = piece_input(&c, golden(goldens(), "hyper_tile.%s.q", name), KILN_F32);
    a.k = piece_input(&c, golden(goldens(), "hyper_tile.%s.k", name), KILN_F32);
    a.v = piece_input(&c, golden(goldens(), "hyper_tile.%s.v", name), KILN_F32);
    kiln_t out = p->hook[0].attention(&p->hook[0], &r, &a);
    kiln_attention options = {.size = sizeof options, .heads = 2};
    CHECK_MSG((out.id == 0) == (strcmp(name, "whole") == 0), "%s is tiled: %d", name, out.id != 0);
    if (!out.id) out = c.ops->attention(c.p, a.q, a.k, a.v, &options);
    piece_check(&c, out, golden(goldens(), "hyper_tile.%s.out", name), 2e-6, name);
    free(p);
}

static void test_hyper_tile(void)
{
    check_hyper_tile("square", 8, 8, &(hyper_tile_settings){32, 2, 0, 0});
    check_hyper_tile("wide", 8, 12, &(hyper_tile_settings){32, 2, 0, 0});
    check_hyper_tile("deep", 16, 16, &(hyper_tile_settings){32, 2, 1, 0});
    check_hyper_tile("whole", 8, 8, &(hyper_tile_settings){64, 2, 0, 0});
}

static void test_hyper_tile_parts(void)
{
    CHECK_EQ(hyper_tile_parts(64, 32, 2, "a"), 2); /* 32 and 64: the last is not drawn */
    CHECK_EQ(hyper_tile_parts(64, 32, 1, "a"), 2); /* the only one is */
    CHECK_EQ(hyper_tile_parts(64, 65, 2, "a"), 1); /* a tile is no larger than the picture */
    CHECK_EQ(hyper_tile_parts(97, 32, 2, "a"), 1); /* a prime */
    CHECK_EQ(hyper_tile_parts(60, 7, 100, "a"), hyper_tile_parts(60, 7, 100, "a"));
    int seen[61] = {0}, kinds = 0;
    for (int i = 0; i < 50; i++) {
        char place[20];
        snprintf(place, sizeof place, "input.%d.attn1", i);
        int64_t n = hyper_tile_parts(60, 7, 100, place); /* sides 10 12 15 20 30 and, not drawn, 60 */
        if (CHECK_MSG(n >= 2 && n <= 6 && 60 % n == 0, "%lld parts", (long long)n)) kinds += !seen[n]++;
    }
    CHECK_EQ(kinds, 5); /* attentions differ */
}

/* ---- NAG ---- */

static void check_nag(const char *name, const uint32_t unconditional[2], const double number[3])
{
    piece c = piece_new(KILN_F32);
    kiln_batch_member member[2] = {{sizeof *member, unconditional[0], 2}, {sizeof *member, unconditional[1], 2}};
    kiln_denoise_inputs in = {.size = sizeof in, .member = member, .n_member = 2};
    kiln_recording r = recording_of(&c, &in);
    model_patch *p = nag_new(number[0], number[1], number[2]);
    kiln_t x = piece_input(&c, golden(goldens(), "nag.z"), KILN_F32);
    kiln_place_info info = {.size = sizeof info, .place = "input.1.attn2.to_out"};
    CHECK_EQ(p->hook[0].at(&p->hook[0], &r, x, &info).id, x.id);
    info.place = "input.1.attn1.to_out";
    kiln_t out = c.ops->affine(c.p, p->hook[0].at(&p->hook[0], &r, x, &info), 1, 0);
    piece_check(&c, out, golden(goldens(), "nag.%s", name), 2e-6, name);
    CHECK_EQ(p->guidance.flags, KILN_GUIDANCE_UNCONDITIONAL);
    free(p);
}

static void test_nag(void)
{
    check_nag("negative_first", (const uint32_t[]){1, 0}, (const double[]){5, 0.5, 1.5});
    check_nag("positive_first", (const uint32_t[]){0, 1}, (const double[]){3, 1, 9});
    check_nag("one_side", (const uint32_t[]){0, 0}, (const double[]){5, 0.5, 1.5});
}

/* ---- weights ---- */

static kiln_call call_of(void) { return (kiln_call){.host = rig_host(), .ctx = rig_ctx()}; }

/* Every tensor of `got` is `a` times that of base plus `b` times that of other, with the factors of the function. */
static void check_weights(const kiln_weights *base, const kiln_weights *other, const kiln_weights *got,
                          weight_factors (*factors)(const void *, const char *), const void *self)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    size_t changed = 0;
    for (size_t i = 0; i < w->count(base); i++) {
        kiln_weight_info info = {.size = sizeof info};
        size_t n = 1;
        double worst = 0;
        CHECK_EQ(w->at(base, i, &info), KILN_OK);
        for (uint32_t k = 0; k < info.rank; k++) n *= (size_t)info.dim[k];
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y), *z = malloc(n * sizeof *z);
        weight_factors f = factors(self, info.name);
        CHECK_EQ(w->read_f32(rig_ctx(), base, info.name, x), KILN_OK);
        CHECK_EQ(w->read_f32(rig_ctx(), other, info.name, y), KILN_OK);
        CHECK_EQ(w->read_f32(rig_ctx(), got, info.name, z), KILN_OK);
        for (size_t k = 0; k < n; k++)
            worst = fmax(worst, fabs(f.own * (double)x[k] + f.other * (double)y[k] - (double)z[k]) /
                                    (1e-3 + fabs((double)x[k]) + fabs((double)y[k])));
        CHECK_MSG(worst < 1e-6, "%s is off by %g", info.name, worst);
        changed += f.own != 1 || f.other != 0;
        free(x), free(y), free(z);
    }
    CHECK(changed > 0);
}

static weight_factors multiplied(const void *self, const char *name)
{
    (void)self;
    int q = strstr(name, "attn1.to_q.") != NULL, out = strstr(name, "attn1.to_out.0.") != NULL;
    return (weight_factors){q ? 1.5 : out ? 0.25 : 1, 0};
}

static void test_multiplied_weights(void)
{
    kiln_weights *base = open_weights("tests/golden/tiny-sd1/unet"), *got = NULL, *same = NULL;
    kiln_call c = call_of();
    multiplied_layer layer[] = {{.layer = "attn1.to_q", .factor = 1.5},
                                {.layer = "attn1.to_out.0", .factor = 0.25, .part = ".time_stack.", .without = 1},
                                {.layer = "attn1.to_v", .factor = 3, .part = ".time_stack."}};
    size_t found[3];
    CHECK_EQ(weights_multiplied(&c, base, layer, 3, found, &got), KILN_OK);
    CHECK_MSG(found[0] > 0 && found[1] == 2 * found[0] && found[2] == 0, "%zu %zu %zu", found[0], found[1], found[2]);
    check_weights(base, base, got, multiplied, NULL);
    layer[0].factor = layer[1].factor = 1;
    CHECK_EQ(weights_multiplied(&c, base, layer, 3, found, &same), KILN_OK);
    CHECK(same == base); /* nothing is added: the same set, and the same bytes */
    weights_unref(same), weights_unref(got), weights_unref(base);
}

static weight_factors mixed(const void *self, const char *name)
{
    (void)name;
    return *(const weight_factors *)self;
}

static void test_summed_weights(void)
{
    kiln_weights *a = open_weights("tests/golden/tiny-sd1/unet"), *b = NULL, *got = NULL;
    kiln_call c = call_of();
    multiplied_layer layer[] = {{.layer = "attn1.to_q", .factor = -2}};
    size_t found[1];
    CHECK_EQ(weights_multiplied(&c, a, layer, 1, found, &b), KILN_OK);
    const weight_factors f[] = {{0.25, 0.75}, {1, 1}, {-0.5, 0.5}, {0, 1}};
    for (size_t i = 0; i < COUNT(f); i++) {
        CHECK_EQ(weights_summed(&c, &(weight_sum){a, b, "model1", "model2", mixed, &f[i]}, &got), KILN_OK);
        check_weights(a, b, got, mixed, &f[i]);
        weights_unref(got);
    }
    CHECK_EQ(weights_summed(&c, &(weight_sum){a, b, "model1", "model2", mixed, &(weight_factors){1, 0}}, &got),
             KILN_OK);
    CHECK(got == a);
    weights_unref(got), weights_unref(b);
    b = open_weights("tests/golden/tiny-sd1/vae");
    c = call_of();
    CHECK(weights_summed(&c, &(weight_sum){a, b, "model1", "model2", mixed, &f[0]}, &got) != KILN_OK);
    CHECK_MSG(strstr(rig_message(), "model1 and model2 have no weights of one name") != NULL, "%s", rig_message());
    weights_unref(a), weights_unref(b);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_quotient),       CASE(test_free_u),           CASE(test_scaling), CASE(test_deep_shrink_shapes),
        CASE(test_hyper_tile),     CASE(test_hyper_tile_parts), CASE(test_nag),     CASE(test_multiplied_weights),
        CASE(test_summed_weights),
    };
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    weights_unref(goldens());
    return status;
}
