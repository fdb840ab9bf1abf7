/* test_vae_stripes.c - a picture in stripes of rows has the whole picture's bytes: stripes of every height, of pictures
 * of odd sizes, of autoencoders with norms and attention and without; a made-up one with every op that goes by rows,
 * one with ops that do not, and one that does not let itself be traced. One of 3x3 convolutions and one with norms at
 * every level of the processor and in both types of products.
 */
#include "golden_kit.h"

#include "kiln/kit.h"
#include "plugin/spill.h"
#include "taesd_family.h"
#include "vae_family.h"
#include "vae_nodes.h"
#include "vae_stripes.h"

#include <fcntl.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where rig.h runs. */
static const backend *rig_backend(void)
{
    rig_ctx();
    return runtime_backend(rig_runtime);
}

static void run_in(uint32_t precision)
{
    const runtime_setting setting = {
        .backend = rig_backend(), .threads = 2, .precision = precision, .host_memory = SIZE_MAX};
    error e = {0};
    rig_ctx();
    runtime_free(rig_runtime);
    rig_runtime = runtime_new(&setting, &e);
    if (!CHECK_MSG(rig_runtime != NULL, "%s", e.message)) exit(1);
    rig_environment = (call_environment){.runtime = rig_runtime, .pool = runtime_pool(rig_runtime)};
}

/* ---- one picture both ways ---- */

typedef struct {
    kiln_call call;
    vae_converter v;
    vae_shape in, out;
    size_t n;
    float *x, *whole, *striped, *whole_variance, *variance;
} both;

static void fill(float *x, size_t n)
{
    uint32_t h = 12345;
    for (size_t i = 0; i < n; i++) {
        h = h * 1664525u + 1013904223u;
        x[i] = ((float)(h >> 8) / (1 << 24) - 0.5f) * 2 + (float)sin((double)i * 0.001);
    }
}

static float *floats(size_t n) { return calloc(n, sizeof(float)); }

/* rows, columns: of the latent, whichever way. */
static void begin(both *b, kiln_value *vae, int encode, int variance, int64_t rows, int64_t columns)
{
    b->call = (kiln_call){.size = sizeof b->call, .device = KILN_CPU, .host = rig_host(), .ctx = rig_ctx()};
    if (!CHECK_MSG(vae_open(&b->call, vae, encode, &b->v) == KILN_OK, "%s", rig_message())) exit(1);
    vae_shape cells = {1, 1, rows, columns, b->v.latent_channels}, pixels = vae_pixels(&b->v, &cells);
    b->v.variance = variance;
    b->in = encode ? pixels : cells, b->out = encode ? cells : pixels;
    b->n = vae_count(&b->out);
    b->x = floats(vae_count(&b->in)), b->whole = floats(b->n), b->striped = floats(b->n);
    b->whole_variance = floats(b->n), b->variance = floats(b->n);
    fill(b->x, vae_count(&b->in));
    CHECK_MSG(vae_run(&b->v, &b->in, b->x, b->whole, b->whole_variance) == KILN_OK, "%s", rig_message());
}

static void end(both *b)
{
    vae_close(&b->v);
    spill_close(&rig_call);
    free(b->x), free(b->whole), free(b->striped), free(b->whole_variance), free(b->variance);
}

static double largest(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) most = isfinite(b[i]) ? fmax(most, fabs((double)a[i] - (double)b[i])) : INFINITY;
    return most;
}

/* The largest difference, of the whole picture's largest number; stripes whose ops give so many bytes. */
static double difference(both *b, size_t bytes)
{
    vae_stripes *s;
    int fits;
    memset(b->striped, 0x7f, b->n * sizeof(float)), memset(b->variance, 0x7f, b->n * sizeof(float));
    b->v.total = b->v.done = 0;
    if (!CHECK_MSG(vae_stripes_new(&b->v, &b->in, &s) == KILN_OK && s, "%s", rig_message())) return INFINITY;
    CHECK_MSG(vae_stripes_take(s, bytes, &fits) == KILN_OK && fits, "%s", rig_message());
    CHECK_MSG(vae_stripes_run(s, b->x, b->striped, b->variance) == KILN_OK, "%s", rig_message());
    CHECK_EQ(b->v.done, vae_stripes_runs(s));
    const float *zero = calloc(b->n, sizeof *zero);
    double most = largest(b->whole, b->striped, b->n) / largest(zero, b->whole, b->n);
    if (b->v.variance) most = fmax(most, largest(b->whole_variance, b->variance, b->n));
    printf("  stripes of %3d rows, %4d runs: %.2g\n", (int)vae_stripes_rows(s), (int)vae_stripes_runs(s), most);
    free((void *)(uintptr_t)zero);
    return most;
}

/* On a device norms merge moments in another order. */
static int is_exact(void) { return runtime_backend(rig_runtime)->parts_are_exact; }

/* The same bytes, from a row at a time to each layer at once. */
static void check_heights(kiln_value *vae, int encode, int64_t rows, int64_t columns)
{
    both b;
    begin(&b, vae, encode, 0, rows, columns);
    for (size_t bytes = 0; bytes < 20000000; bytes = bytes ? bytes * 7 : 20000) {
        double most = difference(&b, bytes);
        CHECK_MSG(is_exact() ? memcmp(b.whole, b.striped, b.n * sizeof(float)) == 0 : most <= 1e-5,
                  "stripes of %zu bytes: other bytes", bytes);
    }
    end(&b);
}

/* The same bytes, at every height. */
static void check_bytes(kiln_value *vae, int encode, int64_t rows, int64_t columns)
{
    both b;
    begin(&b, vae, encode, 0, rows, columns);
    for (size_t bytes = 0; bytes < 8000000; bytes = bytes ? bytes * 5 : 60000) {
        difference(&b, bytes);
        CHECK_MSG(memcmp(b.whole, b.striped, b.n * sizeof(float)) == 0, "%s %dx%d, stripes of %zu bytes: other bytes",
                  encode ? "encoded" : "decoded", (int)rows, (int)columns, bytes);
    }
    end(&b);
}

static kiln_value *open_vae(const kiln_model_family *f, const char *path)
{
    kiln_weights *w = open_weights(path);
    kiln_value *v = w ? f->open(rig_host(), rig_ctx(), w) : NULL;
    if (!CHECK_MSG(v != NULL, "%s", rig_message())) exit(1);
    weights_unref(w);
    return v;
}

static void test_shapes(void)
{
    run_in(KILN_F32);
    kiln_value *vae = open_vae(&vae_family, "workflows/models/shapes-sd1");
    check_heights(vae, 0, 13, 9);
    check_heights(vae, 1, 13, 9);
    rig_host()->unref(vae);
}

static void test_a_single_row_and_column(void)
{
    run_in(KILN_F32);
    kiln_value *vae = open_vae(&vae_family, "workflows/models/shapes-sd1");
    check_heights(vae, 0, 1, 5);
    check_heights(vae, 1, 2, 1);
    rig_host()->unref(vae);
}

static void test_variance(void)
{
    both b;
    run_in(KILN_F32);
    kiln_value *vae = open_vae(&vae_family, "tests/golden/tiny-sd1");
    begin(&b, vae, 1, 1, 6, 7);
    for (size_t bytes = 0; bytes < 1 << 20; bytes += 1 << 17) CHECK(difference(&b, bytes) <= (is_exact() ? 0 : 1e-5));
    end(&b);
    rig_host()->unref(vae);
}

static void test_kinds(void)
{
    static const struct {
        const kiln_model_family *family;
        const char *path;
    } rows[] = {{&vae_family, "tests/golden/tiny-sd1"},
                {&vae_family, "tests/golden/tiny-vaes/sdxl"},
                {&vae_family, "tests/golden/tiny-vaes/x4"},
                {&taesd_family, "tests/golden/tiny-vaes/taesdxl"},
                {&taesd_family, "tests/golden/tiny-vaes/taesd3"}};
    run_in(KILN_F32);
    for (size_t i = 0; i < COUNT(rows); i++) {
        printf("  %s\n", rows[i].path);
        kiln_value *vae = open_vae(rows[i].family, rows[i].path);
        check_heights(vae, 0, 11, 6);
        check_heights(vae, 1, 11, 6);
        rig_host()->unref(vae);
    }
}

static void test_norms_have_the_same_bytes(void)
{
    for (int i = 0; i < 2; i++) {
        run_in(i ? KILN_BF16 : KILN_F32);
        kiln_value *vae = open_vae(&vae_family, "workflows/models/shapes-sd1");
        for (int encode = 0; encode < 2; encode++) check_heights(vae, encode, 12, 10);
        rig_host()->unref(vae);
    }
}

/* ---- made-up autoencoders ---- */

typedef struct {
    const kiln_ops *ops;
    kiln_program *p;
} recorder;

static int64_t dim_of(const recorder *r, kiln_t x, int i)
{
    int64_t dim[KILN_MAX_RANK];
    r->ops->shape(r->p, x, dim, KILN_MAX_RANK);
    return dim[i];
}

static kiln_t numbers(const recorder *r, uint32_t rank, const int64_t *dim)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    float *data = floats(n);
    fill(data, n);
    for (size_t i = 0; i < n; i++) data[i] *= 0.3f;
    kiln_t made = r->ops->constant(r->p, data, rank, dim);
    free(data);
    return made;
}

static kiln_t conv(const recorder *r, kiln_t x, int64_t out, int64_t high, kiln_conv2d how)
{
    how.size = sizeof how;
    return r->ops->conv2d(r->p, x, numbers(r, 4, KILN_DIMS(out, dim_of(r, x, 3), high, 2)), numbers(r, 1, &out), &how);
}

/* Every op that goes by rows, strides, dilations, paddings of their own kind, and a vector made of a further input. */
static kiln_t all_by_rows(const recorder *r, kiln_t x)
{
    const kiln_ops *o = r->ops;
    const kiln_timestep_embedding how = {.size = sizeof how};
    kiln_t t = o->timestep_embedding(r->p, o->input(r->p, "time", KILN_F32, 1, KILN_DIMS(1)), 6, &how);
    t = o->linear(r->p, t, numbers(r, 2, KILN_DIMS(6, 6)), (kiln_t){0});
    t = o->reshape(r->p, t, 4, KILN_DIMS(1, 1, 1, 6));
    x = o->concat(r->p, (const kiln_t[]){x, o->affine(r->p, x, 2, 1)}, 2, 3);
    x = conv(r, x, 6, 5, (kiln_conv2d){.pad = {1, 1, 3, 0}});
    x = o->group_norm(r->p, x, 2, 1e-5f, numbers(r, 1, KILN_DIMS(6)), (kiln_t){0});
    x = o->mul(r->p, x, numbers(r, 2, KILN_DIMS(1, 6)));
    x = o->upsample_nearest(r->p, o->add(r->p, x, t), 4 * dim_of(r, x, 1), 4 * dim_of(r, x, 2));
    x = conv(r, x, 4, 3, (kiln_conv2d){.stride = {2, 2}, .pad = {2, 0, 1, 0}, .dilation = {2, 1}});
    x = o->layer_norm(r->p, x, 1e-5f, (kiln_t){0}, (kiln_t){0});
    x = o->geglu(r->p, o->linear(r->p, x, numbers(r, 2, KILN_DIMS(12, 4)), (kiln_t){0}));
    int64_t half = dim_of(r, x, 2) / 2;
    kiln_t turned[] = {o->slice(r->p, x, 2, half, half), o->slice(r->p, x, 2, 0, half)};
    x = o->act(r->p, o->slice(r->p, o->concat(r->p, turned, 2, 2), 3, 1, 4), KILN_ACT_TANH);
    for (int i = 0; i < 7; i++) /* deeper than a stage */
        x = o->add(r->p, x, conv(r, x, 4, 3, (kiln_conv2d){.pad = {1, 1, 1, 0}}));
    return o->affine(r->p, o->group_norm(r->p, x, 1, 1e-6f, (kiln_t){0}, (kiln_t){0}), 0.5f, 1);
}

/* What needs all rows, between what does not: rows and columns turned, a number of its own for each row, rows cut off
 * and joined, a mean of tokens, tokens normed. */
static kiln_t some_whole(const recorder *r, kiln_t x)
{
    const kiln_ops *o = r->ops;
    const kiln_conv2d same = {.pad = {1, 1, 1, 0}};
    int64_t h = dim_of(r, x, 1), w = dim_of(r, x, 2);
    x = conv(r, x, 8, 3, same);
    kiln_t y = o->permute(r->p, o->act(r->p, x, KILN_ACT_SILU), (const uint32_t[]){0, 2, 1, 3});
    x = o->add(r->p, x, o->permute(r->p, y, (const uint32_t[]){0, 2, 1, 3}));
    x = o->mul(r->p, conv(r, x, 8, 3, same), numbers(r, 3, KILN_DIMS(h, 1, 1)));
    kiln_t turned[] = {o->slice(r->p, x, 1, h / 2, h - h / 2), o->slice(r->p, x, 1, 0, h / 2)};
    x = conv(r, o->concat(r->p, turned, 2, 1), 8, 3, same);
    y = o->reshape(r->p, o->group_norm(r->p, x, 4, 1e-5f, (kiln_t){0}, (kiln_t){0}), 3, KILN_DIMS(1, h * w, 8));
    const kiln_attention how = {.size = sizeof how, .heads = 2};
    y = o->layer_norm(r->p, o->attention(r->p, y, y, y, &how), 1e-5f, (kiln_t){0}, (kiln_t){0});
    x = o->add(r->p, x, o->reshape(r->p, y, 4, KILN_DIMS(1, h, w, 8)));
    return conv(r, o->upsample_nearest(r->p, x, 2 * h, 2 * w), 4, 3, same);
}

/* By functions that it has kept from elsewhere: what it records is not seen. */
static kiln_t unseen(const recorder *r, kiln_t x)
{
    const kiln_ops *elsewhere = rig_host()->ability(KILN_OPS_ABILITY);
    x = elsewhere->act(r->p, x, KILN_ACT_SILU);
    for (int i = 0; i < 4; i++) x = conv(r, x, 4, 3, (kiln_conv2d){.pad = {1, 1, 1, 0}});
    return r->ops->upsample_nearest(r->p, x, 2 * dim_of(r, x, 1), 2 * dim_of(r, x, 2));
}

/* ---- of convolutions that are made by squares of pixels ---- */

static kiln_t square(const recorder *r, kiln_t x, int64_t out, kiln_conv2d how)
{
    how.size = sizeof how;
    kiln_t w = numbers(r, 4, KILN_DIMS(out, dim_of(r, x, 3), 3, 3));
    return r->ops->conv2d(r->p, x, w, numbers(r, 1, &out), &how);
}

/* Several in a row, with what is fused with them, padded unevenly, at two sizes. */
static kiln_t squares(const recorder *r, kiln_t x)
{
    const kiln_ops *o = r->ops;
    const kiln_conv2d same = {.pad = {1, 1, 1, 1}};
    x = o->act(r->p, square(r, x, 64, same), KILN_ACT_TANH);
    kiln_t y = o->act(r->p, square(r, x, 64, same), KILN_ACT_SILU);
    x = o->act(r->p, o->add(r->p, x, square(r, y, 64, same)), KILN_ACT_TANH);
    x = o->act(r->p, square(r, x, 96, (kiln_conv2d){.pad = {2, 1, 0, 1}}), KILN_ACT_TANH);
    x = o->upsample_nearest(r->p, x, 2 * dim_of(r, x, 1), 2 * dim_of(r, x, 2));
    x = o->act(r->p, square(r, x, 64, (kiln_conv2d){.pad = {0, 1, 2, 1}}), KILN_ACT_TANH);
    x = o->act(r->p, square(r, x, 40, same), KILN_ACT_TANH);
    x = o->affine(r->p, x, 0.1f, 0);
    return square(r, o->concat(r->p, (const kiln_t[]){x, x}, 2, 3), 4, same);
}

static void squares_encoded(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w, kiln_t x,
                            kiln_latent_distribution *out)
{
    const recorder r = {ops, p};
    (void)a, (void)w;
    x = squares(&r, x);
    out->mean = square(&r, ops->slice(p, x, 3, 0, 4), 4, (kiln_conv2d){.stride = {4, 4}, .pad = {1, 1, 1, 1}});
}

typedef kiln_t (*network)(const recorder *, kiln_t);
typedef struct {
    network network;
    const char *name;
    int has_input;
} made_up;

static kiln_t record_decode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w, kiln_t x)
{
    (void)w;
    return ((const made_up *)a->self)->network(&(recorder){ops, p}, x);
}

static const double one = 1;
static const kiln_latent_scaling scaling = {sizeof scaling, 1, &one, NULL};
static const kiln_latent_format format = {.size = sizeof format, .channels = 4, .factor = 2, .scaling = &scaling};
static const kiln_tile_advice advice = {.size = sizeof advice, .height = 16, .width = 16, .overlap = 2};
static const kiln_input_spec inputs[] = {
    {.size = sizeof(kiln_input_spec), .name = "time", .kind = KILN_INPUT_SCALAR, .fallback = 3.5}};

static kiln_autoencoder table_of(const made_up *m)
{
    return (kiln_autoencoder){.size = sizeof(kiln_autoencoder),
                              .family = m->name,
                              .self = (void *)(uintptr_t)m,
                              .latent = &format,
                              .image_channels = 4,
                              .tile = &advice,
                              .record_decode = record_decode,
                              .input = m->has_input ? inputs : NULL,
                              .n_input = m->has_input ? 1 : 0,
                              .input_stride = sizeof inputs[0]};
}

static kiln_value *made_up_vae(const kiln_autoencoder *a)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    static kiln_weights *w; /* of which it wants none */
    if (!w) w = open_weights("tests/golden/tiny-sd1");
    kiln_value *v = models->vae_new(rig_ctx(), &(kiln_vae){.size = sizeof(kiln_vae), .autoencoder = a, .weights = w});
    if (!CHECK_MSG(v != NULL, "%s", rig_message())) exit(1);
    return v;
}

static const made_up by_rows = {all_by_rows, "all by rows", 1}, whole = {some_whole, "some whole", 0},
                     hidden = {unseen, "unseen", 0};

static void test_made_up(void)
{
    const made_up *const rows[] = {&by_rows, &whole};
    run_in(KILN_F32);
    for (size_t i = 0; i < COUNT(rows); i++) {
        kiln_autoencoder a = table_of(rows[i]);
        kiln_value *vae = made_up_vae(&a);
        printf("  %s\n", rows[i]->name);
        check_heights(vae, 0, 23, 10);
        rig_host()->unref(vae);
    }
}

static void test_squares_have_the_same_bytes(void)
{
    static const made_up m = {squares, "squares", 0};
    static const int64_t sizes[][2] = {{18, 18}, {22, 26}, {23, 17}, {1, 16}, {5, 35}};
    kiln_autoencoder a = table_of(&m);
    a.record_encode = squares_encoded;
    for (int i = 0; i < 2; i++) {
        run_in(i ? KILN_BF16 : KILN_F32);
        kiln_value *vae = made_up_vae(&a);
        for (size_t k = 0; k < COUNT(sizes); k++)
            for (int encode = 0; encode < 2; encode++) check_bytes(vae, encode, sizes[k][0], sizes[k][1]);
        rig_host()->unref(vae);
    }
}

/* Each in a process of its own: levels are chosen once, and one that the processor does not have is its highest. */
static void test_bytes_at_every_level(void)
{
    static const char *const levels[] = {"none", "avx2", "avx512", "avx512bf16"}, *const products[] = {"f32", "bf16"};
    for (size_t i = 0; i < COUNT(levels) * COUNT(products); i++) {
        int status = 1;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            setenv("KILN_CPU_FEATURES", levels[i / 2], 1), setenv("KILN_CPU_GEMM", products[i % 2], 1);
            execl("/proc/self/exe", "test_vae_stripes", "test_squares_have_the_same_bytes",
                  "test_norms_have_the_same_bytes", (char *)NULL);
            _exit(1);
        }
        if (child > 0) waitpid(child, &status, 0);
        CHECK_MSG(status == 0, "%s, %s products: status %d", levels[i / 2], products[i % 2], status);
    }
}

/* ---- by itself, in a node ---- */

static char warnings[2000];
static int stop_after; /* questions whether the call is cancelled; 0: it never is */

static void note(int level, const char *text)
{
    size_t n = strlen(warnings);
    if (level <= KILN_LOG_WARN) snprintf(warnings + n, sizeof warnings - n, "%s\n", text);
}

static int cancelled(void *arg) { return (void)arg, stop_after && --stop_after <= 0 ? stop_after = 1 : 0; }

static kiln_value *latent_of(int64_t rows, int64_t columns)
{
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    kiln_value *v = rig_host()->tensor_new(NULL, KILN_F32, KILN_CPU, 4, KILN_DIMS(1, rows, columns, 4)),
               *map = values->new_map(NULL);
    kiln_tensor t = {.size = sizeof t};
    rig_host()->view(NULL, v, &t);
    fill(t.data, (size_t)(rows * columns * 4));
    values->map_set(map, "samples", v);
    rig_host()->unref(v);
    return map;
}

/* With little memory, in the precision. */
static kiln_status decode(const made_up *m, uint32_t precision, kiln_value **made)
{
    static const uint64_t defaults[8];
    const runtime_setting setting = {.backend = rig_backend(), .threads = 2, .precision = precision, .memory = 1000000};
    kiln_autoencoder a = table_of(m);
    kiln_host host = *rig_host();
    error e = {0};
    rig_ctx();
    runtime_free(rig_runtime);
    rig_runtime = runtime_new(&setting, &e);
    rig_environment =
        (call_environment){.runtime = rig_runtime, .pool = runtime_pool(rig_runtime), .cancelled = cancelled};
    kiln_value *in[2] = {latent_of(150, 100), made_up_vae(&a)};
    host.log = note, warnings[0] = '\0';
    kiln_call c = {.size = sizeof c,
                   .device = KILN_CPU,
                   .host = &host,
                   .ctx = rig_ctx(),
                   .params = defaults,
                   .in = in,
                   .out = made};
    *made = NULL;
    kiln_status status = node_vae_decode.run(&c);
    spill_close(&rig_call);
    rig_host()->unref(in[0]), rig_host()->unref(in[1]);
    return status;
}

static void test_what_is_not_seen_goes_in_tiles(void)
{
    static const struct {
        const made_up *m;
        const char *how;
    } rows[] = {{&by_rows, "in stripes of"}, {&hidden, "in tiles of"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        kiln_value *made;
        CHECK_MSG(decode(rows[i].m, KILN_F32, &made) == KILN_OK, "%s", rig_message());
        CHECK_MSG(strstr(warnings, rows[i].how), "%s", warnings);
        rig_host()->unref(made);
    }
}

/* 1, by way of a number that bf16 does not have. */
static kiln_t too_large(const recorder *r, kiln_t x)
{
    const float up = 3.4e38f, down = 1 / 3.4e38f;
    const int64_t single = 1;
    x = r->ops->mul(r->p, r->ops->affine(r->p, x, 0, 1), r->ops->constant(r->p, &up, 1, &single));
    x = r->ops->upsample_nearest(r->p, x, 2 * dim_of(r, x, 1), 2 * dim_of(r, x, 2));
    return r->ops->mul(r->p, x, r->ops->constant(r->p, &down, 1, &single));
}

static void test_what_is_not_finite_is_made_again(void)
{
    static const made_up loud = {too_large, "too large", 0};
    kiln_value *made;
    kiln_tensor t = {.size = sizeof t};
    CHECK_MSG(decode(&loud, KILN_BF16, &made) == KILN_OK, "%s", rig_message());
    CHECK_MSG(strstr(warnings, "in stripes of") && strstr(warnings, "again in f32"), "%s", warnings);
    REQUIRE(made);
    rig_host()->view(NULL, made, &t);
    for (size_t i = 0; i < kit_count(&t); i++) CHECK_NEAR(((float *)t.data)[i], 1, 1e-6);
    rig_host()->unref(made);
}

static int open_files(void)
{
    int n = 0;
    for (int fd = 0; fd < 200; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_cancelled_anywhere(void)
{
    kiln_value *made;
    CHECK_EQ(decode(&by_rows, KILN_F32, &made), KILN_OK);
    rig_host()->unref(made);
    int before = open_files();
    for (int after = 1; after < 3000; after = after * 2 + 1) {
        stop_after = after;
        kiln_status status = decode(&by_rows, KILN_F32, &made);
        CHECK_MSG(status == (stop_after == 1 ? KILN_CANCELLED : KILN_OK), "after %d: status %d", after, status);
        rig_host()->unref(made);
        CHECK_EQ(open_files(), before);
    }
    stop_after = 0;
}

static void test_no_room_is_said(void)
{
    char missing[600];
    kiln_value *made;
    snprintf(missing, sizeof missing, "%s/missing", test_folder());
    setenv("TMPDIR", missing, 1);
    CHECK_EQ(decode(&by_rows, KILN_F32, &made), KILN_ERR_IO);
    unsetenv("TMPDIR");
    CHECK_MSG(strstr(rig_message(), "/missing: No such file") && strstr(rig_message(), "more --memory"), "%s",
              rig_message());
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_shapes),
                                      CASE(test_a_single_row_and_column),
                                      CASE(test_variance),
                                      CASE(test_kinds),
                                      CASE(test_norms_have_the_same_bytes),
                                      CASE(test_made_up),
                                      CASE(test_squares_have_the_same_bytes),
                                      CASE(test_bytes_at_every_level),
                                      CASE(test_what_is_not_seen_goes_in_tiles),
                                      CASE(test_what_is_not_finite_is_made_again),
                                      CASE(test_cancelled_anywhere),
                                      CASE(test_no_room_is_said)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
