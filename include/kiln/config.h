/* config.h - reading a model's config.json. Header only; needs jansson and the public headers.
 *
 * A config remembers its place ("unet/config.json") and fails once: the first wrong entry is reported
 * on the call and every later question gives its default, so that a reader asks line by line and looks at
 * `failed` at the end.
 */
#ifndef KILN_CONFIG_H
#define KILN_CONFIG_H

#include "kiln/weights.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const char *path; /* in the weights' folder, for messages */
    json_t *root;     /* NULL: there is no such file          */
    int failed;
} config;

#define CONFIG_FAIL(c, status, ...)                                                                                    \
    do {                                                                                                               \
        if (!(c)->failed) (c)->host->fail((c)->ctx, (status), __VA_ARGS__);                                            \
        (c)->failed = 1;                                                                                               \
    } while (0)

/* Close with config_close. No file: root NULL and not failed. */
static inline config config_open(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const char *path)
{
    const kiln_weights_api *w = (const kiln_weights_api *)host->ability(KILN_WEIGHTS_ABILITY);
    config c = {host, ctx, path, NULL, 0};
    size_t n = 0;
    json_error_t at;
    const char *text = w->text(set, path, &n);
    if (!text) return c;
    c.root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    if (!c.root) {
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s:%d:%d: not valid JSON: %s", path, at.line, at.column, at.text);
    } else if (!json_is_object(c.root)) {
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: a JSON map is expected", path);
    }
    return c;
}

static inline void config_close(config *c)
{
    json_decref(c->root);
    c->root = NULL;
}

/* The entry, or NULL when absent or null. */
static inline const json_t *config_get(const config *c, const char *key)
{
    const json_t *v = json_is_object(c->root) ? json_object_get(c->root, key) : NULL;
    return v && !json_is_null(v) ? v : NULL;
}

static inline int64_t config_int_of(config *c, const char *key, const json_t *v, int64_t min, int64_t max)
{
    if (json_is_integer(v) && json_integer_value(v) >= min && json_integer_value(v) <= max)
        return json_integer_value(v);
    CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' must be a whole number from %lld to %lld", c->path, key, (long long)min,
                (long long)max);
    return min;
}

static inline int64_t config_int(config *c, const char *key, int64_t absent, int64_t min, int64_t max)
{
    const json_t *v = config_get(c, key);
    return v ? config_int_of(c, key, v, min, max) : absent;
}

static inline double config_number(config *c, const char *key, double absent, double min, double max)
{
    const json_t *v = config_get(c, key);
    if (!v) return absent;
    double d = json_is_number(v) ? json_number_value(v) : NAN;
    if (d >= min && d <= max) return d;
    CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' must be a number from %g to %g", c->path, key, min, max);
    return absent;
}

static inline int config_bool(config *c, const char *key, int absent)
{
    const json_t *v = config_get(c, key);
    if (!v) return absent;
    if (!json_is_boolean(v)) CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' must be true or false", c->path, key);
    return json_is_true(v);
}

static inline const char *config_text(config *c, const char *key, const char *absent)
{
    const json_t *v = config_get(c, key);
    if (!v) return absent;
    if (!json_is_string(v)) CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' must be a text", c->path, key);
    return json_is_string(v) ? json_string_value(v) : absent;
}

/* A list of whole numbers into out[capacity], or one number for all of `expected`. Returns how many. */
static inline size_t config_ints(config *c, const char *key, int64_t absent, int64_t min, int64_t max, size_t expected,
                                 int64_t *out, size_t capacity)
{
    const json_t *v = config_get(c, key);
    size_t n = json_is_array(v) ? json_array_size(v) : expected;
    if (n > capacity || (expected && n != expected)) {
        CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' has %zu entries; %zu are expected", c->path, key, n,
                    expected ? expected : capacity);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_array(v) ? json_array_get(v, i) : v;
        out[i] = item ? config_int_of(c, key, item, min, max) : absent;
    }
    return n;
}

/* What this reader can do nothing else about: `key` must be absent, null or equal to `json` (a JSON text). */
typedef struct {
    const char *key, *json;
} config_rule;

static inline void config_expect(config *c, const config_rule *rule, size_t n)
{
    for (size_t i = 0; i < n && !c->failed; i++) {
        const json_t *v = config_get(c, rule[i].key);
        json_t *wanted = v ? json_loads(rule[i].json, JSON_DECODE_ANY, NULL) : NULL;
        int same = !v || json_equal(v, wanted) ||
                   (json_is_number(v) && json_is_number(wanted) && json_number_value(v) == json_number_value(wanted));
        if (!same) {
            char *has = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
            CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: '%s' is %.100s; only %s is supported", c->path, rule[i].key,
                        has ? has : "something else", rule[i].json);
            free(has);
        }
        json_decref(wanted);
    }
}

#endif
