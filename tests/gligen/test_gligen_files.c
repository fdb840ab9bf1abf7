/* test_gligen_files.c - the names and shapes of the released GLIGEN for SD1.4, whose layers go to the sixteen places of
 * that UNet; files that are damaged at random. */
#include "gligen_family.h"
#include "gligen_names.h"
#include "golden_kit.h"
#include "unet/formula_weights.h"

static void add(formula_file *f, const char *base, const char *what, int a, int b)
{
    char line[240];
    int n = snprintf(line, sizeof line, "%s%s", base, what);
    if (a) n += snprintf(line + n, sizeof line - (size_t)n, " %d", a);
    if (b) snprintf(line + n, sizeof line - (size_t)n, " %d", b);
    CHECK(formula_add(f, line));
}

static void add_layer(formula_file *f, const char *block, int c)
{
    char base[160];
    snprintf(base, sizeof base, "%.100s.transformer_blocks.0.fuser.", block);
    add(f, base, "alpha_attn", 0, 0), add(f, base, "alpha_dense", 0, 0);
    add(f, base, "linear.weight", c, 768), add(f, base, "linear.bias", c, 0);
    for (const char *k = "qkv"; *k; k++) {
        char name[30];
        snprintf(name, sizeof name, "attn.to_%c.weight", *k);
        add(f, base, name, c, c);
    }
    add(f, base, "attn.to_out.0.weight", c, c), add(f, base, "attn.to_out.0.bias", c, 0);
    add(f, base, "ff.net.0.proj.weight", 8 * c, c), add(f, base, "ff.net.0.proj.bias", 8 * c, 0);
    add(f, base, "ff.net.2.weight", c, 4 * c), add(f, base, "ff.net.2.bias", c, 0);
    add(f, base, "norm1.weight", c, 0), add(f, base, "norm1.bias", c, 0);
    add(f, base, "norm2.weight", c, 0), add(f, base, "norm2.bias", c, 0);
}

static void add_position_net(formula_file *f, const char *prefix)
{
    char base[60];
    snprintf(base, sizeof base, "%sposition_net.", prefix);
    add(f, base, "linears.0.weight", 512, 832), add(f, base, "linears.0.bias", 512, 0);
    add(f, base, "linears.2.weight", 512, 512), add(f, base, "linears.2.bias", 512, 0);
    add(f, base, "linears.4.weight", 768, 512), add(f, base, "linears.4.bias", 768, 0);
    add(f, base, "null_positive_feature", 768, 0), add(f, base, "null_position_feature", 64, 0);
}

/* ldm's block, diffusers', where it is in kiln, and how wide. */
static const struct {
    const char *ldm, *diffusers, *place;
    int channels;
} layers[] = {
    {"input_blocks.1.1", "down_blocks.0.attentions.0", "input.1.middle", 320},
    {"input_blocks.2.1", "down_blocks.0.attentions.1", "input.2.middle", 320},
    {"input_blocks.4.1", "down_blocks.1.attentions.0", "input.4.middle", 640},
    {"input_blocks.5.1", "down_blocks.1.attentions.1", "input.5.middle", 640},
    {"input_blocks.7.1", "down_blocks.2.attentions.0", "input.7.middle", 1280},
    {"input_blocks.8.1", "down_blocks.2.attentions.1", "input.8.middle", 1280},
    {"middle_block.1", "mid_block.attentions.0", "middle.1.middle", 1280},
    {"output_blocks.3.1", "up_blocks.1.attentions.0", "output.3.middle", 1280},
    {"output_blocks.4.1", "up_blocks.1.attentions.1", "output.4.middle", 1280},
    {"output_blocks.5.1", "up_blocks.1.attentions.2", "output.5.middle", 1280},
    {"output_blocks.6.1", "up_blocks.2.attentions.0", "output.6.middle", 640},
    {"output_blocks.7.1", "up_blocks.2.attentions.1", "output.7.middle", 640},
    {"output_blocks.8.1", "up_blocks.2.attentions.2", "output.8.middle", 640},
    {"output_blocks.9.1", "up_blocks.3.attentions.0", "output.9.middle", 320},
    {"output_blocks.10.1", "up_blocks.3.attentions.1", "output.10.middle", 320},
    {"output_blocks.11.1", "up_blocks.3.attentions.2", "output.11.middle", 320},
};
enum { LAYERS = sizeof layers / sizeof layers[0] };

static formula_file *released(int diffusers, const char *prefix)
{
    static formula_file f;
    char block[120];
    f.n = 0, f.of = NULL;
    for (size_t i = 0; i < LAYERS; i++) {
        snprintf(block, sizeof block, "%s%s", prefix, diffusers ? layers[i].diffusers : layers[i].ldm);
        add_layer(&f, block, layers[i].channels);
    }
    add_position_net(&f, prefix);
    return &f;
}

static kiln_weights *open_file(const formula_file *f, const char *name)
{
    char path[400];
    error e = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", test_folder(), name);
    CHECK(formula_write(f, path, NULL));
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static void test_the_released_file_is_read_whole(void)
{
    static const char *const prefixes[] = {"", "model.", "unet/"};
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    for (int kind = 0; kind < 6; kind++) {
        kiln_weights *set = open_file(released(kind % 2, prefixes[kind / 2]), "released");
        REQUIRE(set);
        CHECK_EQ(gligen_family.detect(w, set), 90);
        kiln_value *v = gligen_family.open(rig_host(), rig_ctx(), set);
        CHECK_MSG(v != NULL, "%s", rig_message());
        REQUIRE(v != NULL);
        const kiln_net *net = models->net(rig_ctx(), v, GLIGEN_TYPE);
        const gligen_config *c = gligen_config_of(net);
        CHECK_STR(net->network->architecture, "GLIGEN for SD1, boxes with a text of 768, 16 gated layers");
        CHECK_EQ(c->n, LAYERS);
        CHECK_EQ(c->frequencies, 8);
        for (size_t i = 0; i < LAYERS; i++) {
            size_t k = 0;
            while (k < c->n && strcmp(c->place[k], layers[i].place) != 0) k++;
            CHECK_MSG(k < c->n && c->channels[k] == layers[i].channels, "%s", layers[i].place);
        }
        CHECK_EQ(weights_unused(net->weights, NULL, NULL), 0);
        rig_host()->unref(v);
        weights_unref(set);
    }
}

/* Names cut out and shapes changed: there is a value or a message, and nothing else. */
static void test_damaged_files_are_refused_or_opened(void)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    uint64_t z = 20261123;
    size_t opened = 0, refused = 0;
    for (int round = 0; round < 30; round++) {
        formula_file *f = released(round % 2, "");
        for (int k = round % 4; k > 0; k--) {
            z = z * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(z >> 33) % f->n;
            if (z >> 63)
                f->tensor[at] = f->tensor[--f->n];
            else if (f->tensor[at].rank)
                f->tensor[at].dim[0] += 1;
        }
        kiln_weights *set = open_file(f, "damaged");
        if (set && gligen_family.detect(w, set)) {
            kiln_value *v = gligen_family.open(rig_host(), rig_ctx(), set);
            CHECK(v || *rig_message());
            if (v)
                opened++;
            else
                refused++;
            rig_host()->unref(v);
        }
        weights_unref(set);
    }
    CHECK_MSG(opened >= 7 && refused >= 15, "%zu opened, %zu refused", opened, refused);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_the_released_file_is_read_whole),
                                      CASE(test_damaged_files_are_refused_or_opened)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
