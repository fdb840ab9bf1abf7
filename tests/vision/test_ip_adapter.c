/* test_ip_adapter.c - files of IP-Adapters: what their names show, the released ones' names, and what is said of
 * others.
 */
#include "ip_adapter_family.h"
#include "ip_adapter_layers.h"
#include "vision_kit.h"

/* The names and shapes of h94's released files, by their sizes: 16 cross-attentions of SD1, 70 of SDXL. */
static void add_attentions(formula_file *f, int xl, const char *prefix)
{
    static const int sd1[16] = {320, 320, 640, 640, 1280, 1280, 1280, 1280, 1280, 640, 640, 640, 320, 320, 320, 1280};
    char line[120];
    for (int i = 0; i < (xl ? 70 : 16); i++) {
        int inner = xl ? (i < 4 || (i >= 54 && i < 60) ? 640 : 1280) : sd1[i];
        for (int k = 0; k < 2; k++) {
            snprintf(line, sizeof line, "%s.%d.to_%c_ip.weight %d %d", prefix, 2 * i + 1, "kv"[k], inner,
                     xl ? 2048 : 768);
            CHECK(formula_add(f, line));
        }
    }
}

static void add(formula_file *f, const char *name, int a, int b, int c)
{
    char line[160];
    int n = snprintf(line, sizeof line, "image_proj.%s %d", name, a);
    if (b) n += snprintf(line + n, sizeof line - (size_t)n, " %d", b);
    if (c) snprintf(line + n, sizeof line - (size_t)n, " %d", c);
    CHECK(formula_add(f, line));
}

static void add_embeds(formula_file *f, int width, int features)
{
    add(f, "proj.weight", 4 * width, features, 0), add(f, "proj.bias", 4 * width, 0, 0);
    add(f, "norm.weight", width, 0, 0), add(f, "norm.bias", width, 0, 0);
}

static void add_full(formula_file *f, int width, int features)
{
    add(f, "proj.0.weight", features, features, 0), add(f, "proj.0.bias", features, 0, 0);
    add(f, "proj.2.weight", width, features, 0), add(f, "proj.2.bias", width, 0, 0);
    add(f, "proj.3.weight", width, 0, 0), add(f, "proj.3.bias", width, 0, 0);
}

static void add_plus(formula_file *f, int width, int dim, int inner)
{
    add(f, "latents", 1, 16, dim), add(f, "proj_in.weight", dim, 1280, 0), add(f, "proj_in.bias", dim, 0, 0);
    add(f, "proj_out.weight", width, dim, 0), add(f, "proj_out.bias", width, 0, 0);
    add(f, "norm_out.weight", width, 0, 0), add(f, "norm_out.bias", width, 0, 0);
    for (int i = 0; i < 4; i++) {
        static const char *const norms[] = {"0.norm1", "0.norm2", "1.0"};
        char name[80];
#define PART(what) (snprintf(name, sizeof name, "layers.%d.%s", i, what), name)
        for (int k = 0; k < 3; k++) {
            char part[40];
            snprintf(part, sizeof part, "%s.weight", norms[k]);
            add(f, PART(part), dim, 0, 0);
            snprintf(part, sizeof part, "%s.bias", norms[k]);
            add(f, PART(part), dim, 0, 0);
        }
        add(f, PART("0.to_q.weight"), inner, dim, 0), add(f, PART("0.to_kv.weight"), 2 * inner, dim, 0);
        add(f, PART("0.to_out.weight"), dim, inner, 0);
        add(f, PART("1.1.weight"), 4 * dim, dim, 0), add(f, PART("1.3.weight"), dim, 4 * dim, 0);
#undef PART
    }
}

enum { EMBEDS, PLUS, FULL };

static formula_file *released(int kind, int xl, int features, const char *prefix)
{
    static formula_file f;
    f.n = 0, f.of = NULL;
    add_attentions(&f, xl, prefix);
    if (kind == EMBEDS) add_embeds(&f, xl ? 2048 : 768, features);
    if (kind == FULL) add_full(&f, xl ? 2048 : 768, features);
    if (kind == PLUS) add_plus(&f, xl ? 2048 : 768, xl ? 1280 : 768, xl ? 1280 : 768);
    return &f;
}

/* ---- the released files ---- */

static void test_the_released_files_are_read_whole(void)
{
    static const struct {
        const char *name;
        int kind, xl, features;
        const char *prefix, *architecture, *family;
    } rows[] = {
        {"ip-adapter_sd15", EMBEDS, 0, 1024, "ip_adapter", "IP-Adapter for SD1, features of 1024, 4 tokens",
         "ip-adapter/0.4.0.0"},
        {"ip-adapter_sd15_vit-G", EMBEDS, 0, 1280, "ip_adapter", "IP-Adapter for SD1, features of 1280, 4 tokens",
         "ip-adapter/0.4.0.0"},
        {"ip-adapter-plus_sd15", PLUS, 0, 1280, "ip_adapter", "IP-Adapter Plus for SD1, features of 1280, 16 tokens",
         "ip-adapter/1.16.4.12"},
        {"ip-adapter-full-face_sd15", FULL, 0, 1280, "ip_adapter", "IP-Adapter full for SD1, features of 1280",
         "ip-adapter/2.0.0.0"},
        {"ip-adapter_sdxl", EMBEDS, 1, 1280, "ip_adapter", "IP-Adapter for SDXL, features of 1280, 4 tokens",
         "ip-adapter/0.4.0.0"},
        {"ip-adapter_sdxl_vit-h", EMBEDS, 1, 1024, "adapter_modules", "IP-Adapter for SDXL, features of 1024, 4 tokens",
         "ip-adapter/0.4.0.0"},
        {"ip-adapter-plus_sdxl_vit-h", PLUS, 1, 1280, "ip_adapter",
         "IP-Adapter Plus for SDXL, features of 1280, 16 tokens", "ip-adapter/1.16.4.20"},
    };
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_weights *set =
            open_single(released(rows[i].kind, rows[i].xl, rows[i].features, rows[i].prefix), rows[i].name, NULL);
        REQUIRE(set);
        CHECK_EQ(ip_adapter_family.detect(w, set), 90);
        kiln_value *v = ip_adapter_family.open(rig_host(), rig_ctx(), set);
        if (CHECK_MSG(v != NULL, "%s: %s", rows[i].name, rig_message())) {
            const kiln_net *net = net_of(v, IP_ADAPTER_TYPE);
            CHECK_STR(net->network->architecture, rows[i].architecture);
            CHECK_STR(net->network->family, rows[i].family);
            CHECK_EQ(weights_unused(net->weights, NULL, NULL), 0);
        }
        rig_host()->unref(v);
        weights_unref(set);
    }
}

/* ---- others ---- */

static void refuses(kiln_weights *set, const char *what, const char *wanted)
{
    kiln_value *v = set ? ip_adapter_family.open(rig_host(), rig_ctx(), set) : NULL;
    CHECK_MSG(!v && strstr(rig_message(), wanted), "%s: '%s'", what, rig_message());
    rig_host()->unref(v);
    weights_unref(set);
}

static void test_other_adapters_are_refused(void)
{
    static const struct {
        const char *line, *wanted;
    } rows[] = {{"ip_adapter.0.to_q_lora.down.weight 128 320", "it is a FaceID, which wants a face's identity"},
                {"image_proj.perceiver_resampler.proj_in.weight 8 8", "it is a FaceID"},
                {"image_proj.proj.2.weight 3072 1024", "its image_proj is none of those"}};
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static formula_file f;
        f.n = 0, f.of = NULL;
        add_attentions(&f, 0, "ip_adapter");
        if (i < 2) add_embeds(&f, 768, 512);
        formula_add(&f, rows[i].line);
        kiln_weights *set = open_single(&f, "other", NULL);
        CHECK_EQ(ip_adapter_family.detect(w, set), 1);
        refuses(set, rows[i].line, rows[i].wanted);
    }
}

static void drop(formula_file *f, const char *name)
{
    for (size_t k = 0; k < f->n; k++)
        if (strcmp(f->tensor[k].name, name) == 0) f->tensor[k] = f->tensor[--f->n];
}

static void test_missing_halves_are_named(void)
{
    static const struct {
        int kind;
        const char *without, *wanted;
    } rows[] = {{EMBEDS, "ip_adapter.7.to_v_ip.weight", "no tensor 'ip_adapter.7.to_v_ip.weight'"},
                {EMBEDS, "ip_adapter.31.to_k_ip.weight", "no tensor 'ip_adapter.31.to_k_ip.weight'"},
                {EMBEDS, "image_proj.norm.bias", "no tensor 'image_proj.norm.bias'"},
                {PLUS, "image_proj.layers.3.1.3.weight", "no tensor 'image_proj.layers.3.1.3.weight'"},
                {PLUS, "image_proj.layers.0.0.to_q.weight", "its resampler's queries are 0 wide"},
                {FULL, "image_proj.proj.2.bias", "no tensor 'image_proj.proj.2.bias'"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        formula_file *f = released(rows[i].kind, 0, 1280, "ip_adapter");
        drop(f, rows[i].without);
        refuses(open_single(f, "short", NULL), rows[i].without, rows[i].wanted);
    }
    formula_file *f = released(EMBEDS, 0, 1024, "ip_adapter");
    drop(f, "image_proj.proj.weight");
    add(f, "proj.weight", 3071, 1024, 0);
    refuses(open_single(f, "odd", NULL), "3071 rows", "3071 numbers are no tokens of 768");
}

/* Names cut out and shapes changed: there is a value or a message, and nothing else. */
static void test_damaged_files_are_refused_or_opened(void)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    uint64_t z = 20261122;
    for (int round = 0; round < 300; round++) {
        formula_file *f = released(round % 3, 0, 1280, "ip_adapter");
        damage(f, 1 + round % 9, &z);
        kiln_weights *set = open_single(f, "damaged", NULL);
        if (!set || !ip_adapter_family.detect(w, set)) {
            weights_unref(set);
            continue;
        }
        kiln_value *v = ip_adapter_family.open(rig_host(), rig_ctx(), set);
        CHECK(v || *rig_message());
        rig_host()->unref(v);
        weights_unref(set);
    }
}

/* ---- layers ---- */

static void list_sdxl(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    static const struct {
        const char *block;
        int depth;
    } blocks[] = {{"input.4", 2},   {"input.5", 2},   {"input.7", 10},  {"input.8", 10},
                  {"middle.1", 10}, {"output.0", 10}, {"output.1", 10}, {"output.2", 10},
                  {"output.3", 2},  {"output.4", 2},  {"output.5", 2}};
    char place[60];
    (void)d;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        for (int t = 0; t < blocks[i].depth; t++) {
            snprintf(place, sizeof place, t ? "%s.t%d.attn2.out" : "%s.attn2.out", blocks[i].block, t);
            fn(arg, place, KILN_PLACE_POINT);
            snprintf(place, sizeof place, t ? "%s.t%d.attn1.out" : "%s.attn1.out", blocks[i].block, t);
            fn(arg, place, KILN_PLACE_POINT);
        }
}

static void test_files_number_the_middle_last(void)
{
    static const kiln_denoiser d = {.size = sizeof d, .places = list_sdxl};
    static ip_adapter_places p;
    ip_adapter_find_places(&d, &p);
    CHECK_EQ(p.n, 70);
    CHECK_EQ(p.layers, 11);
    for (size_t i = 0; i < p.n; i++) {
        if (strcmp(p.place[i].name, "input.4.attn2.out") == 0) CHECK(p.place[i].number == 1 && p.place[i].layer == 0);
        if (strcmp(p.place[i].name, "output.0.attn2.out") == 0) CHECK(p.place[i].number == 49 && p.place[i].layer == 5);
        if (strcmp(p.place[i].name, "middle.1.attn2.out") == 0)
            CHECK(p.place[i].number == 121 && p.place[i].layer == 4);
        if (strcmp(p.place[i].name, "middle.1.t9.attn2.out") == 0) CHECK(p.place[i].number == 139);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_the_released_files_are_read_whole),
                                      CASE(test_other_adapters_are_refused), CASE(test_missing_halves_are_named),
                                      CASE(test_damaged_files_are_refused_or_opened),
                                      CASE(test_files_number_the_middle_last)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
