/* attention_guidance.c - see attention_guidance.h. */
#include "attention_guidance.h"

#include "program_math.h"

/* ---- PAG ---- */

/* Its hook hangs on nothing: it acts in the guess that the guidance asks for. */
static kiln_t values_alone(const kiln_hook *h, const kiln_recording *r, const kiln_attention_info *a)
{
    const kiln_t other = {0};
    (void)h;
    if (!place_is(a->place, "middle.", ".attn1")) return other;
    return attention_is_plain(r, a, "PerturbedAttentionGuidance") ? a->v : other;
}

static kiln_status apply_pag(void *self, const kiln_guesses *g)
{
    const model_patch *p = self;
    const kiln_hook *hooks[] = {&p->hook[PATCH_HOOKS_MAX - 1]};
    kiln_further_guess asked = {.size = sizeof asked, .hook = hooks, .n_hook = 1};
    kiln_latent *perturbed;
    TRY(g->evaluate(g, &asked, &perturbed));
    g->latents->add_difference(g->latents, g->x0, g->x0, p->number[0], g->positive, perturbed);
    return KILN_OK;
}

model_patch *pag_new(double scale)
{
    model_patch *p = model_patch_new("PerturbedAttentionGuidance", &scale, 1);
    if (!p) return NULL;
    p->hook[PATCH_HOOKS_MAX - 1] =
        (kiln_hook){.size = sizeof(kiln_hook), .self = p, .identity = p->identity, .attention = values_alone};
    model_patch_guidance(p, 0, apply_pag);
    return p;
}

/* ---- NAG ---- */

enum { SCALE, ALPHA, TAU };

/* The first pictures of one side; -1: there are none in this batch. */
static int64_t first_of(const kiln_recording *r, int unconditional, int64_t *pictures)
{
    const char *at = (const char *)r->in->member;
    int64_t first = 0;
    for (size_t i = 0; i < r->in->n_member; i++, at += r->in->member->size) {
        const kiln_batch_member *m = (const kiln_batch_member *)(const void *)at;
        *pictures = m->pictures;
        if ((m->unconditional != 0) == unconditional) return first;
        first += m->pictures;
    }
    return -1;
}

/* guided with a mean size of at most tau times the positive's, token by token; both means [P,T,1]. */
static kiln_t limited(const kiln_recording *r, kiln_t guided, kiln_t positive, double tau)
{
    const kiln_ops *o = r->ops;
    float least = 1e-6f / (float)program_dim(r, guided, 2);
    kiln_t size = program_at_least(r, program_mean_size(r, guided), least);
    kiln_t most = o->affine(r->program, program_at_least(r, program_mean_size(r, positive), least), (float)tau, 0);
    kiln_t above = o->act(r->program, program_minus(r, size, most), KILN_ACT_RELU);
    return o->mul(r->program, guided, program_quotient(r, program_minus(r, size, above), size));
}

static kiln_t at_attention(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const kiln_ops *o = r->ops;
    const double *number = ((const model_patch *)h->self)->number;
    int64_t n = 0, all = program_dim(r, x, 0);
    int64_t positive = first_of(r, 0, &n), negative = first_of(r, 1, &n);
    if (!place_is(info->place, "", ".attn1.to_out") || positive < 0 || negative < 0) return x;
    kiln_t p = o->slice(r->program, x, 0, positive, n), q = o->slice(r->program, x, 0, negative, n), part[3];
    kiln_t guided = o->add(r->program, o->affine(r->program, p, (float)number[SCALE], 0),
                           o->affine(r->program, q, (float)(1 - number[SCALE]), 0));
    guided = limited(r, guided, p, number[TAU]);
    guided = o->add(r->program, o->affine(r->program, guided, (float)number[ALPHA], 0),
                    o->affine(r->program, p, (float)(1 - number[ALPHA]), 0));
    uint32_t parts = 0;
    if (positive) part[parts++] = o->slice(r->program, x, 0, 0, positive);
    part[parts++] = guided;
    if (positive + n < all) part[parts++] = o->slice(r->program, x, 0, positive + n, all - positive - n);
    return o->concat(r->program, part, parts, 0);
}

/* The negative is evaluated whatever cfg is; that is all the guidance is for. */
static kiln_status nothing(void *self, const kiln_guesses *g) { return (void)self, (void)g, KILN_OK; }

model_patch *nag_new(double scale, double alpha, double tau)
{
    model_patch *p = model_patch_new("NAGuidance", (double[]){scale, alpha, tau}, 3);
    if (!p) return NULL;
    model_patch_hook(p, NULL)->at = at_attention;
    model_patch_guidance(p, KILN_GUIDANCE_UNCONDITIONAL, nothing);
    return p;
}
