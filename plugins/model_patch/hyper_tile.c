/* hyper_tile.c - see hyper_tile.h. */
#include "hyper_tile.h"

#include "program_math.h"

#include <math.h>

enum { TILE, SWAP, DEPTH, SCALE };

/* FNV-1a */
static uint64_t hash(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

int64_t hyper_tile_parts(int64_t cells, int64_t least, int64_t options, const char *place)
{
    int64_t first = 0, found = 0, wanted = 0;
    if (least > cells) least = cells;
    for (int pass = 0; pass < 2; pass++) {
        found = 0;
        for (int64_t i = least; i <= cells && found < options; i++)
            if (cells % i == 0 && found++ == wanted) first = cells / i;
        if (found > 1) wanted = (int64_t)(hash(place) % (uint64_t)(found - 1)); /* all but the last */
    }
    return first;
}

typedef struct {
    int64_t rows, columns, down, across; /* cells, and tiles */
} tiling;

/* Whether tokens are of one of the depths, and how they are cut; 0: they are left alone. */
static int tiling_of(const model_patch *p, const kiln_recording *r, const kiln_attention_info *a, tiling *out)
{
    double tokens = (double)program_dim(r, a->q, 1), h = (double)program_dim(r, r->in->x, 1),
           w = (double)program_dim(r, r->in->x, 2);
    int depth = 0, depths = (int)p->number[DEPTH];
    while (depth <= depths && tokens != ldexp(h, -depth) * ldexp(w, -depth)) depth++;
    if (depth > depths) return 0;
    int64_t least = (int64_t)p->number[TILE] * (p->number[SCALE] != 0 ? 1 << depth : 1);
    out->rows = (int64_t)rint(sqrt(tokens * (w / h))), out->columns = (int64_t)rint(sqrt(tokens / (w / h)));
    out->down = hyper_tile_parts(out->rows, least, (int64_t)p->number[SWAP], a->place);
    out->across = hyper_tile_parts(out->columns, least, (int64_t)p->number[SWAP], a->place + 1);
    return out->down * out->across > 1 && (double)(out->rows * out->columns) == tokens;
}

/* [N, down h across w, C] <-> [N down across, h w, C] */
static kiln_t cut(const kiln_recording *r, kiln_t x, const tiling *t, int back)
{
    const kiln_ops *o = r->ops;
    int64_t n = program_dim(r, x, 0) / (back ? t->down * t->across : 1), c = program_dim(r, x, 2),
            h = t->rows / t->down, w = t->columns / t->across;
    const uint32_t swap[] = {0, 1, 3, 2, 4, 5};
    x = o->reshape(r->program, x, 6,
                   back ? KILN_DIMS(n, t->down, t->across, h, w, c) : KILN_DIMS(n, t->down, h, t->across, w, c));
    x = o->permute(r->program, x, swap);
    return o->reshape(r->program, x, 3,
                      back ? KILN_DIMS(n, t->rows * t->columns, c) : KILN_DIMS(n * t->down * t->across, h * w, c));
}

/* [N,T,C] -> [N tiles, T / tiles, C], runs of tokens */
static kiln_t runs(const kiln_recording *r, kiln_t x, int64_t tiles)
{
    return r->ops->reshape(r->program, x, 3,
                           KILN_DIMS(program_dim(r, x, 0) * tiles, program_dim(r, x, 1) / tiles, program_dim(r, x, 2)));
}

static kiln_t tiled(const kiln_hook *hook, const kiln_recording *r, const kiln_attention_info *a)
{
    tiling t;
    const kiln_t other = {0};
    if (!place_is(a->place, "", ".attn1") || a->x.id != a->context.id || !tiling_of(hook->self, r, a, &t)) return other;
    if (program_dim(r, a->k, 1) != program_dim(r, a->q, 1) || a->mask.id)
        return r->ops->fail(r->program,
                            "HyperTile: at '%s' another patch changes the keys or masks them, and tiles have neither; "
                            "leave one of the two out",
                            a->place);
    if (!attention_is_plain(r, a, "HyperTile")) return other;
    kiln_attention options = kiln_attention_options(a);
    kiln_t h = r->ops->attention(r->program, cut(r, a->q, &t, 0), runs(r, a->k, t.down * t.across),
                                 runs(r, a->v, t.down * t.across), &options);
    return cut(r, h, &t, 1);
}

model_patch *hyper_tile_new(const hyper_tile_settings *s)
{
    int64_t pixels = s->tile_size < 32 ? 32 : s->tile_size;
    const double number[] = {(double)(pixels / 8), (double)s->swap_size, (double)s->max_depth, s->scale_depth};
    model_patch *p = model_patch_new("HyperTile", number, COUNT(number));
    if (p) model_patch_hook(p, NULL)->attention = tiled;
    return p;
}
