/* free_u.c - see free_u.h.
 *
 * The filter in numbers: the discrete Fourier transform of a plane, four of its values times s, and the real part of
 * the way back. That is x + (s - 1) times the part of those four, which is spanned by seven waves:
 * (1 + cos a)(1 + cos b) - sin a sin b = 1 + cos a + cos b + cos(a + b), a = 2 pi (y - y') / H, b = 2 pi (x - x') / W.
 * So it is two thin products with constants, exact, and no transform: waves [7,cells] times x [cells,C], and back.
 */
#include "free_u.h"

#include "program_math.h"

#include <math.h>
#include <stdlib.h>

enum { WAVES_MAX = 7 };

/* The waves [n][H W] that span the low frequencies of a plane; returns n. A plane of one row or column has fewer. */
static int64_t waves(int64_t h, int64_t w, float *out)
{
    const double turn = 2 * acos(-1);
    const struct {
        int rows, columns;
    } wave[] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
    int64_t n = 0, cells = h * w;
    for (size_t k = 0; k < COUNT(wave); k++) {
        if ((wave[k].rows && h == 1) || (wave[k].columns && w == 1)) continue;
        int constant = !wave[k].rows && !wave[k].columns;
        for (int64_t i = 0; i < cells; i++) {
            double at =
                turn * (wave[k].rows * (double)(i / w) / (double)h + wave[k].columns * (double)(i % w) / (double)w);
            out[n * cells + i] = (float)cos(at);
            if (!constant) out[(n + 1) * cells + i] = (float)sin(at);
        }
        n += constant ? 1 : 2;
    }
    return n;
}

/* waves [n][cells] -> scale times them, [cells][n] */
static void turn_round(const float *from, int64_t n, int64_t cells, double scale, float *to)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < cells; i++) to[i * n + k] = (float)(scale * (double)from[k * cells + i]);
}

kiln_t free_u_filter(const kiln_recording *r, kiln_t x, double scale)
{
    const kiln_ops *o = r->ops;
    kiln_program *p = r->program;
    int64_t n = program_dim(r, x, 0), h = program_dim(r, x, 1), w = program_dim(r, x, 2), c = program_dim(r, x, 3),
            cells = h * w;
    float *there = cells > 0 ? calloc((size_t)(2 * WAVES_MAX * cells), sizeof *there) : NULL;
    if (!there) return o->fail(p, "FreeU: no memory, or no cells");
    float *back = there + WAVES_MAX * cells;
    int64_t count = waves(h, w, there);
    turn_round(there, count, cells, (scale - 1) / (double)cells, back);
    kiln_t rows = o->reshape(p, x, 3, KILN_DIMS(n, cells, c));
    kiln_t t = o->matmul(p, o->constant(p, there, 2, KILN_DIMS(count, cells)), rows, NULL); /* [N,waves,C] */
    t = o->matmul(p, o->constant(p, back, 2, KILN_DIMS(cells, count)), t, NULL);
    free(there);
    return o->add(p, x, o->reshape(p, t, 4, KILN_DIMS(n, h, w, c)));
}

/* Which of the two resolutions x has: 0 or 1; -1: neither. */
static int stage_of(const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    int64_t c = program_dim(r, x, 3), time = program_dim(r, info->timestep_embedding, 1);
    if (!time) r->ops->fail(r->program, "FreeU: this model has no time embedding, whose width tells its own");
    return c == time ? 0 : 2 * c == time ? 1 : -1;
}

/* How much each cell is scaled, [N,H,W,1]: 1 where the mean over channels is smallest, b where it is largest. */
static kiln_t by_mean(const kiln_recording *r, kiln_t x, double b)
{
    const kiln_ops *o = r->ops;
    const uint32_t cells = 1u << 1 | 1u << 2;
    const kiln_map more = {.size = sizeof more, .number = {(float)(b - 1)}};
    kiln_t mean = program_mean(r, x), least = o->reduce(r->program, mean, KILN_REDUCE_MIN, cells, 1),
           most = o->reduce(r->program, mean, KILN_REDUCE_MAX, cells, 1);
    return o->map(r->program, "c == b ? 1 : 1 + p * ((a - b) / (c - b))", (kiln_t[]){mean, least, most}, 3, &more);
}

/* The first half of the channels times b, or cell by cell. */
static kiln_t backbone(const kiln_recording *r, kiln_t x, double b, int version)
{
    const kiln_ops *o = r->ops;
    int64_t c = program_dim(r, x, 3);
    float *column = malloc((size_t)(c > 0 ? c : 1) * sizeof *column);
    if (!column) return o->fail(r->program, "out of memory");
    for (int64_t i = 0; i < c; i++) column[i] = i >= c / 2 ? 1 : version == 1 ? (float)b : 0;
    kiln_t by = o->constant(r->program, column, 1, &c);
    free(column);
    if (version == 1) return o->mul(r->program, x, by);
    return o->map(r->program, "c == 0 ? a * b : a", (kiln_t[]){x, by_mean(r, x, b), by}, 3, NULL);
}

static kiln_t at_in(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const model_patch *p = h->self;
    int stage = stage_of(r, x, info);
    return stage < 0 || p->number[stage] == 1 ? x : backbone(r, x, p->number[stage], (int)p->number[4]);
}

static kiln_t at_skip(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const model_patch *p = h->self;
    if (!info->beside.id)
        return r->ops->fail(r->program, "FreeU: '%s' does not say what it is put beside", info->place);
    int stage = stage_of(r, info->beside, info);
    return stage < 0 || p->number[2 + stage] == 1 ? x : free_u_filter(r, x, p->number[2 + stage]);
}

model_patch *free_u_new(const double number[4], int version)
{
    const double all[] = {number[0], number[1], number[2], number[3], version};
    model_patch *p = model_patch_new(version == 1 ? "FreeU" : "FreeU_V2", all, COUNT(all));
    if (!p) return NULL;
    model_patch_hook(p, "output.*.in")->at = at_in;
    model_patch_hook(p, "output.*.skip")->at = at_skip;
    return p;
}
