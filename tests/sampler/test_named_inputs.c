/* test_named_inputs.c - how entries of a CONDITIONING become a denoiser's inputs: kinds, rules for batches, areas,
 * fallbacks, derive(), ranges of models, hooks and controls.
 *
 * The network is a sum of its inputs with weights that keep them apart, and its answer is the clean latent, so that one
 * Euler step from level 1 to 0 ends with exactly what the network was given.
 */
#include "sampling_kit.h"

#include "conditions.h"
#include "noise_source.h"

enum { H = 4, W = 6, C = CHANNELS, CELL = H * W * C };

/* ---- a network that says what it was given ---- */

enum { CALLS_MAX = 32 };
static struct {
    int64_t n, tokens, h, w; /* pictures, rows of "context", size */
    int64_t hooks, residuals;
} calls[CALLS_MAX];
static size_t n_calls;

static kiln_t add_term(const kiln_ops *ops, kiln_program *p, kiln_t sum, kiln_t term, float weight)
{
    return ops->add(p, sum, ops->affine(p, term, weight, 0));
}

/* [N,1,1,C] of row i of [N,T,C]. */
static kiln_t row_of(const kiln_ops *ops, kiln_program *p, kiln_t tokens, int64_t n, int64_t i)
{
    return ops->reshape(p, ops->slice(p, tokens, 1, i, 1), 4, KILN_DIMS(n, 1, 1, C));
}

static const float lengths_table[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static kiln_t say_record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                         const kiln_denoise_inputs *in)
{
    int64_t n[4], t[3] = {0};
    const kiln_recording r = {.size = sizeof r, .ops = ops, .program = p, .in = in};
    (void)d, (void)w;
    ops->shape(p, in->x, n, 4);
    kiln_t sum = ops->affine(p, in->x, 0, 0), i = kiln_input(in->input, in->n_input, "context");
    if (i.id) {
        ops->shape(p, i, t, 3);
        sum = add_term(ops, p, sum, row_of(ops, p, i, n[0], 0), 1);
        sum = add_term(ops, p, sum, row_of(ops, p, i, n[0], t[1] - 1), 16);
    }
    if ((i = kiln_input(in->input, in->n_input, "vector")).id)
        sum = add_term(ops, p, sum, ops->reshape(p, i, 4, KILN_DIMS(n[0], 1, 1, C)), 256);
    if ((i = kiln_input(in->input, in->n_input, "height")).id)
        sum = add_term(ops, p, sum, ops->reshape(p, i, 4, KILN_DIMS(n[0], 1, 1, 1)), 1024);
    if ((i = kiln_input(in->input, in->n_input, "target")).id)
        sum = add_term(ops, p, sum, ops->reshape(p, i, 4, KILN_DIMS(n[0], 1, 1, 1)), 4096);
    if ((i = kiln_input(in->input, in->n_input, "hint")).id) sum = ops->add(p, sum, i);
    if ((i = kiln_input(in->input, in->n_input, "where")).id) sum = add_term(ops, p, sum, i, 2);
    if ((i = kiln_input(in->input, in->n_input, "pixels")).id) { /* the upper left pixel of each cell */
        i = ops->reshape(p, i, 6, KILN_DIMS(n[0], n[1], 2, n[2], 2, 3));
        i = ops->slice(p, ops->slice(p, ops->slice(p, i, 2, 0, 1), 4, 0, 1), 5, 0, 1);
        sum = add_term(ops, p, sum, ops->reshape(p, i, 4, KILN_DIMS(n[0], n[1], n[2], 1)), 8);
    }
    if ((i = kiln_input(in->input, in->n_input, "length")).id) {
        kiln_t table = ops->constant(p, lengths_table, 2, KILN_DIMS(16, 1));
        i = ops->reshape(p, ops->embedding(p, table, i), 4, KILN_DIMS(n[0], 1, 1, 1));
        sum = add_term(ops, p, sum, i, 32768);
    }
    if (n_calls < CALLS_MAX) {
        calls[n_calls].n = n[0], calls[n_calls].tokens = t[1], calls[n_calls].h = n[1], calls[n_calls].w = n[2];
        calls[n_calls].hooks = (int64_t)in->n_hook, calls[n_calls++].residuals = (int64_t)in->n_residual;
    }
    return kiln_place(&r, sum, &(kiln_place_info){.size = sizeof(kiln_place_info), .place = "block.0"});
}

static void say_places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    (void)d;
    fn(arg, "block.0", KILN_PLACE_POINT);
    fn(arg, "block.0.attn", KILN_PLACE_ATTENTION);
}

/* A way to count noise that is none of the ready ones. */
static void own_level(const kiln_model_sampling *s, double sigma, kiln_level *out)
{
    (void)s;
    *out =
        (kiln_level){.size = out->size, .input = 1, .of_x = 0, .of_prediction = 1, .clean = 1 - sigma, .noise = sigma};
}
static double own_timestep(const kiln_model_sampling *s, double sigma) { return (void)s, sigma; }
static double own_sigma(const kiln_model_sampling *s, double t, const kiln_run_facts *f) { return (void)s, (void)f, t; }
static double own_percent(const kiln_model_sampling *s, double percent, const kiln_run_facts *f)
{
    return (void)s, (void)f, 1 - percent;
}
static const kiln_model_sampling own_sampling = {.size = sizeof own_sampling,
                                                 .process = KILN_PROCESS_FLOW,
                                                 .identity = "own",
                                                 .sigma_min = 0.001,
                                                 .sigma_max = 1,
                                                 .n_sigma = 1000,
                                                 .level = own_level,
                                                 .timestep = own_timestep,
                                                 .sigma_at = own_sigma,
                                                 .percent_to_sigma = own_percent};

static const double one_number = 1;
static const kiln_latent_scaling plain = {sizeof plain, 1, &one_number, NULL};
static const kiln_latent_format format = {.size = sizeof format, .channels = C, .factor = 2, .scaling = &plain};

typedef struct {
    kiln_denoiser table;
    char family[40];
} network_of;

/* A MODEL with these inputs; each has a family of its own, so that nothing that was recorded before is taken up. */
static kiln_value *model_with(network_of *n, const kiln_input_spec *input, size_t count, const kiln_model *more)
{
    static int number;
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    char path[600];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/timestep.safetensors", test_root());
    snprintf(n->family, sizeof n->family, "says %d", number++);
    kiln_status (*derive)(const kiln_denoiser *, const kiln_derivation *) = n->table.derive;
    n->table = (kiln_denoiser){.size = sizeof n->table,
                               .family = n->family,
                               .latent = &format,
                               .sampling = &own_sampling,
                               .input = input,
                               .n_input = (uint32_t)count,
                               .input_stride = sizeof *input,
                               .record = say_record,
                               .places = say_places,
                               .derive = derive};
    kiln_weights *w = weights_open(path, &e); /* any set will do: the network asks for none of it */
    kiln_model m = more ? *more : (kiln_model){0};
    m.size = sizeof m, m.denoiser = &n->table, m.weights = w;
    kiln_value *v = models->model_new(rig_ctx(), &m);
    if (!CHECK_MSG(v != NULL, "%s %s", rig_message(), e.message)) exit(1);
    weights_unref(w);
    n_calls = 0;
    return v;
}

/* ---- conditionings ---- */

static void set(kiln_value *map, const char *key, kiln_value *item)
{
    CHECK_EQ(values()->map_set(map, key, item), KILN_OK);
    drop(item);
}

static kiln_value *number(double x) { return values()->new_float(NULL, x); }
static kiln_value *text(const char *s) { return values()->new_string(NULL, s, strlen(s)); }

/* Rows of one number each: first, ..., last. */
static kiln_value *tokens(int64_t n, const float *row)
{
    float data[16 * C];
    for (int64_t i = 0; i < n * C; i++) data[i] = row[i / C];
    return tensor_value(3, (const int64_t[]){1, n, C}, data);
}

static kiln_value *filled(uint32_t rank, const int64_t *dim, float x)
{
    static float data[4096];
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dim[i];
    for (size_t i = 0; i < n && i < 4096; i++) data[i] = x;
    return tensor_value(rank, dim, data);
}

static kiln_value *entry(void) { return values()->new_map(NULL); }

static kiln_value *list_of(kiln_value *a, kiln_value *b)
{
    kiln_value *list = values()->new_list(NULL);
    if (a) CHECK_EQ(values()->list_push(list, a), KILN_OK);
    if (b) CHECK_EQ(values()->list_push(list, b), KILN_OK);
    drop(a), drop(b);
    return list;
}

static kiln_value *with_tokens(int64_t n, const float *row)
{
    kiln_value *e = entry();
    set(e, "tokens", tokens(n, row));
    return e;
}

static const float *samples_of_any(const kiln_value *latent)
{
    size_t have = 0;
    return latent ? floats_of(values()->map_get(latent, "samples"), &have) : NULL;
}

/* ---- sampling ---- */

/* One step from 1 to 0 (or by other levels) under the guider; takes all. out[pictures][H][W][C]. */
static kiln_status draw_by(kiln_value *model, kiln_value *guider, size_t n, const double *sigma, float *out)
{
    static const double down[2] = {1, 0};
    kiln_value *result[2] = {NULL};
    static const float zero[2 * CELL];
    parts p = {.model = model,
               .guider = guider,
               .latent = map_of("samples", tensor_value(4, (const int64_t[]){2, H, W, C}, zero))};
    kiln_value *noise = map_of("samples", tensor_value(4, (const int64_t[]){2, H, W, C}, zero));
    set(noise, "seed", values()->new_int(NULL, 1));
    p.noise = noise;
    p.sigmas = sigmas_of(sigma ? n : 2, sigma ? sigma : down);
    kiln_status status = sample(p, result);
    size_t have = 0;
    const float *x = status == KILN_OK ? floats_of(values()->map_get(result[0], "samples"), &have) : NULL;
    if (status == KILN_OK && CHECK_EQ(have, 2 * CELL)) memcpy(out, x, sizeof(float) * 2 * CELL);
    drop(result[0]), drop(result[1]);
    return status;
}

static kiln_status draw(kiln_value *model, kiln_value *conditioning, float *out)
{
    kiln_value *guider = made(&node_basic_guider, "", model, conditioning);
    drop(conditioning);
    return draw_by(model, guider, 0, NULL, out);
}

static kiln_status draw_cfg(kiln_value *model, kiln_value *yes, kiln_value *no, float *out)
{
    kiln_value *in[3] = {model, yes, no}, *guider[1] = {NULL};
    CHECK_EQ(call(&node_cfg_guider, "cfg=3", in, guider), KILN_OK);
    drop(yes), drop(no);
    return draw_by(model, guider[0], 0, NULL, out);
}

static void check_all(const float *got, float want, const char *what)
{
    for (int i = 0; i < 2 * CELL; i++)
        if (!CHECK_MSG(got[i] == want, "%s: number %d is %g, wanted %g", what, i, (double)got[i], (double)want)) return;
}

static float out[2 * CELL];

#define TOKENS(rule_)                                                                                                  \
    {                                                                                                                  \
        .size = sizeof(kiln_input_spec), .kind = KILN_INPUT_TOKENS, .name = "context", .key = "tokens", .width = C,    \
        .batch = (rule_), .fallback = 0.5                                                                              \
    }
#define ROW(kind_, name_, ...)                                                                                         \
    {                                                                                                                  \
        .size = sizeof(kiln_input_spec), .kind = (kind_), .name = (name_), __VA_ARGS__                                 \
    }

/* ---- kinds ---- */

static void test_every_kind_arrives(void)
{
    static network_of n;
    static const kiln_input_spec rows[] = {TOKENS(0),
                                           ROW(KILN_INPUT_VECTOR, "vector", .width = C),
                                           ROW(KILN_INPUT_SCALAR, "height", .width = 0),
                                           ROW(KILN_INPUT_LATENT, "hint", .width = C),
                                           ROW(KILN_INPUT_MASK, "where", .width = 1),
                                           ROW(KILN_INPUT_IMAGE, "pixels", .width = 3),
                                           ROW(KILN_INPUT_LENGTHS, "length", .of = "context")};
    kiln_value *e = with_tokens(2, (const float[]){1, 2});
    set(e, "vector", filled(2, (const int64_t[]){1, C}, 3));
    set(e, "height", number(2));
    set(e, "hint", map_of("samples", filled(4, (const int64_t[]){1, H, W, C}, 0.25f)));
    set(e, "where", filled(3, (const int64_t[]){1, H, W}, 0.125f));
    set(e, "pixels", filled(4, (const int64_t[]){1, 2 * H, 2 * W, 3}, 0.5f));
    CHECK_MSG(draw(model_with(&n, rows, sizeof rows / sizeof rows[0], NULL), list_of(e, NULL), out) == KILN_OK, "%s",
              call_why.message);
    check_all(out, 1 + 2 * 16 + 3 * 256 + 2 * 1024 + 0.25f + 0.25f + 4 + 2 * 32768, "all kinds");
}

/* A value for each picture. */
static void test_pictures_have_values_of_their_own(void)
{
    static network_of n;
    static const kiln_input_spec rows[] = {ROW(KILN_INPUT_VECTOR, "vector", .width = C),
                                           ROW(KILN_INPUT_SCALAR, "height", .width = 0)};
    float two[2 * C] = {1, 1, 1, 1, 2, 2, 2, 2};
    kiln_value *e = entry();
    set(e, "vector", tensor_value(2, (const int64_t[]){2, C}, two));
    set(e, "height", tensor_value(1, (const int64_t[]){2}, (const float[]){3, 5}));
    CHECK_MSG(draw(model_with(&n, rows, sizeof rows / sizeof rows[0], NULL), list_of(e, NULL), out) == KILN_OK, "%s",
              call_why.message);
    for (int i = 0; i < 2 * CELL; i++) CHECK_EQ(out[i], i < CELL ? 256 + 3 * 1024 : 512 + 5 * 1024);
}

/* A hint of another size is scaled to the latent: bilinear, so that a constant stays one. */
static void test_what_follows_x_is_scaled_to_it(void)
{
    static network_of n;
    static const kiln_input_spec rows[] = {ROW(KILN_INPUT_LATENT, "hint", .width = C),
                                           ROW(KILN_INPUT_IMAGE, "pixels", .width = 3)};
    kiln_value *e = entry();
    set(e, "hint", filled(4, (const int64_t[]){1, 9, 5, C}, 2));
    set(e, "pixels", filled(4, (const int64_t[]){1, 3, 7, 3}, 1));
    CHECK_MSG(draw(model_with(&n, rows, sizeof rows / sizeof rows[0], NULL), list_of(e, NULL), out) == KILN_OK, "%s",
              call_why.message);
    check_all(out, 2 + 8, "scaled");
}

/* ---- absent values ---- */

static void test_absent_values_have_stand_ins(void)
{
    static network_of n;
    static const kiln_input_spec rows[] = {
        ROW(KILN_INPUT_VECTOR, "vector", .flags = KILN_INPUT_OPTIONAL, .width = C, .fallback = 0.5),
        ROW(KILN_INPUT_SCALAR, "height", .flags = KILN_INPUT_OPTIONAL, .fallback = 7),
        ROW(KILN_INPUT_SCALAR, "target", .flags = KILN_INPUT_OPTIONAL, .fallback = 9, .fallback_from = "height"),
        ROW(KILN_INPUT_LATENT, "hint", .flags = KILN_INPUT_OPTIONAL | KILN_INPUT_OMITTED, .width = C)};
    kiln_value *e = entry(), *other = entry();
    set(other, "height", number(2));
    CHECK_MSG(draw(model_with(&n, rows, sizeof rows / sizeof rows[0], NULL), list_of(e, NULL), out) == KILN_OK, "%s",
              call_why.message);
    check_all(out, 128 + 7 * 1024 + 9 * 4096, "fallbacks");
    CHECK_MSG(draw(model_with(&n, rows, sizeof rows / sizeof rows[0], NULL), list_of(other, NULL), out) == KILN_OK,
              "%s", call_why.message);
    check_all(out, 128 + 2 * 1024 + 2 * 4096, "another input's value");
}

/* SDXL's target_height is its height, and that is the picture's own where nobody says it. */
static void test_a_fallback_of_a_fallback(void)
{
    static network_of n;
    static const kiln_input_spec rows[] = {
        ROW(KILN_INPUT_SCALAR, "target", .flags = KILN_INPUT_OPTIONAL, .fallback = 9, .fallback_from = "middle"),
        ROW(KILN_INPUT_SCALAR, "middle", .flags = KILN_INPUT_OPTIONAL, .fallback = 9, .fallback_from = "height"),
        ROW(KILN_INPUT_SCALAR, "height", .flags = KILN_INPUT_OPTIONAL, .fallback = 7,
            .fallback_from = "latent.height")};
    const size_t count = sizeof rows / sizeof rows[0];
    float high = (float)(H * format.factor);
    kiln_value *e = entry(), *other = entry();
    set(other, "height", number(2));
    CHECK_MSG(draw(model_with(&n, rows, count, NULL), list_of(e, NULL), out) == KILN_OK, "%s", call_why.message);
    check_all(out, high * 1024 + high * 4096, "the latent's height");
    CHECK_MSG(draw(model_with(&n, rows, count, NULL), list_of(other, NULL), out) == KILN_OK, "%s", call_why.message);
    check_all(out, 2 * 1024 + 2 * 4096, "another input's value, over a third");
}

static void check_refused(const kiln_input_spec *rows, size_t count, kiln_value *e, const char *part)
{
    static network_of n;
    CHECK(draw(model_with(&n, rows, count, NULL), list_of(e, NULL), out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, part) != NULL, "'%s' does not say '%s'", call_why.message, part);
}

static void test_wrong_values_are_sentences(void)
{
    static const kiln_input_spec vector[] = {ROW(KILN_INPUT_VECTOR, "vector", .width = C)}, words[] = {TOKENS(0)},
                                 hint[] = {ROW(KILN_INPUT_LATENT, "hint", .width = C)},
                                 height[] = {ROW(KILN_INPUT_SCALAR, "height", .width = 0)};
    kiln_value *e = entry();
    check_refused(vector, 1, e, "wants 'vector'");
    check_refused(words, 1, entry(), "has no tokens");
    e = entry(), set(e, "vector", filled(2, (const int64_t[]){1, 3}, 1));
    check_refused(vector, 1, e, "are 3 wide but this model wants 4");
    e = entry(), set(e, "vector", filled(3, (const int64_t[]){1, 1, C}, 1));
    check_refused(vector, 1, e, "has 3 dimensions");
    e = entry(), set(e, "vector", text("x"));
    check_refused(vector, 1, e, "has to be a vector");
    e = entry(), set(e, "hint", filled(4, (const int64_t[]){1, H, W, 3}, 1));
    check_refused(hint, 1, e, "has 3 channels");
    e = entry(), set(e, "height", text("tall"));
    check_refused(height, 1, e, "has to be a number");
}

/* ---- batches ---- */

/* positive has 2 rows (1, 2), negative `n` rows (3, ..., 4). */
static kiln_status draw_unequal(uint32_t rule, int64_t n)
{
    static network_of net;
    static kiln_input_spec rows[2];
    float row[16] = {3};
    for (int64_t i = 1; i < n; i++) row[i] = 4;
    rows[0] = (kiln_input_spec)TOKENS(rule);
    return draw_cfg(model_with(&net, rows, 1, NULL), list_of(with_tokens(2, (const float[]){1, 2}), NULL),
                    list_of(with_tokens(n, row), NULL), out);
}

static float guided(float yes, float no) { return no + 3 * (yes - no); }

static void test_unequal_conditionings_by_their_rule(void)
{
    CHECK_EQ(draw_unequal(KILN_BATCH_APART, 3), KILN_OK);
    check_all(out, guided(1 + 2 * 16, 3 + 4 * 16), "apart");
    CHECK_EQ(n_calls, 2), CHECK_EQ(calls[0].n, 2);

    CHECK_EQ(draw_unequal(KILN_BATCH_PAD, 3), KILN_OK);
    check_all(out, guided(1 + 0.5f * 16, 3 + 4 * 16), "padded");
    CHECK_EQ(n_calls, 1), CHECK_EQ(calls[0].n, 4), CHECK_EQ(calls[0].tokens, 3);

    CHECK_EQ(draw_unequal(KILN_BATCH_REPEAT, 3), KILN_OK);
    check_all(out, guided(1 + 2 * 16, 3 + 4 * 16), "repeated");
    CHECK_EQ(n_calls, 1), CHECK_EQ(calls[0].tokens, 6);

    CHECK_EQ(draw_unequal(KILN_BATCH_REPEAT, 5), KILN_OK); /* ten rows would be more than four times two */
    check_all(out, guided(1 + 2 * 16, 3 + 4 * 16), "too much to repeat");
    CHECK_EQ(n_calls, 2);

    CHECK(draw_unequal(KILN_BATCH_REFUSE, 3) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "'context' of 2 and 3 rows") != NULL, "%s", call_why.message);
    CHECK_EQ(draw_unequal(KILN_BATCH_REFUSE, 2), KILN_OK);
    CHECK_EQ(n_calls, 1), CHECK_EQ(calls[0].n, 4);
}

/* LENGTHS says which rows are real. */
static void test_lengths_of_padded_tokens(void)
{
    static network_of n;
    static const kiln_input_spec rows[] = {TOKENS(KILN_BATCH_PAD), ROW(KILN_INPUT_LENGTHS, "length", .of = "context")};
    kiln_value *yes = list_of(with_tokens(2, (const float[]){1, 2}), NULL),
               *no = list_of(with_tokens(3, (const float[]){3, 4, 4}), NULL);
    CHECK_EQ(draw_cfg(model_with(&n, rows, 2, NULL), yes, no, out), KILN_OK);
    CHECK_EQ(n_calls, 1);
    check_all(out, guided(1 + 8 + 2 * 32768, 3 + 64 + 3 * 32768), "lengths");
}

/* ---- areas ---- */

static kiln_value *four(double h, double w, double y, double x)
{
    kiln_value *list = values()->new_list(NULL);
    const double n[4] = {h, w, y, x};
    for (int i = 0; i < 4; i++) {
        kiln_value *v = number(n[i]);
        CHECK_EQ(values()->list_push(list, v), KILN_OK);
        drop(v);
    }
    return list;
}

/* The hint counts its cells; an area sees its own part of it. */
static void test_inputs_are_cut_with_areas(void)
{
    static network_of n;
    static const kiln_input_spec rows[] = {ROW(KILN_INPUT_LATENT, "hint", .width = C)};
    float hint[CELL];
    for (int i = 0; i < CELL; i++) hint[i] = (float)(i / C);
    kiln_value *e = entry();
    set(e, "hint", tensor_value(4, (const int64_t[]){1, H, W, C}, hint));
    set(e, "area", four(2, 3, 1, 2));
    CHECK_MSG(draw(model_with(&n, rows, 1, NULL), list_of(e, NULL), out) == KILN_OK, "%s", call_why.message);
    CHECK_EQ(calls[0].h, 2), CHECK_EQ(calls[0].w, 3);
    for (int i = 0; i < CELL; i++) {
        int y = i / C / W, x = i / C % W, inside = y >= 1 && y < 3 && x >= 2 && x < 5;
        if (inside) CHECK_EQ(out[i], hint[i]);
    }
}

/* ---- ids ---- */

static kiln_t class_record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                           const kiln_denoise_inputs *in)
{
    int64_t n[4];
    (void)d, (void)w;
    ops->shape(p, in->x, n, 4);
    kiln_t table = ops->constant(p, lengths_table, 2, KILN_DIMS(16, 1)),
           row = ops->embedding(p, table, kiln_input(in->input, in->n_input, "class")); /* [N,1,1] */
    return ops->add(p, ops->affine(p, in->x, 0, 0), ops->reshape(p, row, 4, KILN_DIMS(n[0], 1, 1, 1)));
}

static kiln_value *labels(kiln_value *label)
{
    kiln_value *e = entry();
    if (label) set(e, "class", label);
    return list_of(e, NULL);
}

static kiln_status draw_class(kiln_value *conditioning)
{
    static network_of n;
    static const kiln_input_spec rows[] = {
        ROW(KILN_INPUT_IDS, "class", .flags = KILN_INPUT_OPTIONAL, .width = 1, .fallback = 9)};
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *plain_model = model_with(&n, rows, 1, NULL);
    n.table.record = class_record;
    kiln_model m = *models->model(rig_ctx(), plain_model);
    kiln_value *model = models->model_new(rig_ctx(), &m);
    drop(plain_model);
    return draw(model, conditioning, out);
}

static void test_a_class_is_a_number(void)
{
    kiln_value *two_classes = values()->new_list(NULL);
    CHECK_MSG(draw_class(labels(values()->new_int(NULL, 5))) == KILN_OK, "%s", call_why.message);
    check_all(out, 5, "a class");
    CHECK_EQ(draw_class(labels(NULL)), KILN_OK);
    check_all(out, 9, "the fallback");
    for (int i = 0; i < 2; i++) {
        kiln_value *one = values()->new_int(NULL, i);
        CHECK_EQ(values()->list_push(two_classes, one), KILN_OK);
        drop(one);
    }
    CHECK(draw_class(labels(two_classes)) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "'class' has 2") != NULL, "%s", call_why.message);
    CHECK(draw_class(labels(number(1.5))) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "has to be an integer") != NULL, "%s", call_why.message);
}

/* ---- patches ---- */

/* Areas are widened to whole patches; a latent of other sizes is refused. */
static void test_areas_are_whole_patches(void)
{
    static network_of n;
    static kiln_latent_format patched;
    static const kiln_input_spec words[] = {TOKENS(0)};
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    for (int32_t patch = 2; patch <= 3; patch++) {
        kiln_value *plain_model = model_with(&n, words, 1, NULL), *e = with_tokens(1, (const float[]){1});
        patched = format, patched.patch = patch, n.table.latent = &patched;
        kiln_model m = *models->model(rig_ctx(), plain_model);
        kiln_value *model = models->model_new(rig_ctx(), &m);
        set(e, "area", four(1, 3, 1, 3));
        drop(plain_model);
        kiln_status status = draw(model, list_of(e, NULL), out);
        if (patch == 2) CHECK_MSG(status == KILN_OK && calls[0].h == 2 && calls[0].w == 4, "%s", call_why.message);
        if (patch == 3)
            CHECK_MSG(status != KILN_OK && strstr(call_why.message, "multiples of 6 pixels"), "%s", call_why.message);
    }
}

/* ---- a timestep a cell ---- */

static kiln_t token_record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                           const kiln_denoise_inputs *in)
{
    int64_t n[4];
    (void)d, (void)w;
    ops->shape(p, in->x, n, 4);
    return ops->add(p, ops->affine(p, in->x, 0, 0), ops->reshape(p, in->timestep, 4, KILN_DIMS(n[0], n[1], n[2], 1)));
}

/* The network says the timestep of each cell, also of a part of the picture; own_timestep() is sigma. */
static void test_a_timestep_for_each_cell(void)
{
    static network_of n;
    static const float zero[2 * CELL];
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *plain_model = model_with(&n, NULL, 0, NULL), *e = entry(), *result[2] = {NULL};
    n.table.timestep = KILN_TIMESTEP_TOKEN, n.table.record = token_record;
    kiln_model m = *models->model(rig_ctx(), plain_model);
    kiln_value *model = models->model_new(rig_ctx(), &m),
               *latent = map_of("samples", tensor_value(4, (const int64_t[]){2, H, W, C}, zero));
    float mask[H * W];
    for (int i = 0; i < H * W; i++) mask[i] = (float)i / 32;
    set(latent, "noise_mask", tensor_value(3, (const int64_t[]){1, H, W}, mask));
    set(e, "area", four(2, 3, 1, 2));
    kiln_value *list = list_of(e, NULL), *guider = made(&node_basic_guider, "", model, list),
               *noise = map_of("samples", tensor_value(4, (const int64_t[]){2, H, W, C}, zero));
    set(noise, "seed", values()->new_int(NULL, 1));
    CHECK_MSG(sample((parts){.model = model,
                             .guider = guider,
                             .latent = latent,
                             .noise = noise,
                             .sigmas = sigmas_of(2, (double[]){1, 0})},
                     result) == KILN_OK,
              "%s", call_why.message);
    const float *x = samples_of_any(result[0]);
    for (int i = 0; x && i < CELL; i++) {
        int cell = i / C, y = cell / W, left = cell % W, inside = y >= 1 && y < 3 && left >= 2 && left < 5;
        if (inside) CHECK_NEAR(x[i], mask[cell] * mask[cell], 1e-6); /* kept again by the mask on the way out */
    }
    drop(plain_model), drop(list), drop(result[0]), drop(result[1]);
}

/* ---- derive ---- */

static kiln_status derive_vector(const kiln_denoiser *d, const kiln_derivation *by)
{
    const kiln_value_api *v = by->host->ability(KILN_VALUE_ABILITY);
    float *data = by->host->scratch(by->ctx, C * sizeof *data, KILN_CPU);
    int64_t *dim = by->host->scratch(by->ctx, 2 * sizeof *dim, KILN_CPU);
    double x = 0;
    (void)d;
    if (!data || !dim) return KILN_ERR_NOMEM;
    if (v->get_float(v->map_get(by->conditioning, "half"), &x) != KILN_OK)
        return by->host->fail(by->ctx, KILN_ERR_INVALID, "it needs 'half'");
    for (int i = 0; i < C; i++) data[i] = (float)(2 * x);
    dim[0] = 1, dim[1] = C;
    kiln_tensor t = {.size = sizeof t, .dtype = KILN_F32, .device = KILN_CPU, .rank = 2, .dim = dim, .data = data};
    CHECK_EQ(by->rank, 4), CHECK_EQ(by->dim[1], H), CHECK_EQ(by->dim[3], C);
    float drawn[4];
    const float wanted[4] = {0.661352158f, 0.266924113f, 0.061677258f, 0.621317327f}; /* torch.manual_seed(1) */
    CHECK_EQ(by->seed, 1);                                                            /* draw_by()'s noise    */
    by->randn(by, by->seed, drawn, 4);
    for (int i = 0; i < 4; i++) CHECK_NEAR(drawn[i], wanted[i], 1e-6);
    by->add(by, "vector", &t);
    return KILN_OK;
}

static void test_a_denoiser_derives_inputs(void)
{
    static network_of n = {.table = {.derive = derive_vector}};
    static const kiln_input_spec rows[] = {ROW(KILN_INPUT_VECTOR, "vector", .width = C)};
    kiln_value *e = entry();
    set(e, "half", number(1.5));
    CHECK_MSG(draw(model_with(&n, rows, 1, NULL), list_of(e, NULL), out) == KILN_OK, "%s", call_why.message);
    check_all(out, 3 * 256, "derived");
    CHECK(draw(model_with(&n, rows, 1, NULL), list_of(entry(), NULL), out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "needs 'half'") != NULL, "%s", call_why.message);
}

/* ---- ranges of models ---- */

static void test_another_model_from_a_level_down(void)
{
    static network_of first, second;
    static const kiln_input_spec words[] = {TOKENS(0)}, height[] = {ROW(KILN_INPUT_SCALAR, "height", .width = 0)};
    const double levels[] = {1, 0.75, 0.5, 0.25, 0};
    kiln_value *low = model_with(&second, height, 1, NULL);
    kiln_model_range range = {.size = sizeof range, .name = "refiner", .below = 0.5, .model = low};
    kiln_model with = {.range = &range, .n_range = 1};
    kiln_value *high = model_with(&first, words, 1, &with), *a = with_tokens(1, (const float[]){1}), *b = entry();
    set(a, "model_range", text("base"));
    set(b, "height", number(3)), set(b, "model_range", text("refiner"));
    kiln_value *list = list_of(a, b), *guider = made(&node_basic_guider, "", high, list);
    CHECK_MSG(draw_by(rig_host()->ref(high), guider, 5, levels, out) == KILN_OK, "%s", call_why.message);
    check_all(out, 3 * 1024, "the last levels are the second model's"); /* x0 at 0.25 is where the run ends */
    CHECK_EQ(n_calls, 2);                                               /* each network was recorded once */
    guider = made(&node_basic_guider, "", high, list);
    const double upper[] = {1, 0.5, 0.5 - 1e-9};
    CHECK_EQ(draw_by(rig_host()->ref(high), guider, 2, upper, out), KILN_OK);
    kiln_value *none = list_of(rig_host()->ref(values()->list_at(list, 1)), NULL);
    guider = made(&node_basic_guider, "", high, none);
    CHECK(draw_by(rig_host()->ref(high), guider, 5, levels, out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "none for 'base'") != NULL, "%s", call_why.message);
    drop(high), drop(low), drop(list), drop(none);
}

/* ---- hooks ---- */

static kiln_t hook_adds(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    int64_t n[4];
    (void)info;
    r->ops->shape(r->program, x, n, 4);
    kiln_t v = r->ops->reshape(r->program, kiln_hook_input(h, r, "vector"), 4, KILN_DIMS(n[0], 1, 1, C));
    return r->ops->add(r->program, x, v);
}

static kiln_value *hooked(network_of *n, const kiln_hook *const *hooks, size_t count)
{
    static const kiln_input_spec words[] = {TOKENS(0)};
    return model_with(n, words, 1, &(kiln_model){.hook = hooks, .n_hook = count});
}

static kiln_value *word(float x) { return list_of(with_tokens(1, &x), NULL); }

static void test_hooks_have_inputs_of_their_own(void)
{
    static network_of n;
    static const kiln_input_spec rows[] = {ROW(KILN_INPUT_VECTOR, "vector", .key = "hook_vector", .width = C)};
    static const char *const at[] = {"block.*", NULL};
    kiln_value *yes = entry(), *other = entry(), *e;
    set(yes, "vector", filled(2, (const int64_t[]){1, C}, 0.25f));
    set(yes, "vector.unconditional", filled(2, (const int64_t[]){1, C}, 0.5f));
    set(other, "vector", filled(2, (const int64_t[]){1, C}, 2));
    kiln_hook one = {
        .size = sizeof one, .identity = "one", .place = at, KILN_ARRAY(input, rows), .values = yes, .at = hook_adds};
    kiln_hook two = one, *second = &two;
    two.values = other, two.identity = "two";
    const kiln_hook *both[] = {&one, second};
    CHECK_MSG(draw_cfg(hooked(&n, both, 2), word(1), word(3), out) == KILN_OK, "%s", call_why.message);
    check_all(out, guided(17 + 0.25f + 2, 3 * 17 + 0.5f + 2), "the hooks' own values, the unconditional side's apart");
    e = with_tokens(1, (const float[]){1}); /* an entry may give a value of its own */
    set(e, "hook_vector", filled(2, (const int64_t[]){1, C}, 8));
    CHECK_MSG(draw(hooked(&n, both, 1), list_of(e, NULL), out) == KILN_OK, "%s", call_why.message);
    check_all(out, 17 + 8, "the entry's value");
    two.start = 0.6, two.end = 1; /* from level 0.4 down: not at 1 */
    CHECK_EQ(draw(hooked(&n, both, 2), word(1), out), KILN_OK);
    check_all(out, 17 + 0.25f, "outside its range a hook is not there");
    CHECK_EQ(calls[0].hooks, 1);
    drop(yes), drop(other);
}

static int64_t members_seen[2][2]; /* pictures, unconditional */

static kiln_t hook_looks(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    (void)h, (void)info;
    CHECK_EQ(r->in->n_member, 2);
    for (size_t i = 0; i < 2 && i < r->in->n_member; i++)
        members_seen[i][0] = r->in->member[i].pictures, members_seen[i][1] = r->in->member[i].unconditional;
    return x;
}

static void test_hooks_know_what_the_batch_is(void)
{
    static network_of n;
    kiln_hook one = {.size = sizeof one, .identity = "looks", .at = hook_looks};
    const kiln_hook *hooks[] = {&one};
    CHECK_MSG(draw_cfg(hooked(&n, hooks, 1), word(1), word(3), out) == KILN_OK, "%s", call_why.message);
    CHECK_EQ(members_seen[0][0], 2), CHECK_EQ(members_seen[1][0], 2);
    CHECK_EQ(members_seen[0][1], 0), CHECK_EQ(members_seen[1][1], 1);
}

static void test_hooks_at_no_place_are_refused(void)
{
    static network_of n;
    static const char *const at[] = {"input.4", NULL};
    kiln_hook one = {.size = sizeof one, .identity = "adapter", .place = at, .at = hook_adds};
    const kiln_hook *hooks[] = {&one};
    CHECK(draw(hooked(&n, hooks, 1), word(1), out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "'adapter'") && strstr(call_why.message, "'input.4'"), "%s", call_why.message);
}

static int leaves(const kiln_hook *h, const char *block) { return (void)h, (void)block, 1; }

/* Each function is asked at places of its kind alone. */
static void test_hooks_at_places_of_another_kind_are_refused(void)
{
    static network_of n;
    static const char *const attention[] = {"block.0.attn", NULL}, *const point[] = {"block.0", NULL};
    kiln_hook adds = {.size = sizeof adds, .identity = "adds", .place = attention, .at = hook_adds};
    kiln_hook skips = {.size = sizeof skips, .identity = "skips", .place = point, .leaves_out = leaves};
    const kiln_hook *first[] = {&adds}, *second[] = {&skips};
    CHECK(draw(hooked(&n, first, 1), word(1), out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "it is an attention") != NULL, "%s", call_why.message);
    CHECK(draw(hooked(&n, second, 1), word(1), out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "no block to be left out") != NULL, "%s", call_why.message);
}

/* ---- controls ---- */

static void control_record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                           const kiln_named_tensor *in, size_t n_in, const kiln_outputs *to)
{
    (void)w;
    to->add(to, n->self ? n->self : "block.0", ops->affine(p, kiln_input(in, n_in, "hint"), 2, 0));
}

static const kiln_input_spec hint_row[] = {ROW(KILN_INPUT_LATENT, "hint", .width = C)};

static kiln_value *control_net(kiln_network *n, uint32_t flags, const char *place)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    char path[600];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/timestep.safetensors", test_root());
    kiln_weights *w = weights_open(path, &e);
    *n = (kiln_network){.size = sizeof *n,
                        .flags = flags,
                        .family = place ? place : "doubles",
                        .self = (void *)(uintptr_t)place,
                        KILN_ARRAY(input, hint_row),
                        .record = control_record};
    kiln_value *v =
        models->net_new(rig_ctx(), "CONTROL_NET", &(kiln_net){.size = sizeof(kiln_net), .network = n, .weights = w});
    if (!CHECK_MSG(v != NULL, "%s", rig_message())) exit(1);
    weights_unref(w);
    return v;
}

/* A word with a control; takes the net. */
static kiln_value *controlled(float x, kiln_value *net, double strength, double start, double end)
{
    kiln_value *e = with_tokens(1, &x), *map = entry();
    set(map, "control_net", net);
    set(map, "hint", filled(4, (const int64_t[]){1, H, W, C}, 0.25f));
    set(map, "strength", number(strength));
    set(map, "start_percent", number(start)), set(map, "end_percent", number(end));
    set(e, "control", list_of(map, NULL));
    return list_of(e, NULL);
}

static void check_controls(uint32_t flags)
{
    static network_of n;
    static kiln_network net;
    kiln_value *v = control_net(&net, flags, NULL);
    CHECK_MSG(draw_cfg(hooked(&n, NULL, 0), controlled(1, rig_host()->ref(v), 1, 0, 1),
                       controlled(3, rig_host()->ref(v), 0.5, 0, 1), out) == KILN_OK,
              "%s", call_why.message);
    check_all(out, guided(17 + 0.5f, 3 * 17 + 0.25f), "each with its strength");
    CHECK_EQ(n_calls, 1), CHECK_EQ(calls[0].n, 4), CHECK_EQ(calls[0].residuals, 1);
    CHECK_EQ(draw_cfg(hooked(&n, NULL, 0), controlled(1, rig_host()->ref(v), 2, 0, 1), word(3), out), KILN_OK);
    check_all(out, guided(17 + 1, 3 * 17), "one side only");
    CHECK_EQ(n_calls, 2);
    CHECK_EQ(draw(hooked(&n, NULL, 0), controlled(1, rig_host()->ref(v), 1, 0.5, 1), out), KILN_OK);
    check_all(out, 17, "before its range");
    CHECK_EQ(calls[0].residuals, 0);
    CHECK_EQ(draw(hooked(&n, NULL, 0), controlled(1, rig_host()->ref(v), 0, 0, 1), out), KILN_OK);
    CHECK_EQ(calls[0].residuals, 0);
    drop(v);
}

static void test_controls_add_what_they_say(void) { check_controls(0); }
static void test_controls_apart_add_the_same(void) { check_controls(KILN_NETWORK_APART); }

static void test_controls_that_do_not_fit_are_refused(void)
{
    static network_of n;
    static kiln_network net;
    for (uint32_t flags = 0; flags <= KILN_NETWORK_APART; flags++) {
        CHECK(draw(hooked(&n, NULL, 0), controlled(1, control_net(&net, flags, "block.0.attn"), 1, 0, 1), out) !=
              KILN_OK);
        CHECK_MSG(strstr(call_why.message, "whose way out") != NULL, "%s", call_why.message);
        kiln_value *v = control_net(&net, flags, "double.3");
        CHECK(draw(hooked(&n, NULL, 0), controlled(1, v, 1, 0, 1), out) != KILN_OK);
        CHECK_MSG(strstr(call_why.message, "'double.3'") != NULL, "%s", call_why.message);
    }
    kiln_value *e = with_tokens(1, (const float[]){1});
    set(e, "control", list_of(text("x"), NULL));
    CHECK(draw(hooked(&n, NULL, 0), list_of(e, NULL), out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "control_net") != NULL, "%s", call_why.message);
    kiln_value *model = network_model();
    CHECK(draw(hooked(&n, NULL, 0), controlled(1, model, 1, 0, 1), out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "CONTROL_NET") != NULL, "%s", call_why.message);
}

/* A control's result is [N,1,1,C]. */
static void control_of_the_whole(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                                 const kiln_named_tensor *in, size_t n_in, const kiln_outputs *to)
{
    (void)n, (void)w;
    kiln_t hint = ops->slice(p, ops->slice(p, kiln_input(in, n_in, "hint"), 1, 0, 1), 2, 0, 1);
    to->add(to, "block.0", ops->affine(p, hint, 2, 0));
}

/* Latents of h x w under a control with a mask of a half. */
static kiln_status draw_masked(int64_t h, int64_t w, int is_whole, float *x)
{
    static network_of n;
    static kiln_network net;
    static const double down[2] = {1, 0};
    static const float zero[2 * CELL];
    const int64_t dim[4] = {2, h, w, C};
    kiln_value *v = control_net(&net, 0, NULL), *e = with_tokens(1, (const float[]){1}), *map = entry();
    if (is_whole) net.record = control_of_the_whole;
    net.family = is_whole ? "whole" : "parts";
    set(map, "control_net", v);
    set(map, "hint", filled(4, (const int64_t[]){1, h, w, C}, 0.25f));
    set(map, "control_mask", filled(3, (const int64_t[]){1, h, w}, 0.5f));
    set(e, "control", list_of(map, NULL));
    kiln_value *model = hooked(&n, NULL, 0), *of = list_of(e, NULL), *result[2] = {NULL};
    parts p = {.model = model,
               .guider = made(&node_basic_guider, "", model, of),
               .latent = map_of("samples", tensor_value(4, dim, zero)),
               .noise = map_of("samples", tensor_value(4, dim, zero)),
               .sigmas = sigmas_of(2, down)};
    set(p.noise, "seed", values()->new_int(NULL, 1));
    drop(of);
    kiln_status status = sample(p, result);
    size_t have = 0;
    const float *got = status == KILN_OK ? floats_of(values()->map_get(result[0], "samples"), &have) : NULL;
    if (got && CHECK_EQ(have, 2 * h * w * C)) memcpy(x, got, sizeof *x * have);
    drop(result[0]), drop(result[1]);
    return status;
}

static void test_what_a_mask_of_a_control_fits(void)
{
    static const int64_t size[][2] = {{H, W}, {1, W}, {H, 1}, {1, 1}};
    float x[2 * CELL];
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        CHECK_MSG(draw_masked(size[i][0], size[i][1], 0, x) == KILN_OK, "%s", call_why.message);
        for (int64_t k = 0; k < 2 * size[i][0] * size[i][1] * C; k++) CHECK_EQ(4 * x[k], 4 * 17 + 1);
        int is_point = size[i][0] == 1 && size[i][1] == 1;
        CHECK_EQ(draw_masked(size[i][0], size[i][1], 1, x) == KILN_OK, is_point); /* is the result of parts of x? */
        CHECK_MSG(is_point || strstr(call_why.message, "'whole' cannot have a mask"), "%s", call_why.message);
    }
}

/* ---- further streams ---- */

static const double two = 2;
static const kiln_latent_scaling halved = {sizeof halved, 1, &two, &one_number};
static const kiln_latent_format sound[] = {{.size = sizeof *sound, .rank = 3, .channels = 2, .scaling = &halved}};
enum { SOUND = 2 * 5 * 2 };

static kiln_t duet_record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                          const kiln_denoise_inputs *in)
{
    (void)d, (void)w;
    CHECK_EQ(in->n_stream, 2);
    in->out->add(in->out, "1", ops->affine(p, in->stream[1], 0, 7));
    return ops->affine(p, in->x, 0, 3);
}

static kiln_value *duet(network_of *n)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *plain_model = model_with(n, NULL, 0, NULL);
    n->table.stream = sound, n->table.n_stream = 1, n->table.stream_stride = sizeof *sound;
    n->table.record = duet_record;
    kiln_model m = *models->model(rig_ctx(), plain_model);
    kiln_value *v = models->model_new(rig_ctx(), &m);
    CHECK_MSG(v != NULL, "%s", rig_message());
    drop(plain_model);
    return v;
}

/* One step from 1 to `to`; samples and the stream. */
static kiln_status draw_duet(double to, kiln_value *noise, kiln_value *conditioning, float *video, float *audio)
{
    static network_of n;
    static const float zero[2 * CELL];
    kiln_value *result[2] = {NULL}, *latent = map_of("samples", tensor_value(4, (const int64_t[]){2, H, W, C}, zero)),
               *model = duet(&n), *guider = made(&node_basic_guider, "", model, conditioning);
    set(latent, "streams", list_of(tensor_value(3, (const int64_t[]){2, 5, 2}, zero), NULL));
    drop(conditioning);
    kiln_status status = sample((parts){.model = model,
                                        .guider = guider,
                                        .latent = latent,
                                        .noise = noise,
                                        .sigmas = sigmas_of(2, (double[]){1, to})},
                                result);
    size_t have = 0;
    if (status == KILN_OK) {
        memcpy(video, floats_of(values()->map_get(result[0], "samples"), &have), 2 * CELL * sizeof *video);
        const float *x = floats_of(values()->list_at(values()->map_get(result[0], "streams"), 0), &have);
        if (CHECK_EQ(have, SOUND)) memcpy(audio, x, SOUND * sizeof *audio);
    }
    drop(result[0]), drop(result[1]);
    return status;
}

static void test_a_latent_of_two_streams(void)
{
    float audio[SOUND], drawn[2 * CELL + SOUND];
    kiln_value *noise = made(&node_random_noise, "noise_seed=5", NULL, NULL);
    CHECK_MSG(draw_duet(0, rig_host()->ref(noise), list_of(entry(), NULL), out, audio) == KILN_OK, "%s",
              call_why.message);
    check_all(out, 3, "the first");
    for (int i = 0; i < SOUND; i++) CHECK_EQ(audio[i], 7.0f / 2 + 1); /* in its own scaling */
    /* To one half: x is the mean of noise and x0, and is handed on over 1 - 1/2; so the noise is the rest. */
    CHECK_EQ(draw_duet(0.5, noise, list_of(entry(), NULL), out, audio), KILN_OK);
    noise_stream g;
    stream_seed(&g, 0, 5, 0);
    stream_randn(&g, drawn, 2 * CELL);
    stream_randn(&g, drawn + 2 * CELL, SOUND); /* as torch draws one tensor after the other, channels first */
    for (int i = 0; i < 2 * CELL; i++) {
        int b = i / CELL, cell = i % CELL / C, k = i % C;
        CHECK_NEAR(out[i], 3 + drawn[(b * C + k) * H * W + cell], 1e-5);
    }
    for (int i = 0; i < SOUND; i++) {
        int b = i / 10, cell = i % 10 / 2, k = i % 2;
        CHECK_NEAR((audio[i] - 1) * 2, 7 + drawn[2 * CELL + (b * 2 + k) * 5 + cell], 1e-5);
    }
}

static void test_streams_go_through_whole(void)
{
    float audio[SOUND];
    kiln_value *e = entry();
    set(e, "area", four(2, 3, 1, 2));
    CHECK(draw_duet(0, made(&node_random_noise, "noise_seed=5", NULL, NULL), list_of(e, NULL), out, audio) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "several streams") != NULL, "%s", call_why.message);
    static network_of n;
    CHECK(draw(duet(&n), list_of(entry(), NULL), out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "0 streams beside its samples, this model wants 1") != NULL, "%s",
              call_why.message);
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {CASE(test_a_fallback_of_a_fallback),
                                      CASE(test_every_kind_arrives),
                                      CASE(test_pictures_have_values_of_their_own),
                                      CASE(test_what_follows_x_is_scaled_to_it),
                                      CASE(test_absent_values_have_stand_ins),
                                      CASE(test_wrong_values_are_sentences),
                                      CASE(test_unequal_conditionings_by_their_rule),
                                      CASE(test_lengths_of_padded_tokens),
                                      CASE(test_inputs_are_cut_with_areas),
                                      CASE(test_a_timestep_for_each_cell),
                                      CASE(test_a_denoiser_derives_inputs),
                                      CASE(test_another_model_from_a_level_down),
                                      CASE(test_hooks_have_inputs_of_their_own),
                                      CASE(test_hooks_know_what_the_batch_is),
                                      CASE(test_hooks_at_no_place_are_refused),
                                      CASE(test_hooks_at_places_of_another_kind_are_refused),
                                      CASE(test_a_class_is_a_number),
                                      CASE(test_areas_are_whole_patches),
                                      CASE(test_controls_add_what_they_say),
                                      CASE(test_controls_apart_add_the_same),
                                      CASE(test_controls_that_do_not_fit_are_refused),
                                      CASE(test_what_a_mask_of_a_control_fits),
                                      CASE(test_a_latent_of_two_streams),
                                      CASE(test_streams_go_through_whole)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
