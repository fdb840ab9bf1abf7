/* test_loader_cache.c - what loaders made, kept for the next batch: by key, with every output that is wanted, while the
 * files are what they were; the one not used for longest goes first.
 */
#include "base/memory_alloc.h"
#include "fake_nodes.h"
#include "harness.h"
#include "run/loader_cache.h"
#include "tensor/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static int n_released;
static void released(void *ptr) { (void)ptr, n_released++; }
static kiln_value *object(void) { return value_object("MODEL", &n_released, released, "a model"); }

static graph_node node_of(uint64_t key, uint64_t used)
{
    return (graph_node){.type = &fake_node[FAKE_LOAD], .key = {key, key}, .used = used};
}

/* MODEL and CLIP as far as `made` says so. */
static void keep(loader_cache *c, uint64_t key, uint64_t made)
{
    graph_node g = node_of(key, 3);
    kiln_value *out[2] = {made & 1 ? object() : NULL, made & 2 ? object() : NULL};
    loader_cache_keep(c, &g, out);
    value_unref(out[0]), value_unref(out[1]);
}

/* Which of its outputs were kept; -1: none is to be had. */
static int taken(loader_cache *c, uint64_t key, uint64_t used)
{
    graph_node g = node_of(key, used);
    kiln_value *out[2] = {NULL, NULL};
    if (!loader_cache_take(c, &g, out)) return -1;
    int made = (out[0] != NULL) | (out[1] != NULL) << 1;
    value_unref(out[0]), value_unref(out[1]);
    return made;
}

static void test_what_was_made_is_kept(void)
{
    loader_cache c;
    n_released = 0;
    loader_cache_init(&c);
    CHECK_EQ(taken(&c, 1, 3), -1);
    keep(&c, 1, 3);
    CHECK_EQ(taken(&c, 1, 3), 3);
    CHECK_EQ(taken(&c, 1, 0), 3);
    CHECK_EQ(taken(&c, 2, 3), -1);
    CHECK_EQ(n_released, 0);
    loader_cache_free(&c);
    CHECK_EQ(n_released, 2);
}

/* An output that had no users was not made: where it is wanted now, the node runs. */
static void test_an_output_that_was_not_made(void)
{
    loader_cache c;
    loader_cache_init(&c);
    keep(&c, 1, 1), keep(&c, 2, 2);
    CHECK_EQ(taken(&c, 1, 1), 1);
    CHECK_EQ(taken(&c, 1, 2), -1);
    CHECK_EQ(taken(&c, 1, 3), -1);
    CHECK_EQ(taken(&c, 2, 1), -1);
    CHECK_EQ(taken(&c, 2, 2), 2);
    keep(&c, 1, 3); /* and what it makes then serves both */
    CHECK_EQ(taken(&c, 1, 3), 3);
    CHECK_EQ(taken(&c, 1, 2), 3);
    loader_cache_free(&c);
}

static void test_the_least_recently_used_goes(void)
{
    loader_cache c;
    n_released = 0;
    loader_cache_init(&c);
    for (uint64_t k = 1; k <= LOADERS_KEPT; k++) keep(&c, k, 1);
    CHECK_EQ(n_released, 0);
    CHECK_EQ(taken(&c, 1, 1), 1);
    keep(&c, 9, 1);
    CHECK_EQ(n_released, 1);
    CHECK_EQ(taken(&c, 2, 1), -1);
    for (uint64_t k = 1; k <= LOADERS_KEPT; k++) CHECK_EQ(taken(&c, k, 1), k == 2 ? -1 : 1);
    CHECK_EQ(taken(&c, 9, 1), 1);
    loader_cache_free(&c);
    CHECK_EQ(n_released, LOADERS_KEPT + 1);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!CHECK(f && fputs(text, f) >= 0)) exit(1);
    fclose(f);
}

/* A model goes on reading its file; another file in its place is another model. */
static void test_files_that_changed(void)
{
    loader_cache c;
    char path[600];
    error e = {0};
    struct stat st;
    snprintf(path, sizeof path, "%s/model", test_folder());
    write_file(path, "one");
    file_list *files = file_list_new();
    REQUIRE(stat(path, &st) == 0);
    const file_identity was = file_identity_of(&st);
    REQUIRE(file_list_add(files, path, &was, &e) == KILN_OK);
    loader_cache_init(&c);
    graph_node g = node_of(1, 3);
    kiln_value *out[2] = {object(), object()};
    value_set_files(out[1], files);
    loader_cache_keep(&c, &g, out);
    value_unref(out[0]), value_unref(out[1]);
    file_list_unref(files);
    CHECK_EQ(taken(&c, 1, 3), 3);
    write_file(path, "another");
    CHECK_EQ(taken(&c, 1, 3), -1);
    CHECK_EQ(taken(&c, 1, 1), -1);
    loader_cache_free(&c);
}

/* Numbers and texts are the store's to keep. */
static void test_only_objects_are_kept(void)
{
    loader_cache c;
    loader_cache_init(&c);
    graph_node g = node_of(1, 3);
    kiln_value *out[2] = {value_int(3), NULL};
    loader_cache_keep(&c, &g, out);
    value_unref(out[0]);
    CHECK_EQ(taken(&c, 1, 1), -1);
    loader_cache_free(&c);
}

static void test_without_memory_nothing_is_kept(void)
{
    loader_cache c;
    n_released = 0;
    loader_cache_init(&c);
    graph_node g = node_of(1, 3);
    kiln_value *out[2] = {object(), object()};
    mem_fail_at(0, 1);
    loader_cache_keep(&c, &g, out);
    mem_fail_at(-1, 0);
    CHECK_EQ(taken(&c, 1, 3), -1);
    loader_cache_keep(&c, &g, out);
    mem_fail_at(0, 1);
    CHECK_EQ(taken(&c, 1, 3), -1); /* whether its files are what they were cannot be told */
    mem_fail_at(-1, 0);
    CHECK_EQ(taken(&c, 1, 3), 3);
    value_unref(out[0]), value_unref(out[1]);
    loader_cache_free(&c);
    CHECK_EQ(n_released, 2);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_what_was_made_is_kept),        CASE(test_an_output_that_was_not_made),
        CASE(test_the_least_recently_used_goes), CASE(test_files_that_changed),
        CASE(test_only_objects_are_kept),        CASE(test_without_memory_nothing_is_kept)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
