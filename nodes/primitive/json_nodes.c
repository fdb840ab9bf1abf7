/* json_nodes.c - JsonExtractString: what a JSON object has under a key, as Python's str() writes it: numbers by their
 * fewest digits, lists and objects as Python has them. No object, or no such key: an empty text. */
#include "primitive.h"
#include "python_text.h"

#include "kiln/kit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct {
    const char *text, *key;
} extract_params;
#define TEXT(field, name_, text_)                                                                                      \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_STRING, .flags = KILN_PARAM_MULTILINE | KILN_PARAM_REQUIRED,                     \
        .offset = offsetof(extract_params, field), .def_str = "", .doc = text_                                         \
    }
static const kiln_param extract_param[] = {TEXT(text, "json_string", "The JSON."),
                                           TEXT(key, "key", "What is asked for.")};
static const kiln_port extract_out[] = {{.name = "STRING", .type = "STRING", .doc = "The value as a text."}};

static int is_shown(utf8proc_int32_t code)
{
    utf8proc_category_t k = utf8proc_category(code);
    return code == ' ' || !(k == UTF8PROC_CATEGORY_CN || k >= UTF8PROC_CATEGORY_ZS);
}

/* Python's repr of a text. */
static void put_quoted(FILE *f, const char *text)
{
    char quote = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';
    putc(quote, f);
    while (*text) {
        utf8proc_int32_t code;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code);
        if (n <= 0) break;
        if (code == quote || code == '\\')
            fprintf(f, "\\%c", (int)code);
        else if (code == '\n' || code == '\r' || code == '\t')
            fprintf(f, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        else if (is_shown(code))
            fwrite(text, 1, (size_t)n, f);
        else
            fprintf(f, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
        text += n;
    }
    putc(quote, f);
}

static void put_value(FILE *f, const json_t *v)
{
    char number[40];
    size_t i;
    const char *key;
    json_t *item;
    switch (json_typeof(v)) {
    case JSON_STRING: put_quoted(f, json_string_value(v)); break;
    case JSON_INTEGER: fprintf(f, "%" JSON_INTEGER_FORMAT, json_integer_value(v)); break;
    case JSON_REAL:
        python_float(json_real_value(v), number);
        fputs(number, f);
        break;
    case JSON_TRUE: fputs("True", f); break;
    case JSON_FALSE: fputs("False", f); break;
    case JSON_NULL: fputs("None", f); break;
    case JSON_ARRAY:
        putc('[', f);
        json_array_foreach(v, i, item)
        {
            if (i) fputs(", ", f);
            put_value(f, item);
        }
        putc(']', f);
        break;
    case JSON_OBJECT:
        i = 0;
        putc('{', f);
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
        {
            if (i++) fputs(", ", f);
            put_quoted(f, key);
            fputs(": ", f);
            put_value(f, item);
        }
        putc('}', f);
        break;
    }
}

/* malloc()ed; NULL: no memory. */
static char *text_of(const json_t *v)
{
    char *text = NULL;
    size_t n = 0;
    if (!v || json_is_null(v)) return strdup("");
    if (json_is_string(v)) return strdup(json_string_value(v));
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    put_value(f, v);
    int failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

static kiln_status extract_run(const kiln_call *c)
{
    const extract_params *p = c->params;
    json_t *all = json_loads(p->text, JSON_DECODE_ANY, NULL);
    char *text = text_of(json_object_get(all, p->key));
    json_decref(all);
    if (text) c->out[0] = kit_values(c)->new_string(c->ctx, text, strlen(text));
    free(text);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}
const kiln_node node_json_extract_string = {
    KIT_NODE("JsonExtractString", "Extract Text from JSON", "utils", "What a JSON object has under a key, as a text."),
    KILN_ARRAY(out, extract_out),
    KIT_PARAMS(extract_params, extract_param),
    .run = extract_run,
};
