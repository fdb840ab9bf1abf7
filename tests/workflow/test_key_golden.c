/* test_key_golden.c - the keys of a few nodes, as they were: one with a parameter of each type, and what goes into a
 * key besides. Results on users' disks are found by these digests. A change that moves one makes every stored result of
 * such nodes unfindable: it is made on purpose, with key_version raised, or not at all. */
#include "base/file.h"
#include "harness.h"
#include "workflow/fake_catalog.h"
#include "workflow/key.h"

static const char flow[] =
    "nodes:\n"
    "  m: {class_type: Load, inputs: {ckpt: one.bin}}\n"
    "  t: {class_type: Text, inputs: {clip: [m, CLIP], text: a red circle}}\n"
    "  n: {class_type: Number, inputs: {amount: -7}}\n"
    "  b: {class_type: Blank, inputs: {width: [n, 0], height: 64}}\n"
    "  x: {class_type: Sample, inputs: {model: [m, MODEL], positive: [t, COND], seed: 18446744073709551615, "
    "steps: 21, cfg: 6.25, sampler: heun, mode: karras, noise: false}}\n"
    "  j: {class_type: Join, inputs: {images: [[b, 0], [x, 0]]}}\n"
    "  s: {class_type: Save, inputs: {images: [j, IMAGE]}}\n";

/* Content of the plugin that brought a name. */
static int origin(void *arg, const char *from, const char *name, digest *out)
{
    (void)arg;
    if (strcmp(from, "sampler") != 0) return 0;
    *out = digest_of(name, strlen(name));
    return 1;
}

static const struct {
    const char *node, *key;
} golden[] = {
    {"m", "d77a2c9a906ad35218941dfb38332f76"}, {"t", "1e54ee615551ce9c949b388e365e650b"},
    {"n", "3130ae699b53b6c1b20a267d6c62cf13"}, {"b", "fb546cd724f882dd2075c19c43c25dfc"},
    {"x", "800af4954b61b9d61520dd97d26668a3"}, {"j", "1f7f9d7a4fb8f23c7e3ac86400b0a9a1"},
    {"s", "c8905b8380782acda624b57df1dedec1"},
};

static void test_keys_are_what_they_were(void)
{
    error e = {0};
    document d;
    workflow w;
    char path[512], hex[33];
    catalog_view catalog = fake_catalog();
    key_setting on = {.device = "cpu", .precision = "f32", .numerics = "avx2", .engine = "1", .origin = origin};
    snprintf(path, sizeof path, "%s/one.bin", test_folder());
    fake_files_folder = test_folder();
    REQUIRE(file_write_whole(path, "one", 3, &e) == KILN_OK);
    REQUIRE(document_parse(&d, "t", flow, strlen(flow), NULL, 0, &e) == KILN_OK);
    REQUIRE(workflow_check(&d, &catalog, &w, &e) == KILN_OK && d.n_fault == 0);
    REQUIRE(workflow_keys(&w, &on, &e) == KILN_OK);
    for (size_t i = 0; i < w.n && i < sizeof golden / sizeof golden[0]; i++) {
        CHECK_STR(w.node[i].doc->name, golden[i].node);
        CHECK_MSG(strcmp(digest_hex(w.node[i].key, hex), golden[i].key) == 0, "the key of '%s' is %s and was %s",
                  golden[i].node, hex, golden[i].key);
    }
    CHECK_EQ(w.n, sizeof golden / sizeof golden[0]);
    document_free(&d);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_keys_are_what_they_were)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
