/* prompt.c - see prompt.h.
 *
 * Parsing works on a copy in which an escaped parenthesis is one control byte (OPEN, CLOSE), so that every parenthesis
 * left is a group's. A stack of ranges replaces recursion.
 */
#include "prompt.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMBEDDING "embedding:"
#define WHITE " \t\n\v\f\r"
enum { OPEN = 1, CLOSE = 2, SHORT_SEGMENT = 8 };

static int fail(char why[300], const char *text)
{
    snprintf(why, 300, "%s", text);
    return 0;
}

/* ---- weights ---- */

/* Parses a decimal number with blanks around it, in any locale; inf, nan and hexadecimal are text. */
static int read_number(const char *s, size_t n, double *out)
{
    char copy[64], *end;
    while (n > 0 && isspace((unsigned char)s[0])) s++, n--;
    while (n > 0 && isspace((unsigned char)s[n - 1])) n--;
    if (n == 0 || n >= sizeof copy) return 0;
    for (size_t i = 0; i < n; i++)
        if (!strchr("+-.eE0123456789", s[i])) return 0;
    memcpy(copy, s, n);
    copy[n] = 0;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return 0;
    double value = strtod_l(copy, &end, plain);
    freelocale(plain);
    if (*end != 0 || end == copy || !isfinite(value)) return 0;
    *out = value;
    return 1;
}

/* Index of the last ':' in s[n] that has a number after it and something before it; n: there is none. */
static size_t find_weight(const char *s, size_t n, double *weight)
{
    size_t at = n;
    while (at > 0 && s[at - 1] != ':') at--;
    return at > 1 && read_number(s + at, n - at, weight) ? at - 1 : n;
}

/* ---- groups ---- */

typedef struct {
    const char *s;
    size_t n, at;
    double weight;
} group;

/* Bytes of the next item: plain text, or a group with its parentheses (*is_group). A parenthesis without its partner is
 * text, up to where the depth is 0 again. */
static size_t next_item(const char *s, size_t n, int *is_group)
{
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '(') {
            if (depth == 0 && i > 0) {
                *is_group = 0;
                return i;
            }
            depth++;
        } else if (s[i] == ')' && --depth == 0) {
            *is_group = s[0] == '(' && i > 0;
            return i + 1;
        }
    }
    *is_group = n >= 2 && s[0] == '(' && s[n - 1] == ')';
    return n;
}

static int add_segment(prompt *out, const char *s, size_t n, double weight)
{
    prompt_segment *more = realloc(out->segment, (out->n + 1) * sizeof *more);
    if (!more) return 0;
    out->segment = more;
    if (!(more[out->n].text = malloc(n + 1))) return 0;
    for (size_t i = 0; i < n; i++) more[out->n].text[i] = s[i] == OPEN ? '(' : s[i] == CLOSE ? ')' : s[i];
    more[out->n].text[n] = 0;
    more[out->n].n = n;
    more[out->n].is_embedding = 0;
    more[out->n++].weight = (float)weight;
    return 1;
}

static int split(const char *text, size_t n, prompt *out, char why[300])
{
    group stack[PROMPT_DEPTH_MAX] = {{.s = text, .n = n, .weight = 1}};
    size_t depth = 1;
    while (depth > 0) {
        group *g = &stack[depth - 1];
        if (g->at == g->n) {
            depth--;
            continue;
        }
        int is_group;
        const char *s = g->s + g->at;
        size_t m = next_item(s, g->n - g->at, &is_group);
        g->at += m;
        if (!is_group) {
            if (!add_segment(out, s, m, g->weight)) return fail(why, "no memory for the prompt");
            continue;
        }
        if (depth == PROMPT_DEPTH_MAX) return fail(why, "the prompt nests parentheses deeper than 63");
        double weight = g->weight * 1.1;
        size_t inner = find_weight(s + 1, m - 2, &weight);
        stack[depth++] = (group){.s = s + 1, .n = inner, .weight = weight};
    }
    return 1;
}

/* Replaces escaped parentheses by OPEN and CLOSE. A text that has these control characters itself is refused. */
static int hide_escapes(const char *text, char *out, size_t *n, char why[300])
{
    size_t to = 0;
    for (const char *s = text; *s; s++) {
        int escaped = s[0] == '\\' && (s[1] == '(' || s[1] == ')');
        if (*s == OPEN || *s == CLOSE)
            return fail(why, "the prompt holds a control character (U+0001 or U+0002); remove it");
        out[to++] = (char)(escaped ? *++s == '(' ? OPEN : CLOSE : *s);
    }
    *n = to;
    return 1;
}

/* ---- embeddings ---- */

/* Where the next embedding begins at or behind `at`; NULL: there is none. */
static const char *next_embedding(const char *text, const char *at)
{
    for (; (at = strstr(at, EMBEDDING)); at++)
        if (at == text || isspace((unsigned char)at[-1])) return at;
    return NULL;
}

static size_t name_bytes(const char *name)
{
    size_t n = strcspn(name, WHITE "<[");
    while (n > 0 && name[n - 1] == ',') n--;
    return n;
}

/* Adds the segment's parts: texts, and embeddings by name. */
static int add_parts(prompt *out, const prompt_segment *s)
{
    const char *at = s->text, *end = s->text + s->n;
    while (at < end) {
        const char *found = next_embedding(s->text, at), *text = found ? found : end;
        if (text > at && !add_segment(out, at, (size_t)(text - at), (double)s->weight)) return 0;
        if (!found) break;
        const char *name = found + strlen(EMBEDDING);
        name += strspn(name, WHITE);
        size_t n = name_bytes(name);
        if (!add_segment(out, name, n, (double)s->weight)) return 0;
        out->segment[out->n - 1].is_embedding = 1;
        at = name + n + strspn(name + n, WHITE);
    }
    return 1;
}

static int find_embeddings(prompt *p)
{
    prompt whole = *p;
    size_t named = 0;
    for (size_t i = 0; i < p->n; i++) named += next_embedding(p->segment[i].text, p->segment[i].text) != NULL;
    if (!named) return 1;
    *p = (prompt){.text = whole.text};
    int ok = 1;
    for (size_t i = 0; i < whole.n; i++) {
        ok = ok && add_parts(p, &whole.segment[i]);
        free(whole.segment[i].text);
    }
    free(whole.segment);
    return ok;
}

int prompt_parse(const char *text, prompt *out, char why[300])
{
    size_t n = strlen(text);
    *out = (prompt){0};
    if (n > PROMPT_BYTES_MAX) {
        snprintf(why, 300, "the prompt has %zu bytes; %d are the most", n, PROMPT_BYTES_MAX);
        return 0;
    }
    if (!(out->text = malloc(n + 1))) return fail(why, "no memory for the prompt");
    if (!hide_escapes(text, out->text, &n, why) || !split(out->text, n, out, why)) return 0;
    return find_embeddings(out) ? 1 : fail(why, "no memory for the prompt");
}

void prompt_names_files(const char *text, const char *param, const kiln_file_names *to)
{
    prompt p = {0};
    char why[300];
    int parsed = text && prompt_parse(text, &p, why); /* what is wrong with it is said when it is encoded */
    for (size_t i = 0; parsed && i < p.n; i++)
        if (p.segment[i].is_embedding) to->add(to->self, param, PROMPT_EMBEDDINGS, p.segment[i].text);
    prompt_free(&p);
}

void prompt_free(prompt *p)
{
    for (size_t i = 0; i < p->n; i++) free(p->segment[i].text);
    free(p->segment);
    free(p->text);
    *p = (prompt){0};
}

/* ---- chunks ---- */

/* Bytes of the character at s: RFC 3629's table. 0: it is none. */
static size_t character_bytes(const unsigned char *s, size_t n)
{
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    unsigned char low = s[0] == 0xe0   ? 0xa0
                        : s[0] == 0xf0 ? 0x90
                                       : 0x80,
                  high = s[0] == 0xed   ? 0x9f
                         : s[0] == 0xf4 ? 0x8f
                                        : 0xbf;
    if (length > n || (length > 1 && (s[1] < low || s[1] > high))) return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return length;
}

/* A prompt that is no UTF-8 is refused here: the tokenizer would take the bytes for U+FFFD. */
static int check_utf8(const prompt_segment *s, char why[300])
{
    for (size_t at = 0, step; at < s->n; at += step)
        if (!(step = character_bytes((const unsigned char *)s->text + at, s->n - at))) {
            snprintf(why, 300, "the prompt is not valid UTF-8: byte %zu of '%.40s'", at, s->text);
            return 0;
        }
    return 1;
}

/* The ids of a segment; special tokens are known by their names in the prompt. */
static int segment_ids(const prompt_tokenizer *t, const prompt_segment *s, kiln_encoding *e, char why[300])
{
    char reason[KILN_TOKENIZER_WHY] = "";
    e->n = 0;
    if (!check_utf8(s, why)) return 0;
    const kiln_tokenizer_input in = {.size = sizeof in, .text = s->text, .n = s->n, .special = 1, .weight = &s->weight};
    if (t->api->encode(t->tokenizer, &in, e, reason) == KILN_OK) return 1;
    snprintf(why, 300, "%.299s", reason);
    return 0;
}

typedef struct {
    prompt_chunks *out;
    const prompt_tokenizer *t;
    size_t used; /* ids in the last chunk so far, BOS included */
} filler;

static int open_chunk(filler *f)
{
    prompt_chunks *c = f->out;
    size_t all = (c->n_chunk + 1) * c->length;
    int32_t *id = realloc(c->id, all * sizeof *id);
    if (id) c->id = id;
    float *weight = realloc(c->weight, all * sizeof *weight);
    if (weight) c->weight = weight;
    int32_t *end = realloc(c->end, (c->n_chunk + 1) * sizeof *end);
    if (end) c->end = end;
    const float **vector = realloc(c->vector, all * sizeof *vector);
    if (vector) c->vector = vector;
    if (!id || !weight || !end || !vector) return 0;
    for (size_t i = c->n_chunk * c->length; i < all; i++) {
        c->id[i] = f->t->pad;
        c->weight[i] = 1;
        c->vector[i] = NULL;
    }
    c->id[c->n_chunk++ * c->length] = f->t->start;
    f->used = 1;
    return 1;
}

/* What goes into chunks together: ids, or rows of an embedding. */
typedef struct {
    const int32_t *id;
    const float *row; /* NULL: ids */
    size_t width, n;
    float weight;
} group_of_tokens;

/* The first `take` of g. */
static void put(filler *f, const group_of_tokens *g, size_t take)
{
    size_t at = (f->out->n_chunk - 1) * f->out->length + f->used;
    for (size_t i = 0; i < take; i++) {
        f->out->id[at + i] = g->row ? f->t->start : g->id[i]; /* any id there is */
        f->out->vector[at + i] = g->row ? g->row + i * g->width : NULL;
        f->out->weight[at + i] = g->weight;
    }
    f->out->has_vectors |= g->row != NULL;
    f->used += take;
}

static void close_chunk(filler *f) { put(f, &(group_of_tokens){.id = &f->t->end, .weight = 1}, 1); }

static int fill(filler *f, group_of_tokens g)
{
    size_t last = f->out->length - 1; /* reserved for the end token */
    int is_short = g.n < SHORT_SEGMENT && g.n < last;
    while (g.n > 0) {
        size_t left = last - f->used, take = g.n <= left ? g.n : is_short ? 0 : left;
        put(f, &g, take);
        if (g.row)
            g.row += take * g.width;
        else
            g.id += take;
        g.n -= take;
        if (g.n == 0) break;
        close_chunk(f);
        if (!open_chunk(f)) return 0;
    }
    return 1;
}

/* What a segment is, without its weight. ids: its memory. */
static int read_segment(const prompt_tokenizer *t, const prompt_segment *s, kiln_encoding *ids, group_of_tokens *out,
                        char why[300])
{
    if (!s->is_embedding) {
        if (!segment_ids(t, s, ids, why)) return 0;
        *out = (group_of_tokens){.id = ids->id, .n = ids->n};
        return 1;
    }
    if (!t->embeddings) return fail(why, "the prompt names an embedding, and this text encoder takes none");
    out->width = t->embeddings->width;
    return t->embeddings->find(t->embeddings->self, s->text, &out->row, &out->n, why);
}

int prompt_tokenise(const prompt_tokenizer *t, const prompt *p, size_t length, prompt_chunks *out, char why[300])
{
    kiln_encoding ids = {.size = sizeof ids};
    filler f = {.out = out, .t = t};
    size_t tokens = 0;
    *out = (prompt_chunks){.length = length};
    int ok = open_chunk(&f);
    if (!ok) fail(why, "no memory for the prompt");
    for (size_t i = 0; ok && i < p->n; i++) {
        group_of_tokens g = {0};
        ok = read_segment(t, &p->segment[i], &ids, &g, why);
        g.weight = p->segment[i].weight;
        if (ok && (tokens += g.n) > PROMPT_BYTES_MAX)
            ok = fail(why, "the prompt's embeddings and words are more than 65536 tokens");
        if (ok && !fill(&f, g)) ok = fail(why, "no memory for the prompt");
    }
    if (ok) close_chunk(&f);
    for (size_t i = 0; ok && i < out->n_chunk; i++) {
        int32_t *row = out->id + i * length, at = 0;
        while (row[at] != t->end) at++; /* each chunk was closed with one */
        out->end[i] = at;
    }
    t->api->encoding_free(&ids);
    return ok;
}

void prompt_chunks_free(prompt_chunks *c)
{
    free(c->id);
    free(c->weight);
    free(c->end);
    free(c->vector);
    *c = (prompt_chunks){0};
}
