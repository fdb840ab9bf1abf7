/* weight_sum.c - see weight_sum.h. */
#include "weight_sum.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const kiln_call *call;
    const kiln_weights_api *w;
    const weight_sum *s;
    kiln_weight_patch *patch; /* two a tensor */
    size_t n, common;
} summing;

static int same_shape(const kiln_weight_info *a, const kiln_weight_info *b)
{
    if (a->rank != b->rank) return 0;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return 0;
    return 1;
}

/* Places and switches that some files have beside weights. */
static int is_no_weight(const char *name)
{
    size_t n = strlen(name);
    static const char *const end[] = {"position_ids", "logit_scale"};
    for (size_t i = 0; i < COUNT(end); i++)
        if (n >= strlen(end[i]) && strcmp(name + n - strlen(end[i]), end[i]) == 0) return 1;
    return 0;
}

static void add(summing *t, const char *name, double factor, kiln_weights *from)
{
    t->patch[t->n++] = (kiln_weight_patch){
        .size = sizeof *t->patch, .name = name, .strength = factor, .scale = 1, .from = from, .difference = name};
}

static void say_other_shape(const summing *t, const kiln_weight_info *own)
{
    char text[400];
    snprintf(text, sizeof text, "tensor '%.200s' of %s has another shape in %s; that part of it is left out", own->name,
             t->s->name, t->s->other_name);
    t->call->host->log(KILN_LOG_WARN, text);
}

static void sum_tensor(summing *t, const kiln_weight_info *own)
{
    kiln_weight_info other = {.size = sizeof other};
    if (is_no_weight(own->name) || t->w->find(t->s->other, own->name, &other) != KILN_OK) return;
    weight_factors f = t->s->factors(t->s->self, own->name);
    t->common++;
    if (f.own != 1) add(t, own->name, f.own - 1, t->s->base);
    if (!same_shape(own, &other))
        say_other_shape(t, own);
    else if (f.other != 0)
        add(t, own->name, f.other, t->s->other);
}

kiln_status weights_summed(const kiln_call *c, const weight_sum *s, kiln_weights **out)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    size_t count = w->count(s->base);
    summing t = {.call = c, .w = w, .s = s};
    t.patch = calloc(2 * count + 1, sizeof *t.patch);
    if (!t.patch) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        kiln_weight_info own = {.size = sizeof own};
        if (w->at(s->base, i, &own) == KILN_OK) sum_tensor(&t, &own);
    }
    *out = t.n ? w->patch(c->ctx, s->base, t.patch, t.n) : w->ref(s->base);
    free(t.patch);
    if (*out && t.common) return KILN_OK;
    if (*out) w->unref(*out);
    *out = NULL;
    return t.common ? KILN_ERR_INVALID
                    : c->host->fail(c->ctx, KILN_ERR_INVALID,
                                    "%s and %s have no weights of one name: they are of different families, and cannot "
                                    "be merged",
                                    s->name, s->other_name);
}
