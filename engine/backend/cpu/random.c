/* random.c - OP_RANDOM: each number by itself from the seed and its place; philox_4x32.h has the formulas. */
#include "backend/cpu/cpu.h"

enum { TILE = 4096 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    uint64_t seed, offset;
    int64_t count;
} call;

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const operand_desc *out = &j->c->op.out;
    int64_t C = columns_of(out), last = min64(j->count, ((int64_t)index + 1) * TILE);
    (void)slot, (void)e;
    for (int64_t i = (int64_t)index * TILE, now; i < last; i += now) {
        now = min64(last - i, C - i % C);
        j->c->k->random_row(j->c->op.attr.random.kind, (float *)j->a->out + i / C * out->ld + i % C, j->seed, j->offset,
                            (uint64_t)i, (size_t)now);
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const operand_desc *d = &c->op.in[0];
    uint32_t word[4];
    for (int64_t i = 0, C = columns_of(d); i < 4; i++) memcpy(&word[i], place_of(d, a->in[0], i / C, i % C), 4);
    call j = {.c = c, .a = a, .count = shape_count(&c->op.out.shape)};
    j.seed = word[0] | (uint64_t)word[1] << 32, j.offset = word[2] | (uint64_t)word[3] << 32;
    return tiles_run(a->pool, (size_t)((j.count + TILE - 1) / TILE), tile, &j, e);
}

kiln_status cpu_prepare_random(cpu_kernel *c, error *e)
{
    if (c->op.out.dtype != KILN_F32) return error_set(e, KILN_ERR_UNSUPPORTED, "random: its numbers are f32");
    c->body = run;
    c->base.flops = 100 * (uint64_t)shape_count(&c->op.out.shape);
    return KILN_OK;
}
