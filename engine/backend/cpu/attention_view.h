/* attention_view.h - which keys the queries of a head see, and what is added to their scores. Layer: backend.
 *
 * Heads that read the same keys are one: their queries are columns, head after head, and a strip is some columns that
 * are worked on together. A run is those of a strip that are of one head. Keys have an index, 0 to Tk - 1, and a
 * position, which is the index unless key_position says otherwise.
 */
#ifndef KILN_BACKEND_CPU_ATTENTION_VIEW_H
#define KILN_BACKEND_CPU_ATTENTION_VIEW_H

#include "backend/cpu/cpu.h"

enum { ATTEND_Q, ATTEND_K, ATTEND_V, ATTEND_MASK, ATTEND_OFFSET, ATTEND_KEY_LENGTH, ATTEND_Q_SEGMENT };
enum { ATTEND_K_SEGMENT = ATTEND_Q_SEGMENT + 1, ATTEND_KEY_POSITION, ATTEND_TABLE, ATTEND_SINKS, ATTEND_PAGES };
enum { ATTEND_KEYS = 64, ATTEND_STRIP = 64, ATTEND_NEAR = 1024 };
static const float log2_e = 1.44269504f; /* scores are kept in base 2 */

typedef struct {
    int64_t images, heads, kv_heads, group, Tq, Tk, D, Dv; /* group: heads that read the same keys */
    int64_t page;                                          /* keys of a page; 0: there are no pages */
    int64_t columns, width, strips, column_tiles;          /* blocks of `strips` strips of `width` columns */
    size_t slot_floats;
    cpu_attention_way way;
    int64_t words, channels; /* in pairs and tiles: of a row of q and k, and of sums, filled up to whole tiles */
    int32_t near[2 * ATTEND_NEAR + 1]; /* rows of the bias table for key - query from -ATTEND_NEAR on */
} attention_plan;

typedef struct { /* one image */
    const cpu_kernel *c;
    const kernel_args *a;
    const attention_plan *p;
    int64_t image, kv, length, offset; /* kv: the head of k and v */
    const int32_t *q_segment, *k_segment, *key_position, *pages;
} attention_view;

typedef struct {
    int64_t first, n;  /* columns */
    int64_t low, high; /* positions low to high - 1 hold all that it sees */
} attention_strip;

typedef struct {
    int64_t head, query, n, at; /* queries query to query + n - 1 of a head are columns at.. of the strip */
} attention_run;

static inline int attention_has(const op_desc *op, uint32_t i) { return i < op->n_in && op->in[i].dtype != 0; }

attention_view attention_view_of(const cpu_kernel *c, const kernel_args *a, int64_t image, int64_t kv);
/* Lengths and pages of an image that there are. */
kiln_status attention_check(const attention_view *v, error *e);
attention_strip attention_strip_at(const attention_view *v, int64_t first, int64_t n);
/* The run at column `at` of the strip; n 0: there is none. */
attention_run attention_run_at(const attention_view *v, const attention_strip *s, int64_t at);
/* May anything of the strip see one of these keys? */
int attention_sees(const attention_view *v, const attention_strip *s, int64_t first, int64_t n);
/* Row of k and v; -1: nothing is there. */
int64_t attention_key_row(const attention_view *v, int64_t key);
/* The scores of keys first..: [key][width]. Soft cap, bias, mask; what is not seen becomes -inf. */
void attention_limit(const attention_view *v, const attention_strip *s, float *scores, int64_t first, int64_t n);
/* May that do anything to scores? */
int attention_limits(const attention_view *v);

#endif
