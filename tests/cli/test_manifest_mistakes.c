/* test_manifest_mistakes.c - kiln-plugin.yaml a line a case: what is wrong with it is said with its place; what differs
 * from the plugin is said in one sentence; what is written is read again.
 */
#include "harness.h"

#include "base/str.h"
#include "run/plugin_manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!CHECK(f && fputs(text, f) >= 0)) exit(1);
    fclose(f);
}

#define HEAD "kiln-plugin: 1\nname: Glow\n"
#define FACTS "version: 1.2.0\nlicense: MIT\n"
#define ID "id: org.example.glow\n"
#define NEEDS "needs: \"1.0\"\n"
#define LISTS "nodes: [SoftGlow]\nfiles: [glow.so]\n"

static const struct {
    const char *text, *says; /* NULL: it is right */
} cases[] = {
    {HEAD FACTS ID NEEDS LISTS, NULL},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [data, ./glow.so]\n", "m.yaml:8:8: files: './glow.so' is no path below"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [data/, glow.so, data/deep/word]\n", NULL},
    {"", "m.yaml:1:1: the file is empty"},
    {"3\n", "m.yaml: this is no manifest of a plugin"},
    {"[a]\n", "m.yaml: this is no manifest of a plugin"},
    {"{\n", "m.yaml:"},
    {HEAD FACTS ID NEEDS LISTS "nods: [x]\n", "m.yaml:9:1: a manifest has no 'nods'; did you mean 'nodes'?"},
    {HEAD FACTS ID NEEDS LISTS "zzzzzzzz: 3\n", "m.yaml:9:1: a manifest has no 'zzzzzzzz'"},
    {"name: x\n", "it does not say kiln-plugin"},
    {"kiln-plugin: [1]\n", "m.yaml:1:14: kiln-plugin: it is one line of text"},
    {"kiln-plugin: 7\n", "m.yaml:1:14: this manifest is of version 7; this kiln reads version 1"},
    {HEAD FACTS NEEDS LISTS, "it does not say id"},
    {HEAD FACTS "id: \"a\\nb\"\n" NEEDS LISTS, "m.yaml:5:5: id: it is one line of text"},
    {HEAD FACTS "id: {a: b}\n" NEEDS LISTS, "m.yaml:5:5: id: it is one line of text"},
    {HEAD FACTS "id: a b\n" NEEDS LISTS, "m.yaml:5:5: id: 'a b' is no id; it is like org.example.soft-glow"},
    {HEAD FACTS "id: .hidden\n" NEEDS LISTS, "m.yaml:5:5: id: '.hidden' is no id"},
    {HEAD FACTS ID "needs: 1\n" LISTS, "needs: '1' is no version of the contract; it is like \"1.0\""},
    {HEAD FACTS ID "needs: 1.x\n" LISTS, "needs: '1.x' is no version of the contract"},
    {HEAD FACTS ID LISTS, "it does not say needs"},
    {HEAD FACTS ID NEEDS "doc: [x]\n" LISTS, "doc: it is one line of text"},
    {HEAD FACTS ID NEEDS "files: [glow.so]\n", "it does not say nodes"},
    {HEAD FACTS ID NEEDS "nodes: SoftGlow\nfiles: [glow.so]\n", "m.yaml:7:8: nodes: it is a list of names, as [A, B]"},
    {HEAD FACTS ID NEEDS "nodes: [[A]]\nfiles: [glow.so]\n", "m.yaml:7:9: nodes: it is a list of names, as [A, B]"},
    {HEAD FACTS ID NEEDS "nodes: [\"a\\nb\"]\nfiles: [glow.so]\n", "nodes: it is a list of names"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: {a: b}\n", "files: it is a list of names"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: []\n", "files: none of them is the plugin's .so"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [data/deep.so]\n", "files: none of them is the plugin's .so"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [.so]\n", "files: none of them is the plugin's .so"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [glow.so, more.so]\n",
     "files: both glow.so and more.so; a plugin is one .so"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [none.so]\n",
     "files: there is no 'none.so' beside the manifest; is it built?"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [glow.so, none]\n", "files: there is no 'none' beside the manifest"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [/etc]\n", "files: '/etc' is no path below the manifest's folder"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [\"\"]\n", "files: it is a list of names"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [data/../glow.so]\n", "files: 'data/../glow.so' is no path below"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [data//word]\n", "files: 'data//word' is no path below"},
    {HEAD FACTS ID NEEDS "nodes: []\nfiles: [.]\n", "files: '.' is no path below"},
};

static void test_each_mistake_has_its_place(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        arena a = {0};
        error e = {0};
        plugin_manifest m;
        write_text("m.yaml", cases[i].text);
        kiln_status status = manifest_read(&a, "m.yaml", &m, &e);
        if (cases[i].says)
            CHECK_MSG(status != KILN_OK && strstr(e.message, cases[i].says), "case %zu: '%s', wanted '%s'", i,
                      e.message, cases[i].says);
        else
            CHECK_MSG(status == KILN_OK, "case %zu: %s", i, e.message);
        arena_free(&a);
    }
}

static void test_which_manifest_is_beside_a_plugin(void)
{
    arena a = {0};
    error e = {0};
    plugin_manifest m;
    CHECK_EQ(manifest_beside(&a, "glow.so", &m, &e), KILN_OK);
    CHECK_STR(m.path, ""); /* there is none yet */
    write_text("kiln-plugin.json",
               "{\"kiln-plugin\": 1, \"id\": \"org.example.glow\", \"name\": \"Glow\", \"version\": \"1.2.0\","
               " \"license\": \"MIT\", \"needs\": \"1.0\", \"nodes\": [], \"files\": [\"glow.so\"]}");
    CHECK_EQ(manifest_beside(&a, "glow.so", &m, &e), KILN_OK);
    CHECK_STR(m.id, "org.example.glow");
    CHECK_EQ(manifest_beside(&a, "more.so", &m, &e), KILN_OK);
    CHECK_STR(m.path, ""); /* it is of another one */
    CHECK(manifest_in(&a, "data") == NULL);
    CHECK_EQ(manifest_beside(&a, "/none-such.so", &m, &e), KILN_OK);
    CHECK_STR(m.path, "");
    CHECK(manifest_read(&a, "/none-such.yaml", &m, &e) != KILN_OK && strstr(e.message, "/none-such.yaml"));
    unlink("kiln-plugin.json");
    arena_free(&a);
}

/* ---- against the plugin ---- */

static const kiln_node soft = {.size = sizeof soft, .type = "SoftGlow"},
                       hard = {.size = sizeof hard, .type = "HardGlow"};
static const kiln_node *const nodes[] = {&soft, &hard};
static const kiln_plugin table = {.size = sizeof table, .abi_major = 1, .abi_minor = 1, .n_node = 2, .node = nodes};

static void test_what_differs_is_said(void)
{
    static const char *const names[] = {"SoftGlow", "HardGlow", "Third"};
    const plugin_info p = {.path = "/lib/glow.so",
                           .id = "org.example.glow",
                           .version = "1.2.0",
                           .license = "MIT",
                           .table = &table,
                           .n_node = 2};
    const plugin_manifest right = {.path = "m.yaml",
                                   .id = "org.example.glow",
                                   .version = "1.2.0",
                                   .license = "MIT",
                                   .needs = "1.1",
                                   .node = names,
                                   .n_node = 2};
    plugin_manifest m = right;
    error e = {0};
    CHECK_EQ(manifest_agrees(&m, &p, &e), KILN_OK);
    m.id = "org.example.other", m.version = "1", m.license = "GPL", m.needs = "1.0", m.node = names + 1;
    CHECK_EQ(manifest_agrees(&m, &p, &e), KILN_ERR_INVALID);
    CHECK_STR(e.message,
              "m.yaml: id 'org.example.other' in the manifest, 'org.example.glow' in the plugin; version '1' in "
              "the manifest, '1.2.0' in the plugin; license 'GPL' in the manifest, 'MIT' in the plugin; needs "
              "'1.0' in the manifest, '1.1' in the plugin; node SoftGlow is not in the manifest; the plugin "
              "has no node Third");
    m = right, m.node = names + 2, m.n_node = 1, e = (error){0};
    CHECK_EQ(manifest_agrees(&m, &p, &e), KILN_ERR_INVALID);
    CHECK_STR(e.message,
              "m.yaml: node SoftGlow is not in the manifest; node HardGlow is not in the manifest; the plugin "
              "has no node Third");
}

static void test_one_that_is_made_is_read_again(void)
{
    static const char *const paths[] = {"glow.so", "./glow.so"}; /* where it lies does not matter */
    for (int with_data = 0; with_data < 2; with_data++) {
        plugin_info p = {.path = (char *)(size_t)paths[with_data],
                         .id = "org.example.glow",
                         .version = "1.2.0",
                         .license = "MIT",
                         .table = &table,
                         .n_node = 2};
        arena a = {0};
        str s = {0};
        error e = {0};
        plugin_manifest m, again;
        CHECK_EQ(manifest_made(&a, &p, with_data ? "data" : NULL, &m, &e), KILN_OK);
        CHECK_EQ(m.n_file, 1 + with_data);
        m.doc = with_data ? "One line." : "";
        manifest_yaml(&s, &m);
        write_text("m.yaml", str_text(&s));
        CHECK_MSG(manifest_read(&a, "m.yaml", &again, &e) == KILN_OK, "%s", e.message);
        CHECK_STR(again.so, "glow.so");
        CHECK_STR(again.doc, m.doc);
        CHECK_EQ(again.n_node, 2);
        CHECK_EQ(manifest_agrees(&again, &p, &e), KILN_OK);
        str_free(&s), arena_free(&a);
    }
}

int main(int argc, char **argv)
{
    static const test_case all[] = {CASE(test_each_mistake_has_its_place), CASE(test_which_manifest_is_beside_a_plugin),
                                    CASE(test_what_differs_is_said), CASE(test_one_that_is_made_is_read_again)};
    if (chdir(test_folder()) != 0 || mkdir("data", 0700) != 0 || mkdir("data/deep", 0700) != 0) return 1;
    write_text("glow.so", ""), write_text("more.so", ""), write_text("data/deep.so", ""), write_text(".so", "");
    write_text("data/deep/word", "");
    return test_main(argc, argv, all, sizeof all / sizeof all[0]);
}
