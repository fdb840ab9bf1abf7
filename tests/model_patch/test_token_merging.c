/* test_token_merging.c - self-attention with merged tokens, against the paper's method written token by token
 * (tests/golden/tome.safetensors): grids with a row left over, all sources merged, several pictures; where it acts;
 * what is refused.
 */
#include "golden_kit.h"

#include "token_merging.h"

enum { HEADS = 2 };

/* One attention of the grid, of a latent with `cells` rows more than it; the inputs of `name`. */
typedef struct {
    piece c;
    kiln_denoise_inputs in;
    kiln_recording r;
    kiln_attention_info a;
} merging;

static kiln_t latent(piece *c, int64_t rows, int64_t columns)
{
    array a = {.rank = 4, .n = (size_t)(2 * rows * columns * 4), .dim = {2, rows, columns, 4}};
    a.data = calloc(a.n, sizeof(float));
    return piece_input(c, a, KILN_F32);
}

static void record(merging *t, const char *name, const int64_t grid[3], const int64_t latent_size[2],
                   uint32_t precision)
{
    static kiln_weights *goldens;
    if (!goldens) goldens = open_weights("tests/golden/tome.safetensors");
    *t = (merging){.c = piece_new(precision), .in = {.size = sizeof t->in}};
    t->in.x = latent(&t->c, latent_size[0], latent_size[1]);
    t->r = (kiln_recording){.size = sizeof t->r, .ops = t->c.ops, .program = t->c.p, .in = &t->in};
    t->a = (kiln_attention_info){.size = sizeof t->a, .heads = HEADS, .place = "input.1.attn1"};
    memcpy(t->a.grid, grid, sizeof t->a.grid);
    t->a.x = t->a.context = piece_input(&t->c, golden(goldens, "%s.x", name), KILN_F32);
    t->a.q = piece_input(&t->c, golden(goldens, "%s.q", name), KILN_F32);
    t->a.k = piece_input(&t->c, golden(goldens, "%s.k", name), KILN_F32);
    t->a.v = piece_input(&t->c, golden(goldens, "%s.v", name), KILN_F32);
}

static void check_merging(const char *name, const int64_t size[2], double ratio, uint32_t precision, double tolerance)
{
    merging t;
    kiln_weights *goldens = open_weights("tests/golden/tome.safetensors");
    record(&t, name, (const int64_t[]){1, size[0], size[1]}, size, precision);
    model_patch *p = token_merging_new(ratio);
    kiln_t out = p->hook[0].attention(&p->hook[0], &t.r, &t.a);
    REQUIRE(out.id != 0);
    piece_check(&t.c, out, golden(goldens, "%s.out", name), tolerance, name);
    weights_unref(goldens);
    free(p);
}

static void test_merging(void)
{
    check_merging("even", (const int64_t[]){4, 6}, 0.3, KILN_F32, 1e-6);
    check_merging("odd", (const int64_t[]){5, 7}, 0.5, KILN_F32, 1e-6);
    check_merging("all", (const int64_t[]){4, 5}, 1.0, KILN_F32, 1e-6);
    check_merging("few", (const int64_t[]){2, 3}, 0.2, KILN_F32, 1e-6);
    check_merging("near", (const int64_t[]){6, 6}, 0.4, KILN_F32, 1e-5);
    check_merging("odd", (const int64_t[]){5, 7}, 0.5, KILN_BF16, 1.5e-2);
    check_merging("near", (const int64_t[]){6, 6}, 0.4, KILN_BF16, 1.5e-2); /* the same tokens: cosines are f32 */
    check_merging("all", (const int64_t[]){4, 5}, 1.0, KILN_BF16, 1.5e-2);
}

/* All that there is to merge is merged, so a larger share is the same. */
static void test_no_more_than_all_sources(void) { check_merging("all", (const int64_t[]){4, 5}, 0.85, KILN_F32, 1e-6); }

/* Whether it acts at an attention of 4x6 tokens. */
static int acts(const char *place, const int64_t grid[3], const int64_t latent_size[2], double ratio)
{
    merging t;
    record(&t, "even", grid, latent_size, KILN_F32);
    model_patch *p = token_merging_new(ratio);
    t.a.place = place;
    if (strstr(place, "attn2")) t.a.context = t.a.k;
    int given = p->hook[0].attention(&p->hook[0], &t.r, &t.a).id != 0;
    for (size_t i = 0; i < t.c.n_owned; i++) free(t.c.owned[i]);
    t.c.ops->program_free(t.c.p);
    free(p);
    return given;
}

static void test_where_it_acts(void)
{
    const int64_t grid[] = {1, 4, 6}, size[] = {4, 6};
    CHECK(acts("input.1.attn1", grid, size, 0.3));
    CHECK(acts("output.11.t1.attn1", grid, size, 0.3));
    CHECK(!acts("input.1.attn2", grid, size, 0.3));
    CHECK(!acts("input.1.attn1", grid, (const int64_t[]){8, 12}, 0.3)); /* a lower resolution */
    CHECK(!acts("input.1.attn1", grid, (const int64_t[]){8, 6}, 0.3));  /* half of the cells: the next one already */
    CHECK(acts("input.1.attn1", grid, (const int64_t[]){7, 6}, 0.3));   /* features that were made fewer a little */
    CHECK(!acts("input.1.attn1", grid, size, 0.04));                    /* less than a token */
    CHECK(!acts("input.1.attn1", (const int64_t[]){1, 24, 1}, size, 0.3));
    CHECK(!acts("input.1.attn1", (const int64_t[]){0, 0, 0}, size, 0.3));
    CHECK(!acts("input.1.attn1", (const int64_t[]){2, 4, 3}, size, 0.3));
}

static void test_a_mask_is_refused(void)
{
    merging t;
    const char *message = "";
    record(&t, "even", (const int64_t[]){1, 4, 6}, (const int64_t[]){4, 6}, KILN_F32);
    model_patch *p = token_merging_new(0.3);
    t.a.mask = t.a.q;
    p->hook[0].attention(&p->hook[0], &t.r, &t.a);
    CHECK(t.c.ops->error(t.c.p, &message) != KILN_OK && strstr(message, "at 'input.1.attn1' another patch masks"));
    for (size_t i = 0; i < t.c.n_owned; i++) free(t.c.owned[i]);
    t.c.ops->program_free(t.c.p);
    free(p);
}

/* Each cell has its draw, and each attention its own: the first of SplitMix64, whose numbers for 0 are known. */
static void test_draws(void)
{
    uint64_t state = 0; /* e220a8397b1dcdaf 6e789e6aa1b965f4 06c45d188009454f f88bb8a8724c81ec */
    const int wanted[] = {3, 1, 0, 3};
    for (int i = 0; i < 4; i++) CHECK_EQ(token_merging_draw(&state), wanted[i]);
}

static void test_the_ratio_is_in_the_identity(void)
{
    model_patch *p = token_merging_new(0.3), *other = token_merging_new(0.31);
    CHECK(strncmp(p->hook[0].identity, "TomePatchModel/0.2999", 21) == 0);
    CHECK(strcmp(p->hook[0].identity, other->hook[0].identity) != 0);
    free(p), free(other);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_merging),       CASE(test_no_more_than_all_sources),
        CASE(test_where_it_acts), CASE(test_a_mask_is_refused),
        CASE(test_draws),         CASE(test_the_ratio_is_in_the_identity),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
