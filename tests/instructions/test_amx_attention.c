/* test_amx_attention.c - attention by packed tiles (attention_units.h) over the model of AMX: heads and keys of every
 * remainder, scores that lie near and far apart, NaN. Where AMX is, tests/backend/test_ops.c runs the
 * op's rows on it.
 */
#include "harness.h"

#include "amx_model.h"
#include "backend/cpu/cpu.h"
#include "backend/ops_level.h"
#include "backend/ops_run.h"

#include "base/memory_alloc.h"
#include "base/pool.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 256 };

typedef struct {
    int64_t images, queries, keys, heads, kv_heads, channels, value_channels;
    float factor; /* of queries */
} head_case;

static int missing(void)
{
#if defined __x86_64__
    if (ops_machine_has("avx512bf16") && __builtin_cpu_supports("avx512vbmi")) return 0;
#endif
    test_skip("this processor has no AVX-512 with bf16 and VBMI, which attention uses beside AMX's tiles");
    return 1;
}

static operand_desc of(int64_t a, int64_t b, int64_t c)
{
    return (operand_desc){.dtype = KILN_F32, .shape = {3, {a, b, c}}, .ld = c};
}

static op_case case_of(const head_case *h)
{
    op_case c = {.name = "attention", .op = {.kind = OP_ATTENTION, .n_in = 3}};
    c.op.in[0] = of(h->images, h->queries, h->heads * h->channels);
    c.op.in[1] = of(h->images, h->keys, h->kv_heads * h->channels);
    c.op.in[2] = of(h->images, h->keys, h->kv_heads * h->value_channels);
    c.op.out = of(h->images, h->queries, h->heads * h->value_channels);
    c.op.attr.attention.heads = (uint32_t)h->heads, c.op.attr.attention.kv_heads = (uint32_t)h->kv_heads;
    c.op.attr.attention.scale = 1 / sqrtf((float)h->channels);
    return c;
}

static int packed(const op_setup *s)
{
    error e = {0};
    kernel *k = NULL;
    if (backend_cpu.prepare(&s->op, &k, &e) != KILN_OK) return 0;
    int is = strcmp(k->name, "attention:packed") == 0;
    k->free(k);
    return is;
}

static void multiply(op_setup *s, float by)
{
    uint16_t *q = s->in[0];
    size_t n = (size_t)(s->op.in[0].shape.dim[0] * s->op.in[0].shape.dim[1] * s->op.in[0].ld);
    for (size_t i = 0; i < n; i++) q[i] = bf16_from_f32(bf16_to_f32(q[i]) * by);
}

/* By the CPU's table against the plain one; the same bytes for one thread and three. */
static int right(const head_case *h)
{
    op_case c = case_of(h);
    op_setup s;
    char what[120];
    snprintf(what, sizeof what, "%lld x %lld, %lld over %lld heads of %lld and %lld, times %g", (long long)h->queries,
             (long long)h->keys, (long long)h->heads, (long long)h->kv_heads, (long long)h->channels,
             (long long)h->value_channels, (double)h->factor);
    if (!setup_make(&s, &c, KILN_BF16, 8)) return 0;
    if (h->factor != 1) multiply(&s, h->factor);
    pool *three = pool_new(3);
    void *expected = setup_run(&s, &backend_reference, NULL, 1, NULL, NULL, NULL);
    void *one = setup_run(&s, &backend_cpu, NULL, 1, NULL, NULL, NULL);
    void *more = setup_run(&s, &backend_cpu, three, 1, NULL, NULL, NULL);
    int ok = packed(&s) && expected && one && more && setup_near(&s, one, expected, 3.5e-3, what) &&
             memcmp(one, more, setup_bytes(&s)) == 0;
    if (!ok) printf("  %s\n", what);
    mem_free(expected), mem_free(one), mem_free(more);
    pool_free(three);
    setup_free(&s);
    return ok;
}

static void test_shapes(void)
{
    static const head_case cases[] = {
        {2, 64, 64, 2, 2, 40, 40, 1},    {1, 33, 77, 3, 3, 40, 40, 1},    {1, 70, 45, 2, 2, 64, 64, 1},
        {1, 16, 31, 1, 1, 80, 80, 1},    {2, 40, 100, 2, 1, 128, 128, 1}, {1, 35, 150, 1, 1, 160, 160, 1},
        {1, 64, 140, 1, 1, 512, 512, 1}, {1, 17, 1, 2, 2, 8, 8, 1},       {1, 20, 33, 2, 2, 16, 16, 1},
        {1, 31, 65, 2, 2, 33, 31, 1},    {1, 50, 96, 4, 2, 24, 100, 1},   {1, 18, 600, 1, 1, 96, 48, 1},
        {2, 40, 150, 64, 32, 8, 16, 1},  {1, 1100, 70, 3, 3, 40, 40, 1}};
    if (missing()) return;
    unsigned long before = amx_model_count();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) CHECK(right(&cases[i]));
    CHECK(amx_model_count() > before); /* these are the model's */
    CHECK(!amx_model_in_use());
}

/* Bounds of 20 to 40 take something from scores, and those of more than 64 want their greatest. */
static void test_far_apart(void)
{
    static const float factors[] = {4, 8, 12, 30, 300};
    if (missing()) return;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        CHECK(right(&(head_case){1, 40, 1100, 1, 1, 40, 40, factors[i]}));
        CHECK(right(&(head_case){1, 33, 700, 1, 1, 64, 64, factors[i]}));
        CHECK(right(&(head_case){1, 20, 300, 1, 1, 160, 144, factors[i]}));
    }
}

/* More than is packed at once: heads after heads. */
static void test_many_keys(void)
{
    if (!missing()) CHECK(right(&(head_case){1, 16, 32768, 5, 5, 40, 40, 1}));
}

static int count_nan(const op_setup *s, int64_t row, int64_t from, int64_t n)
{
    unsigned char *all = setup_run(s, &backend_cpu, NULL, 1, NULL, NULL, NULL);
    const uint16_t *out = all ? (const uint16_t *)(const void *)(all + GUARD_BYTES) + row * s->op.out.ld + from : NULL;
    int found = 0;
    for (int64_t i = 0; out && i < n; i++) found += isnan(bf16_to_f32(out[i])) != 0;
    mem_free(all);
    return found;
}

/* NaN in a query is in its row alone; in a key, in every row; in a value, in its channel. */
static void test_nan(void)
{
    static const head_case h = {1, 40, 100, 2, 2, 40, 40, 1};
    op_case c = case_of(&h);
    op_setup s;
    if (missing()) return;
    for (int of_what = 0; of_what < 3; of_what++) {
        CHECK(setup_make(&s, &c, KILN_BF16, 0));
        ((uint16_t *)s.in[of_what])[(of_what == 1 ? 99 : 3) * s.op.in[of_what].ld + 5] = 0x7fc0;
        CHECK_EQ(count_nan(&s, 3, 0, 40), of_what == 2 ? 1 : 40);
        CHECK_EQ(count_nan(&s, 3, 40, 40), 0); /* the other head */
        CHECK_EQ(count_nan(&s, 20, 0, 40), of_what == 0 ? 0 : of_what == 1 ? 40 : 1);
        setup_free(&s);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_shapes), CASE(test_far_apart), CASE(test_many_keys), CASE(test_nan)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
