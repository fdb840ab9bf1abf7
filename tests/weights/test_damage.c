/* test_damage.c - a good file cut at every byte, with every bit of its header flipped, and with memory failing at every
 * allocation: refused, or accepted with the same meaning; never a crash, a leak or half a set. */
#include "weights_kit.h"

#include "base/memory_alloc.h"

static const char header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"conv.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"bias\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[24,32]},"
    "\"ids\":{\"dtype\":\"I64\",\"shape\":[1,2],\"data_offsets\":[32,48]}}   ";
enum { HEADER = sizeof header - 1, DATA = 48 };

static void test_cut_at_every_byte(void)
{
    size_t size;
    uint8_t *file = raw_file(header, HEADER, DATA, &size);
    for (size_t n = 0; n < size; n++) {
        uint8_t *cut = malloc(n ? n : 1); /* exactly n bytes: a sanitizer sees one too many */
        memcpy(cut, file, n);
        safetensors_header h;
        error e = {0};
        CHECK_MSG(safetensors_parse(&h, "m.safetensors", cut, n, &e) == KILN_ERR_INVALID,
                  "accepted when cut at byte %zu", n);
        char at[40];
        snprintf(at, sizeof at, "byte %zu: ", n);
        contains(e.message, at); /* says where the file ends */
        free(cut);
    }
    free(file);
}

static void test_longer_by_any_byte(void)
{
    for (size_t more = 1; more < 40; more++) {
        size_t size;
        uint8_t *file = raw_file(header, HEADER, DATA + more, &size);
        safetensors_header h;
        error e = {0};
        CHECK_EQ(safetensors_parse(&h, "m.safetensors", file, size, &e), KILN_ERR_INVALID);
        contains(e.message, "bytes that no tensor owns");
        free(file);
    }
}

/* Same windows on the bytes, same shapes and types: a flip may only have renamed something. */
static int same_meaning(const safetensors_header *a, const safetensors_header *b)
{
    if (a->count != b->count || a->data_start != b->data_start) return 0;
    for (size_t i = 0; i < a->count; i++) {
        const safetensors_entry *x = &a->entry[i], *y = &b->entry[i];
        if (x->begin != y->begin || x->end != y->end || x->rank != y->rank || strcmp(x->type_name, y->type_name) != 0)
            return 0;
        if (memcmp(x->dim, y->dim, sizeof x->dim) != 0) return 0;
    }
    return 1;
}

static void test_every_header_bit_flipped(void)
{
    size_t size, accepted = 0;
    uint8_t *file = raw_file(header, HEADER, DATA, &size);
    safetensors_header good, h;
    error e = {0};
    REQUIRE(safetensors_parse(&good, "m.safetensors", file, size, &e) == KILN_OK);
    for (size_t bit = 0; bit < (8 + (size_t)HEADER) * 8; bit++) {
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        error why = {0};
        if (safetensors_parse(&h, "m.safetensors", file, size, &why) == KILN_OK) {
            accepted++;
            CHECK_MSG(same_meaning(&good, &h), "accepted with another meaning: bit %zu of byte %zu", bit % 8, bit / 8);
            safetensors_free(&h);
        } else {
            CHECK(why.status == KILN_ERR_INVALID && strstr(why.message, "byte "));
        }
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    /* Flips inside the names and the note's text are all that may pass: see the sum. */
    CHECK_MSG(accepted > 0 && accepted <= (11 + 4 + 3 + 6 + 2) * 8, "%zu flips were accepted", accepted);
    safetensors_free(&good);
    free(file);
}

static void try_memory(const char *path, const kiln_weight_rule *rule, size_t n_rule)
{
    for (int64_t k = 0;; k++) {
        error e = {0};
        mem_fail_at(k, 1);
        kiln_weights *w = weights_open(path, &e), *v = w && rule ? weights_view(w, rule, n_rule, &e) : NULL;
        const char *identity = v ? weights_identity(v, &e) : NULL;
        int reached = mem_count() > k;
        mem_fail_at(-1, 0);
        if (!reached) {
            CHECK_MSG(identity != NULL, "%s", e.message);
            CHECK_MSG(k > 8, "only %lld allocations were failed", (long long)k);
        } else if (!identity) {
            CHECK_MSG(e.status == KILN_ERR_NOMEM || e.status == KILN_ERR_IO, "allocation %lld: %s: %s", (long long)k,
                      status_name(e.status), e.message);
        }
        weights_unref(v);
        weights_unref(w);
        if (!reached) return;
    }
}

static void test_memory_fails_at_every_allocation(void)
{
    static const kiln_weight_rule rule = KILN_RULE(.from = "unet/*", .to = "*"),
                                  all = KILN_RULE(.from = "*", .to = "*");
    put_text("memory/model_index.json", "{}");
    put_one("memory/unet/diffusion_pytorch_model.safetensors", "a");
    put_one("memory/vae/model-1.safetensors", "a");
    put_text("memory/vae/model.safetensors.index.json", "{\"weight_map\":{\"a\":\"model-1.safetensors\"}}");
    try_memory(at_path("memory"), &rule, 1);
    try_memory(put_one("memory.safetensors", "a"), &all, 1);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_cut_at_every_byte),
        CASE(test_longer_by_any_byte),
        CASE(test_every_header_bit_flipped),
        CASE(test_memory_fails_at_every_allocation),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
