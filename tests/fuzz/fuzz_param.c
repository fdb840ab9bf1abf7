/* fuzz_param.c - any bytes as a parameter's value, and as a list of options. libFuzzer; `make fuzz`.
 *
 * The first byte says which row and whether in quotes, the rest is the text. What a row takes comes out as text, goes
 * in again and is the same; so it is by way of a wire. What it refuses leaves the struct alone and has a sentence. What
 * "kiln.params/1" parses, it also fills.
 */
#include "param/param_rows_kit.h"
#include "param/param_text.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : __builtin_trap()) /* the fuzzer keeps the input */

/* The same bits, or the same text where the struct points to one. */
static int same(const kiln_param *p, const every_type *a, const every_type *b)
{
    if (p->type == KILN_P_NAME || p->type == KILN_P_STRING)
        return strcmp(param_get(p, a).text, param_get(p, b).text) == 0;
    return memcmp((const char *)a + p->offset, (const char *)b + p->offset, param_size(p->type)) == 0;
}

static void check_taken(const kiln_param *p, const every_type *taken, arena *a)
{
    str text = {0};
    every_type again = {0};
    param_value v = param_get(p, taken);
    param_value_text(&v, &text);
    param_value read = param_written(str_text(&text), p->type == KILN_P_STRING);
    MUST(param_put(p, &read, &every_names, a, &again, NULL) == KILN_OK && same(p, &again, taken));
    kiln_value *value = param_to_value(&value_api, &v);
    param_value wired = param_wired(&value_api, value);
    MUST(value && param_put(p, &wired, &every_names, a, &again, NULL) == KILN_OK && same(p, &again, taken));
    value_unref(value);
    str_free(&text);
}

static void check_one(const kiln_param *p, const char *text, int quoted)
{
    arena a = {0};
    error e = {0};
    every_type at, before;
    memset(&at, 0x2a, sizeof at);
    memcpy(&before, &at, sizeof at);
    param_value v = param_written(text, quoted);
    if (param_put(p, &v, &every_names, &a, &at, &e) != KILN_OK)
        MUST(e.status == KILN_ERR_INVALID && e.message[0] && memcmp(&at, &before, sizeof at) == 0);
    else if (p->type != KILN_P_FILE)
        check_taken(p, &at, &a);
    arena_free(&a);
}

static void check_list(const char *text, int with_rows)
{
    kiln_ctx c = {0};
    every_type at;
    kiln_param_table t = {.size = sizeof t,
                          .param = every_row,
                          .n_param = EVERY_N - 1,
                          .param_stride = sizeof *every_row,
                          .params_size = sizeof at};
    kiln_value *map = value_map();
    kiln_status status = params_api.parse(&c, with_rows ? &t : NULL, text, map);
    MUST(status == KILN_OK || c.failure.message[0]);
    if (status == KILN_OK) {
        status = params_api.fill(&c, &t, map, &at);
        MUST(status == KILN_OK || (!with_rows && c.failure.message[0])); /* what rows have read they take */
    }
    value_unref(map);
    arena_free(&c.scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[4096];
    if (size == 0 || size > sizeof text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    check_one(&every_row[data[0] % EVERY_N], text, data[0] & 0x80);
    check_list(text, data[0] & 0x40);
    return 0;
}
