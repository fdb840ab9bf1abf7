/* test_products_torch.c - attention and products of "kiln.ops/1", recorded through the public table, against what torch
 * makes of the same numbers (scripts/golden/products.py), in f32: each element within 4e-6 of max(1, |torch's|), the
 * logarithm of the softmax's sum too.
 */
#include "golden_kit.h"

#include <math.h>

static kiln_weights *file;

/* The case's operands 0..n-1; those of the bits `whole` are i32, those of `leaves` constants. */
static piece begin(const char *name, int n, unsigned whole, unsigned leaves, kiln_t *in)
{
    piece c = piece_new(KILN_F32);
    for (int i = 0; i < n; i++) {
        array a = golden(file, "%s.%d", name, i);
        if (!CHECK_MSG(a.data != NULL, "%s.%d is not in the golden", name, i)) continue;
        if (leaves >> i & 1) {
            in[i] = c.ops->constant(c.p, a.data, a.rank, a.dim);
            c.owned[c.n_owned++] = a.data;
        } else
            in[i] = piece_input(&c, a, whole >> i & 1 ? KILN_I32 : KILN_F32);
    }
    return c;
}

static void compare(const char *name, const float *got, array wanted)
{
    for (size_t i = 0; i < wanted.n; i++) {
        double want = wanted.data[i] == -2e30f ? -INFINITY : (double)wanted.data[i], have = (double)got[i];
        if (!CHECK_MSG(have == want || fabs(have - want) <= 4e-6 * fmax(1, fabs(want)),
                       "%s: number %zu is %.9g, torch's %.9g", name, i, have, want))
            return;
    }
}

/* Plans, runs and compares `out` and, where there is one, `more`. */
static void finish(piece *c, const char *name, kiln_t out, kiln_t more)
{
    static const char *const files[] = {"out", "more"};
    kiln_t result[] = {out, more};
    size_t n = more.id ? 2 : 1;
    array wanted[2] = {{0}};
    kiln_bind bind[2];
    float *got[2] = {0};
    for (size_t i = 0; i < c->n_in; i++) c->in[i].tensor.dim = c->dim[i]; /* the piece was copied */
    for (size_t i = 0; i < n; i++) {
        wanted[i] = golden(file, "%s.%s", name, files[i]);
        REQUIRE(wanted[i].data && (got[i] = calloc(wanted[i].n, sizeof **got)));
        c->ops->output(c->p, files[i], result[i]);
        bind[i] = (kiln_bind)KILN_BIND(files[i], window_of(got[i], KILN_F32, wanted[i].rank, wanted[i].dim));
    }
    kiln_status status = c->ops->plan(c->ctx, c->p, NULL);
    if (status == KILN_OK) status = c->ops->run(c->ctx, c->p, c->in, c->n_in, bind, n);
    CHECK_MSG(status == KILN_OK, "%s: %s", name, rig_message());
    for (size_t i = 0; i < n; i++) {
        if (status == KILN_OK) compare(name, got[i], wanted[i]);
        free(got[i]), free(wanted[i].data);
    }
    for (size_t i = 0; i < c->n_owned; i++) free(c->owned[i]);
    c->ops->program_free(c->p);
}

/* Where operands from the fourth on belong, by its letter. */
static void place(kiln_attention *o, char what, kiln_t t)
{
    switch (what) {
    case 'o': o->offset = t; break;
    case 'l': o->key_length = t; break;
    case 'q': o->q_segment = t; break;
    case 'k': o->k_segment = t; break;
    case 'r': o->key_position = t; break;
    case 't': o->bias_table = t; break;
    case 's': o->sinks = t; break;
    default: o->pages = t; break;
    }
}

/* Once with the result alone, once with lse. */
static void attention_case(const char *name, const char *places, kiln_attention given)
{
    for (int with = 0; with < 2; with++) {
        kiln_t in[6] = {{0}}, lse = {0};
        unsigned whole = 0, n = 3 + (unsigned)strlen(places);
        for (unsigned i = 3; i < n; i++) whole |= (strchr("ts", places[i - 3]) ? 0u : 1u) << i;
        piece c = begin(name, (int)n, whole, 0, in);
        kiln_attention o = given;
        o.size = sizeof o, o.lse = with ? &lse : NULL;
        for (unsigned i = 3; i < n; i++) place(&o, places[i - 3], in[i]);
        kiln_t out = c.ops->attention(c.p, in[0], in[1], in[2], &o);
        CHECK(!with || lse.id);
        finish(&c, name, out, lse);
    }
}

static void test_attention(void)
{
    attention_case("attention.grouped", "", (kiln_attention){.heads = 4, .kv_heads = 2});
    attention_case("attention.softcap", "o", (kiln_attention){.heads = 4, .kv_heads = 2, .causal = 1, .softcap = 2});
    attention_case("attention.window", "o",
                   (kiln_attention){.heads = 4, .kv_heads = 2, .window = 1, .left = 4, .right = 1});
    attention_case("attention.length", "l", (kiln_attention){.heads = 4, .kv_heads = 2});
    attention_case("attention.segments", "qk", (kiln_attention){.heads = 4, .kv_heads = 2});
    attention_case("attention.ring", "or", (kiln_attention){.heads = 4, .kv_heads = 2, .causal = 1});
    attention_case("attention.sinks", "s", (kiln_attention){.heads = 4, .kv_heads = 2, .causal = 1});
    attention_case("attention.pages", "p", (kiln_attention){.heads = 4, .kv_heads = 2});
}

static void test_attention_with_biases_of_t5(void)
{
    attention_case("attention.t5", "ot", (kiln_attention){.heads = 2, .bidirectional = 1, .max_distance = 128});
    attention_case("attention.one", "ot", (kiln_attention){.heads = 2, .max_distance = 128});
    attention_case("attention.near", "ot", (kiln_attention){.heads = 2, .bidirectional = 1, .max_distance = 50});
}

static void test_products(void)
{
    kiln_t in[4] = {{0}};
    piece c = begin("matmul.plain", 2, 0, 0, in);
    finish(&c, "matmul.plain",
           c.ops->matmul(c.p, in[0], in[1], &(kiln_matmul){.size = sizeof(kiln_matmul), .alpha = 0.5f}), (kiln_t){0});
    c = begin("matmul.turned", 2, 0, 0, in);
    finish(&c, "matmul.turned",
           c.ops->matmul(c.p, in[0], in[1], &(kiln_matmul){.size = sizeof(kiln_matmul), .transpose_b = 1}),
           (kiln_t){0});
    c = begin("linear_transposed", 3, 0, 6, in);
    finish(&c, "linear_transposed", c.ops->linear_transposed(c.p, in[0], in[1], in[2]), (kiln_t){0});
    c = begin("grouped_linear", 4, 8, 6, in);
    finish(&c, "grouped_linear", c.ops->grouped_linear(c.p, in[0], in[1], in[2], in[3]), (kiln_t){0});
}

/* What data says is checked: a length, a page and an offset that cannot be end the run with a sentence. */
static kiln_status run_of(piece *c, kiln_t out, void *got, uint32_t rank, const int64_t *dim)
{
    kiln_bind b = KILN_BIND("out", window_of(got, KILN_F32, rank, dim));
    for (size_t i = 0; i < c->n_in; i++) c->in[i].tensor.dim = c->dim[i];
    c->ops->output(c->p, "out", out);
    kiln_status status = c->ops->plan(c->ctx, c->p, NULL);
    if (status == KILN_OK) status = c->ops->run(c->ctx, c->p, c->in, c->n_in, &b, 1);
    for (size_t i = 0; i < c->n_owned; i++) free(c->owned[i]);
    c->ops->program_free(c->p);
    return status;
}

static void bad_attention(const char *name, char what, int32_t bad, const char *says)
{
    static float got[2 * 7 * 48];
    kiln_t in[4] = {{0}};
    piece c = begin(name, 4, 8, 0, in);
    kiln_attention o = {.size = sizeof o, .heads = 4, .kv_heads = 2};
    place(&o, what, in[3]);
    if (c.n_in == 4) memcpy(c.in[3].tensor.data, &bad, sizeof bad);
    kiln_t out = c.ops->attention(c.p, in[0], in[1], in[2], &o);
    int64_t dim[3];
    c.ops->shape(c.p, out, dim, 3);
    CHECK_EQ(run_of(&c, out, got, 3, dim), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), says) != NULL, "%s", rig_message());
}

static void test_places_that_cannot_be(void)
{
    static float got[19 * 10];
    kiln_t in[4] = {{0}};
    const char *where = getenv("KILN_TEST_BACKEND");
    if (where && strcmp(where, "cuda") == 0) {
        test_skip("a device says nothing of its data");
        return;
    }
    bad_attention("attention.length", 'l', 21, "key_length of 21");
    bad_attention("attention.pages", 'p', 6, "page 6 is outside the 6");
    bad_attention("attention.pages", 'p', -1, "page -1 is outside");
    piece c = begin("grouped_linear", 4, 8, 6, in);
    if (c.n_in == 2) memcpy(c.in[1].tensor.data, &(int32_t){5}, sizeof(int32_t));
    kiln_t out = c.ops->grouped_linear(c.p, in[0], in[1], in[2], in[3]);
    CHECK_EQ(run_of(&c, out, got, 2, (int64_t[]){19, 10}), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "offset 4 of group 1") != NULL, "%s", rig_message());
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_attention),
        CASE(test_attention_with_biases_of_t5),
        CASE(test_products),
        CASE(test_places_that_cannot_be),
    };
    file = open_weights("tests/golden/products.safetensors");
    int status = file ? test_main(argc, argv, tests, sizeof tests / sizeof tests[0]) : 1;
    weights_unref(file);
    return status;
}
