/* unet_places.c - the names of the places where hooks and controls act, in the order of evaluation. Blocks are counted
 * as in the ldm source. Of an attention with several transformer blocks the first has the block's own name
 * ("input.7.attn1"), the others their number beside it ("input.7.t1.attn1"). */
#include "kiln/kit.h"
#include "unet_model.h"

#include <stdio.h>

typedef struct {
    void (*fn)(void *arg, const char *place, uint32_t kind);
    void *arg;
} visitor;

static void visit(const visitor *v, const char *part, uint32_t number, const char *what, uint32_t kind)
{
    char place[80];
    snprintf(place, sizeof place, "%s.%u%s%s", part, number, *what ? "." : "", what);
    v->fn(v->arg, place, kind);
}

static void visit_transformer(const visitor *v, const char *part, uint32_t number, uint32_t transformer)
{
    static const struct {
        const char *name;
        uint32_t kind;
    } attention[] = {
        {"attn1.in", KILN_PLACE_POINT},     {"attn1", KILN_PLACE_ATTENTION}, {"attn1.out", KILN_PLACE_POINT},
        {"attn1.to_out", KILN_PLACE_POINT}, {"middle", KILN_PLACE_POINT},    {"attn2.in", KILN_PLACE_POINT},
        {"attn2", KILN_PLACE_ATTENTION},    {"attn2.out", KILN_PLACE_POINT}, {"attn2.to_out", KILN_PLACE_POINT}};
    char name[32];
    for (size_t i = 0; i < COUNT(attention); i++) {
        snprintf(name, sizeof name, "t%u.%s", transformer, attention[i].name);
        visit(v, part, number, transformer ? name : attention[i].name, attention[i].kind);
    }
}

/* A block on the way down: what comes out of it is a skip connection, and what goes on from there is "after_skip". */
static void visit_after_skip(const visitor *v, uint32_t number)
{
    visit(v, "input", number, "after_skip", KILN_PLACE_POINT);
}

static void visit_block(const visitor *v, const char *part, uint32_t number, uint32_t depth)
{
    for (uint32_t i = 0; i < depth; i++) visit_transformer(v, part, number, i);
    visit(v, part, number, "", KILN_PLACE_BLOCK);
}

void unet_places(const unet_config *c, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    visitor v = {fn, arg};
    uint32_t n = 0;
    visit(&v, "input", n, "", KILN_PLACE_POINT), visit_after_skip(&v, n++);
    for (uint32_t level = 0; level < c->levels; level++) {
        for (uint32_t i = 0; i < c->layers[level]; i++)
            visit_block(&v, "input", n, c->down[level][i]), visit_after_skip(&v, n++);
        if (level + 1 < c->levels) visit(&v, "input", n, "", KILN_PLACE_POINT), visit_after_skip(&v, n++);
    }
    if (c->middle > 0) visit_block(&v, "middle", 0, 0);
    if (c->middle > 1) visit_block(&v, "middle", 1, c->middle_depth), visit_block(&v, "middle", 2, 0);
    fn(arg, "middle", KILN_PLACE_POINT);
    n = 0;
    for (uint32_t up = 0; up < c->levels; up++)
        for (uint32_t i = 0; i <= c->layers[c->levels - 1 - up]; i++, n++) {
            visit(&v, "output", n, "in", KILN_PLACE_POINT), visit(&v, "output", n, "skip", KILN_PLACE_POINT);
            visit_block(&v, "output", n, c->up[up][i]);
        }
}
