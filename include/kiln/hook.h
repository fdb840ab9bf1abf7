/* hook.h - changing a denoiser from outside, at named places, while it is recorded.
 *
 * A family lists its places (kiln_denoiser.places) and calls kiln_place(), kiln_attention_at() and kiln_left_out() at
 * them. A hook hangs on a MODEL and says where it acts; the residuals of controls are added at the same places.
 *
 * Places are words with dots: a block ("input.4", "middle.1", "output.3", "double.7"), a part of one ("output.3.skip"),
 * an attention ("input.4.attn2") with what goes into and comes out of it ("input.4.attn2.in", ".out"), and what its
 * last layer makes of that (".to_out"). A hook's pattern may have "*" for one word. A pattern that matches no place of
 * the model is an error before anything is recorded; a hook of a MODEL that is asked and changes nothing anywhere is
 * warned about when the sampling ends.
 *
 * An IP-Adapter, say, is a hook at "*.*.attn2.out" with an input of its own (image tokens) and weights of its own:
 *
 *     static kiln_t at(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *i)
 *     {
 *         kiln_t tokens = kiln_hook_input(h, r, "tokens");
 *         kiln_t k = r->ops->linear(r->program, tokens, ...), v = ...;
 *         return r->ops->add(r->program, x, r->ops->attention(r->program, i->attention->q, k, v, &options));
 *     }
 *
 * A hook may also ride on an entry of a CONDITIONING, as GLIGEN's boxes do. The entry has the key "network_hooks", a
 * list of maps:
 *
 *     hook       an object of the type "NETWORK_HOOK", whose pointer is a kiln_hook
 *     values     a map of the hook's inputs, by their names
 *
 * The networks of a sampling get the hooks of all its entries on top of the MODEL's own, one of each identity; of their
 * inputs the entry says the values. Where an entry says nothing of a hook, that one's inputs are left out, so they are
 * to be KILN_INPUT_OPTIONAL | KILN_INPUT_OMITTED, and the hook does nothing then. An entry of the other side of the
 * guidance takes what the prompt's have, where none of its side has any. Whoever makes a hook says in the object's
 * fingerprint all that decides what it does:
 *
 *     values->new_object(ctx, KILN_NETWORK_HOOK, &own->hook, release_own, own->hook.identity);
 */
#ifndef KILN_HOOK_H
#define KILN_HOOK_H

#include "inputs.h"

#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_hook kiln_hook;

/* What a family calls at a place, and so what can act there. */
enum {
    KILN_PLACE_POINT = 1,    /* kiln_place(): residuals, at()                                   */
    KILN_PLACE_BLOCK = 2,    /* kiln_left_out() and, on its way out, kiln_place()               */
    KILN_PLACE_ATTENTION = 4 /* kiln_attention_at(): before_attention(), attention()           */
};

/* What a control adds at a place: already times its strength. Arrays: n structs of the first's size. */
typedef struct {
    uint32_t size;
    const char *place;
    kiln_t tensor;
} kiln_residual;

/* The batch is conditionings one after the other, each with all pictures. Arrays: n structs of the first's size. */
typedef struct {
    uint32_t size;
    uint32_t unconditional; /* 1: of the guider's unconditional set */
    int64_t pictures;
} kiln_batch_member;

/* The inputs of one evaluation of a denoiser, while it is recorded. */
typedef struct {
    uint32_t size;
    uint32_t n_stream;
    kiln_t x;                       /* [N,...,channels], already scaled for the network                     */
    const kiln_t *stream;           /* [n_stream] where a latent is several tensors (video and audio): x is the first */
    kiln_t timestep;                /* f32 [N]; [N,T] or [N,tokens] where the denoiser asks for that        */
    const kiln_named_tensor *input; /* the denoiser's and the hooks' named inputs             */
    size_t n_input;
    const kiln_hook *const *hook;
    size_t n_hook;
    const kiln_residual *residual;
    size_t n_residual;
    const kiln_outputs *out;         /* predictions of further streams ("1", ...), what hooks give; or NULL */
    const kiln_batch_member *member; /* what the batch is made of, for hooks that tell its pictures apart */
    size_t n_member;
} kiln_denoise_inputs;

/* What is being recorded. */
typedef struct {
    uint32_t size;
    const kiln_ops *ops;
    kiln_program *program;
    const kiln_denoise_inputs *in;
} kiln_recording;

/* Tokens that belong together in a joint attention: those of q, k and v from `first` on. Arrays: n structs of the
 * first's size. */
typedef struct {
    uint32_t size;
    const char *name; /* "text", "image", "reference"  */
    int64_t first, tokens;
} kiln_attention_stream;

/* An attention: softmax(scale q k^T + mask) v, and what `more` says. */
typedef struct {
    uint32_t size;
    int32_t heads;
    const char *place; /* "input.4.attn2"                                                */
    kiln_t x, context; /* [N,T,C] what q was made of, and what k and v were made of      */
    kiln_t q, k, v;    /* q [N,Tq,heads*D], k and v [N,Tk,heads*D]                       */
    kiln_t mask;       /* optional, f32, added to the scores                             */
    float scale;       /* 0: 1/sqrt(D)                                                   */
    uint32_t causal;
    int64_t grid[3]; /* the picture's cells that x's tokens are: frames, rows, columns; 0: not known */
    /* ---- newer: zero is what was before ---- */
    /* Grouped heads, lengths, segments, windows and all else that ops.h knows; k and v have kv_heads*D columns then.
     * Its heads, scale, mask and causal are not looked at: they stand above. NULL: nothing more. */
    const kiln_attention *more;
    const kiln_attention_stream *stream; /* of a joint attention; NULL: one stream */
    size_t n_stream;
} kiln_attention_info;

/* What a hook is told of a place. */
typedef struct {
    uint32_t size;
    const char *place;
    kiln_t timestep_embedding;            /* {0}: the family has none             */
    kiln_t input;                         /* of a block: what went into it; or {0} */
    const kiln_attention_info *attention; /* at ".attnN.out"; else NULL           */
    kiln_t beside;                        /* of "output.N.in" and ".skip": what x is put beside; or {0} */
} kiln_place_info;

struct kiln_hook {
    uint32_t size;
    uint32_t n_input, input_stride;
    void *self;
    const char *identity;     /* all that decides what is recorded: part of programs' and results' keys  */
    const char *const *place; /* patterns; ends with NULL. NULL: it is asked at every place. Each has to match a place
                                 where one of its functions is asked                                     */
    double start, end;        /* shares of the way between which it acts; both 0: always. Outside it nothing of it is
                                 computed */
    /* Inputs of its own. A value is looked for in the CONDITIONING's entry under the input's key, then in `values`: for
     * the guider's unconditional set under "<name>.unconditional", then under the name. An input called "tokens"
     * without a key of its own takes the prompt's: give it one that no text encoder writes. */
    const kiln_input_spec *input;
    const kiln_value *values; /* a map, kept alive by the MODEL's owned or base; NULL: none */
    /* All are optional. */
    /* Returns x, or what shall take its place: of the same shape, or, between the blocks of a UNet, of other rows and
     * columns (who scales down has to scale up again before a skip connection is put beside it). */
    kiln_t (*at)(const kiln_hook *, const kiln_recording *, kiln_t x, const kiln_place_info *);
    /* Changes q, k, v, mask or scale before the attention: further keys and values are appended here. */
    void (*before_attention)(const kiln_hook *, const kiln_recording *, kiln_attention_info *);
    /* The result [N,Tq,heads*D] in place of the attention's; {0}: not at this place. Of several hooks the last that
     * gives one counts. */
    kiln_t (*attention)(const kiln_hook *, const kiln_recording *, const kiln_attention_info *);
    /* 1: the block is left out, what goes in comes out. Asked at places of blocks. */
    int (*leaves_out)(const kiln_hook *, const char *place);
    /* Names of what it gives beside, by kiln_hook_output(), for guidance (kiln_guesses.output); ends with NULL. NULL:
     * nothing. Each is as large as x, with one channel. */
    const char *const *output;
};

/* ---- hooks on a CONDITIONING ---- */

#define KILN_NETWORK_HOOKS "network_hooks" /* the entry's key */
#define KILN_NETWORK_HOOK "NETWORK_HOOK"

/* The hook of one map of the list; NULL: it is none. */
static inline const kiln_hook *kiln_network_hook_of(const kiln_value_api *v, const kiln_value *map)
{
    return (const kiln_hook *)v->object(v->map_get(map, "hook"), KILN_NETWORK_HOOK);
}

/* The map of the list (NULL: there is none) that has a hook of this identity; NULL: none has. *at, unless it is NULL:
 * its number, or how many there are. */
static inline const kiln_value *kiln_network_hook_find(const kiln_value_api *v, const kiln_value *list,
                                                       const char *identity, size_t *at)
{
    size_t n = list ? v->count(list) : 0;
    if (at) *at = n;
    for (size_t i = 0; i < n; i++) {
        const kiln_hook *h = kiln_network_hook_of(v, v->list_at(list, i));
        if (!h || strcmp(h->identity, identity) != 0) continue;
        if (at) *at = i;
        return v->list_at(list, i);
    }
    return NULL;
}

/* ---- for hooks ---- */

/* An input of the hook's own, by its name; {0}: it was left out. */
static inline kiln_t kiln_hook_input(const kiln_hook *h, const kiln_recording *r, const char *name)
{
    return kiln_input_of(h, r->in->input, r->in->n_input, name, 0);
}

/* What the hook gives under a name of its `output`, once: of x's shape, with one channel. Whoever records a denoiser
 * without wanting more than its prediction leaves `out` away. */
static inline void kiln_hook_output(const kiln_hook *h, const kiln_recording *r, const char *name, kiln_t t)
{
    char full[400];
    snprintf(full, sizeof full, "%s %s", h->identity, name);
    if (r->in->out) r->in->out->add(r->in->out, full, t);
}

/* ---- for families: what to call while recording ---- */

/* Word by word, "*" for any one word. */
static inline int kiln_place_matches(const char *pattern, const char *at)
{
    while (*pattern && *at) {
        if (*pattern == '*') {
            while (*at && *at != '.') at++;
            pattern++;
        } else if (*pattern++ != *at++)
            return 0;
    }
    return !*pattern && !*at;
}

static inline int kiln_hook_acts_at(const kiln_hook *h, const char *at)
{
    if (!h->place) return 1;
    for (size_t i = 0; h->place[i]; i++)
        if (kiln_place_matches(h->place[i], at)) return 1;
    return 0;
}

/* "[2,64,64,4]" */
static inline void kiln_shape_text(const int64_t *dim, uint32_t rank, char text[128])
{
    size_t n = 0;
    for (uint32_t i = 0; i < rank && i < KILN_MAX_RANK && n < 100; i++)
        n += (size_t)snprintf(text + n, 24, "%s%lld", i ? "," : "[", (long long)dim[i]);
    snprintf(text + n, 8, "%s", n ? "]" : "[]");
}

/* x with a control's residual on it, which has x's shape, or 1 where it repeats. */
static inline kiln_t kiln_add_residual(const kiln_recording *r, kiln_t x, const kiln_residual *residual)
{
    int64_t own[KILN_MAX_RANK] = {0}, added[KILN_MAX_RANK] = {0};
    uint32_t rank = r->ops->shape(r->program, x, own, KILN_MAX_RANK);
    uint32_t n = r->ops->shape(r->program, residual->tensor, added, KILN_MAX_RANK);
    char has[128], gets[128];
    int fits = rank == n;
    for (uint32_t i = 0; fits && i < rank; i++) fits = added[i] == own[i] || added[i] == 1;
    if (fits || r->ops->error(r->program, NULL) != KILN_OK) return r->ops->add(r->program, x, residual->tensor);
    kiln_shape_text(own, rank, has);
    kiln_shape_text(added, n, gets);
    return r->ops->fail(r->program,
                        "a control adds %s at '%s', where the model has %s; it was made for another family of models",
                        gets, residual->place, has);
}

/* x at a place: first the controls' residuals are added, then hooks act in order. */
static inline kiln_t kiln_place(const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const kiln_denoise_inputs *in = r->in;
    const char *at = (const char *)in->residual;
    for (size_t i = 0; i < in->n_residual; i++) {
        const kiln_residual *residual = (const kiln_residual *)(const void *)(at + i * in->residual->size);
        if (strcmp(residual->place, info->place) == 0) x = kiln_add_residual(r, x, residual);
    }
    for (size_t i = 0; i < in->n_hook; i++)
        if (in->hook[i]->at && kiln_hook_acts_at(in->hook[i], info->place))
            x = in->hook[i]->at(in->hook[i], r, x, info);
    return x;
}

/* 1: a hook leaves the block out. */
static inline int kiln_left_out(const kiln_recording *r, const char *block)
{
    for (size_t i = 0; i < r->in->n_hook; i++) {
        const kiln_hook *h = r->in->hook[i];
        if (h->leaves_out && kiln_hook_acts_at(h, block) && h->leaves_out(h, block)) return 1;
    }
    return 0;
}

/* What `a` has beyond q, k, v, scale, mask and causal; NULL: nothing. A hook that changes keys or takes the attention's
 * place heeds it (kiln_attention_options()), or says with ops->fail() that it cannot. */
static inline const kiln_attention *kiln_attention_more(const kiln_attention_info *a)
{
    return KILN_HAS(kiln_attention_info, a, more) ? a->more : NULL;
}

/* All of it as attention() takes it. */
static inline kiln_attention kiln_attention_options(const kiln_attention_info *a)
{
    kiln_attention o;
    if (!kiln_attention_more(a) || !KILN_READ(&o, a->more, mask)) memset(&o, 0, sizeof o);
    o.size = sizeof o, o.heads = a->heads, o.scale = a->scale, o.causal = a->causal, o.mask = a->mask;
    return o;
}

/* The attention at a place, as hooks want it; `a` has what they made of it afterwards. */
static inline kiln_t kiln_attention_at(const kiln_recording *r, kiln_attention_info *a)
{
    kiln_t result = {0};
    for (size_t i = 0; i < r->in->n_hook; i++) {
        const kiln_hook *h = r->in->hook[i];
        if (h->before_attention && kiln_hook_acts_at(h, a->place)) h->before_attention(h, r, a);
    }
    for (size_t i = r->in->n_hook; i-- > 0 && !result.id;) {
        const kiln_hook *h = r->in->hook[i];
        if (h->attention && kiln_hook_acts_at(h, a->place)) result = h->attention(h, r, a);
    }
    if (result.id) return result;
    kiln_attention options = kiln_attention_options(a);
    return r->ops->attention(r->program, a->q, a->k, a->v, &options);
}

#ifdef __cplusplus
}
#endif
#endif
