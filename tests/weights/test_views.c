/* test_views.c - other names for the same bytes: patterns, slices, transposed and squeezed tensors, views of views, and
 * what counts as used. M7, M8, M10, M11 are the traps of reading a model's file (tests are named after them). */
#include "weights_kit.h"

static float numbers[64];

/* A base with these names, each f32 of that shape, holding 0, 1, 2, ... */
static kiln_weights *base_of(const char *file, const safetensors_source *t, size_t n)
{
    for (int i = 0; i < 64; i++) numbers[i] = (float)i;
    safetensors_source full[16];
    for (size_t i = 0; i < n; i++) full[i] = t[i], full[i].dtype = KILN_F32, full[i].data = numbers;
    return opened(put_tensors(file, full, n));
}

static kiln_weights *named(const char *name)
{
    const safetensors_source t = {.name = name, DIMS(1)};
    unlink(at_path("named.safetensors"));
    return base_of("named.safetensors", &t, 1);
}

static kiln_weights *view_of(kiln_weights *base, const kiln_weight_rule *rule, size_t n)
{
    error e = {0};
    kiln_weights *v = weights_view(base, rule, n, &e);
    CHECK_MSG(v != NULL, "%s", e.message);
    return v;
}

static void test_patterns(void)
{
    static const struct {
        const char *from, *to, *name, *gives; /* NULL: not in the view */
    } rows[] = {
        {"a.b", "c", "a.b", "c"},
        {"a.b", "c", "a.bc", NULL},
        {"a.b", "c", "a.", NULL},
        {"*", "*", "a.b", "a.b"},
        {"*", "x.*", "a", "x.a"},
        {"unet/*", "*", "unet/a.b", "a.b"},
        {"unet/*", "*", "vae/a", NULL},
        {"a*", "b*", "a", "b"},
        {"a*", "b", "a.c", "b"},
        {"in.{}.w", "blocks.{}.weight", "in.12.w", "blocks.12.weight"},
        {"in.{}.w", "{}", "in.1.2.w", NULL},
        {"in.{}.w", "{}", "in..w", NULL},
        {"{}.{}.*", "{}-{}-*", "a.b.c.d", "a-b-c.d"},
        {"q{}w", "{}", "qww", "w"},
        {"q{}w", "{}", "qw", NULL},
        {"{}a{}", "{}+{}", "aaaa", "aa+a"},
        {"a{b}", "{b}", "a{b}", "{b}"},
        {"a*b", "x*y", "a*b", "x*y"},
        {"{}.{}.{}.{}.{}.{}.{}.{}", "{}{}{}{}{}{}{}{}", "1.2.3.4.5.6.7.8", "12345678"},
        {"{}.{}", "{}", "keep.drop", "keep"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_weights *w = named(rows[i].name), *v = NULL;
        const kiln_weight_rule rule = KILN_RULE(.from = rows[i].from, .to = rows[i].to);
        REQUIRE(w && (v = view_of(w, &rule, 1)));
        kiln_weight_info info = {.size = sizeof info};
        CHECK_MSG(weights_count(v) == (rows[i].gives != NULL), "'%s' on '%s': %zu tensors", rows[i].from, rows[i].name,
                  weights_count(v));
        if (rows[i].gives && weights_at(v, 0, &info) == KILN_OK) CHECK_STR(info.name, rows[i].gives);
        weights_unref(v);
        weights_unref(w);
    }
}

static void test_rules_that_are_refused(void)
{
    static const struct {
        kiln_weight_rule rule;
        const char *says;
    } rows[] = {
        {KILN_RULE(.from = "a", .to = NULL), "no `from` or no `to`"},
        {KILN_RULE(.to = "a"), "no `from` or no `to`"},
        {KILN_RULE(.from = "a", .to = "*"), "'*' has more wildcards than 'a'"},
        {KILN_RULE(.from = "{}", .to = "{}{}"), "more wildcards"},
        {KILN_RULE(.from = "{}{}{}{}{}{}{}{}{}", .to = "a"), "more than 8 wildcards"},
        {KILN_RULE(.from = "*", .to = "*", .rows = -1), "negative rows"},
        {KILN_RULE(.from = "*", .to = "*", .row = -1, .rows = 1), "negative rows"},
        {KILN_RULE(.from = "*", .to = "*", .row = 3, .rows = 2), "'m' has 4 rows; 2 from row 3"},
        {KILN_RULE(.from = "*", .to = "*", .row = 0, .rows = 5), "has 4 rows"},
        {KILN_RULE(.from = "*", .to = "*", .row = INT64_MAX, .rows = INT64_MAX), "has 4 rows"},
        {KILN_RULE(.from = "t", .to = "x", .transpose = 1), "'t' has 3 dimensions"},
        {KILN_RULE(.from = "*", .to = "same"), "two tensors come to be called 'same'"},
    };
    const safetensors_source t[] = {{.name = "m", DIMS(4, 2)}, {.name = "t", DIMS(4, 1, 2)}};
    kiln_weights *w = base_of("refused.safetensors", t, 2);
    REQUIRE(w);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error e = {0};
        kiln_weights *v = weights_view(w, &rows[i].rule, 1, &e);
        CHECK_MSG(!v && e.status == KILN_ERR_INVALID, "rule %zu was accepted", i);
        contains(e.message, rows[i].says);
        weights_unref(v);
    }
    error e = {0};
    CHECK(!weights_view(NULL, NULL, 0, &e) && e.status == KILN_ERR_INVALID);
    kiln_weights *none = view_of(w, NULL, 0);
    CHECK(none && weights_count(none) == 0);
    weights_unref(none);
    weights_unref(w);
}

static void test_first_rule_wins_unless_more(void)
{
    const kiln_weight_rule rule[] = {KILN_RULE(.from = "a.*", .to = "first.*"),
                                     KILN_RULE(.from = "b.*", .to = "one.*", .more = 1),
                                     KILN_RULE(.from = "*", .to = "rest.*")};
    const safetensors_source t[] = {{.name = "a.x", DIMS(1)}, {.name = "b.x", DIMS(1)}, {.name = "c", DIMS(1)}};
    static const char *const wanted[] = {"first.x", "one.x", "rest.b.x", "rest.c"};
    kiln_weights *w = base_of("order.safetensors", t, 3), *v = NULL;
    REQUIRE(w && (v = view_of(w, rule, 3)));
    REQUIRE(CHECK_EQ(weights_count(v), 4));
    for (size_t i = 0; i < 4; i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(v, i, &info);
        CHECK_STR(info.name, wanted[i]);
    }
    weights_unref(w);
    weights_unref(v); /* outlives its base's last other reference */
}

/* OpenCLIP keeps q, k and v in one in_proj_weight. */
static void test_M11_fused_projection_splits_into_rows(void)
{
    const safetensors_source t[] = {{.name = "attn.in_proj_weight", DIMS(6, 2)},
                                    {.name = "attn.in_proj_bias", DIMS(6)}};
    kiln_weight_rule rule[6];
    static const char *const to[] = {"q.weight", "k.weight", "v.weight", "q.bias", "k.bias", "v.bias"};
    for (int i = 0; i < 6; i++)
        rule[i] = (kiln_weight_rule)KILN_RULE(.from = i < 3 ? "attn.in_proj_weight" : "attn.in_proj_bias", .to = to[i],
                                              .row = i % 3 * 2, .rows = 2, .more = 1);
    kiln_weights *w = base_of("fused.safetensors", t, 2), *v = NULL;
    REQUIRE(w && (v = view_of(w, rule, 6)));
    float got[4];
    kiln_weight_info info = {.size = sizeof info};
    CHECK_EQ(weights_find(v, "k.weight", &info), KILN_OK);
    CHECK(info.rank == 2 && info.dim[0] == 2 && info.dim[1] == 2 && info.bytes == 16);
    CHECK_EQ(weights_read_f32(v, "k.weight", got, NULL), KILN_OK);
    CHECK_ARRAY(got, ((float[]){4, 5, 6, 7}), 4, 0); /* the very bytes */
    CHECK_EQ(weights_read_f32(v, "v.bias", got, NULL), KILN_OK);
    CHECK_ARRAY(got, ((float[]){4, 5}), 2, 0);
    const float *mapped = weights_map(v, "v.weight", NULL);
    CHECK(mapped && memcmp(mapped, (float[]){8, 9, 10, 11}, 16) == 0);
    /* a slice of a slice */
    const kiln_weight_rule again = KILN_RULE(.from = "k.weight", .to = "row", .row = 1, .rows = 1);
    kiln_weights *u = view_of(v, &again, 1);
    CHECK(u && weights_read_f32(u, "row", got, NULL) == KILN_OK && got[0] == 6 && got[1] == 7);
    weights_unref(u);
    weights_unref(v);
    weights_unref(w);
}

static void test_M8_transposed_once(void)
{
    const safetensors_source t = {.name = "m", DIMS(2, 3)};
    const kiln_weight_rule flip = KILN_RULE(.from = "m", .to = "m", .transpose = 1),
                           plain = KILN_RULE(.from = "m", .to = "m");
    kiln_weights *w = base_of("transpose.safetensors", &t, 1), *v = NULL, *u = NULL, *back = NULL;
    REQUIRE(w && (v = view_of(w, &flip, 1)));
    float got[6];
    kiln_weight_info info = {.size = sizeof info};
    error e = {0};
    CHECK_EQ(weights_find(v, "m", &info), KILN_OK);
    CHECK(info.dim[0] == 3 && info.dim[1] == 2 && info.bytes == 24);
    CHECK_EQ(weights_read_f32(v, "m", got, NULL), KILN_OK);
    CHECK_ARRAY(got, ((float[]){0, 3, 1, 4, 2, 5}), 6, 0);
    CHECK(!weights_map(v, "m", &e) && e.status == KILN_ERR_UNSUPPORTED);
    contains(e.message, "transposed view");
    CHECK(!weights_bytes(v, "m", &info));
    REQUIRE((u = view_of(v, &plain, 1)) && (back = view_of(u, &flip, 1)));
    CHECK_EQ(weights_read_f32(back, "m", got, NULL), KILN_OK);
    CHECK_ARRAY(got, ((float[]){0, 1, 2, 3, 4, 5}), 6, 0);
    CHECK(weights_map(back, "m", NULL) != NULL);
    e = (error){0};
    CHECK(!weights_view(v, &(kiln_weight_rule)KILN_RULE(.from = "m", .to = "m", .rows = 1), 1, &e));
    contains(e.message, "take its rows in the view before");
    weights_unref(back);
    weights_unref(u);
    weights_unref(v);
    weights_unref(w);
}

/* Larger than one strip of the transposing copy, in both directions, and of 16 bits. */
static void test_transposed_large(void)
{
    enum { ROWS = 67, COLUMNS = 45 };
    static uint16_t stored[ROWS * COLUMNS];
    static float got[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) stored[i] = (uint16_t)(0x3f80 + i % 64);
    const safetensors_source t = {.name = "m", .dtype = KILN_BF16, DIMS(ROWS, COLUMNS), .data = stored};
    const kiln_weight_rule flip = KILN_RULE(.from = "*", .to = "*", .transpose = 1);
    kiln_weights *w = opened(put_tensors("large.safetensors", &t, 1)), *v = NULL;
    REQUIRE(w && (v = view_of(w, &flip, 1)));
    CHECK_EQ(weights_read_f32(v, "m", got, NULL), KILN_OK);
    size_t wrong = 0;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            uint32_t bits = (uint32_t)stored[r * COLUMNS + c] << 16;
            wrong += memcmp(&got[c * ROWS + r], &bits, 4) != 0;
        }
    CHECK_EQ(wrong, 0);
    weights_unref(v);
    weights_unref(w);
}

/* Old autoencoders call them query, key, value, proj_attn and keep them as 1x1 convolutions. */
static void test_M10_old_attention_names_and_shapes(void)
{
    const safetensors_source t[] = {{.name = "mid.attentions.0.query.weight", DIMS(2, 2, 1, 1)},
                                    {.name = "mid.attentions.0.query.bias", DIMS(2)},
                                    {.name = "mid.attentions.0.proj_attn.weight", DIMS(2, 2, 1, 1)},
                                    {.name = "mid.norm.weight", DIMS(1)}};
    const kiln_weight_rule rule[] = {
        KILN_RULE(.from = "{}.attentions.{}.query.*", .to = "{}.attentions.{}.to_q.*", .squeeze = 1),
        KILN_RULE(.from = "{}.attentions.{}.proj_attn.*", .to = "{}.attentions.{}.to_out.0.*", .squeeze = 1),
        KILN_RULE(.from = "*", .to = "*", .squeeze = 1)};
    kiln_weights *w = base_of("old.safetensors", t, 4), *v = NULL;
    REQUIRE(w && (v = view_of(w, rule, 3)));
    kiln_weight_info info = {.size = sizeof info};
    CHECK_EQ(weights_find(v, "mid.attentions.0.to_q.weight", &info), KILN_OK);
    CHECK(info.rank == 2 && info.dim[0] == 2 && info.dim[1] == 2 && info.dim[2] == 0);
    CHECK_EQ(weights_find(v, "mid.attentions.0.to_q.bias", &info), KILN_OK);
    CHECK(info.rank == 1 && info.dim[0] == 2);
    CHECK_EQ(weights_find(v, "mid.attentions.0.to_out.0.weight", &info), KILN_OK);
    CHECK_EQ(weights_find(v, "mid.norm.weight", &info), KILN_OK);
    CHECK(info.rank == 1 && info.dim[0] == 1); /* one dimension is always left */
    CHECK_EQ(weights_count(v), 4);
    weights_unref(v);
    weights_unref(w);
}

typedef struct {
    char text[400];
} name_list;

static void add_name(void *arg, const kiln_weight_info *info)
{
    name_list *l = arg;
    size_t n = strlen(l->text);
    snprintf(l->text + n, sizeof l->text - n, "%s ", info->name);
}

static const char *unused_of(const kiln_weights *w)
{
    static name_list l;
    l.text[0] = '\0';
    size_t n = weights_unused(w, add_name, &l), words = 0;
    for (const char *p = l.text; *p; p++) words += *p == ' ';
    CHECK_EQ(n, words);
    CHECK_EQ(weights_unused(w, NULL, NULL), n);
    return l.text;
}

/* Counting both ways: what nobody asked for is listed, and asking a view asks its base. */
static void test_M7_used_and_unused(void)
{
    const safetensors_source t[] = {{.name = "unet/a", DIMS(4, 2)},
                                    {.name = "unet/b", DIMS(1)},
                                    {.name = "vae/a", DIMS(1)},
                                    {.name = "z", DIMS(1)}};
    const kiln_weight_rule unet[] = {KILN_RULE(.from = "unet/a", .to = "low", .rows = 2, .more = 1),
                                     KILN_RULE(.from = "unet/a", .to = "high", .row = 2, .rows = 2, .more = 1),
                                     KILN_RULE(.from = "unet/*", .to = "*")};
    const kiln_weight_rule all = KILN_RULE(.from = "*", .to = "x.*");
    float got[8];
    kiln_weights *w = base_of("used.safetensors", t, 4), *v = NULL, *u = NULL;
    REQUIRE(w && (v = view_of(w, unet, 3)) && (u = view_of(v, &all, 1)));
    CHECK_STR(unused_of(w), "unet/a unet/b vae/a z ");
    CHECK_STR(unused_of(v), "a b high low ");
    kiln_weight_info info = {.size = sizeof info};
    weights_find(w, "z", &info);
    weights_at(w, 0, &info);
    CHECK_STR(unused_of(w), "unet/a unet/b vae/a z "); /* looking is not using */
    weights_mark_used(v, "low");
    CHECK_STR(unused_of(v), "a b high ");
    CHECK_STR(unused_of(w), "unet/b vae/a z ");
    CHECK_EQ(weights_read_f32(u, "x.b", got, NULL), KILN_OK); /* through two views */
    CHECK_STR(unused_of(u), "x.a x.high x.low ");
    CHECK_STR(unused_of(v), "a high ");
    CHECK_STR(unused_of(w), "vae/a z ");
    CHECK(weights_map(w, "z", NULL) != NULL);
    CHECK_STR(unused_of(w), "vae/a ");
    weights_mark_used(w, "not there");
    weights_unref(u);
    weights_unref(v);
    weights_unref(w);
}

/* A view's identity follows what its tensors are, and reads only the files they lie in. */
static void test_identity_of_views(void)
{
    const safetensors_source t[] = {{.name = "a", DIMS(2, 2)}, {.name = "b", DIMS(2, 2)}};
    const kiln_weight_rule rules[] = {KILN_RULE(.from = "a", .to = "x"),
                                      KILN_RULE(.from = "b", .to = "x"),
                                      KILN_RULE(.from = "a", .to = "y"),
                                      KILN_RULE(.from = "a", .to = "x", .transpose = 1),
                                      KILN_RULE(.from = "a", .to = "x", .rows = 1),
                                      KILN_RULE(.from = "a", .to = "x", .row = 1, .rows = 1)};
    char id[6][33];
    kiln_weights *w = base_of("views.safetensors", t, 2);
    REQUIRE(w);
    for (int i = 0; i < 6; i++) {
        kiln_weights *v = view_of(w, &rules[i], 1), *same = view_of(w, &rules[i], 1);
        REQUIRE(v && same);
        snprintf(id[i], sizeof id[i], "%s", weights_identity(v, NULL));
        CHECK_STR(weights_identity(same, NULL), id[i]);
        weights_unref(v);
        weights_unref(same);
        for (int k = 0; k < i; k++) CHECK_MSG(strcmp(id[i], id[k]) != 0, "rules %d and %d give one identity", i, k);
    }
    weights_unref(w);
    put_one("parts/unet/model.safetensors", "a");
    put_one("parts/vae/model.safetensors", "a");
    w = opened(at_path("parts"));
    kiln_weights *v = view_of(w, &(kiln_weight_rule)KILN_RULE(.from = "unet/*", .to = "*"), 1);
    unlink(at_path("parts/vae/model.safetensors"));
    error e = {0};
    CHECK_MSG(v && weights_identity(v, &e), "%s", e.message);
    CHECK(!weights_identity(w, &e) && e.status == KILN_ERR_IO);
    weights_unref(v);
    weights_unref(w);
}

static void test_texts_of_the_base(void)
{
    put_one("texts/unet/model.safetensors", "a");
    put_text("texts/unet/config.json", "{}");
    kiln_weights *w = opened(at_path("texts")),
                 *v = view_of(w, &(kiln_weight_rule)KILN_RULE(.from = "unet/*", .to = "*"), 1);
    weights_unref(w);
    CHECK_STR(weights_text(v, "unet/config.json", NULL), "{}");
    CHECK_STR(weights_text(v, "unet/__metadata__/format", NULL), "pt");
    CHECK(!weights_text(v, "config.json", NULL));
    weights_unref(v);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_patterns),
        CASE(test_rules_that_are_refused),
        CASE(test_first_rule_wins_unless_more),
        CASE(test_M11_fused_projection_splits_into_rows),
        CASE(test_M8_transposed_once),
        CASE(test_transposed_large),
        CASE(test_M10_old_attention_names_and_shapes),
        CASE(test_M7_used_and_unused),
        CASE(test_identity_of_views),
        CASE(test_texts_of_the_base),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
