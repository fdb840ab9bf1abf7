/* inputs.h - named inputs of a network, as data.
 *
 * A denoiser, a control or a hook does not have a fixed list of arguments: it declares rows (kiln_input_spec), and
 * whoever runs it looks for their values. For a denoiser that is the sampling: each entry of a CONDITIONING is a map,
 * and an input takes what the entry has under its key.
 *
 *     static const kiln_input_spec inputs[] = {
 *         {.size = sizeof *inputs, .name = "context", .key = "tokens", .kind = KILN_INPUT_TOKENS, .width = 2048},
 *         {.size = sizeof *inputs, .name = "pooled", .kind = KILN_INPUT_VECTOR, .width = 1280},
 *         {.size = sizeof *inputs, .name = "height", .kind = KILN_INPUT_SCALAR, .flags = KILN_INPUT_OPTIONAL,
 *          .fallback = 1024},
 *     };
 *     kiln_t context = kiln_input(in->input, in->n_input, "context");        // while recording
 *
 * The rules of a row say what happens when two conditionings are evaluated in one batch, when a part of the picture is
 * evaluated, and when an entry has no such value.
 */
#ifndef KILN_INPUTS_H
#define KILN_INPUTS_H

#include "ops.h"
#include "value.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an input is, and how it looks in the program: N pictures of the batch, `width` numbers. */
typedef enum {
    KILN_INPUT_TOKENS = 1, /* f32 [N,T,width]: a row a token                                              */
    KILN_INPUT_VECTOR,     /* f32 [N,width]                                                               */
    KILN_INPUT_SCALAR,     /* f32 [N]; its value is a number, or a tensor [n]                             */
    KILN_INPUT_LATENT,     /* f32 of x's rank, [N,...,width]: cell by cell x's. Its value: a LATENT or a tensor */
    KILN_INPUT_IMAGE,      /* f32 [N,H,W,width] (a video: [N,T,H,W,width]): x's cells times the latent's factor */
    KILN_INPUT_MASK,       /* f32 of x's rank, [N,...,1]: cell by cell x's                                */
    KILN_INPUT_LENGTHS,    /* i32 [N]: how many rows of the tokens `of` are the conditioning's own; made, not given */
    KILN_INPUT_IDS,        /* i32 [N,width]: a class, say. Its value: an integer, a list of them, or a tensor [n,T] */
    KILN_INPUT_TABLE,      /* f32 of the value's own shape, one for the whole batch                       */
    KILN_INPUT_LATENTS     /* a list of latents of any size: one tensor [N,...,width] each, all under this name */
} kiln_input_kind;

/* What is done when conditionings of one batch have tensors of different shapes. PAD and REPEAT are for TOKENS; others
 * are evaluated apart, or refused. */
typedef enum {
    KILN_BATCH_APART = 0, /* nothing: they are evaluated one after the other                           */
    KILN_BATCH_PAD,       /* shorter ones get rows of `fallback` at their end; LENGTHS tells how many are real */
    KILN_BATCH_REPEAT,    /* each is repeated whole up to their least common multiple, where that is at most four times
                             the shorter; else as APART */
    KILN_BATCH_REFUSE     /* the run fails and names both lengths                                      */
} kiln_batch_rule;

enum {
    KILN_INPUT_OPTIONAL = 1,    /* absent: filled with `fallback`, or with the value of `fallback_from`     */
    KILN_INPUT_OMITTED = 2,     /* (with OPTIONAL) absent: the network is recorded without it               */
    KILN_INPUT_MODEL_SPACE = 4, /* LATENT, LATENTS: shifted and scaled as x is ((latent - shift) * scale)   */
    KILN_INPUT_CHANGES = 8,     /* changes from step to step: what depends on it is not kept between steps  */
    KILN_INPUT_SIDED = 16,      /* the guider's unconditional conditioning falls back to fallback_unconditional */
    /* IMAGE, LATENT and MASK of another size than x are stretched bilinearly, unless one of these says otherwise. */
    KILN_INPUT_CENTRED = 32, /* of other proportions, the edges are cut off first */
    KILN_INPUT_NEAREST = 64  /* the nearest pixel is taken (torch's nearest-exact) */
};

typedef struct {
    uint32_t size, kind, flags; /* kiln_input_kind, KILN_INPUT_...                                      */
    uint32_t batch;             /* kiln_batch_rule                                                      */
    const char *name, *doc;     /* in the recording                                                     */
    const char *key;            /* of the CONDITIONING entry; NULL: the name                            */
    int64_t width;              /* last dimension; 0: any (then it is part of the shape)                */
    double fallback, fallback_unconditional;
    /* Another input whose value stands in; or "latent.width", "latent.height": pixels that the whole latent is. NULL:
     * the fallback. */
    const char *fallback_from;
    const char *of; /* LENGTHS: the name of a TOKENS input                                  */
} kiln_input_spec;

/* A tensor of the program under the input's name. Arrays: n structs of the first's size. */
typedef struct {
    uint32_t size;
    const char *name;
    kiln_t tensor;
    const void *owner; /* the hook whose input it is; NULL: the network's own */
} kiln_named_tensor;

/* Number i of an owner's `name` (0 but for LATENTS); {0}: there is none. */
static inline kiln_t kiln_input_of(const void *owner, const kiln_named_tensor *list, size_t n, const char *name,
                                   size_t i)
{
    const kiln_t none = {0};
    const char *at = (const char *)list;
    for (size_t k = 0; k < n; k++) {
        const kiln_named_tensor *t = (const kiln_named_tensor *)(const void *)(at + k * list->size);
        if (t->owner == owner && strcmp(t->name, name) == 0 && i-- == 0) return t->tensor;
    }
    return none;
}

/* The network's own input of that name. */
static inline kiln_t kiln_input(const kiln_named_tensor *list, size_t n, const char *name)
{
    return kiln_input_of(NULL, list, n, name, 0);
}

/* Row i of a table of rows, which may have been built with an older or a newer header. */
static inline kiln_input_spec kiln_input_spec_at(const kiln_input_spec *table, uint32_t stride, size_t i)
{
    kiln_input_spec row;
    const char *from = (const char *)table + i * stride;
    size_t n = stride < sizeof row ? stride : sizeof row;
    memset(&row, 0, sizeof row);
    memcpy(&row, from, n);
    return row;
}

/* Where a recording puts its results, each under a name of its own; names are copied. A name that was given before is
 * the program's error. */
typedef struct kiln_outputs kiln_outputs;
struct kiln_outputs {
    uint32_t size;
    void *self;
    void (*add)(const kiln_outputs *, const char *name, kiln_t);
};

#ifdef __cplusplus
}
#endif
#endif
