/* test_param.c - what each type of parameter takes, written and wired; that values survive the way through text, wires
 * and structs; and what a row says of itself. */
#include "harness.h"
#include "param/param_key.h"
#include "param/param_rows.h"
#include "param/param_rows_kit.h"
#include "param/param_text.h"
#include "tensor/value.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRIES = 1000 };

static arena texts;

/* What lies in the row's place, as text. */
static const char *text_in(const kiln_param *p, const every_type *at)
{
    static char shown[600];
    str s = {0};
    param_value v = param_get(p, at);
    param_value_text(&v, &s);
    snprintf(shown, sizeof shown, "%s", str_text(&s));
    str_free(&s);
    return shown;
}

/* The same bits, or the same text where the struct points to one. */
static int same_place(const kiln_param *p, const every_type *a, const every_type *b)
{
    if (p->type == KILN_P_NAME || p->type == KILN_P_STRING)
        return strcmp(param_get(p, a).text, param_get(p, b).text) == 0;
    return memcmp((const char *)a + p->offset, (const char *)b + p->offset, param_size(p->type)) == 0;
}

/* The text that comes out, or the sentence. */
static const char *outcome(const kiln_param *p, const param_value *v, every_type *at)
{
    static char said[1024];
    error e = {0};
    every_type before;
    memset(at, 0x2a, sizeof *at);
    before = *at;
    if (param_put(p, v, &every_names, &texts, at, &e) == KILN_OK) return text_in(p, at);
    CHECK_MSG(memcmp(at, &before, sizeof before) == 0, "%s: refused and yet written", p->name);
    snprintf(said, sizeof said, "%s", e.message);
    return said;
}

/* ---- written ---- */

static const struct {
    const char *row, *text;
    int quoted;
    const char *outcome;
} written[] = {
    {"flag", "true", 0, "true"},
    {"flag", "false", 0, "false"},
    {"flag", "True", 0, "'True' is not true or false"},
    {"flag", "1", 0, "'1' is not true or false"},
    {"flag", "true", 1, "the text \"true\" is not true or false"},
    {"flag", "", 0, "has no value; it takes true or false"},
    {"flag", "null", 0, "has no value; it takes true or false"},
    {"flag", "~", 0, "has no value; it takes true or false"},
    {"steps", "20", 0, "20"},
    {"steps", "+20", 0, "20"},
    {"steps", "0020", 0, "20"},
    {"steps", "20.0", 0, "20"},
    {"steps", "2e1", 0, "20"},
    {"steps", "-5", 0, "-5"},
    {"steps", "10000", 0, "10000"},
    {"steps", "-6", 0, "'-6' is not a whole number from -5 to 10000"},
    {"steps", "10001", 0, "'10001' is not a whole number from -5 to 10000"},
    {"steps", "20.5", 0, "'20.5' is not a whole number from -5 to 10000"},
    {"steps", "9223372036854775808", 0, "'9223372036854775808' is not a whole number from -5 to 10000"},
    {"steps", "1e300", 0, "'1e300' is not a whole number from -5 to 10000"},
    {"steps", "0x10", 0, "'0x10' is not a whole number from -5 to 10000"},
    {"steps", "nan", 0, "'nan' is not a whole number from -5 to 10000"},
    {"steps", "true", 0, "'true' is not a whole number from -5 to 10000"},
    {"steps", "20", 1, "the text \"20\" is not a whole number from -5 to 10000"},
    {"steps", "null", 0, "has no value; it takes a whole number from -5 to 10000"},
    {"width", "7", 0, "'7' is not a whole number from 16 to 512, a multiple of 8"},
    {"width", "100", 0, "100"}, /* taken, with a warning: test_floored */
    {"seed", "0", 0, "0"},
    {"seed", "9223372036854775808", 0, "9223372036854775808"},
    {"seed", "18446744073709551615", 0, "18446744073709551615"},
    {"seed", "5.0", 0, "5"},
    {"seed", "18446744073709551616", 0, "'18446744073709551616' is not a whole number from 0 to 18446744073709551615"},
    {"seed", "-1", 0, "'-1' is not a whole number from 0 to 18446744073709551615"},
    {"seed", "1.5", 0, "'1.5' is not a whole number from 0 to 18446744073709551615"},
    {"seed", "5", 1, "the text \"5\" is not a whole number from 0 to 18446744073709551615"},
    {"seed", "", 0, "has no value; it takes a whole number from 0 to 18446744073709551615"},
    {"cfg", "7", 0, "7"},
    {"cfg", "7.00", 0, "7"},
    {"cfg", ".5", 0, "0.5"},
    {"cfg", "1e-3", 0, "0.001"},
    {"cfg", "-0.5", 0, "-0.5"},
    {"cfg", "100", 0, "100"},
    {"cfg", "100.00000000000001", 0, "'100.00000000000001' is not a number from -0.5 to 100"},
    {"cfg", "-0.51", 0, "'-0.51' is not a number from -0.5 to 100"},
    {"cfg", "18446744073709551615", 0, "'18446744073709551615' is not a number from -0.5 to 100"},
    {"cfg", "nan", 0, "'nan' is not a number from -0.5 to 100"},
    {"cfg", ".inf", 0, "'.inf' is not a number from -0.5 to 100"},
    {"cfg", "1e400", 0, "'1e400' is not a number from -0.5 to 100"},
    {"cfg", "7,5", 0, "'7,5' is not a number from -0.5 to 100"},
    {"cfg", "7", 1, "the text \"7\" is not a number from -0.5 to 100"},
    {"cfg", "~", 0, "has no value; it takes a number from -0.5 to 100"},
    {"mode", "coarse", 0, "coarse"},
    {"mode", "coarse", 1, "coarse"},
    {"mode", "12", 0, "12"},
    {"mode", "4", 0, "'4' is not one of fine, coarse, 12"}, /* a choice goes by name, not by value */
    {"mode", "coares", 0, "'coares' is not a choice; did you mean 'coarse'?"},
    {"mode", "x", 0, "'x' is not one of fine, coarse, 12"},
    {"mode", "", 1, "'' is not one of fine, coarse, 12"},
    {"mode", "null", 0, "has no value; it takes one of fine, coarse, 12"},
    {"sampler", "heun", 0, "heun"},
    {"sampler", "heum", 0, "no sampler is called 'heum'; did you mean 'heun'?"},
    {"sampler", "zzzzzz", 0, "'zzzzzz' is not one of euler, heun, dpmpp_2m"},
    {"sampler", "5", 0, "'5' is not one of euler, heun, dpmpp_2m"},
    {"sampler", "", 0, "has no value; it takes one of euler, heun, dpmpp_2m"},
    {"text", "a red  circle", 0, "a red  circle"},
    {"text", "7.00", 0, "7.00"}, /* as it was written */
    {"text", "true", 0, "true"},
    {"text", "null", 0, "null"},
    {"text", "", 0, ""},
    {"text", "", 1, ""},
    {"file", "here.png", 0, "/data/input/here.png"},
    {"file", "gone.png", 0, "no file 'gone.png' in input"},
    {"file", "", 1, "no file '' in input"},
    {"file", "null", 0, "has no value; it takes a file of the input folder"},
};

static void test_what_is_written(void)
{
    every_type at;
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        param_value v = param_written(written[i].text, written[i].quoted);
        const char *got = outcome(every(written[i].row), &v, &at);
        CHECK_MSG(strcmp(got, written[i].outcome) == 0, "%s: %s%s: '%s' and not '%s'", written[i].row, written[i].text,
                  written[i].quoted ? " (quoted)" : "", got, written[i].outcome);
    }
}

/* ---- wired ---- */

static kiln_value *wire_int(int64_t v) { return value_int(v); }
static kiln_value *wire_text(const char *v) { return value_string(v, strlen(v)); }

static void test_what_is_wired(void)
{
    struct {
        const char *row;
        kiln_value *value;
        const char *outcome;
    } wired[] = {
        {"flag", value_bool(1), "true"},
        {"flag", value_bool(0), "false"},
        {"flag", wire_int(1), "'1' is not true or false"},
        {"flag", wire_text("true"), "the text \"true\" is not true or false"},
        {"steps", wire_int(20), "20"},
        {"steps", value_float(20), "20"},
        {"steps", value_float(20.5), "'20.5' is not a whole number from -5 to 10000"},
        {"steps", wire_int(-6), "'-6' is not a whole number from -5 to 10000"},
        {"steps", wire_int(INT64_MAX), "'9223372036854775807' is not a whole number from -5 to 10000"},
        {"steps", value_float(NAN), "'nan' is not a whole number from -5 to 10000"},
        {"steps", value_float(INFINITY), "'inf' is not a whole number from -5 to 10000"},
        {"steps", value_float(1e300), "'1e+300' is not a whole number from -5 to 10000"},
        {"steps", value_bool(1), "'true' is not a whole number from -5 to 10000"},
        {"steps", wire_text("20"), "the text \"20\" is not a whole number from -5 to 10000"},
        {"seed", wire_int(5), "5"},
        {"seed", wire_int(-1), "18446744073709551615"}, /* an int is 64 bits, and so is a seed */
        {"seed", value_float(5), "5"},
        {"seed", value_float(-1), "'-1' is not a whole number from 0 to 18446744073709551615"},
        {"seed", value_float(0.5), "'0.5' is not a whole number from 0 to 18446744073709551615"},
        {"cfg", wire_int(7), "7"},
        {"cfg", value_float(0.1), "0.1"},
        {"cfg", value_float(100.5), "'100.5' is not a number from -0.5 to 100"},
        {"cfg", value_float(NAN), "'nan' is not a number from -0.5 to 100"},
        {"cfg", value_float(-INFINITY), "'-inf' is not a number from -0.5 to 100"},
        {"cfg", value_bool(0), "'false' is not a number from -0.5 to 100"},
        {"mode", wire_text("fine"), "fine"},
        {"mode", wire_text("fin"), "'fin' is not a choice; did you mean 'fine'?"},
        {"mode", wire_int(12), "12"},
        {"mode", wire_int(4), "'4' is not one of fine, coarse, 12"},
        {"sampler", wire_text("dpmpp_2m"), "dpmpp_2m"},
        {"sampler", wire_text("eulr"), "no sampler is called 'eulr'; did you mean 'euler'?"},
        {"sampler", wire_text(""), "'' is not one of euler, heun, dpmpp_2m"},
        {"text", wire_text("null"), "null"},
        {"text", wire_int(-3), "-3"},
        {"text", value_bool(1), "true"},
        {"text", value_float(0.1), "0.1"},
    };
    every_type at;
    for (size_t i = 0; i < sizeof wired / sizeof wired[0]; i++) {
        param_value v = param_wired(&value_api, wired[i].value);
        const char *got = outcome(every(wired[i].row), &v, &at);
        CHECK_MSG(strcmp(got, wired[i].outcome) == 0, "%s, case %zu: '%s' and not '%s'", wired[i].row, i, got,
                  wired[i].outcome);
        value_unref(wired[i].value);
    }
}

static void test_what_has_parts_is_refused(void)
{
    kiln_value *parts[] = {value_list(), value_map(), NULL};
    for (size_t i = 0; i < 3; i++) {
        param_value v = param_wired(&value_api, parts[i]);
        for (size_t r = 0; r < EVERY_N; r++) {
            every_type at;
            const char *got = outcome(&every_row[r], &v, &at);
            CHECK_MSG(strncmp(got, "a value with parts is not ", 26) == 0, "%s: %s", every_row[r].name, got);
        }
        value_unref(parts[i]);
    }
}

/* Numbers as they would be written, each against the same number on a wire, for every type. */
static void test_a_wired_number_is_taken_as_a_written_one(void)
{
    static const char *const number[] = {
        "0",     "1",    "20",   "20.0",  "20.5",   "-5",   "-6", "10000", "10001", "100", "512",        "0.1", "-0.5",
        "-0.51", "9e15", "1e16", "1e300", "-1e300", "1e-9", "16", "15.99", "64.00", "7",   "4294967296", "8"};
    every_type by_text, by_wire;
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        for (size_t r = 0; r < EVERY_N; r++) {
            const kiln_param *p = &every_row[r];
            param_value text = param_written(number[i], 0), wire;
            int is_seed_bits = p->type == KILN_P_SEED && text.kind == PARAM_INT && text.whole < 0;
            if (is_seed_bits || param_is_text(p->type)) continue; /* a text keeps how it was written */
            kiln_value *v = text.kind == PARAM_INT ? value_int(text.whole) : value_float(text.number);
            char said[1024];
            error e = {0};
            wire = param_wired(&value_api, v);
            memset(&by_text, 0, sizeof by_text), memset(&by_wire, 0, sizeof by_wire);
            kiln_status a = param_put(p, &text, &every_names, &texts, &by_text, &e);
            snprintf(said, sizeof said, "%s", strstr(e.message, "is not") ? strstr(e.message, "is not") : "");
            e = (error){0};
            kiln_status b = param_put(p, &wire, &every_names, &texts, &by_wire, &e);
            CHECK_MSG(a == b, "%s: %s is %s when written and %s when wired", p->name, number[i], status_name(a),
                      status_name(b));
            CHECK_MSG(same_place(p, &by_wire, &by_text), "%s: %s comes off a wire as another number", p->name,
                      number[i]);
            const char *again = strstr(e.message, "is not");
            CHECK_STR(again ? again : "", said);
            value_unref(v);
        }
}

/* ---- round trips ---- */

static uint64_t random_state = 88172645463325252u;
static uint64_t random_bits(void)
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state;
}

static double random_number(double low, double high)
{
    double share = (double)(random_bits() >> 11) * 0x1p-53, v = low + share * (high - low);
    return fmin(high, fmax(low, random_bits() % 4 == 0 ? floor(v) : v));
}

static const char *random_text(char text[40])
{
    static const char letter[] = "abc \"\\\n\t,=${}#:'\x7f 01.-e~nul\xc3\xa9";
    size_t n = random_bits() % 39;
    for (size_t i = 0; i < n; i++) text[i] = letter[random_bits() % (sizeof letter - 1)];
    text[n] = '\0';
    return text;
}

/* A random value of the row's type and within its range. */
static param_value random_value(const kiln_param *p, char text[40])
{
    double whole = floor(random_number(p->min, p->max));
    switch (p->type) {
    case KILN_P_BOOL: return (param_value){.kind = PARAM_BOOL, .flag = (int)(random_bits() & 1)};
    case KILN_P_INT: return (param_value){.kind = PARAM_INT, .whole = (int64_t)whole, .number = whole};
    case KILN_P_SEED: return (param_value){.kind = PARAM_SEED, .bits = random_bits() >> random_bits() % 64};
    case KILN_P_FLOAT: return (param_value){.kind = PARAM_NUMBER, .number = random_number(p->min, p->max)};
    case KILN_P_ENUM: return (param_value){.kind = PARAM_TEXT, .text = kiln_choice_at(p, random_bits() % 3).name};
    case KILN_P_NAME: return (param_value){.kind = PARAM_TEXT, .text = every_sampler[random_bits() % 3]};
    default: return (param_value){.kind = PARAM_TEXT, .text = random_text(text)};
    }
}

static void check_round_trip(const kiln_param *p)
{
    char text[40];
    error e = {0};
    str shown = {0};
    every_type first = {0}, by_text = {0}, by_wire = {0};
    param_value v = random_value(p, text), wire;
    CHECK_MSG(param_put(p, &v, &every_names, &texts, &first, &e) == KILN_OK, "%s: %s", p->name, e.message);
    v = param_get(p, &first);
    param_value_text(&v, &shown);
    param_value read = param_written(str_text(&shown), p->type == KILN_P_STRING);
    CHECK_MSG(param_put(p, &read, &every_names, &texts, &by_text, &e) == KILN_OK, "%s: %s", p->name, e.message);
    CHECK_MSG(same_place(p, &by_text, &first), "%s: '%s' reads back as '%s'", p->name, str_text(&shown),
              text_in(p, &by_text));
    kiln_value *value = param_to_value(&value_api, &v);
    CHECK(value != NULL);
    wire = param_wired(&value_api, value);
    CHECK_MSG(param_put(p, &wire, &every_names, &texts, &by_wire, &e) == KILN_OK, "%s: %s", p->name, e.message);
    CHECK_MSG(same_place(p, &by_wire, &first), "%s: '%s' comes off a wire as '%s'", p->name, str_text(&shown),
              text_in(p, &by_wire));
    value_unref(value);
    str_free(&shown);
}

static void test_values_survive_text_wires_and_structs(void)
{
    for (size_t r = 0; r < EVERY_N; r++)
        for (int i = 0; i < TRIES && every_row[r].type != KILN_P_FILE; i++) check_round_trip(&every_row[r]);
    arena_free(&texts);
}

static void test_ends_of_a_range_are_inside(void)
{
    static const kiln_param wide = {.name = "wide", .type = KILN_P_INT, .min = -0x1p63, .max = 0x1p63};
    int64_t place;
    error e = {0};
    param_value end;
    for (int high = 0; high < 2; high++) {
        for (size_t r = 0; r < EVERY_N; r++) {
            every_type at = {0};
            int ranged = param_end(&every_row[r], high, &end);
            CHECK_EQ(ranged, every_row[r].max > 0 || every_row[r].type == KILN_P_SEED);
            if (ranged) CHECK_EQ(param_put(&every_row[r], &end, NULL, &texts, &at, &e), KILN_OK);
        }
        CHECK(param_end(&wide, high, &end) && param_put(&wide, &end, NULL, &texts, &place, &e) == KILN_OK);
        CHECK_EQ(place, high ? INT64_MAX : INT64_MIN);
    }
}

static void test_floored(void)
{
    every_type at = {.width = 100};
    int64_t given = 0, used = 0;
    CHECK(param_floored(every("width"), &at, &given, &used));
    CHECK(given == 100 && used == 96);
    at.width = 96;
    CHECK(!param_floored(every("width"), &at, &given, &used));
    at.steps = 7;
    CHECK(!param_floored(every("steps"), &at, &given, &used));
}

/* ---- what a row says of itself ---- */

static void test_rows_describe_themselves(void)
{
    static const struct {
        const char *row, *takes, *def, *json;
    } cases[] = {
        {"flag", "true or false", "true", "\"type\": \"BOOL\""},
        {"steps", "a whole number from -5 to 10000", "20", "\"default\": 20, \"min\": -5, \"max\": 10000, \"step\": 1"},
        {"width", "a whole number from 16 to 512, a multiple of 8", "64", "\"floored\": true"},
        {"seed", "a whole number from 0 to 18446744073709551615", "7", "\"default\": 7}"},
        {"cfg", "a number from -0.5 to 100", "7.5", "\"step\": 0.1"},
        {"mode", "one of fine, coarse, 12", "coarse",
         "\"default\": \"coarse\", \"choices\": [\"fine\", \"coarse\", \"12\"]"},
        {"sampler", "one of euler, heun, dpmpp_2m", "\"euler\"", "\"choices\": [\"euler\", \"heun\", \"dpmpp_2m\"]"},
        {"text", "a text", "\"a \\\"star\\\"\"", "\"default\": \"a \\\"star\\\"\""},
        {"file", "a file of the input folder", "\"\"", "\"from\": \"input\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const kiln_param *p = every(cases[i].row);
        str takes = {0}, def = {0}, json = {0};
        every_type at = {0};
        param_describe(p, &every_names, 0, &takes);
        param_default_text(p, &def);
        param_json(p, &every_names, &json);
        CHECK_STR(str_text(&takes), cases[i].takes);
        CHECK_STR(str_text(&def), cases[i].def);
        CHECK_MSG(strstr(str_text(&json), cases[i].json) != NULL, "%s", str_text(&json));
        CHECK_EQ(param_default(p, &texts, &at), KILN_OK);
        str_free(&def);
        param_value v = param_default_value(p);
        param_value_text(&v, &def);
        CHECK_STR(text_in(p, &at), str_text(&def));
        str_free(&takes), str_free(&def), str_free(&json);
    }
}

static void test_a_message_lists_a_dozen_choices(void)
{
    static kiln_choice many[15];
    static char name[14][8];
    static const kiln_param row = {.name = "many", .type = KILN_P_ENUM, KILN_CHOICES(many)};
    for (size_t i = 0; i < 14; i++) {
        snprintf(name[i], sizeof name[i], "way%zu", i);
        many[i].name = name[i];
    }
    int32_t place;
    error e = {0};
    param_value v = param_written("something else", 0);
    CHECK_EQ(param_put(&row, &v, NULL, &texts, &place, &e), KILN_ERR_INVALID);
    CHECK_STR(e.message, "'something else' is not one of way0, way1, way2, way3, way4, way5, way6, way7, way8, way9, "
                         "way10, way11, ...");
}

/* Where there are no registries and no folders, no name is right. */
static void test_without_names(void)
{
    every_type at;
    error e = {0};
    param_value euler = param_written("euler", 0), file = param_written("here.png", 0);
    CHECK_EQ(param_put(every("sampler"), &euler, NULL, &texts, &at, &e), KILN_ERR_INVALID);
    e = (error){0};
    CHECK_EQ(param_put(every("file"), &file, NULL, &texts, &at, &e), KILN_ERR_INVALID);
    CHECK_STR(e.message, "there is no such file");
}

/* ---- keys ---- */

static void test_hashes_are_what_they_were(void)
{
    static const struct {
        const char *row, *digest;
    } golden[] = {
        {"flag", "37df00531325c52788396616ae64a499"}, {"steps", "c8f76b7a55131275e6155241345a369c"},
        {"seed", "4a429d81b7c5bba4bbdeb7fbe8a3994b"}, {"cfg", "05b41bf1e347c5146ca6d328f947d5be"},
        {"mode", "9736f1d1a6d8ee60c511ec377b9cf531"}, {"sampler", "176698e342e09e1bfe63210a4fab44b4"},
        {"text", "2f521bb6b248f0678b0526926b1ee11c"}, {"file", "9cf015c1f254772f5a08bf8cf2e81cf4"},
    };
    char hex[33];
    every_type at = {
        .flag = 1, .mode = -3, .steps = -5, .seed = UINT64_MAX, .cfg = 0.1, .sampler = "heun", .text = "a b"};
    hasher *h = hasher_new();
    REQUIRE(h != NULL);
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        hasher_reset(h);
        param_hash(h, every(golden[i].row), &at);
        CHECK_STR(digest_hex(hasher_digest(h), hex), golden[i].digest);
    }
    hasher_free(h);
}

/* ---- tables ---- */

static kiln_status check_rows(const kiln_param *row, uint32_t n, error *e)
{
    kiln_param_table t = {
        .size = sizeof t, .param = row, .n_param = n, .param_stride = sizeof *row, .params_size = sizeof(every_type)};
    return param_rows_check(&t, e);
}

static void test_a_table_is_legal_or_says_why(void)
{
    static const kiln_choice none[] = {{0}}, large[] = {{.name = "a", .value = (int64_t)1 << 40}, {0}},
                             twice[] = {{.name = "a", .value = 0}, {.name = "a", .value = 1}, {0}},
                             nameless[] = {{.name = "\n"}, {0}};
    static kiln_choice many[1100];
    static char many_names[1100][8];
    for (int i = 0; i < 1099; i++) snprintf(many_names[i], 8, "c%d", i), many[i].name = many_names[i];
    static const struct {
        kiln_param row;
        const char *why;
    } bad[] = {
        {{.name = "no name", .doc = "x", .type = KILN_P_BOOL}, "parameter 0 has no usable name"},
        {{.name = "a", .type = KILN_P_BOOL}, "'a' has no doc"},
        {{.name = "a", .doc = "x\x1b", .type = KILN_P_BOOL}, "'a' has no doc"},
        {{.name = "a", .doc = "x", .type = 0}, "'a' has type 0"},
        {{.name = "a", .doc = "x", .type = 99}, "'a' has type 99"},
        {{.name = "a", .doc = "x", .type = KILN_P_BOOL, .flags = 1u << 20}, "flags 0x100000"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .max = 1, .step = 1, .flags = KILN_PARAM_FLOORED},
         "is FLOORED"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .max = 9, .flags = KILN_PARAM_FLOORED}, "is FLOORED"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .max = 9, .step = 1.5, .flags = KILN_PARAM_FLOORED},
         "is FLOORED"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .max = 9, .step = 1e10, .flags = KILN_PARAM_FLOORED},
         "is FLOORED"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .max = 9, .step = NAN, .flags = KILN_PARAM_FLOORED},
         "is FLOORED"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .offset = sizeof(every_type) - 4}, "past the"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .offset = SIZE_MAX - 3}, "past the"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .offset = 4}, "not a multiple of its 8 bytes"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .min = 2, .max = 1}, "min has to be below max"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .max = NAN}, "is not finite"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .min = -INFINITY}, "is not finite"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .max = 1, .def = NAN}, "is not finite"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .max = 1, .step = INFINITY}, "is not finite"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .max = 1, .step = -1}, "is not finite"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .min = -1e19, .max = 1}, "whole numbers of 64 bits"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .max = 1e19}, "whole numbers of 64 bits"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .min = 1, .max = 2},
         "the default 0 of parameter 'a' is outside"},
        {{.name = "a", .doc = "x", .type = KILN_P_SEED, .def = 0x1p64}, "a SEED is 0 or more"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM, KILN_CHOICES(nameless)},
         "choice 0 of parameter 'a' has no usable"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM, KILN_CHOICES(many)}, "has more than 1000 choices"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM, .choice = every_mode, .choice_stride = 4},
         "stride of the choices"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM, .choice = every_mode, .choice_stride = 1 << 20},
         "stride of the choices"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM, .choice = every_mode, .choice_stride = sizeof *every_mode + 1},
         "stride of the choices"},
        {{.name = "a", .doc = "x", .type = KILN_P_FILE}, "where its names come from"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .max = 1, .def = 5}, "outside its range 0 to 1"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .max = 1, .def = 0.5}, "whole numbers of 64 bits"},
        {{.name = "a", .doc = "x", .type = KILN_P_BOOL, .def = 2}, "a BOOL is 0 or 1"},
        {{.name = "a", .doc = "x", .type = KILN_P_SEED, .def = -1}, "a SEED is 0 or more"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM}, "an ENUM without choices"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM, KILN_CHOICES(none)}, "an ENUM without choices"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM, KILN_CHOICES(large)}, "beyond int32_t"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM, KILN_CHOICES(twice)}, "the choice 'a' twice"},
        {{.name = "a", .doc = "x", .type = KILN_P_ENUM, KILN_CHOICES(every_mode), .def = 5},
         "is the value of no choice"},
        {{.name = "a", .doc = "x", .type = KILN_P_NAME}, "where its names come from"},
        {{.name = "a", .doc = "x", .type = KILN_P_INT, .flags = KILN_PARAM_ABOVE_MIN, .max = 9, .def = 1},
         "leaves out an end of its range; that takes type FLOAT"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .flags = KILN_PARAM_ABOVE_MIN, .max = 1},
         "is outside its range 0 to 1, an end that it leaves out"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .flags = KILN_PARAM_BELOW_MAX, .max = 1, .def = 1},
         "an end that it leaves out"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .flags = KILN_PARAM_BELOW_MAX, .min = 1, .max = 1, .def = 1},
         "nothing lies between the ends 1 and 1"},
        {{.name = "a", .doc = "x", .type = KILN_P_FLOAT, .flags = 512, .max = 1}, "flags 0x200"},
    };
    error e = {0};
    CHECK_MSG(check_rows(every_row, EVERY_N, &e) == KILN_OK, "%s", e.message);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        e = (error){0};
        CHECK_EQ(check_rows(&bad[i].row, 1, &e), KILN_ERR_INVALID);
        CHECK_MSG(strstr(e.message, bad[i].why) != NULL, "'%s' does not say '%s'", e.message, bad[i].why);
    }
    kiln_param same[] = {every_row[0], every_row[0]};
    e = (error){0};
    CHECK(check_rows(same, 2, &e) == KILN_ERR_INVALID && strstr(e.message, "two parameters are called 'flag'"));
    same[1].name = "other", e = (error){0};
    CHECK(check_rows(same, 2, &e) == KILN_ERR_INVALID && strstr(e.message, "lie at the same place"));
    e = (error){0};
    CHECK(check_rows(NULL, 1, &e) == KILN_ERR_INVALID && strstr(e.message, "no array of them"));
    const kiln_param needed[] = {
        {.name = "a", .doc = "x", .type = KILN_P_INT, .flags = KILN_PARAM_REQUIRED, .min = 1, .max = 2},
        {EVERY_ROW(KILN_P_ENUM, mode), .flags = KILN_PARAM_REQUIRED, .def = 99, KILN_CHOICES(every_mode)}};
    for (int i = 0; i < 2; i++)
        CHECK_MSG(check_rows(&needed[i], 1, &e) == KILN_OK, "%s", e.message); /* no default is asked for */
    static const struct {
        uint32_t n, stride;
        size_t size;
        const char *why;
    } tables[] = {{1, 8, 64, "the stride of the parameters is 8 bytes"},
                  {1, 1 << 20, 64, "the stride of the parameters is 1048576 bytes"},
                  {1, sizeof(kiln_param) + 1, 64, "the stride of the parameters"},
                  {1u << 20, sizeof(kiln_param), 64, "1048576 parameters; the most is"},
                  {1, sizeof(kiln_param), SIZE_MAX, "params_size is"},
                  {1, sizeof(kiln_param), 0, "1 parameters and params_size 0"}};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const kiln_param_table t = {.size = sizeof t,
                                    .param = every_row,
                                    .n_param = tables[i].n,
                                    .param_stride = tables[i].stride,
                                    .params_size = tables[i].size};
        e = (error){0};
        CHECK(param_rows_check(&t, &e) == KILN_ERR_INVALID);
        CHECK_MSG(strstr(e.message, tables[i].why), "'%s' does not say '%s'", e.message, tables[i].why);
    }
    const kiln_param_table empty = {.size = sizeof empty, .params_size = 1}; /* as C++ sizes a struct without members */
    CHECK_EQ(param_rows_check(&empty, &e), KILN_OK);
}

/* What is REQUIRED may have any default, and no number of it is out of reach. */
static void test_a_default_beyond_all_numbers(void)
{
    static const double far[] = {1e300, -1e300, 9.25e18, NAN, INFINITY, -INFINITY};
    static const int64_t nearest[] = {INT64_MAX, INT64_MIN, INT64_MAX, 0, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        const kiln_param whole = {.name = "a", .doc = "x", .type = KILN_P_INT, .def = far[i]},
                         one = {EVERY_ROW(KILN_P_ENUM, mode), .def = far[i], KILN_CHOICES(every_mode)};
        CHECK_EQ(param_default_value(&whole).whole, nearest[i]);
        CHECK_EQ(param_default_value(&one).whole, nearest[i]);
    }
}

/* (0,1), [0,1), (0,1] and [0,1]: which ends are taken, how they are described, and what the end is. */
static void test_open_ends(void)
{
    static const struct {
        uint32_t flags;
        int low, high;
        const char *text;
    } rows[] = {
        {0, 1, 1, "a number from 0 to 1"},
        {KILN_PARAM_ABOVE_MIN, 0, 1, "a number above 0 and up to 1"},
        {KILN_PARAM_BELOW_MAX, 1, 0, "a number from 0 to below 1"},
        {KILN_PARAM_ABOVE_MIN | KILN_PARAM_BELOW_MAX, 0, 0, "a number above 0 and below 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const kiln_param p = {
            .name = "a", .doc = "x", .type = KILN_P_FLOAT, .flags = rows[i].flags, .max = 1, .def = 0.5};
        arena a = {0};
        double number = 7;
        param_value low = param_written("0", 0), high = param_written("1.0", 0), end;
        error e = {0};
        str text = {0};
        CHECK_MSG(check_rows(&p, 1, &e) == KILN_OK, "%s", e.message);
        CHECK_EQ(param_put(&p, &low, NULL, &a, &number, &e) == KILN_OK, rows[i].low);
        CHECK(rows[i].low ? number == 0 : number == 7 && strstr(e.message, rows[i].text));
        e = (error){0};
        CHECK_EQ(param_put(&p, &high, NULL, &a, &number, &e) == KILN_OK, rows[i].high);
        param_describe(&p, NULL, 0, &text);
        CHECK_MSG(strcmp(str_text(&text), rows[i].text) == 0, "%s", str_text(&text));
        for (int k = 0; k < 2; k++)
            CHECK(param_end(&p, k, &end) && param_put(&p, &end, NULL, &a, &number, NULL) == KILN_OK);
        CHECK(fabs(number - 1) < 1e-15);
        str_free(&text), arena_free(&a);
    }
}

static void test_rows_are_found_by_name(void)
{
    kiln_param_table t = {
        .param = every_row, .n_param = EVERY_N, .param_stride = sizeof *every_row, .params_size = sizeof(every_type)};
    CHECK(param_row_named(&t, "cfg") == every("cfg") && !param_row_named(&t, "cgf"));
    CHECK_STR(param_row_nearest(&t, "setps"), "steps");
    CHECK(param_row_nearest(&t, "x") == NULL);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_what_is_written),
        CASE(test_what_is_wired),
        CASE(test_what_has_parts_is_refused),
        CASE(test_a_wired_number_is_taken_as_a_written_one),
        CASE(test_values_survive_text_wires_and_structs),
        CASE(test_ends_of_a_range_are_inside),
        CASE(test_floored),
        CASE(test_rows_describe_themselves),
        CASE(test_a_message_lists_a_dozen_choices),
        CASE(test_without_names),
        CASE(test_hashes_are_what_they_were),
        CASE(test_a_table_is_legal_or_says_why),
        CASE(test_a_default_beyond_all_numbers),
        CASE(test_open_ends),
        CASE(test_rows_are_found_by_name),
    };
    int failed = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    arena_free(&texts);
    return failed;
}
