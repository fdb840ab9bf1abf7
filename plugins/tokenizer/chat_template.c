/* chat_template.c - see chat_template.h. */
#include "chat_template.h"

#include "sources.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    char *out;
    size_t n, capacity;
} writer;

static void put_n(writer *w, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++, w->n++)
        if (w->n < w->capacity) w->out[w->n] = s[i];
}

static void put(writer *w, const char *s) { put_n(w, s, strlen(s)); }

static void put_trimmed(writer *w, const char *s)
{
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\r\n\v\f", s[0])) s++, n--;
    while (n > 0 && strchr(" \t\r\n\v\f", s[n - 1])) n--;
    put_n(w, s, n);
}

/* A shape: what stands before a role, between it and the content, behind the content, and what opens the answer. */
typedef struct {
    const char *name, *sign; /* sign: what only this shape's program has */
    const char *before, *between, *behind, *answer;
    int bos, trims;
    const char *assistant; /* what the assistant is called; NULL: that */
    int no_system;         /* a system message is put before the first of the user */
} shape;

static const shape shapes[] = {
    {.name = "chatml",
     .sign = "<|im_start|>",
     .before = "<|im_start|>",
     .between = "\n",
     .behind = "<|im_end|>\n",
     .answer = "<|im_start|>assistant\n"},
    {.name = "llama3",
     .sign = "<|start_header_id|>",
     .before = "<|start_header_id|>",
     .between = "<|end_header_id|>\n\n",
     .behind = "<|eot_id|>",
     .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .bos = 1,
     .trims = 1},
    {.name = "gemma",
     .sign = "<start_of_turn>",
     .before = "<start_of_turn>",
     .between = "\n",
     .behind = "<end_of_turn>\n",
     .answer = "<start_of_turn>model\n",
     .bos = 1,
     .trims = 1,
     .assistant = "model",
     .no_system = 1},
    {.name = "phi3",
     .sign = "<|end|>",
     .before = "<|",
     .between = "|>\n",
     .behind = "<|end|>\n",
     .answer = "<|assistant|>\n"},
    {.name = "mistral", .sign = "[SYSTEM_PROMPT]"},
    {.name = "mistral-v3", .sign = "[INST]"},
};

static const shape *find(const char *name)
{
    for (size_t i = 0; name && i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
    return NULL;
}

const char *chat_template_of(const char *text, size_t n)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (memmem(text, n, shapes[i].sign, strlen(shapes[i].sign))) return shapes[i].name;
    return NULL;
}

static const kiln_chat_message *at(const kiln_chat_message *m, size_t i)
{
    return (const kiln_chat_message *)(const void *)((const char *)m + i * m->size);
}

static int is(const kiln_chat_message *m, const char *role) { return strcmp(m->role, role) == 0; }

static int refuse(char *why, const char *name, const char *what, const char *role)
{
    snprintf(why, KILN_TOKENIZER_WHY, "the chat template '%.40s' %s '%.40s'", name, what, role);
    return 0;
}

static void put_with_gap(writer *w, const char *s)
{
    put(w, s);
    put(w, "\n\n");
}

static void put_turns(writer *w, const shape *s, const kiln_chat_message *m, size_t n)
{
    const char *system = n && s->no_system && is(at(m, 0), "system") ? at(m, 0)->content : NULL;
    for (size_t i = system ? 1 : 0; i < n; i++) {
        const kiln_chat_message *x = at(m, i);
        put(w, s->before);
        put(w, is(x, "assistant") && s->assistant ? s->assistant : x->role);
        put(w, s->between);
        if (system && i == 1) put_with_gap(w, system);
        (s->trims ? put_trimmed : put)(w, x->content);
        put(w, s->behind);
    }
}

/* Mistral's: a system prompt of its own, or (v3) put before what the user said last. */
static int put_mistral(writer *w, int is_v3, const kiln_chat_message *m, size_t n, char *why)
{
    const char *system = is_v3 && n && is(at(m, 0), "system") ? at(m, 0)->content : NULL;
    for (size_t i = system ? 1 : 0; i < n; i++) {
        const kiln_chat_message *x = at(m, i);
        if (is(x, "user")) {
            put(w, "[INST]");
            if (system && i + 1 == n) put_with_gap(w, system);
            put(w, x->content);
            put(w, "[/INST]");
        } else if (is(x, "assistant")) {
            put(w, x->content);
            put(w, "</s>");
        } else if (!is_v3 && is(x, "system")) {
            put(w, "[SYSTEM_PROMPT]");
            put(w, x->content);
            put(w, "[/SYSTEM_PROMPT]");
        } else {
            return refuse(why, is_v3 ? "mistral-v3" : "mistral", "has no role (here)", x->role);
        }
    }
    return 1;
}

static int has_role(const shape *s, const kiln_chat_message *x, size_t i)
{
    if (is(x, "user") || is(x, "assistant")) return 1;
    if (is(x, "system")) return !s->no_system || i == 0;
    return strcmp(s->name, "chatml") == 0 || strcmp(s->name, "llama3") == 0; /* these take any, "tool" for one */
}

size_t chat_render(const char *name, const char *bos, const kiln_chat_message *m, size_t n, uint32_t open_turn,
                   char *out, size_t capacity, char *why)
{
    writer w = {out, 0, capacity};
    const shape *s = find(name);
    if (!s) {
        snprintf(why, KILN_TOKENIZER_WHY,
                 "the chat template '%.40s' is not known; chatml, llama3, gemma, phi3, mistral and "
                 "mistral-v3 are",
                 name ? name : "(none in the model's files)");
        return 0;
    }
    if (n && m->size < sizeof *m) return (size_t)refuse(why, s->name, "is given messages without", "size");
    if (strncmp(s->name, "mistral", 7) == 0) {
        put(&w, bos[0] ? bos : "<s>");
        return put_mistral(&w, strcmp(s->name, "mistral-v3") == 0, m, n, why) ? w.n : 0;
    }
    for (size_t i = 0; i < n; i++)
        if (!has_role(s, at(m, i), i)) return (size_t)refuse(why, s->name, "has no role (here)", at(m, i)->role);
    if (s->bos) put(&w, bos);
    put_turns(&w, s, m, n);
    if (open_turn) put(&w, s->answer);
    if (w.n == 0) refuse(why, s->name, "has nothing to write:", "no messages");
    return w.n;
}
