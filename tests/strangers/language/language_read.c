/* language_read.c - tokens as text, and the programs that read them into states. */
#include "language.h"

#include <stdio.h>

/* ---- tokens ---- */

static kiln_status parse_id(const kiln_call *c, const char **at, int64_t vocabulary, int32_t *id)
{
    char *end;
    long number = strtol(*at, &end, 10);
    if (end == *at || number < 0 || number >= vocabulary)
        return host->fail(c->ctx, KILN_ERR_INVALID, "ids: '%.20s' is no token; they are numbers from 0 to %lld", *at,
                          (long long)vocabulary - 1);
    *at = end, *id = (int32_t)number;
    return KILN_OK;
}

kiln_status prompt_parse(const kiln_call *c, const char *text, int64_t vocabulary, language_prompt *out)
{
    int32_t *to = host->scratch(c->ctx, TOKENS_MAX * sizeof *to, KILN_CPU);
    if (!to) return KILN_ERR_NOMEM;
    *out = (language_prompt){.n = 1, .ids = {to}};
    const int32_t *end = to + TOKENS_MAX;
    for (const char *at = text; *(at += strspn(at, " \t\n"));) {
        if (*at != '|') {
            if (to == end) return host->fail(c->ctx, KILN_ERR_INVALID, "ids: more than %d tokens", TOKENS_MAX);
            TRY(parse_id(c, &at, vocabulary, to++));
            out->length[out->n - 1]++;
            continue;
        }
        if (out->n == SEQUENCES) return host->fail(c->ctx, KILN_ERR_INVALID, "ids: more than %d sequences", SEQUENCES);
        out->ids[out->n++] = to, at++;
    }
    for (int64_t i = 0; i < out->n; i++) {
        if (!out->length[i]) return host->fail(c->ctx, KILN_ERR_INVALID, "ids: sequence %lld is empty", (long long)i);
        if (out->length[i] > out->longest) out->longest = out->length[i];
    }
    return KILN_OK;
}

kiln_value *prompt_text(const kiln_call *c, const int32_t *ids, int64_t n, int64_t t)
{
    size_t room = (size_t)(n * t) * 12 + (size_t)n * 3 + 1, at = 0;
    char *text = host->scratch(c->ctx, room, KILN_CPU);
    if (!text) return NULL;
    text[0] = 0;
    for (int64_t i = 0; i < n * t; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%d", !i ? "" : i % t ? " " : " | ", ids[i]);
    return kit_values(c)->new_string(c->ctx, text, at);
}

/* ---- programs ---- */

static kiln_status record(kiln_ctx *ctx, language_recording *r, int logits)
{
    const language_family *f = r->m->family;
    r->ids = ops->input(r->p, "ids", KILN_I32, 2, KILN_DIMS(r->n, r->t));
    r->offset = ops->input(r->p, "offset", KILN_I32, 1, &r->n);
    r->count = ops->input(r->p, "count", KILN_I32, 1, &r->n);
    kiln_t x = f->record(r);
    kiln_t last =
        ops->map(r->p, "max(a - 1, 0)", &r->count, 1, &(kiln_map){.size = sizeof(kiln_map), .dtype = KILN_I32});
    kiln_t y = f->head(r, ops->gather(r->p, x, last));
    ops->output(r->p, "next", ops->reduce(r->p, y, KILN_REDUCE_ARGMAX, 2, 0));
    if (logits) ops->output(r->p, "logits", f->head(r, x));
    return ops->plan(ctx, r->p, NULL);
}

/* Planned; the caller ends it with program_free. NULL with a message. */
static kiln_program *program(kiln_ctx *ctx, const language_model *m, const language_state *s, int64_t t, int logits)
{
    char key[160];
    int fresh = 0;
    kiln_program_options o = {.size = sizeof o, .name = m->family->model_type};
    snprintf(key, sizeof key, "org.example.language %s %lld %lld %lld %d", m->identity, (long long)s->n, (long long)t,
             (long long)s->room, logits);
    language_recording r = {.p = ops->program_keep(ctx, key, &o, &fresh), .m = m, .n = s->n, .t = t, .room = s->room};
    if (!r.p || !fresh || record(ctx, &r, logits) == KILN_OK) return r.p;
    ops->program_free(r.p);
    return NULL;
}

static kiln_status look_for_room(const kiln_call *c, const language_state *s, int64_t t)
{
    for (int64_t i = 0; i < s->n; i++)
        if (s->length[i] + t > s->room)
            return host->fail(c->ctx, KILN_ERR_INVALID, "%lld tokens after %d do not fit into room for %lld",
                              (long long)t, s->length[i], (long long)s->room);
    return KILN_OK;
}

kiln_status language_read(const kiln_call *c, const language_model *m, language_state *s, const language_piece *piece)
{
    const int64_t n = s->n, t = piece->t;
    int32_t next[SEQUENCES] = {0};
    TRY(look_for_room(c, s, t));
    kiln_program *p = program(c->ctx, m, s, t, piece->logits != NULL);
    if (!p) return KILN_ERR_INVALID;
#define WINDOW(type, data_, ...) kit_window(type, KILN_CPU, (void *)(uintptr_t)(data_), __VA_ARGS__)
    kiln_bind in[] = {KILN_BIND("ids", WINDOW(KILN_I32, piece->ids, 2, KILN_DIMS(n, t))),
                      KILN_BIND("offset", WINDOW(KILN_I32, s->length, 1, &n)),
                      KILN_BIND("count", WINDOW(KILN_I32, piece->count, 1, &n))};
    kiln_bind out[] = {KILN_BIND("next", WINDOW(KILN_I32, next, 1, &n)),
                       KILN_BIND("logits", WINDOW(KILN_F32, piece->logits, 3, KILN_DIMS(n, t, m->vocabulary)))};
    kiln_run run = {.size = sizeof run,
                    .states = s->states,
                    .in = in,
                    .n_in = COUNT(in),
                    .out = out,
                    .n_out = piece->logits ? 2 : 1};
    kiln_status status = ops->run_with(c->ctx, p, &run);
    ops->program_free(p);
    if (status != KILN_OK) return status;
    for (int64_t i = 0; i < n; i++) {
        s->length[i] += piece->count[i];
        if (piece->count[i]) s->next[i] = next[i];
    }
    return KILN_OK;
}
