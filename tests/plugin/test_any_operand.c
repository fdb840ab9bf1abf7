/* test_any_operand.c - each op with operands and options drawn at random: it is refused with a sentence, or it is
 * planned, and run; a run says why it cannot go on, or writes each number of its result.
 *
 * Sizes are small and mostly alike, so that some hundred draws of each op are accepted. Ids are 0 and 1, sometimes out
 * of range.
 */
#include "harness.h"
#include "rig.h"

#include "tensor/dtype.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DRAWS = 400, OPERANDS = 8, NUMBERS = 4096 };

static int failures;
#define HOLDS(...) (CHECK_MSG(__VA_ARGS__) || (failures++, 0))

static uint64_t state;
static uint32_t below(uint32_t n)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32) % n;
}
/* Mostly `usual`, else a small number, which may make no sense. */
static int32_t seldom(int32_t usual) { return below(6) ? usual : (int32_t)below(6) - 1; }
static int flag(void) { return below(2) == 1; }

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

typedef struct {
    kiln_program *p;
    uint32_t n_in;
    kiln_bind in[OPERANDS];
    char name[OPERANDS][8];
    int64_t dim[OPERANDS][5];
    union {
        float f[NUMBERS];
        int32_t i[NUMBERS];
    } data[OPERANDS];
    int64_t shape[4]; /* the sizes that operands of this draw are made of */
} trial;

static trial t;

static kiln_t made(uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)(dim[i] > 0 ? dim[i] : 0);
    if (t.n_in == OPERANDS || n > NUMBERS) return (kiln_t){0};
    uint32_t k = t.n_in++;
    for (size_t i = 0; i < n; i++)
        if (dtype == KILN_I32)
            t.data[k].i[i] = seldom((int32_t)below(2));
        else
            t.data[k].f[i] = (float)below(2001) / 1000 - 1;
    for (uint32_t i = 0; i < rank; i++) t.dim[k][i] = dim[i];
    if (!below(3)) {
        t.n_in--;
        return dtype == KILN_I32 ? ops()->constant_i32(t.p, t.data[k].i, rank, dim)
                                 : ops()->constant(t.p, t.data[k].f, rank, dim);
    }
    t.name[k][0] = 'x', t.name[k][1] = (char)('0' + k), t.name[k][2] = 0;
    t.in[k] = (kiln_bind)KILN_BIND(t.name[k], {.size = sizeof(kiln_tensor),
                                               .dtype = dtype,
                                               .device = KILN_CPU,
                                               .rank = rank,
                                               .dim = t.dim[k],
                                               .data = &t.data[k]});
    return ops()->input(t.p, t.name[k], dtype, rank, dim);
}

/* A tensor of about `rank` dimensions of this draw's sizes. */
static kiln_t some(uint32_t dtype, uint32_t rank)
{
    int64_t dim[5];
    rank = below(10) ? rank : 1 + below(4);
    for (uint32_t i = 0; i < rank; i++) dim[i] = below(8) ? t.shape[i % 4] : 1 + below(4);
    return made(below(16) ? dtype : dtype == KILN_F32 ? KILN_I32 : KILN_F32, rank, dim);
}
static kiln_t maybe(uint32_t dtype, uint32_t rank) { return flag() ? some(dtype, rank) : (kiln_t){0}; }
static kiln_t sized(uint32_t rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t dim[4] = {seldom((int32_t)a), seldom((int32_t)b), seldom((int32_t)c), seldom((int32_t)d)};
    return made(KILN_F32, rank, dim);
}
#define F(rank) some(KILN_F32, rank)
#define I(rank) some(KILN_I32, rank)

static kiln_t draw_attention(void)
{
    const int64_t *s = t.shape;
    int32_t heads = seldom(2);
    kiln_t q = sized(3, s[0], s[1], 4, 0), k = sized(3, s[0], s[2], 4, 0), v = sized(3, s[0], s[2], 4, 0);
    kiln_attention a = {
        .size = sizeof a, .heads = heads, .kv_heads = seldom(0), .causal = flag(), .softcap = (float)seldom(0)};
    if (!below(4)) a.mask = made(KILN_F32, 4, KILN_DIMS(1, seldom(1), s[1], s[2]));
    if (!below(4)) a.window = 1, a.left = seldom(1), a.right = seldom(1);
    if (!below(6)) a.offset = made(KILN_I32, 1, KILN_DIMS(seldom(1)));
    if (!below(6)) a.key_length = made(KILN_I32, 1, KILN_DIMS(seldom(1)));
    if (!below(8))
        a.q_segment = made(KILN_I32, 2, KILN_DIMS(1, s[1])),
        a.k_segment = made(KILN_I32, 2, KILN_DIMS(1, seldom((int32_t)s[2])));
    if (!below(8)) a.key_position = made(KILN_I32, 2, KILN_DIMS(1, s[2]));
    if (!below(8))
        a.bias_table = made(KILN_F32, 2, KILN_DIMS(seldom(4), heads)), a.max_distance = seldom(8),
        a.bidirectional = flag();
    if (!below(8)) a.sinks = made(KILN_F32, 1, KILN_DIMS(seldom(heads)));
    return ops()->attention(t.p, q, k, v, &a);
}

static kiln_t draw_conv(void)
{
    kiln_conv c = {.size = sizeof c,
                   .rank = (uint32_t)seldom(1 + (int32_t)below(3)),
                   .groups = seldom(0),
                   .transposed = !below(3),
                   .pad_mode = (uint32_t)below(5)};
    uint32_t rank = c.rank >= 1 && c.rank <= 3 ? c.rank : 2;
    int64_t x[5] = {1, 4, 4, 4, 4}, w[5] = {2, 2, 2, 2, 2};
    if (below(3)) c.pad_mode = 0;
    x[rank + 1] = w[1] = 1 + below(4);
    for (uint32_t i = 0; i < rank; i++) {
        c.stride[i] = seldom(0), c.before[i] = seldom(flag()), c.after[i] = seldom(flag()), c.dilation[i] = seldom(0);
        c.output_pad[i] = !below(6) ? seldom(0) : 0, w[2 + i] = 1 + below(3);
    }
    if (c.transposed) w[0] = x[rank + 1];
    kiln_t b = {0};
    kiln_t in = made(KILN_F32, rank + 2, x), weight = made(KILN_F32, rank + 2, w);
    if (flag()) b = made(KILN_F32, 1, KILN_DIMS(seldom((int32_t)(c.transposed ? w[1] : w[0]))));
    return ops()->conv(t.p, in, weight, b, &c);
}

static kiln_t draw_pool(void)
{
    kiln_pool c = {.size = sizeof c,
                   .kind = (uint32_t)below(2),
                   .rank = (uint32_t)seldom(1 + (int32_t)below(3)),
                   .count_include_pad = flag()};
    uint32_t rank = c.rank >= 1 && c.rank <= 3 ? c.rank : 2;
    for (uint32_t i = 0; i < 3; i++)
        c.window[i] = seldom(2), c.stride[i] = seldom(0), c.before[i] = seldom(0), c.after[i] = seldom(flag());
    return ops()->pool(t.p, made(KILN_F32, rank + 2, (int64_t[]){1, 4, 4, 4, 2}), &c);
}

static kiln_t draw_norm(void)
{
    const int64_t *s = t.shape;
    kiln_norm c = {.size = sizeof c,
                   .kind = (uint32_t)below(4),
                   .eps = (float)seldom(0) / 8,
                   .one_plus = flag(),
                   .eps_inside = flag(),
                   .group = seldom(0)};
    if (flag()) c.gain = sized(1, s[2], 0, 0, 0);
    if (flag()) c.bias = sized(1, s[2], 0, 0, 0);
    if (!below(3)) c.scale = sized(3, s[0], 1, s[2], 0), c.shift = sized(3, s[0], 1, s[2], 0);
    return ops()->normalize(t.p, F(3), &c);
}

static kiln_t draw_rope(void)
{
    kiln_rope c = {.size = sizeof c, .heads = seldom(2), .rotary = seldom(0), .interleaved = flag()};
    int64_t turned = c.rotary > 1 ? c.rotary / 2 : 1;
    c.cos = sized(4, 1, t.shape[1], 1, turned), c.sin = sized(4, 1, t.shape[1], 1, turned);
    return ops()->rope(t.p, sized(3, t.shape[0], t.shape[1], 4, 0), &c);
}

static kiln_t draw_conv2d(void)
{
    kiln_conv2d c = {.size = sizeof c,
                     .stride = {seldom(1), seldom(1)},
                     .pad = {seldom(1), seldom(1), seldom(1), seldom(1)},
                     .groups = seldom(1)};
    c.dilation[0] = seldom(0), c.dilation[1] = seldom(0);
    kiln_t x = sized(4, 1, 4, 4, 2), w = sized(4, 2, 2, 3, 3);
    return ops()->conv2d(t.p, x, w, flag() ? sized(1, 2, 0, 0, 0) : (kiln_t){0}, &c);
}

static kiln_t draw_products(uint32_t which)
{
    const int64_t *s = t.shape;
    kiln_matmul m = {.size = sizeof m, .alpha = (float)seldom(0), .transpose_b = flag()};
    switch (which) {
    case 0:
        return ops()->matmul(t.p, sized(3, s[0], s[1], s[2], 0),
                             m.transpose_b ? sized(3, s[0], s[3], s[2], 0) : sized(3, s[0], s[2], s[3], 0), &m);
    case 1: return ops()->linear(t.p, F(3), sized(2, s[3], s[2], 0, 0), flag() ? sized(1, s[3], 0, 0, 0) : (kiln_t){0});
    case 2:
        return ops()->linear_transposed(t.p, F(3), sized(2, s[2], s[3], 0, 0),
                                        flag() ? sized(1, s[3], 0, 0, 0) : (kiln_t){0});
    default:
        return ops()->grouped_linear(t.p, sized(2, s[1], s[2], 0, 0), sized(3, 2, s[3], s[2], 0),
                                     flag() ? sized(2, 2, s[3], 0, 0) : (kiln_t){0},
                                     made(KILN_I32, 1, KILN_DIMS(seldom(3))));
    }
}

static kiln_t draw_pictures(uint32_t which)
{
    kiln_interpolate n = {.size = sizeof n,
                          .mode = (uint32_t)below(6),
                          .align_corners = !below(3),
                          .antialias = !below(3),
                          .h = seldom(6),
                          .w = seldom(3)};
    kiln_grid_sample g = {
        .size = sizeof g, .mode = (uint32_t)below(4), .padding = (uint32_t)below(4), .align_corners = flag()};
    int64_t before[4] = {seldom(0), seldom(1), seldom(0), seldom(0)},
            after[4] = {seldom(0), seldom(0), seldom(1), seldom(0)};
    switch (which) {
    case 0: return ops()->interpolate(t.p, F(4), &n);
    case 1: return ops()->grid_sample(t.p, sized(4, 1, 3, 4, 2), sized(4, 1, 2, 3, 2), &g);
    case 2: return ops()->pad(t.p, F(4), before, after, below(5), 0.5f);
    default: return ops()->upsample_nearest(t.p, F(4), seldom(4), seldom(5));
    }
}

enum { OPS = 36 };

static kiln_t draw_group_norm(void)
{
    const kiln_ops *o = ops();
    kiln_t x = sized(4, 1, 2, 2, 4), gamma = sized(1, 4, 0, 0, 0), beta = sized(1, 4, 0, 0, 0);
    if (flag()) return o->group_norm(t.p, x, seldom(2), 1e-5f, gamma, beta);
    kiln_t stats = o->group_norm_stats(t.p, flag() ? x : sized(4, 1, 3, 2, 4), seldom(2));
    return flag() ? stats : o->group_norm_apply(t.p, x, stats, 1e-5f, gamma, beta);
}

static kiln_t drawn(uint32_t kind)
{
    const kiln_ops *o = ops();
    uint32_t axis = below(4), turned[4] = {0, 2, 1, 3};
    kiln_timestep_embedding embedding = {.size = sizeof embedding, .cos_first = flag(), .shift = flag()};
    if (!below(4)) turned[below(4)] = below(5);
    switch (kind) {
    case 0: return draw_attention();
    case 1:
    case 2: return draw_conv();
    case 3: return draw_pool();
    case 4: return draw_norm();
    case 5: return draw_rope();
    case 6: return draw_conv2d();
    case 7:
    case 8:
    case 9:
    case 10: return draw_products(kind - 7);
    case 11:
    case 12:
    case 13:
    case 14: return draw_pictures(kind - 11);
    case 15: return draw_group_norm();
    case 16: return o->layer_norm(t.p, F(3), 1e-5f, maybe(KILN_F32, 1), maybe(KILN_F32, 1));
    case 17: return o->add(t.p, F(3), F(3));
    case 18: return o->mul(t.p, F(2), F(1));
    case 19: return o->act(t.p, F(3), below(8));
    case 20: return o->geglu(t.p, sized(2, t.shape[0], 4, 0, 0));
    case 21: return o->concat(t.p, (const kiln_t[]){F(3), F(3), F(3)}, 1 + below(3), axis);
    case 22: return o->slice(t.p, F(3), axis, seldom(0), seldom(1));
    case 23: return o->reshape(t.p, F(2), 2, KILN_DIMS(seldom((int32_t)t.shape[1]), seldom((int32_t)t.shape[0])));
    case 24: return o->permute(t.p, F(3), turned);
    case 25: return o->embedding(t.p, F(2), I(2));
    case 26: return o->gather(t.p, F(3), I(1));
    case 27: return o->timestep_embedding(t.p, F(1), seldom(6), &embedding);
    case 28:
        return o->softmax(
            t.p, F(3),
            &(kiln_softmax){.size = sizeof(kiln_softmax), .log = flag(), .length = !below(4) ? I(1) : (kiln_t){0}});
    case 29: return o->reduce(t.p, F(3), below(10), below(16), below(2));
    case 30: return o->topk(t.p, F(2), seldom(1), below(2), flag() ? &(kiln_t){0} : NULL);
    case 31: return o->cumsum(t.p, F(3), axis, below(2), below(2));
    case 32: return o->bincount(t.p, I(1), seldom(3));
    case 33: return flag() ? o->take(t.p, F(3), I(1), axis) : o->take_along(t.p, F(2), I(2));
    case 34: return o->scatter(t.p, F(2), I(1), F(2), below(3), below(2));
    default:
        return o->expand(
            t.p, F(3), 3,
            KILN_DIMS(seldom((int32_t)t.shape[0]), seldom((int32_t)t.shape[1]), seldom((int32_t)t.shape[2])));
    }
}

/* 1: it ran. */
static int run_one(uint32_t kind, uint32_t draw)
{
    static const uint32_t precision[4] = {KILN_F32, KILN_BF16, KILN_F32, KILN_F16};
    static float y[NUMBERS];
    const char *why = NULL;
    int64_t dim[8], count = 1;
    state = ((uint64_t)kind << 32) + draw;
    t.n_in = 0;
    for (int i = 0; i < 4; i++) t.shape[i] = below(5) ? 2 : 1 + below(4);
    t.p = ops()->program_new(
        rig_ctx(),
        &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "p", .precision = precision[draw % 4]});
    if (!t.p) return 0;
    kiln_t result = drawn(kind);
    if (ops()->error(t.p, &why) != KILN_OK) {
        HOLDS(why && strlen(why) > 8, "op %u, draw %u: refused without a sentence: %s", kind, draw, why ? why : "");
        HOLDS(result.id == 0, "op %u, draw %u: refused, but there is a result", kind, draw);
        return ops()->program_free(t.p), 0;
    }
    uint32_t rank = ops()->shape(t.p, result, dim, 8), dtype = ops()->dtype(t.p, result);
    for (uint32_t i = 0; i < rank && i < 8; i++) count *= dim[i];
    HOLDS(result.id && rank <= 6 && count > 0, "op %u, draw %u: accepted, of %lld numbers", kind, draw,
          (long long)count);
    size_t size = dtype_size(dtype);
    ops()->output(t.p, "y", result);
    kiln_bind out = (kiln_bind)KILN_BIND(
        "y", {.size = sizeof(kiln_tensor), .dtype = dtype, .device = KILN_CPU, .rank = rank, .dim = dim, .data = y});
    unsigned char mark = dtype == KILN_I32 ? 0xaa : 0xff,
                  unwritten[4] = {mark, mark, mark, mark}; /* a NaN that nothing computes */
    memset(y, mark, sizeof y);
    int ran = 0;
    if (count > NUMBERS)
        HOLDS(count < 1 << 20, "op %u, draw %u: %lld numbers of small operands", kind, draw, (long long)count);
    else if (HOLDS(ops()->plan(rig_ctx(), t.p, NULL) == KILN_OK, "op %u, draw %u: accepted, but not planned: %s", kind,
                   draw, rig_message())) {
        ran = ops()->run(rig_ctx(), t.p, t.in, t.n_in, &out, 1) == KILN_OK;
        if (!ran) HOLDS(strlen(rig_message()) > 8, "op %u, draw %u: the run failed without a sentence", kind, draw);
        int64_t untouched = 0;
        for (int64_t i = 0; ran && i < count; i++)
            untouched += memcmp((char *)y + (size_t)i * size, unwritten, size) == 0;
        HOLDS(!untouched, "op %u, draw %u: %lld of %lld numbers were not written", kind, draw, (long long)untouched,
              (long long)count);
        if (count < NUMBERS)
            HOLDS(memcmp((char *)y + (size_t)count * size, unwritten, size) == 0,
                  "op %u, draw %u: it wrote beyond its result", kind, draw);
    }
    ops()->program_free(t.p);
    return ran;
}

static void try_all(void)
{
    for (uint32_t kind = 0; kind < OPS; kind++) {
        int ran = 0;
        for (uint32_t draw = 0; draw < DRAWS; draw++) ran += run_one(kind, draw);
        HOLDS(ran >= DRAWS / 40 && ran < DRAWS, "op %u: %d of %d draws ran", kind, ran, DRAWS);
    }
}

/* In a process of its own, since a process takes its kernels once. */
static void try_with(const char *variable, const char *value)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        setenv(variable, value, 1);
        try_all();
        rig_close();
        _exit(failures > 0);
    }
    CHECK_MSG(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
              "%s=%s: status %d", variable, value, status);
}

static void test_reference(void) { try_with("KILN_TEST_BACKEND", "reference"); }
static void test_plain(void) { try_with("KILN_CPU_FEATURES", "none"); }
static void test_avx2(void) { try_with("KILN_CPU_FEATURES", "avx2"); }
static void test_avx512(void) { try_with("KILN_CPU_FEATURES", "avx512"); }
static void test_all_this_processor_has(void) { try_with("KILN_TEST_BACKEND", "cpu"); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_reference), CASE(test_plain), CASE(test_avx2), CASE(test_avx512),
                                      CASE(test_all_this_processor_has)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
