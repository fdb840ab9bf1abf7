/* place.c - see place.h. */
#include "place.h"

#include <string.h>

void place_init(latent_place *p, const kiln_call *call)
{
    const kiln_ops *ops = call->host->ability(KILN_OPS_ABILITY);
    *p = (latent_place){.call = call};
    if (!ops || !KILN_HAS(kiln_ops, ops, norm)) return;
    p->device = ops->device(call->ctx);
    if (p->device != KILN_CPU) p->ops = ops;
}

float *place_floats(const latent_place *p, size_t n)
{
    return p->call->host->scratch(p->call->ctx, n * sizeof(float), p->device);
}

static int note(latent_place *p, kiln_status status)
{
    if (status != KILN_OK && p->trouble == KILN_OK) p->trouble = status;
    return status == KILN_OK;
}

/* What side a latent lies on is no part of what it is. */
static kiln_latent *own(const kiln_latent *x) { return (kiln_latent *)(uintptr_t)x; }

const float *place_read(latent_place *p, const kiln_latent *x)
{
    if (x->lies == LIES_THERE && note(p, p->ops->download(p->call->ctx, x->data, x->there, p->n)))
        own(x)->lies = LIES_BOTH;
    return x->data;
}

float *place_write(latent_place *p, kiln_latent *x)
{
    (void)p;
    x->lies = LIES_HERE;
    return x->data;
}

float *place_change(latent_place *p, kiln_latent *x)
{
    place_read(p, x);
    return place_write(p, x);
}

static int has_room_there(latent_place *p, float **there)
{
    if (!*there) *there = place_floats(p, p->n);
    return note(p, *there ? KILN_OK : KILN_ERR_NOMEM);
}

const float *place_read_there(latent_place *p, const kiln_latent *x)
{
    if (!has_room_there(p, &own(x)->there)) return NULL;
    if (x->lies != LIES_HERE) return x->there;
    if (!note(p, p->ops->upload(p->call->ctx, x->there, x->data, p->n))) return NULL;
    own(x)->lies = LIES_BOTH;
    return x->there;
}

float *place_write_there(latent_place *p, kiln_latent *x)
{
    if (!has_room_there(p, &x->there)) return NULL;
    x->lies = LIES_THERE;
    return x->there;
}

static void keep_here(latent_place *p, kiln_latent *x)
{
    if (!x->kept) x->kept = p->call->host->scratch(p->call->ctx, p->n * sizeof(float), KILN_CPU);
    if (note(p, x->kept ? KILN_OK : KILN_ERR_NOMEM)) memcpy(x->kept, x->data, p->n * sizeof(float));
}

void place_keep(latent_place *p, kiln_latent *x)
{
    x->kept_lies = x->lies == LIES_HERE ? LIES_HERE : LIES_THERE;
    if (x->kept_lies == LIES_HERE)
        keep_here(p, x);
    else if (has_room_there(p, &x->kept_there))
        note(p, p->ops->combine(p->call->ctx, x->kept_there, p->n, 1, (double[]){1}, (const float *[]){x->there}));
}

int place_is_kept(const kiln_latent *x) { return (x->kept_lies == LIES_THERE ? x->kept_there : x->kept) != NULL; }

kiln_status place_kept(latent_place *p, const kiln_latent *x, float *capacity)
{
    if (x->kept_lies == LIES_THERE) return p->ops->download(p->call->ctx, capacity, x->kept_there, p->n);
    memcpy(capacity, x->kept, p->n * sizeof(float));
    return KILN_OK;
}
