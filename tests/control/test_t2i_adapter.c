/* test_t2i_adapter.c - every kind of T2I-Adapter against diffusers (t2i_adapters.safetensors), under diffusers' names
 * and under the release's; and what is said of others.
 *
 * Tolerance: torch's own f32 run is up to 1e-6 off its f64 one (noise_f32 of the golden); 1e-5 is what is aimed at.
 */
#include "golden_kit.h"
#include "t2i_family.h"
#include "unet/formula_weights.h"

#include <sys/stat.h>

#define BLOCK 1e-5

enum { LEVELS = 4 };

static const struct {
    const char *kind, *architecture, *place[LEVELS];
} kinds[] = {
    {"full", "T2I-Adapter for SD1, 8 to 16 channels", {"input.2", "input.5", "input.8", "input.11"}},
    {"xl", "T2I-Adapter for SDXL, 8 to 16 channels", {"input.3", "input.5", "input.8", "middle"}},
    {"light", "T2I-Adapter light, for SD1, 16 to 32 channels", {"input.2", "input.5", "input.8", "input.11"}},
    {"grey", "T2I-Adapter for SD1, 8 to 12 channels", {"input.2", "input.5", "input.8", "input.11"}},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static kiln_weights *goldens(void)
{
    static kiln_weights *g;
    if (!g) g = open_weights("tests/golden/t2i_adapters.safetensors");
    return g;
}

static formula_file *tensors_of(const char *kind)
{
    static formula_file f;
    char path[600], line[300], wanted[60];
    int inside = 0;
    f.n = 0, f.of = kind;
    snprintf(path, sizeof path, "%s/tests/golden/t2i_adapters/names.txt", test_root());
    snprintf(wanted, sizeof wanted, "kind %s", kind);
    FILE *in = fopen(path, "r");
    if (!CHECK(in != NULL)) return &f;
    while (fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "kind ", 5) == 0)
            inside = strcmp(line, wanted) == 0;
        else if (inside)
            CHECK(formula_add(&f, line));
    }
    fclose(in);
    CHECK_MSG(f.n > 20, "%zu tensors of %s", f.n, kind);
    return &f;
}

static kiln_weights *open_file(const formula_file *f, const char *kind)
{
    char root[300], path[400], from[600], text[2000];
    error e = {0};
    snprintf(root, sizeof root, "%s/%s", test_folder(), kind ? kind : "single");
    mkdir(root, 0700);
    snprintf(path, sizeof path, "%s/diffusion_pytorch_model.safetensors", root);
    CHECK(formula_write(f, path, NULL));
    if (kind) { /* a folder has its configuration */
        snprintf(from, sizeof from, "%s/tests/golden/t2i_adapters/%s/config.json", test_root(), kind);
        snprintf(path, sizeof path, "%s/config.json", root);
        FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
        if (!CHECK(in && out)) return NULL;
        fwrite(text, 1, fread(text, 1, sizeof text, in), out);
        fclose(in), fclose(out);
    }
    kiln_weights *w = weights_open(kind ? root : path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static const kiln_net *net_of(const kiln_value *v)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    return models->net(rig_ctx(), v, "CONTROL_NET");
}

/* ---- one evaluation ---- */

typedef struct {
    char place[LEVELS][24];
    kiln_t t[LEVELS];
    size_t n;
} results;

static void note_result(const kiln_outputs *out, const char *place, kiln_t t)
{
    results *r = out->self;
    if (!CHECK(r->n < LEVELS)) return;
    snprintf(r->place[r->n], sizeof r->place[0], "%s", place);
    r->t[r->n++] = t;
}

/* The hint's first channel alone. */
static array first_channel(array a)
{
    size_t n = a.n / 3;
    for (size_t i = 0; i < n; i++) a.data[i] = a.data[3 * i];
    a.dim[3] = 1, a.n = n;
    return a;
}

/* Compares level `which`; one at a time, for a piece compares one output. */
static void check_level(size_t kind, const kiln_net *net, size_t which)
{
    piece c = piece_new(KILN_F32);
    array hint = golden(goldens(), "hint");
    results r = {.n = 0};
    const kiln_outputs out = {.size = sizeof out, .self = &r, .add = note_result};
    if (strcmp(kinds[kind].kind, "grey") == 0) hint = first_channel(hint);
    kiln_named_tensor named = {.size = sizeof named, .name = "hint", .tensor = piece_input(&c, hint, KILN_F32)};
    net->network->record(net->network, c.ops, c.p, net->weights, &named, 1, &out);
    CHECK_EQ(r.n, LEVELS);
    CHECK_STR(r.place[which], kinds[kind].place[which]);
    piece_check(&c, r.t[which], golden(goldens(), "%s.out.%zu", kinds[kind].kind, which), BLOCK, kinds[kind].kind);
}

static void check_adapter(size_t kind, kiln_weights *set)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    REQUIRE(set);
    CHECK_EQ(t2i_family.detect(w, set), 90);
    kiln_value *v = t2i_family.open(rig_host(), rig_ctx(), set);
    if (CHECK_MSG(v != NULL, "%s: %s", kinds[kind].kind, rig_message())) {
        CHECK_STR(net_of(v)->network->architecture, kinds[kind].architecture);
        for (size_t i = 0; i < LEVELS; i++) check_level(kind, net_of(v), i);
        CHECK_EQ(weights_unused(net_of(v)->weights, NULL, NULL), 0);
    }
    rig_host()->unref(v);
    weights_unref(set);
}

static void test_every_kind_equals_diffusers(void)
{
    for (size_t i = 0; i < KINDS; i++) check_adapter(i, open_file(tensors_of(kinds[i].kind), kinds[i].kind));
}

static void test_single_files_need_no_configuration(void)
{
    for (size_t i = 0; i < KINDS; i++) check_adapter(i, open_file(tensors_of(kinds[i].kind), NULL));
}

/* The release's names: resnets of a full adapter numbered through, those of a light one in "body". */
static void rename_tensor(formula_tensor *t, int light)
{
    unsigned level = 0, resnet = 0;
    int n = 0;
    const char *name = t->seed + strlen("adapter.");
    if (sscanf(name, "body.%u.resnets.%u.%n", &level, &resnet, &n) == 2 && light)
        snprintf(t->name, FORMULA_NAME, "body.%u.body.%u.%.60s", level, resnet, name + n);
    else if (n)
        snprintf(t->name, FORMULA_NAME, "body.%u.%.60s", 2 * level + resnet, name + n);
    else if (!light && sscanf(name, "body.%u.in_conv.%n", &level, &n) == 1 && n)
        snprintf(t->name, FORMULA_NAME, "body.%u.in_conv.%.60s", 2 * level, name + n);
    else
        snprintf(t->name, FORMULA_NAME, "%.150s", name);
}

static void test_the_releases_names(void)
{
    for (size_t i = 0; i < KINDS; i++) {
        formula_file *f = tensors_of(kinds[i].kind);
        for (size_t k = 0; k < f->n; k++) rename_tensor(&f->tensor[k], strcmp(kinds[i].kind, "light") == 0);
        check_adapter(i, open_file(f, NULL));
    }
}

/* ---- others ---- */

static void test_others_are_refused(void)
{
    static const struct {
        const char *tensor, *wanted;
    } rows[] = {{"backbone.0.0.weight 8 8", "Stable Cascade"},
                {"body.0.skep.weight 8 8 1 1", "a convolution beside them"},
                {"adapter.body.9.resnets.0.block1.weight 8 8 3 3", ""},
                {"adapter.body.8.resnets.0.block1.weight 8 8 3 3", "more than 8 levels"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        formula_file *f = tensors_of("full");
        formula_add(f, rows[i].tensor);
        kiln_weights *set = open_file(f, "full");
        kiln_value *v = set ? t2i_family.open(rig_host(), rig_ctx(), set) : NULL;
        if (*rows[i].wanted)
            CHECK_MSG(!v && strstr(rig_message(), rows[i].wanted), "%s: '%s'", rows[i].tensor, rig_message());
        else
            CHECK_MSG(v != NULL, "%s", rig_message());
        rig_host()->unref(v);
        weights_unref(set);
    }
}

static void test_a_configuration_of_another_adapter_is_refused(void)
{
    static const struct {
        const char *weights, *config, *wanted;
    } rows[] = {{"full", "light", "'adapter_type' is 'light_adapter', and the weights are those of full_adapter"},
                {"light", "full", "'adapter_type' is 'full_adapter', and the weights are those of light_adapter"},
                {"full", "grey", "'channels' says 8, and the weights have 12"},
                {"grey", "xl", "unshuffled by 16"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_weights *set = open_file(tensors_of(rows[i].weights), rows[i].config);
        kiln_value *v = set ? t2i_family.open(rig_host(), rig_ctx(), set) : NULL;
        CHECK_MSG(!v && strstr(rig_message(), rows[i].wanted), "%s with %s: '%s'", rows[i].weights, rows[i].config,
                  rig_message());
        rig_host()->unref(v);
        weights_unref(set);
    }
}

/* Names cut out and shapes changed: there is a value or a message, and nothing else. */
static void test_damaged_files_are_refused_or_opened(void)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    uint64_t z = 20261122;
    for (int round = 0; round < 300; round++) {
        formula_file *f = tensors_of(kinds[round % KINDS].kind);
        f->of = NULL;
        for (int k = 0; k < 1 + round % 7; k++) {
            z = z * 6364136223846793005u + 1442695040888963407u;
            formula_tensor *t = &f->tensor[(z >> 33) % f->n];
            if (z >> 61 & 1)
                *t = f->tensor[--f->n];
            else
                t->dim[(z >> 20) % (uint64_t)t->rank] = (int64_t)(z >> 50 & 7);
        }
        char path[400];
        error e = {0};
        snprintf(path, sizeof path, "%s/damaged.safetensors", test_folder());
        CHECK(formula_write(f, path, NULL));
        kiln_weights *set = weights_open(path, &e);
        if (!set || !t2i_family.detect(w, set)) {
            weights_unref(set);
            continue;
        }
        kiln_value *v = t2i_family.open(rig_host(), rig_ctx(), set);
        CHECK(v || *rig_message());
        rig_host()->unref(v);
        weights_unref(set);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_kind_equals_diffusers),
                                      CASE(test_single_files_need_no_configuration),
                                      CASE(test_the_releases_names),
                                      CASE(test_others_are_refused),
                                      CASE(test_a_configuration_of_another_adapter_is_refused),
                                      CASE(test_damaged_files_are_refused_or_opened)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
