/* inspect_print.c - the findings of inspect.c as text for people, and as JSON for scripts. */
#include "base/print.h"
#include "base/str.h"
#include "cli/inspect.h"

#include <stdio.h>
#include <string.h>

enum { NOTES_SHOWN = 40, NOTE_WIDTH = 100, GROUPS_SHOWN = 16, NAME_COLUMN = 14 };

/* ---- reading the maps ---- */

static const kiln_value *get(const kiln_value *map, const char *key) { return value_api.map_get(map, key); }
static const char *text_of(const kiln_value *map, const char *key)
{
    const char *s = value_api.get_string(get(map, key), NULL);
    return s ? s : "";
}
static int64_t int_of(const kiln_value *map, const char *key)
{
    int64_t v = 0;
    value_api.get_int(get(map, key), &v);
    return v;
}
static double float_of(const kiln_value *map, const char *key)
{
    double v = 0;
    value_api.get_float(get(map, key), &v);
    return v;
}
static int is_set(const kiln_value *map, const char *key)
{
    int v = 0;
    value_api.get_bool(get(map, key), &v);
    return v;
}

/* ---- text ---- */

static void line(const char *name, const str *s) { print_text(stdout, "  %-*s %s\n", NAME_COLUMN, name, str_text(s)); }

/* "2,567,463,684" */
static void add_count(str *s, int64_t v)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)v);
    for (int i = 0; i < n; i++) str_printf(s, "%s%c", i && (n - i) % 3 == 0 ? "," : "", digits[i]);
}

/* "f16 1680, f32 3 tensors" */
static void add_types(str *s, const kiln_value *types)
{
    const char *key;
    const kiln_value *v;
    int first = 1;
    int64_t total = 0;
    for (size_t i = 0; (v = value_api.map_at(types, i, &key)); i++) {
        int64_t n = 0;
        value_api.get_int(v, &n);
        if (n <= 0) continue;
        str_printf(s, "%s%s ", first ? "" : ", ", key);
        add_count(s, n);
        first = 0, total += n;
    }
    str_append(s, first ? "no tensors" : total == 1 ? " tensor" : " tensors");
}

static void print_sizes(const kiln_value *part)
{
    char bytes[16];
    str s = {0};
    if (!get(part, "types")) return;
    add_count(&s, int_of(part, "parameters"));
    str_printf(&s, ", %s: ", str_bytes(bytes, (uint64_t)int_of(part, "bytes")));
    add_types(&s, get(part, "types"));
    line("parameters", &s);
    str_free(&s);
}

static void print_latent(const kiln_value *latent)
{
    str s = {0};
    if (!latent) return;
    str_printf(&s, "%lld channels", (long long)int_of(latent, "channels"));
    if (int_of(latent, "factor") > 1) str_printf(&s, ", %lld pixels a cell", (long long)int_of(latent, "factor"));
    if (int_of(latent, "time_factor")) str_printf(&s, ", %lld frames a cell", (long long)int_of(latent, "time_factor"));
    if (int_of(latent, "patch")) str_printf(&s, ", patches of %lld", (long long)int_of(latent, "patch"));
    if (text_of(latent, "scale")[0])
        str_printf(&s, ", scale %s", text_of(latent, "scale"));
    else if (get(latent, "scale"))
        str_printf(&s, ", scale %.6g", float_of(latent, "scale"));
    if (get(latent, "shift")) str_printf(&s, ", shift %.6g", float_of(latent, "shift"));
    line("latent", &s);
    str_free(&s);
}

static void print_sampling(const kiln_value *sampling)
{
    str s = {0};
    if (!sampling) return;
    str_printf(&s, "predicts %s; sigma %.4g to %.6g in %lld levels", text_of(sampling, "prediction"),
               float_of(sampling, "sigma_min"), float_of(sampling, "sigma_max"), (long long)int_of(sampling, "levels"));
    line("sampling", &s);
    str_free(&s);
}

static void print_inputs(const kiln_value *inputs)
{
    str s = {0};
    for (size_t i = 0; i < value_api.count(inputs); i++) {
        const kiln_value *one = value_api.list_at(inputs, i);
        str_printf(&s, "%s%s (%s", i ? ", " : "", text_of(one, "key"), text_of(one, "kind"));
        if (int_of(one, "width")) str_printf(&s, " %lld", (long long)int_of(one, "width"));
        str_printf(&s, "%s)", is_set(one, "optional") ? ", optional" : "");
    }
    if (s.len) line("conditioning", &s);
    str_free(&s);
}

static void print_encoder(const kiln_value *one)
{
    str s = {0}, name = {0};
    if (text_of(one, "architecture")[0]) str_printf(&s, "%s: ", text_of(one, "architecture"));
    str_printf(&s, "width %lld", (long long)int_of(one, "width"));
    if (int_of(one, "pooled_width")) str_printf(&s, ", pooled %lld", (long long)int_of(one, "pooled_width"));
    str_printf(&s, ", %lld layers, takes layer %lld", (long long)int_of(one, "layers"),
               (long long)int_of(one, "layer"));
    if (int_of(one, "chunk")) str_printf(&s, ", chunks of %lld tokens", (long long)int_of(one, "chunk"));
    if (get(one, "padding")) str_printf(&s, " padded with %lld", (long long)int_of(one, "padding"));
    str_printf(&name, "encoder %s", text_of(one, "name"));
    line(str_text(&name), &s);
    str_free(&s), str_free(&name);
}

static void print_list(const char *name, const kiln_value *list)
{
    str s = {0};
    for (size_t i = 0; i < value_api.count(list); i++)
        str_printf(&s, "%s%s", i ? ", " : "", value_api.get_string(value_api.list_at(list, i), NULL));
    if (s.len) line(name, &s);
    str_free(&s);
}

static void print_picture(const kiln_value *part)
{
    str s = {0};
    if (!get(part, "image_channels")) return;
    str_printf(&s, "%lld channels; %s%s%s%s", (long long)int_of(part, "image_channels"),
               is_set(part, "encodes") ? "encodes" : "", is_set(part, "encodes") && is_set(part, "decodes") ? ", " : "",
               is_set(part, "decodes") ? "decodes" : "", is_set(part, "tiles") ? ", may be tiled" : "");
    line("picture", &s);
    str_free(&s);
}

/* What a network says of itself in words. */
static void print_facts(const kiln_value *facts)
{
    const char *key, *text;
    const kiln_value *v;
    for (size_t i = 0; i < value_api.count(facts) && (v = value_api.map_at(facts, i, &key)); i++) {
        str s = {0};
        if (value_kind(v) != KILN_V_STRING || !(text = value_api.get_string(v, NULL))) continue;
        str_append(&s, text);
        line(key, &s);
        str_free(&s);
    }
}

static void print_part(const kiln_value *part)
{
    str kind = {0};
    str_append(&kind, text_of(part, "kind"));
    for (size_t i = 0; i < kind.len; i++)
        if (kind.data[i] == '_') kind.data[i] = ' ';
    print_text(stdout, "\n%s: %s", str_text(&kind), text_of(part, "architecture"));
    if (strcmp(text_of(part, "architecture"), text_of(part, "family")) != 0)
        print_text(stdout, " (family %s)", text_of(part, "family"));
    str_free(&kind);
    print_text(stdout, "%s\n",
               text_of(part, "problem")[0] ? ", NOT COMPLETE"
               : is_set(part, "checked")   ? ", complete"
                                           : ", not checked: plugin org.kiln.loader is not loaded");
    if (text_of(part, "problem")[0])
        print_text(stdout, "  %-*s %s\n", NAME_COLUMN, "missing", text_of(part, "problem"));
    print_sizes(part);
    print_latent(get(part, "latent"));
    print_sampling(get(part, "sampling"));
    print_picture(part);
    for (size_t i = 0; i < value_api.count(get(part, "encoders")); i++)
        print_encoder(value_api.list_at(get(part, "encoders"), i));
    print_inputs(get(part, "inputs"));
    print_facts(get(part, "facts"));
    print_list("computes in", get(part, "precisions"));
}

static void print_left_over(const kiln_value *left)
{
    const kiln_value *groups = get(left, "groups");
    size_t n = value_api.count(groups);
    if (int_of(left, "tensors"))
        print_text(stdout, "\nleft over: %lld tensor%s that no part asks for\n", (long long)int_of(left, "tensors"),
                   int_of(left, "tensors") == 1 ? "" : "s");
    for (size_t i = 0; i < n && i < GROUPS_SHOWN; i++) {
        const kiln_value *one = value_api.list_at(groups, i);
        if (int_of(one, "tensors") == 1)
            print_text(stdout, "  %s\n", text_of(one, "example"));
        else
            print_text(stdout, "  %s*: %lld tensors (%s, ...)\n", text_of(one, "prefix"),
                       (long long)int_of(one, "tensors"), text_of(one, "example"));
    }
    if (n > GROUPS_SHOWN) print_text(stdout, "  and %zu groups more; --json has them all\n", n - GROUPS_SHOWN);
    if (int_of(left, "needless"))
        print_text(stdout, "\nnot needed: %lld tensor%s of known kinds (position_ids, model_ema and the like)\n",
                   (long long)int_of(left, "needless"), int_of(left, "needless") == 1 ? "" : "s");
}

/* Values are shortened: a LoRA's training notes may have pages. */
static void print_notes(const kiln_value *notes)
{
    const char *key;
    const kiln_value *v;
    size_t n = value_api.count(notes);
    if (n) print_text(stdout, "\nmetadata\n");
    for (size_t i = 0; i < n && i < NOTES_SHOWN && (v = value_api.map_at(notes, i, &key)); i++) {
        size_t length = 0;
        const char *value = value_api.get_string(v, &length);
        print_text(stdout, "  %s: %.*s%s\n", key, NOTE_WIDTH, value, length > NOTE_WIDTH ? "..." : "");
    }
    if (n > NOTES_SHOWN) print_text(stdout, "  and %zu more; --json has them all\n", n - NOTES_SHOWN);
}

void inspect_print(const kiln_value *found)
{
    const kiln_value *files = get(found, "files");
    char bytes[16];
    str s = {0};
    add_types(&s, get(found, "types"));
    print_text(stdout, "%s: %s, %s\n", text_of(found, "path"), str_bytes(bytes, (uint64_t)int_of(found, "bytes")),
               str_text(&s));
    str_free(&s);
    for (size_t i = 0; value_api.count(files) > 1 && i < value_api.count(files); i++) {
        const kiln_value *one = value_api.list_at(files, i);
        print_text(stdout, "  %s (%s)\n", text_of(one, "path"), str_bytes(bytes, (uint64_t)int_of(one, "bytes")));
    }
    for (size_t i = 0; i < value_api.count(get(found, "parts")); i++)
        print_part(value_api.list_at(get(found, "parts"), i));
    print_left_over(get(found, "left_over"));
    print_notes(get(found, "metadata"));
}

/* ---- JSON ---- */

static void add_json(str *s, const kiln_value *v);

static void add_container(str *s, const kiln_value *v, int is_map)
{
    const char *key = NULL;
    str_append(s, is_map ? "{" : "[");
    for (size_t i = 0; i < value_api.count(v); i++) {
        if (i) str_append(s, ", ");
        const kiln_value *item = is_map ? value_api.map_at(v, i, &key) : value_api.list_at(v, i);
        if (is_map) str_json(s, key, strlen(key), 0), str_append(s, ": ");
        add_json(s, item);
    }
    str_append(s, is_map ? "}" : "]");
}

static void add_json(str *s, const kiln_value *v)
{
    int64_t i = 0;
    double d = 0;
    int b = 0;
    size_t n = 0;
    const char *text;
    switch (value_kind(v)) {
    case KILN_V_INT: value_api.get_int(v, &i), str_printf(s, "%lld", (long long)i); break;
    case KILN_V_FLOAT: value_api.get_float(v, &d), str_double(s, d); break;
    case KILN_V_BOOL: value_api.get_bool(v, &b), str_append(s, b ? "true" : "false"); break;
    case KILN_V_STRING: text = value_api.get_string(v, &n), str_json(s, text, n, 0); break;
    case KILN_V_LIST: add_container(s, v, 0); break;
    case KILN_V_MAP: add_container(s, v, 1); break;
    default: str_append(s, "null"); break;
    }
}

void inspect_print_json(const kiln_value *found)
{
    str s = {0};
    add_json(&s, found);
    str_char(&s, '\n');
    print_str(stdout, &s);
    str_free(&s);
}
