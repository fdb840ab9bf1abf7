/* test_file_faults.c - files written, read, mapped and digested with a call of the system or an allocation failing
 * (system_faults.h, no_memory_kit.h): the bytes are right or the failure has a sentence, and a file that is replaced is
 * the old one or the new one.
 */
#include "system_faults.h"

#include "base/file.h"
#include "base/file_list.h"
#include "weights/weights.h"

static char folder[400];

static const char *below(const char *name)
{
    static char path[8][500];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static kiln_status map_file(const char *path, yield *out, error *e)
{
    file_map m;
    char part[5] = "";
    TRY(file_map_open(&m, path, e));
    kiln_status status = file_map_read(&m, 2, 4, part, NULL, e);
    if (status == KILN_OK) status = file_map_unchanged(&m, e);
    if (status == KILN_OK) yield_bytes(out, m.data, m.size), yield_text(out, part);
    file_map_close(&m);
    return status;
}

static kiln_status digest_files(yield *out, error *e)
{
    char path[600]; /* always the same files: the process remembers each that it has digested */
    digest of = {0};
    snprintf(path, sizeof path, "%s/tests/golden/lora", test_root());
    file_list *seen = file_list_new();
    if (!seen) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    kiln_status status = file_digest_seen(path, seen, &of, e);
    if (status == KILN_OK) status = file_list_unchanged(seen, e);
    if (status == KILN_OK) yield_bytes(out, &of, sizeof of), yield_number(out, (int64_t)file_list_count(seen));
    file_list_unref(seen);
    return status;
}

static kiln_status use_files(yield *out, error *e)
{
    char *data = NULL;
    size_t n = 0;
    folder_remove(below("new"));
    TRY(folder_make(below("new/inner"), e));
    TRY(folder_make_private(below("new/own"), e));
    TRY(file_write_whole(below("new/inner/a"), "words in it", 11, e));
    TRY(file_write_whole(below("kept"), "the new one", 11, e));
    TRY(file_read(below("new/inner/a"), 100, &data, &n, e));
    yield_bytes(out, data, n);
    mem_free(data);
    TRY(map_file(below("new/inner/a"), out, e));
    return digest_files(out, e);
}

/* A reader finds all of one of them, and nothing else lies there. */
static kiln_status look_again(error *e)
{
    char *data = NULL;
    size_t n = 0;
    TRY(file_read(below("kept"), 100, &data, &n, e));
    int whole = n == 11 && memcmp(data, "the new one", 11) == 0;
    mem_free(data);
    return whole ? KILN_OK : error_set(e, KILN_ERR_BUG, "half a file was left");
}

static void test_system_calls(void) { fail_every_call("files", use_files, look_again); }
static void test_no_memory(void) { fail_everywhere("files", use_files); }

static kiln_status open_model(yield *out, error *e)
{
    static const char *const files[] = {"tiny-sd1", "gguf/blocks.gguf", "gguf/split-00001-of-00002.gguf"};
    for (size_t i = 0; i < 3; i++) {
        char path[600], hex[33];
        kiln_weight_info x = {.size = sizeof x};
        snprintf(path, sizeof path, "%s/tests/golden/%s", test_root(), files[i]);
        kiln_weights *w = weights_open(path, e);
        if (!w) return e->status;
        kiln_status status = weights_at(w, 0, &x);
        if (status == KILN_OK) status = weights_tensor_identity(w, x.name, hex, e);
        if (status == KILN_OK) yield_text(out, hex), yield_number(out, (int64_t)weights_count(w));
        weights_unref(w);
        TRY(status);
    }
    return KILN_OK;
}
static void test_models(void) { fail_every_call("models", open_model, NULL); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_no_memory), CASE(test_system_calls), CASE(test_models)};
    char in_memory[] = "/dev/shm/kiln-test-XXXXXX"; /* a disk would be waited for */
    int made = mkdtemp(in_memory) != NULL;
    snprintf(folder, sizeof folder, "%s", made ? in_memory : test_folder());
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    if (made) folder_remove(in_memory);
    return status;
}
