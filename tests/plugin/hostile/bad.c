/* bad.c - a node and the ways it may break the contract while it runs: compiled by test_check_plugin.sh with -DBAD=n,
 * where 0 is a good node.
 */
#include "kiln/value.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

typedef struct {
    double gain;
    int32_t mode;
} values;

static const kiln_choice modes[] = {{"plain", "As it is.", 0}, {"other", "The other way.", 1}, {NULL, NULL, 0}};
static const kiln_port in[] = {{.name = "image", .type = "IMAGE", .doc = "In."}};
static const kiln_port out[] = {{.name = "image", .type = "IMAGE", .doc = "Out."}};
static const kiln_param param[] = {
    {.name = "gain",
     .type = KILN_P_FLOAT,
     .offset = offsetof(values, gain),
     .def = 1,
     .min = 0,
     .max = 16,
     .doc = "Gain."},
    {.name = "mode", .type = KILN_P_ENUM, .offset = offsetof(values, mode), KILN_CHOICES(modes), .doc = "Mode."},
};
static kiln_value *kept;

static kiln_status run(const kiln_call *c)
{
    const values *p = c->params;
    const kiln_host *h = c->host;
    kiln_tensor s = {.size = sizeof s}, d = {.size = sizeof d};
    kiln_status st = h->view(c->ctx, c->in[0], &s);
    if (st) return st;
    if (BAD == 9) return KILN_OK;           /* sets no output */
    if (BAD == 10) return KILN_ERR_INVALID; /* says nothing */
    if (BAD == 11) exit(0);
    if (BAD == 12) abort();
    int64_t dim[4] = {s.dim[0], s.dim[1], s.dim[2], BAD == 13 ? 2 : s.dim[3]}; /* an IMAGE of two channels */
    c->out[0] = h->tensor_new(c->ctx, KILN_F32, KILN_CPU, 4, dim);
    if (!c->out[0]) return KILN_ERR_NOMEM;
    const kiln_value_api *v = h->ability(KILN_VALUE_ABILITY);
    kiln_value *list = BAD == 7 ? v->new_list(c->ctx) : NULL; /* which reports nothing */
    if (BAD == 7 && !list) return KILN_ERR_BUG;               /* the wrong code */
    h->unref(list);
    if ((st = h->view(c->ctx, c->out[0], &d))) return st;
    size_t n = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]);
    const float *x = s.data;
    float *y = d.data;
    if (BAD == 1) ((volatile float *)y)[n] = 1;      /* past the end */
    if (BAD == 14) ((volatile float *)y)[-1] = 1;    /* before the beginning */
    if (BAD == 2) ((volatile float *)s.data)[0] = 0; /* its input */
    for (size_t i = 0; i < n; i++) {
        if (i % 4096 == 0) {
            st = h->progress(c->ctx, i, n, "x");
            if (st && BAD != 3) return st; /* deaf to being cancelled */
        }
        if (BAD == 4 && i == 5) continue;                           /* leaves a hole */
        y[i] = (float)(BAD == 5 ? x[i] / p->gain : x[i] * p->gain); /* not finite at gain 0 */
    }
    if (BAD == 6) y[0] = (float)rand();                          /* declared PURE */
    if (BAD == 8) h->ref(c->in[0]);                              /* keeps its input */
    if (BAD == 15) kept = h->ref(c->out[0]);                     /* keeps its output */
    if (BAD == 16 && p->mode == 1) ((volatile float *)y)[n] = 1; /* only with one choice */
    for (clock_t end = clock() + CLOCKS_PER_SEC * 3 / 2; BAD == 17 && p->mode == 1 && clock() < end;)
        continue; /* no cancel for 1.5 s */
#ifdef __SSE__
    if (BAD == 18) _mm_setcsr(_mm_getcsr() | 0x8040); /* flushes denormals from now on */
#endif
    if (BAD == 19) h->unref(c->in[0]); /* lets go what is not its own */
    if (BAD == 20) {
        float *t = h->scratch(c->ctx, 64, KILN_CPU);
        if (!t) return KILN_ERR_NOMEM;
        ((volatile float *)t)[16] = 1; /* past the end of scratch */
    }
    return KILN_OK;
}

static const kiln_node node = {
    .size = sizeof node,
    .flags = KILN_NODE_PURE,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "Bad",
    .title = "Bad",
    .category = "test",
    .doc = "Misbehaves.",
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, param),
    .params_size = sizeof(values),
    .run = run,
};
KILN_PLUGIN("org.example.bad", "1.0.0", "MIT", &node);
