/* guider.h - how the guesses under several conditionings become one: rows of a table, one for each kind of GUIDER.
 *
 * A GUIDER value is a map: `kind` (a row's name), `model`, where the row has one `model_negative`, and under the row's
 * own names its conditionings and numbers.
 */
#ifndef KILN_SAMPLER_GUIDER_H
#define KILN_SAMPLER_GUIDER_H

#include "kiln/model.h"
#include "kiln/value.h"

enum { GUIDER_SETS = 3, GUIDER_NUMBERS = 2 };

typedef struct guide guide;
typedef struct guider_kind guider_kind;

typedef struct {
    const guider_kind *kind;
    const kiln_value *model, *other;             /* other: evaluates kind->on_other, else NULL */
    const kiln_value *conditioning[GUIDER_SETS]; /* as kind->set names them */
    double number[GUIDER_NUMBERS];               /* as kind->number names them */
} guider;

struct guider_kind {
    const char *name, *node;      /* "cfg", "CFGGuider"                                  */
    const char *set[GUIDER_SETS]; /* names of the conditionings; NULL: fewer             */
    const char *number[GUIDER_NUMBERS];
    uint32_t on_other;                 /* sets that the other model evaluates, as bits; 0: there is none */
    int unconditional;                 /* the set that CFG++ takes its direction from; -1: none */
    uint32_t (*wants)(const guider *); /* the sets that matter, as bits                       */
    kiln_status (*combine)(guide *g, const float *x, double sigma, float *out);
    /* What combine makes when nothing hangs on the model, as sum weight[set] * guess[set]; NULL: it is no such sum. */
    void (*linear)(const guider *, double weight[GUIDER_SETS]);
};

const guider_kind *guider_named(const char *name);
/* Reads a GUIDER value; it borrows from it. */
kiln_status guider_read(const kiln_call *c, const kiln_value *value, guider *out);
/* A GUIDER value of `g`. */
kiln_status guider_value(const kiln_call *c, const guider *g, kiln_value **out);
/* The plain one: uncond + cfg (cond - uncond). */
guider guider_cfg(const kiln_value *model, const kiln_value *positive, const kiln_value *negative, double cfg);

#endif
