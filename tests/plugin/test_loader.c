/* test_loader.c - hostile plugins: each is refused with a sentence that names place and remedy, and the good one beside
 * it loads all the same.
 */
#include "harness.h"

#include "base/memory_alloc.h"
#include "base/str.h"
#include "plugin/abilities.h"
#include "plugin/catalog.h"
#include "plugin/ctx.h"
#include "plugin/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- building ---- */

/* An empty folder below the test's own. */
static const char *fresh_folder(void)
{
    static char path[512];
    static int n;
    snprintf(path, sizeof path, "%s/f%d", test_folder(), n++);
    mkdir(path, 0755);
    return path;
}

static int shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int shell(const char *fmt, ...)
{
    char command[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(command, sizeof command, fmt, args);
    va_end(args);
    return system(command);
}

/* Compiles hostile.c as FOLDER/NAME.so. */
static int build(const char *folder, const char *name, const char *flags)
{
    int bad = shell("umask 022; gcc -std=c11 -D_GNU_SOURCE -w -O0 -fPIC -shared -fvisibility=hidden -I'%s/include' %s "
                    "'%s/tests/plugin/hostile/hostile.c' -o '%s/%s.so'",
                    test_root(), flags, test_root(), folder, name);
    return CHECK_MSG(!bad, "cannot compile hostile.c with %s", flags);
}

/* The plugin whose path ends with name. */
static const plugin_info *of_file(const catalog *c, const char *name)
{
    for (size_t i = 0; c && i < catalog_plugins(c); i++) {
        const char *path = catalog_plugin(c, i)->path;
        size_t n = strlen(path), m = strlen(name);
        if (n >= m && strcmp(path + n - m, name) == 0) return catalog_plugin(c, i);
    }
    return NULL;
}

static void check_refused(const catalog *c, const char *file, const char *part)
{
    const plugin_info *p = of_file(c, file);
    if (!CHECK_MSG(p != NULL, "%s is not in the list", file)) return;
    if (!CHECK_MSG(!p->table && p->why, "%s was loaded", file)) return;
    CHECK_MSG(strstr(p->why, part) != NULL, "%s: '%s' does not say '%s'", file, p->why, part);
}

/* ---- tables ---- */

static const struct {
    const char *way, *says;
} ways[] = {
    {"magic", "magic number; declare it with KILN_PLUGIN"},
    {"major", "version 2 of the plugin contract, this kiln has 1; rebuild it"},
    {"minor", "needs version 1.2 of the plugin contract, this kiln has 1.1; get a newer kiln"},
    {"short_plugin", "the table says it is 16 bytes"},
    {"short_node", "set .size = sizeof"},
    {"no_symbol", "exports no kiln_plugin_v1"},
    {"null_node", "node 1 of the table is NULL"},
    {"wild_node", "crashed with SIGSEGV while its table was being read"},
    {"many_nodes", "1073741824 nodes; the most is"},
    {"no_id", "reverse domain"},
    {"id_without_dot", "reverse domain"},
    {"no_version", "no version"},
    {"no_license", "no license"},
    {"nothing", "neither nodes nor an open()"},
    {"type_name", "node 0 has no usable type"},
    {"type_twice", "node Hostile: the table has this node type twice"},
    {"node_no_doc", "node Hostile: no doc"},
    {"revision", "node Hostile: revision is 0"},
    {"no_run", "node Hostile: no run()"},
    {"no_devices", "node Hostile: devices is 0x0"},
    {"node_flags", "node Hostile: flags 0x400"},
    {"destroy_alone", "destroy() without create()"},
    {"no_outputs", "neither outputs nor KILN_NODE_OUTPUT"},
    {"params_size", "params_size is"},
    {"port_stride", "the stride of the inputs is 8 bytes"},
    {"port_no_doc", "input 'mask' has no doc"},
    {"port_type", "input 'mask' has no usable type"},
    {"port_rank", "input 'image' takes ranks 3 to 2"},
    {"port_dtypes", "input 'image' allows dtypes"},
    {"port_twice", "two inputs are called 'image'"},
    {"port_name", "input 2 has no usable name"},
    {"out_twice", "two outputs are called 'image'"},
    {"out_flags", "output 'image' has flags of an input"},
    {"param_no_doc", "parameter 'gain' has no doc"},
    {"param_past_end", "parameter 'gain' lies at offset 32, past the 32 bytes of params_size"},
    {"param_overflow", "past the 32 bytes of params_size"},
    {"param_misaligned", "parameter 'gain' lies at offset 4, which is not a multiple of its 8 bytes"},
    {"param_overlap", "parameters 'gain' and 'count' lie at the same place"},
    {"param_twice", "two parameters are called 'gain'"},
    {"param_like_input", "an input and a parameter are both called 'image'"},
    {"param_type", "has type 42"},
    {"param_default", "the default 99 of parameter 'gain' is outside its range 0 to 16"},
    {"param_range", "parameter 'gain' takes 32 to 16"},
    {"param_nan", "the range of parameter 'gain' is not finite"},
    {"param_fraction", "have to be whole numbers"},
    {"enum_no_choice", "parameter 'mode' is an ENUM without choices"},
    {"enum_empty", "parameter 'mode' is an ENUM without choices"},
    {"enum_default", "the default 7 of parameter 'mode' is the value of no choice"},
    {"enum_twice", "has the choice 'a' twice"},
    {"name_no_from", "parameter 'sampler' does not say where its names come from"},
    {"undefined_symbol", "undefined symbol: kiln_test_nobody_defines_this"},
    {"ctor_exit", "ended the process with status 3 while it was being loaded"},
    {"ctor_close", "ended the process with status 0 while it was being loaded"},
    {"ctor_abort", "crashed with SIGABRT while it was being loaded"},
    {"ctor_crash", "crashed with SIGSEGV while it was being loaded"},
    {"open_crash", "crashed with SIGSEGV in its open()"},
    {"open_exit", "ended the process with status 0 in its open()"},
    {"open_fails", "its open() failed: not supported"},
};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static void test_every_way_to_break_the_table(void)
{
    const char *folder = fresh_folder();
    char flags[128], file[128];
    error e = {0};
    if (!build(folder, "zz-good", "-DID='\"org.example.good\"' -DTYPE='\"Good\"'")) return;
    for (size_t i = 0; i < N_WAYS; i++) {
        snprintf(flags, sizeof flags, "-DWAY_%s", ways[i].way);
        if (!build(folder, ways[i].way, flags)) return;
    }
    catalog *c = catalog_open(folder, &e);
    REQUIRE(c != NULL);
    for (size_t i = 0; i < N_WAYS; i++) {
        snprintf(file, sizeof file, "/%s.so", ways[i].way);
        check_refused(c, file, ways[i].says);
    }
    CHECK_EQ(catalog_nodes(c), 1);
    CHECK(catalog_find(c, "Good") != NULL);
    CHECK_EQ(catalog_plugins(c), N_WAYS + 1);
    catalog_close(c);
}

static void test_a_plugin_that_only_registers(void)
{
    const char *folder = fresh_folder();
    error e = {0};
    if (!build(folder, "open", "-DWAY_only_open")) return;
    catalog *c = catalog_open(folder, &e);
    const plugin_info *p = of_file(c, "/open.so");
    CHECK(p && p->table && p->n_node == 0);
    catalog_close(c);
}

static void test_grown_structs_are_read_by_their_stride(void)
{
    const char *folder = fresh_folder();
    error e = {0};
    if (!build(folder, "grown", "-DWAY_grown")) return;
    catalog *c = catalog_open(folder, &e);
    const node_info *n = c ? catalog_find(c, "Hostile") : NULL;
    if (CHECK(n != NULL)) {
        CHECK_EQ(n->node->n_in, 2);
        CHECK_EQ(n->node->in_stride, sizeof(kiln_port));
        CHECK_STR(n->node->in[1].name, "mask");
        CHECK_EQ(n->node->n_param, 4);
        CHECK_STR(n->node->param[2].name, "count");
        CHECK_NEAR(n->node->param[2].min, -5, 0); /* copied, so exact */
        CHECK_STR(n->node->param[3].from, "sampler");
    }
    catalog_close(c);
}

/* ---- two plugins ---- */

static void test_duplicates_name_both_plugins(void)
{
    const char *folder = fresh_folder();
    error e = {0};
    if (!build(folder, "a", "-DID='\"org.example.first\"'") || !build(folder, "b", "-DID='\"org.example.second\"'") ||
        !build(folder, "c", "-DID='\"org.example.first\"' -DTYPE='\"Other\"'") ||
        !build(folder, "d", "-DID='\"org.example.fourth\"' -DTYPE='\"Fourth\"'"))
        return;
    catalog *c = catalog_open(folder, &e);
    REQUIRE(c != NULL);
    const plugin_info *second = of_file(c, "/b.so");
    REQUIRE(second && second->table && second->n_clash == 1);
    CHECK(strstr(second->clash[0], "node type Hostile of org.example.second (") != NULL);
    CHECK(strstr(second->clash[0], ") is already taken by org.example.first (") != NULL);
    CHECK(strstr(second->clash[0], "/a.so); use it as org.example.second/Hostile") != NULL);
    CHECK_STR(catalog_find(c, "org.example.second/Hostile")->plugin->id, "org.example.second");
    CHECK_STR(catalog_find(c, "org.example.first/Hostile")->plugin->id, "org.example.first");
    CHECK(catalog_find(c, "org.example.third/Hostile") == NULL);
    check_refused(c, "/c.so", "org.example.first 1.0.0 was already loaded from ");
    CHECK(of_file(c, "/c.so")->shadowed && !of_file(c, "/b.so")->shadowed);
    CHECK_EQ(catalog_nodes(c), 3);
    CHECK_STR(catalog_find(c, "Hostile")->plugin->id, "org.example.first");
    CHECK_STR(catalog_nearest(c, "Hostil"), "Hostile");
    catalog_close(c);
}

static void test_same_names_in_two_plugins_do_not_meet(void)
{
    const char *folder = fresh_folder();
    error e = {0};
    if (!build(folder, "a", "-fvisibility=default -DWAY_two_names=1 -DID='\"org.example.a\"' -DTYPE='\"A\"'") ||
        !build(folder, "b", "-fvisibility=default -DWAY_two_names=2 -DID='\"org.example.b\"' -DTYPE='\"B\"'"))
        return;
    catalog *c = catalog_open(folder, &e);
    REQUIRE(c != NULL);
    CHECK_EQ(catalog_nodes(c), 2);
    if (catalog_nodes(c) == 2) CHECK(catalog_find(c, "A")->node->run != catalog_find(c, "B")->node->run);
    catalog_close(c);
}

/* ---- the files ---- */

static void test_files_that_are_no_plugins(void)
{
    const char *folder = fresh_folder();
    error e = {0};
    if (!build(folder, "good", "")) return;
    shell("cd '%s' && : > empty.so && seq 1 2000 > text.so && head -c 3000 good.so > cut.so && ln -s nowhere.so "
          "gone.so && mkdir folder.so && echo x > notes.txt",
          folder);
    catalog *c = catalog_open(folder, &e);
    REQUIRE(c != NULL);
    check_refused(c, "/empty.so", "empty");
    check_refused(c, "/text.so", "invalid ELF header");
    check_refused(c, "/gone.so", "cannot be found");
    check_refused(c, "/folder.so", "not a regular file");
    CHECK(of_file(c, "/cut.so") && of_file(c, "/cut.so")->why);
    CHECK(of_file(c, "/notes.txt") == NULL);
    CHECK_EQ(catalog_nodes(c), 1);
    catalog_close(c);
}

/* Gives the folder to a group that is not its owner's own: root can. */
static int can_give_away(const char *folder) { return geteuid() == 0 && chown(folder, (uid_t)-1, 1) == 0; }

/* Under umask 002 whatever a user makes can be written by the group that has no member but that user. */
static void test_a_group_of_one_is_nobody_else(void)
{
    const char *folder = fresh_folder();
    error e = {0};
    struct stat s;
    if (!build(folder, "good", "") || stat(folder, &s) != 0) return;
    if (geteuid() != 0 || s.st_gid != 0) {
        test_skip("wants root, whose group has no other member");
        return;
    }
    shell("chmod g+w '%s' '%s/good.so'", folder, folder);
    catalog *c = catalog_open(folder, &e);
    CHECK_EQ(c ? catalog_nodes(c) : 9, 1);
    catalog_close(c);
    shell("chgrp 1 '%s/good.so'", folder);
    c = catalog_open(folder, &e);
    check_refused(c, "/good.so", "can be written by its group; take that away with: chmod g-w");
    catalog_close(c);
}

static void test_what_others_may_write_is_refused(void)
{
    const char *folder = fresh_folder();
    error e = {0};
    if (!build(folder, "good", "") || !build(folder, "open", "-DTYPE='\"Open\"' -DID='\"org.example.open\"'")) return;
    shell("chmod o+w '%s/open.so'", folder);
    catalog *c = catalog_open(folder, &e);
    check_refused(c, "/open.so", "can be written by anyone; take that away with: chmod o-w");
    CHECK_EQ(c ? catalog_nodes(c) : 0, 1);
    catalog_close(c);
    for (int i = 0; i < (can_give_away(folder) ? 2 : 1); i++) {
        char list[600];
        shell("chmod 755 '%s'; chmod %s '%s'", folder, i ? "g+w" : "o+w", folder);
        c = catalog_open(folder, &e);
        CHECK_EQ(c ? catalog_nodes(c) : 9, 0);
        check_refused(c, folder, i ? "the folder can be written by its group" : "the folder can be written by anyone");
        catalog_close(c);
        snprintf(list, sizeof list, "%s/good.so", folder); /* and a single file in it is refused too */
        c = catalog_open(list, &e);
        check_refused(c, "/good.so", "its folder can be written by");
        catalog_close(c);
    }
}

static void test_a_link_into_an_open_folder_is_refused(void)
{
    const char *open_folder = fresh_folder();
    char other[512];
    snprintf(other, sizeof other, "%s", open_folder);
    const char *folder = fresh_folder();
    error e = {0};
    if (!build(other, "good", "")) return;
    shell("chmod 777 '%s'; ln -s '%s/good.so' '%s/link.so'", other, other, folder);
    catalog *c = catalog_open(folder, &e);
    check_refused(c, "/good.so", "its folder can be written by");
    catalog_close(c);
}

static void test_search_path(void)
{
    char first[512], both[1100], single[600];
    snprintf(first, sizeof first, "%s", fresh_folder());
    const char *second = fresh_folder();
    error e = {0};
    if (!build(first, "a", "-DID='\"org.example.a\"'") || !build(second, "b", "-DID='\"org.example.b\"'")) return;
    snprintf(both, sizeof both, "%.300s:%.300s:%.300s", first, second, first);
    catalog *c = catalog_open(both, &e);
    CHECK_EQ(c ? catalog_plugins(c) : 0, 2); /* the folder given twice counts once */
    if (c) CHECK_STR(catalog_find(c, "Hostile")->plugin->id, "org.example.a");
    catalog_close(c);
    setenv("KILN_PLUGIN_PATH", both, 1);
    snprintf(single, sizeof single, "%s/b.so", second);
    c = catalog_open(single, &e); /* a single file, and before the variable's */
    if (c) CHECK_STR(catalog_find(c, "Hostile")->plugin->id, "org.example.b");
    catalog_close(c);
    setenv("KILN_PLUGIN_PATH", "/nonexistent/kiln", 1);
    c = catalog_open(NULL, &e);
    CHECK(c == NULL && e.status == KILN_ERR_INVALID);
    CHECK_STR(e.message, "KILN_PLUGIN_PATH: there is no folder or file '/nonexistent/kiln'");
    catalog_close(c);
    e = (error){0};
    unsetenv("KILN_PLUGIN_PATH");
    c = catalog_open("/nonexistent/kiln", &e);
    CHECK(c == NULL && e.status == KILN_ERR_INVALID);
    CHECK_STR(e.message, "--plugins: there is no folder or file '/nonexistent/kiln'");
    catalog_close(c);
}

/* ---- the probe ---- */

static void test_a_loop_is_stopped(void)
{
    const char *folder = fresh_folder();
    char path[600];
    error e = {0};
    if (!build(folder, "loop", "-DWAY_ctor_loop")) return;
    snprintf(path, sizeof path, "%s/loop.so", folder);
    time_t begin = time(NULL);
    int fatal = 0;
    CHECK_EQ(probe_plugin(path, NULL, 1, (digest){0}, &fatal, &e), KILN_ERR_INVALID);
    CHECK_EQ(fatal, 1);
    CHECK(time(NULL) - begin < 5);
    CHECK_MSG(strstr(e.message, "did not come back within 1 s while it was being loaded") != NULL, "%s", e.message);
}

static void test_good_files_are_remembered_and_changed_ones_are_not(void)
{
    const char *folder = fresh_folder();
    char path[600];
    struct stat before, after;
    if (!build(folder, "good", "")) return;
    snprintf(path, sizeof path, "%s/good.so", folder);
    stat(path, &before);
    digest a = {1, 2}, b = {1, 3};
    CHECK(!probe_remembered(probe_key(&before, a)));
    probe_remember(probe_key(&before, a));
    CHECK(probe_remembered(probe_key(&before, a)));
    CHECK(!probe_remembered(probe_key(&before, b)));
    shell("touch -d '2001-01-01' '%s'", path);
    stat(path, &after);
    CHECK(!probe_remembered(probe_key(&after, a)));
    shell("chmod 666 \"$XDG_CACHE_HOME/kiln/probe\"");
    CHECK(!probe_remembered(probe_key(&before, a))); /* nobody else may have written it */
}

static void test_fast_math_is_found_and_undone(void)
{
#ifdef __x86_64__
    const char *folder = fresh_folder();
    error e = {0};
    uint64_t before = float_state();
    if (!build(folder, "fast", "-ffast-math")) return;
    for (int i = 0; i < 2; i++) { /* the second time without a probe */
        catalog *c = catalog_open(folder, &e);
        const plugin_info *p = of_file(c, "/fast.so");
        CHECK(p && p->table);
        CHECK_EQ(float_state(), before);
        /* What is loaded stays loaded, so the second opening changes nothing. */
        if (p) CHECK_EQ(p->changed_floats, i == 0);
        catalog_close(c);
    }
    volatile float tiny = 1e-40f; /* a denormal: 0 if they were still flushed */
    CHECK(tiny * 1.0f != 0.0f);
#else
    test_skip("crtfastm is an x86 matter");
#endif
}

static void test_out_of_memory_at_each_allocation(void)
{
    const char *folder = fresh_folder();
    if (!build(folder, "good", "")) return;
    for (int k = 0; k < 200; k++) {
        error e = {0};
        mem_fail_at(k, 1);
        catalog *c = catalog_open(folder, &e);
        int enough = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK(c || e.status == KILN_ERR_NOMEM);
        catalog_close(c);
        if (!enough) continue;
        CHECK(c != NULL);
        return;
    }
    CHECK_MSG(0, "never got through");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_way_to_break_the_table),
        CASE(test_a_plugin_that_only_registers),
        CASE(test_grown_structs_are_read_by_their_stride),
        CASE(test_duplicates_name_both_plugins),
        CASE(test_same_names_in_two_plugins_do_not_meet),
        CASE(test_files_that_are_no_plugins),
        CASE(test_what_others_may_write_is_refused),
        CASE(test_a_group_of_one_is_nobody_else),
        CASE(test_a_link_into_an_open_folder_is_refused),
        CASE(test_search_path),
        CASE(test_a_loop_is_stopped),
        CASE(test_good_files_are_remembered_and_changed_ones_are_not),
        CASE(test_fast_math_is_found_and_undone),
        CASE(test_out_of_memory_at_each_allocation),
    };
    setenv("XDG_CACHE_HOME", test_folder(), 1);
    unsetenv("KILN_PLUGIN_PATH");
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
