/* samplers_unipc.c - UniPC, Zhao et al. 2023 (arXiv:2302.04867), algorithms 5 to 8 in data prediction, order 3, B(h) =
 * h (bh1) or exp(h) - 1 (bh2). x here is x / alpha of the paper's variance-preserving process, so lambda = -log sigma.
 *
 * Each evaluation serves twice: it corrects the latent it was made at and predicts the next. Between steps x is the
 * prediction; the corrected latent and the guesses of the last steps (newest first) are in slots. The run ends at sigma
 * 0.001 where the levels end at 0, the last prediction is of order 1 and is not corrected.
 */
#include "samplers_common.h"

enum { UNIPC_ORDER = 3 };

static double unipc_level(const kiln_sampling *s, size_t i)
{
    return i == s->n && s->sigma[i] == 0 ? 0.001 : s->sigma[i];
}

/* Order of the step to level k: lower at both ends. A run of one step has order 1. */
static size_t unipc_order(const kiln_sampling *s, size_t k)
{
    size_t order = s->n - 1 < UNIPC_ORDER ? s->n - 1 : UNIPC_ORDER;
    if (order < 1) order = 1;
    if (k < order) order = k;
    return order < s->n + 1 - k ? order : s->n + 1 - k;
}

/* Solves a[n][n] x = b in place by elimination; n <= 3 and a is a Vandermonde matrix of distinct points. */
static void solve(size_t n, double a[UNIPC_ORDER][UNIPC_ORDER], double *b)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = k + 1; i < n; i++) {
            double f = a[i][k] / a[k][k];
            for (size_t j = k; j < n; j++) a[i][j] -= f * a[k][j];
            b[i] -= f * b[k];
        }
    for (size_t k = n; k-- > 0;) {
        for (size_t j = k + 1; j < n; j++) b[k] -= a[k][j] * b[j];
        b[k] /= a[k][k];
    }
}

/* r[j] = (lambda of the step j+1 back - lambda) / h for the step to level k; the last of `order` is 1. */
static void unipc_places(const kiln_sampling *s, size_t k, size_t order, double *r)
{
    double from = s->sigma[k - 1], h = log(from / unipc_level(s, k));
    for (size_t j = 0; j + 1 < order; j++) r[j] = log(from / s->sigma[k - 2 - j]) / h;
    r[order - 1] = 1;
}

/* rho[0 .. n-1] from the first n conditions: sum_j r[j]^i rho[j] = (i + 1)! h phi_{i+2}(-h) / B. Fewer than the paper's
 * simplification wants are 1/2. */
static void unipc_weights(size_t n, const double *r, double h, double B, double *rho)
{
    double a[UNIPC_ORDER][UNIPC_ORDER], phi = expm1(-h) / -h - 1, factorial = 1;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) a[i][j] = pow(r[j], (double)i);
        rho[i] = phi * factorial / B;
        factorial *= (double)i + 2;
        phi = phi / -h - 1 / factorial;
    }
    solve(n, a, rho);
}

/* out = x at level k from x at level k - 1. guess[0] is the guess at k - 1, guess[1] that before, ...; here, when
 * given, is the guess at level k: the corrector. */
static void unipc_step(const kiln_sampling *s, size_t k, int bh2, kiln_latent *out, kiln_latent *from,
                       kiln_latent *const *guess, kiln_latent *here)
{
    size_t order = unipc_order(s, k), n = here ? order : order - 1;
    double r[UNIPC_ORDER], rho[UNIPC_ORDER] = {0.5, 0, 0}, ratio = unipc_level(s, k) / s->sigma[k - 1], h = -log(ratio);
    double B = bh2 ? expm1(-h) : -h;
    unipc_places(s, k, order, r);
    if (n > 1) unipc_weights(n, r, h, B, rho); /* one unknown: the paper's 1/2 */
    MIX(s, out, {ratio, from}, {1 - ratio, guess[0]});
    for (size_t j = 0; j + 1 < order; j++) {
        double w = -B * rho[j] / r[j];
        MIX(s, out, {1, out}, {w, guess[j + 1]}, {-w, guess[0]});
    }
    if (here) MIX(s, out, {1, out}, {-B * rho[order - 1], here}, {B * rho[order - 1], guess[0]});
}

static kiln_status unipc(const kiln_sampling *s, int bh2)
{
    SLOT(s, d, "denoised");
    SLOT(s, x, "x_corrected");
    SLOT(s, g0, "guess_0");
    SLOT(s, g1, "guess_1");
    SLOT(s, g2, "guess_2");
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, s->sigma[i], d));
        if (i == 0)
            COPY(s, x, s->x);
        else
            unipc_step(s, i, bh2, x, x, (kiln_latent *const[]){g0, g1, g2}, d);
        COPY(s, g2, g1);
        COPY(s, g1, g0);
        COPY(s, g0, d);
        unipc_step(s, i + 1, bh2, s->x, x, (kiln_latent *const[]){g0, g1, g2}, NULL);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

static kiln_status run_uni_pc(const kiln_sampling *s) { return unipc(s, 0); }
static kiln_status run_uni_pc_bh2(const kiln_sampling *s) { return unipc(s, 1); }

const kiln_sampler sampler_uni_pc = {
    SAMPLER(uni_pc),
    .flags = KILN_SAMPLER_EXTRA_STEP,
    .doc = "Predictor of order 3 and a corrector that adds one, from one evaluation a step.",
    .source = "Zhao et al. 2023 (arXiv:2302.04867), B(h) = h",
    .order = 4,
    .evaluations = 1,
    .run = run_uni_pc};
const kiln_sampler sampler_uni_pc_bh2 = {SAMPLER(uni_pc_bh2),
                                         .flags = KILN_SAMPLER_EXTRA_STEP,
                                         .doc = "uni_pc with B(h) = exp(h) - 1.",
                                         .source = "Zhao et al. 2023 (arXiv:2302.04867), B(h) = exp(h) - 1",
                                         .order = 4,
                                         .evaluations = 1,
                                         .run = run_uni_pc_bh2};
