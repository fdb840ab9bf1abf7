/* test_clip_loaders.c - CLIPLoader and DualCLIPLoader, as the plugins ship (.so): what is in the files decides, the
 * order of two does not matter. */
#include "clip_kit.h"

#include "plugin/abilities.h"

#include <dlfcn.h>

static const kiln_plugin *clip_plugin;

static const kiln_plugin *load_plugin(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/plugins/kiln-%s.so", test_build(), name);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const kiln_plugin *p = so ? dlsym(so, "kiln_plugin_v1") : NULL;
    if (!CHECK_MSG(p != NULL, "%s", dlerror())) return NULL;
    registry_owner_set(name, NULL);
    CHECK_EQ(p->open(rig_host()), KILN_OK);
    registry_owner_set(NULL, NULL);
    return p;
}

static const kiln_node *node_of(const char *type)
{
    for (uint32_t i = 0; i < clip_plugin->n_node; i++)
        if (strcmp(clip_plugin->node[i]->type, type) == 0) return clip_plugin->node[i];
    CHECK_MSG(0, "no node %s", type);
    return NULL;
}

/* ---- models: text encoders in folders of their own, and the whole folder ---- */

static char l_path[700], g_path[700], h_path[700], whole[700];

static void make_encoder(const char *model, const char *part, const char *tokenizer, const char *name, char path[700])
{
    static const char *const files[] = {"config.json", "model.safetensors",       "vocab.json",
                                        "merges.txt",  "special_tokens_map.json", "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char from[100], to[100];
        snprintf(from, sizeof from, "%s/%s", i < 2 ? part : tokenizer, files[i]);
        snprintf(to, sizeof to, "%s/%s", name, files[i]);
        copy_golden(model, from, test_folder(), to);
    }
    snprintf(path, 700, "%s/%s", test_folder(), name);
}

static void make_models(void)
{
    make_encoder("tiny-sdxl-text", "text_encoder", "tokenizer", "l", l_path);
    make_encoder("tiny-sdxl-text", "text_encoder_2", "tokenizer_2", "g", g_path);
    make_encoder("tiny-sd2-text", "text_encoder", "tokenizer", "h", h_path);
    snprintf(whole, sizeof whole, "%s/tests/golden/tiny-sdxl-text", test_root());
}

static kiln_value *load_one(const char *path)
{
    return call_node(node_of("CLIPLoader"), NULL, &(setting){.name = "clip_name", .text = path}, 1);
}

static kiln_value *load_two(const char *first, const char *second)
{
    const setting both[] = {{"clip_name1", first, 0}, {"clip_name2", second, 0}};
    return call_node(node_of("DualCLIPLoader"), NULL, both, 2);
}

static kiln_value *encode(kiln_value *clip)
{
    const setting texts[] = {{"text_l", "a (cute:1.4) cat", 0}, {"text_g", "a cat, (blurry:-0.5) background", 0}};
    return clip ? call_node(node_of("CLIPTextEncodeSDXL"), clip, texts, 2) : NULL;
}

/* ---- */

static void test_two_files_are_the_pair_of_the_whole_folder(void)
{
    static const char *const keys[] = {"tokens", "pooled"};
    kiln_value *clip[3] = {load_one(whole), load_two(l_path, g_path), load_two(g_path, l_path)}, *c[3];
    for (int i = 0; i < 3; i++) {
        CHECK_MSG(clip[i] != NULL, "%s", rig_message());
        REQUIRE((c[i] = encode(clip[i])) != NULL);
    }
    for (int i = 1; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            kiln_tensor a = entry_tensor(c[0], keys[k]), b = entry_tensor(c[i], keys[k]);
            size_t n = k ? 48 : (size_t)77 * 80;
            CHECK_EQ(b.dim[b.rank - 1], k ? 48 : 80);
            CHECK(a.data && b.data && memcmp(a.data, b.data, n * sizeof(float)) == 0);
        }
    for (int i = 0; i < 3; i++) rig_host()->unref(c[i]), rig_host()->unref(clip[i]);
}

/* L of a pair is read before its last layer and without the final norm; alone it is SD1's. */
static void test_one_file_is_what_it_is_alone(void)
{
    static const struct {
        const char *path, *name;
        int layer;
    } rows[] = {{l_path, "l", -1}, {g_path, "g", -2}, {h_path, "h", -2}};
    for (size_t i = 0; i < 3; i++) {
        kiln_value *v = load_one(rows[i].path);
        CHECK_MSG(v != NULL, "%s", rig_message());
        if (!v) continue;
        const kiln_clip_encoder *e = kiln_clip_encoder_at(clip_of(v), 0);
        CHECK_EQ(clip_of(v)->n_encoder, 1);
        CHECK_STR(e->name, rows[i].name);
        CHECK_EQ(e->encoder->default_layer, rows[i].layer);
        rig_host()->unref(v);
    }
}

static void test_two_that_are_no_pair(void)
{
    static const struct {
        const char *a, *b, *wanted;
    } rows[] = {{l_path, l_path, "hold CLIP text encoder, 16x4 and CLIP text encoder, 16x4"},
                {g_path, h_path, "hold CLIP text encoder, 64x3 and CLIP text encoder, 32x4"},
                {whole, g_path, "hold more than one text encoder and CLIP text encoder, 64x3"}};
    for (size_t i = 0; i < 3; i++) {
        CHECK(load_two(rows[i].a, rows[i].b) == NULL);
        CHECK_MSG(strstr(rig_message(), rows[i].wanted) && strstr(rig_message(), "one CLIP L and one OpenCLIP bigG"),
                  "%s", rig_message());
    }
}

static void test_a_type_that_is_not_there_is_refused_by_name(void)
{
    const setting flux[] = {{"clip_name1", l_path, 0}, {"clip_name2", g_path, 0}, {"type", NULL, 2}};
    CHECK(call_node(node_of("DualCLIPLoader"), NULL, flux, 3) == NULL);
    CHECK_MSG(strstr(rig_message(), "type 'flux' is the text encoder of a model that kiln does not read yet") != NULL,
              "%s", rig_message());
}

int main(int argc, char **argv)
{
    if (!tokenizers() || !(clip_plugin = load_plugin("clip")) || !load_plugin("loader")) return 1;
    make_models();
    static const test_case cases[] = {CASE(test_two_files_are_the_pair_of_the_whole_folder),
                                      CASE(test_one_file_is_what_it_is_alone), CASE(test_two_that_are_no_pair),
                                      CASE(test_a_type_that_is_not_there_is_refused_by_name)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
