/* word_values.c - texts, lists and maps: a text becomes a list of words, a list of words a map of how often each is
 * there, and that a text again. Shows: a LIST output (what takes it runs once for each item), a LIST input (which takes
 * all of them), a type of the plugin's own whose shape the engine checks (kiln/types.h), who owns what.
 */
#include "kiln/kit.h"
#include "kiln/types.h"

#include <stdio.h>

/* ---- ExampleWords: text -> a list of words ---- */

typedef struct {
    const char *text;
} words_params;

static const kiln_port words_out[] = {
    {.name = "STRING", .type = "STRING", .flags = KILN_PORT_LIST, .doc = "Each word of the text."}};
static const kiln_param words_param[] = {{.name = "text",
                                          .type = KILN_P_STRING,
                                          .flags = KILN_PARAM_MULTILINE,
                                          .offset = offsetof(words_params, text),
                                          .def_str = "",
                                          .doc = "Words with blanks between them."}};

static kiln_status words_run(const kiln_call *c)
{
    static const char blanks[] = " \t\r\n";
    const kiln_value_api *v = kit_values(c);
    const char *at = ((const words_params *)c->params)->text;
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (at += strspn(at, blanks); *at && status == KILN_OK; at += strspn(at, blanks)) {
        const size_t n = strcspn(at, blanks);
        kiln_value *word = v->new_string(c->ctx, at, n);
        status = word ? v->list_push(list, word) : KILN_ERR_NOMEM;
        c->host->unref(word); /* the list has a reference of its own */
        at += n;
    }
    if (status == KILN_OK)
        c->out[0] = list;
    else
        c->host->unref(list);
    return status;
}

static const kiln_node words = {
    KIT_NODE("ExampleWords", "Words", "examples", "The words of a text, one after the other."),
    KILN_ARRAY(out, words_out), KIT_PARAMS(words_params, words_param), .run = words_run};

/* ---- ExampleCountWords: all words -> {words: {word: how often}, total} ---- */

static const kiln_value_entry count_entries[] = {
    {.size = sizeof *count_entries, .key = "words", .doc = "How often each is there.", .kinds = 1u << KILN_V_MAP},
    {.size = sizeof *count_entries, .key = "total", .doc = "How many there are.", .kinds = 1u << KILN_V_INT},
};
static const kiln_value_type counts = {.size = sizeof counts,
                                       .kind = KILN_V_MAP,
                                       .name = "EXAMPLE_WORD_COUNTS",
                                       .doc = "How often words are there.",
                                       KILN_ARRAY(entry, count_entries)};

static const kiln_port count_in[] = {
    {.name = "words", .type = "STRING", .flags = KILN_PORT_LIST, .doc = "To be counted."}};
static const kiln_port count_out[] = {
    {.name = "counts", .type = "EXAMPLE_WORD_COUNTS", .doc = "How often each word is there."}};

static kiln_status count_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *each = v->new_map(c->ctx), *result = v->new_map(c->ctx);
    kiln_status status = each && result ? KILN_OK : KILN_ERR_NOMEM;
    const size_t n = v->count(c->in[0]);
    for (size_t i = 0; i < n && status == KILN_OK; i++) {
        const char *word = v->get_string(v->list_at(c->in[0], i), NULL); /* lent: the list keeps it */
        int64_t before = 0;
        if (v->map_get(each, word)) status = v->get_int(v->map_get(each, word), &before);
        if (status == KILN_OK) status = kit_set(c, each, word, v->new_int(c->ctx, before + 1));
    }
    if (status == KILN_OK) status = v->map_set(result, "words", each);
    if (status == KILN_OK) status = kit_set(c, result, "total", v->new_int(c->ctx, (int64_t)n));
    c->host->unref(each);
    if (status == KILN_OK)
        c->out[0] = result;
    else
        c->host->unref(result);
    return status;
}

static const kiln_node count = {
    KIT_NODE("ExampleCountWords", "Count words", "examples", "How often each word is there."), KILN_ARRAY(in, count_in),
    KILN_ARRAY(out, count_out), .run = count_run};

/* ---- ExampleReportWords: the counts as a text ---- */

static const kiln_port report_in[] = {
    {.name = "counts", .type = "EXAMPLE_WORD_COUNTS", .doc = "What ExampleCountWords makes."}};
static const kiln_port report_out[] = {{.name = "STRING", .type = "STRING", .doc = "A line a word, by the alphabet."}};

static kiln_status report_run(const kiln_call *c)
{
    enum { LINE = 32 };
    const kiln_value_api *v = kit_values(c);
    const kiln_value *each = v->map_get(c->in[0], "words");
    size_t bytes = 1, at = 0;
    const char *word;
    for (size_t i = 0; i < v->count(each); i++) v->map_at(each, i, &word), bytes += strlen(word) + LINE;
    char *text = c->host->scratch(c->ctx, bytes, KILN_CPU); /* goes when the call ends */
    if (!text) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < v->count(each); i++) {
        int64_t times;
        TRY(v->get_int(v->map_at(each, i, &word), &times));
        at += (size_t)snprintf(text + at, bytes - at, "%s %lld\n", word, (long long)times);
    }
    c->out[0] = v->new_string(c->ctx, text, at);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_node report = {
    KIT_NODE("ExampleReportWords", "Report words", "examples", "How often words are there, as a text."),
    KILN_ARRAY(in, report_in), KILN_ARRAY(out, report_out), .run = report_run};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_types_api *types = host->ability(KILN_TYPES_ABILITY);
    return types ? types->register_type(&counts) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.word-values", "1.0.0", "MIT", open_plugin, &words, &count, &report);
