/* test_manifest_memory.c - a plugin's manifest read with every allocation failing in turn: it is whole or it is an
 * error; with and without a folder before its name.
 */
#include "harness.h"

#include "base/memory_alloc.h"
#include "run/plugin_manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char text[] = "kiln-plugin: 1\nid: org.example.glow\nname: Glow\nversion: 1.2.0\nlicense: MIT\ndoc: One "
                           "line.\nneeds: \"1.0\"\nnodes: [SoftGlow, HardGlow]\nfiles: [glow.so]\n";

static void write_file(const char *name, const char *content)
{
    FILE *f = fopen(name, "w");
    if (!CHECK(f && fputs(content, f) >= 0)) exit(1);
    fclose(f);
}

static void check_whole(const plugin_manifest *m, const char *path, const char *folder)
{
    CHECK_STR(m->path ? m->path : "(none)", path);
    CHECK_STR(m->folder ? m->folder : "(none)", folder);
    CHECK_STR(m->id, "org.example.glow");
    CHECK_STR(m->name, "Glow");
    CHECK_STR(m->version, "1.2.0");
    CHECK_STR(m->license, "MIT");
    CHECK_STR(m->doc, "One line.");
    CHECK_STR(m->needs, "1.0");
    CHECK_STR(m->so, "glow.so");
    if (CHECK_EQ(m->n_node, 2)) CHECK_STR(m->node[1], "HardGlow");
    CHECK_EQ(m->n_file, 1);
}

static void test_every_allocation(void)
{
    char path[600];
    REQUIRE(chdir(test_folder()) == 0);
    write_file("kiln-plugin.yaml", text), write_file("glow.so", "");
    snprintf(path, sizeof path, "%s/kiln-plugin.yaml", test_folder());
    const char *const paths[] = {path, "kiln-plugin.yaml"}, *const folders[] = {test_folder(), "."};
    for (int i = 0; i < 2; i++) {
        int64_t refused = 0, k = 0, reached = 1;
        for (; k < 1000 && reached; k++) {
            arena a = {0};
            error e = {0};
            plugin_manifest m;
            mem_fail_at(k, 0);
            kiln_status status = manifest_read(&a, paths[i], &m, &e);
            reached = mem_count() > k;
            mem_fail_at(-1, 0);
            if (status == KILN_OK)
                check_whole(&m, paths[i], folders[i]);
            else
                CHECK_MSG(e.message[0], "allocation %lld fails without a word", (long long)k), refused++;
            arena_free(&a);
        }
        CHECK_MSG(!reached && refused > 2, "%lld of %lld refused", (long long)refused, (long long)k);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_allocation)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
