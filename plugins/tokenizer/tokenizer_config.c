/* tokenizer_config.c - tokenizer_config.json: what the tokens of a role are called, whether begin and end are added,
 * the chat template. It stands beside the other files; without it their usual names count. */
#include "sources.h"

#include <jansson.h>
#include <string.h>

static const char *text_or_content(const json_t *x)
{
    return json_string_value(json_is_object(x) ? json_object_get(x, "content") : x);
}

static void read_role(opening *o, const json_t *root, int role)
{
    char key[32] = "";
    strcat(strcpy(key, role_names[role]), "_token");
    const char *text = text_or_content(json_object_get(root, key));
    if (!text) return;
    kiln_tokenizer *t = o->t;
    int32_t id = vocabulary_find(&t->model.words, text, strlen(text));
    if (id == NO_TOKEN) id = vocabulary_find(&t->model.reserved, text, strlen(text));
    for (size_t i = 0; i < t->n_added; i++)
        if (strcmp(t->added[i].text, text) == 0) id = t->added[i].id;
    if (id != NO_TOKEN) t->role[role] = id;
}

static void read_end(const json_t *root, const char *key, end_list *l, int32_t id)
{
    const json_t *x = json_object_get(root, key);
    if (json_is_false(x)) l->n = 0;
    if (json_is_true(x) && id != NO_TOKEN && l->n == 0) *l = (end_list){{id}, 1};
}

int read_tokenizer_config(opening *o, const kiln_tokenizer_file *file)
{
    json_error_t at;
    kiln_tokenizer *t = o->t;
    o->file = "tokenizer_config.json";
    json_t *root = json_loadb(file->data, file->bytes, JSON_ALLOW_NUL, &at);
    if (!json_is_object(root)) {
        json_decref(root);
        return opening_fail(o, "not a JSON map");
    }
    for (int r = 0; r < ROLE_COUNT; r++) read_role(o, root, r);
    if (t->is_sentencepiece) { /* a tokenizer.json says by itself what it adds */
        read_end(root, "add_bos_token", &t->begin, t->role[ROLE_BOS]);
        read_end(root, "add_eos_token", &t->end, t->role[ROLE_EOS]);
    }
    const json_t *chat = json_object_get(root, "chat_template");
    if (json_is_string(chat)) t->chat_template = chat_template_of(json_string_value(chat), json_string_length(chat));
    json_decref(root);
    return 1;
}

const char *pattern_of_config(token_pool *p, const kiln_tokenizer_file *file)
{
    json_error_t at;
    json_t *root = json_loadb(file->data, file->bytes, JSON_ALLOW_NUL, &at);
    const char *class = json_string_value(json_object_get(root, "tokenizer_class")), *name = NULL;
    (void)p;
    if (class && strncmp(class, "Qwen2Tokenizer", 14) == 0) name = "qwen2";
    json_decref(root);
    return name;
}
