/* reference_only.c - see reference_only.h. Keys and values of the reference are put behind each picture's own. Of each
 * conditioning in the batch the first picture is the reference.
 */
#include "reference_only.h"

enum { PICTURES_MAX = 512 };

/* x [N,T,C] -> [N,T,C]: for each picture the tokens of the first of its conditioning. {0}: the batch does not say. */
static kiln_t first_for_each(const kiln_recording *r, kiln_t x)
{
    kiln_t each[PICTURES_MAX];
    uint32_t n = 0;
    int64_t at = 0;
    const char *member = (const char *)r->in->member;
    for (size_t i = 0; i < r->in->n_member; i++) {
        const kiln_batch_member *m = (const kiln_batch_member *)(const void *)(member + i * r->in->member->size);
        if (n + m->pictures > PICTURES_MAX) return r->ops->fail(r->program, "more than %d pictures", PICTURES_MAX);
        kiln_t first = r->ops->slice(r->program, x, 0, at, 1);
        for (int64_t k = 0; k < m->pictures; k++) each[n++] = first;
        at += m->pictures;
    }
    return n ? r->ops->concat(r->program, each, n, 0) : (kiln_t){0};
}

static int is_self_attention(const char *place)
{
    static const char end[] = ".attn1";
    size_t n = strlen(place), e = sizeof end - 1;
    return n > e && strcmp(place + n - e, end) == 0;
}

static void see_the_first(const kiln_hook *h, const kiln_recording *r, kiln_attention_info *a)
{
    (void)h;
    if (!is_self_attention(a->place) || !r->in->n_member || a->mask.id) return;
    if (kiln_attention_more(a)) {
        r->ops->fail(r->program,
                     "ReferenceOnlySimple: '%s' has grouped heads, lengths or segments of keys, and it "
                     "knows how to add keys to a plain attention only",
                     a->place);
        return;
    }
    a->k = r->ops->concat(r->program, (kiln_t[]){a->k, first_for_each(r, a->k)}, 2, 1);
    a->v = r->ops->concat(r->program, (kiln_t[]){a->v, first_for_each(r, a->v)}, 2, 1);
}

const kiln_hook reference_only = {
    .size = sizeof reference_only, .identity = "reference-only", .before_attention = see_the_first};
