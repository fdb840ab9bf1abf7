/* guidance_by_picture.c - see guidance_by_picture.h. */
#include "guidance_by_picture.h"

#include "kiln/kit.h"

#include <math.h>

enum { PICTURES_MAX = 4096, TERMS = 3 };

static size_t pictures_of(const kiln_guesses *g) { return (size_t)g->latents->shape(g->latents, g->x).pictures; }

static kiln_status check_pictures(const kiln_guesses *g)
{
    if (pictures_of(g) <= PICTURES_MAX) return KILN_OK;
    return g->fail(g, KILN_ERR_UNSUPPORTED, "guidance of more than %d pictures at once", PICTURES_MAX);
}

/* Inner products of two combinations of x, one a picture. */
static void dot(const kiln_guesses *g, kiln_latent *const *x, const double *a, const double *b, double *out)
{
    g->latents->dot(g->latents, &(kiln_latent_dot){.size = sizeof(kiln_latent_dot), .n = TERMS, .a = a, .b = b, .x = x},
                    out);
}

/* ---- APG ---- */

/* The difference of the guesses with its past: a latent of its own. */
static kiln_status add_past(const apg_settings *by, const kiln_guesses *g)
{
    if (!g->memory)
        return g->fail(g, KILN_ERR_UNSUPPORTED,
                       "APG's momentum follows a whole picture from step to step, and this sampling evaluates parts of "
                       "one; set momentum to 0");
    double past = g->sigma > g->memory_sigma ? 0 : by->momentum;
    g->latents->lincomb(g->latents, g->memory, TERMS, (double[]){1, -1, past},
                        (kiln_latent *[]){g->positive, g->negative, g->memory});
    return KILN_OK;
}

/* What one picture's positive guess becomes. d2, dp, p2: d.d, d.positive and positive.positive. */
static void apg_coefficients(const apg_settings *by, double cfg, const double d[TERMS], const double product[3],
                             double *out)
{
    double length = sqrt(product[0]), square = fmax(product[2], 1e-24);
    double keep = by->norm_threshold > 0 && length > by->norm_threshold ? by->norm_threshold / length : 1;
    double along = keep * product[1] / square;
    for (int k = 0; k < TERMS; k++) out[k] = keep * d[k];
    out[0] += 1 / cfg - (1 - by->eta) * along;
    out[1] += 1 - 1 / cfg;
}

kiln_status guidance_apg(const apg_settings *by, const kiln_guesses *g)
{
    double d2[PICTURES_MAX], dp[PICTURES_MAX], p2[PICTURES_MAX], c[PICTURES_MAX * TERMS];
    const double p[TERMS] = {1, 0, 0}, plain[TERMS] = {1, -1, 0}, kept[TERMS] = {0, 0, 1};
    const double *d = by->momentum != 0 ? kept : plain;
    TRY(check_pictures(g));
    if (g->cfg == 0) return g->fail(g, KILN_ERR_INVALID, "APG divides by cfg, which is 0; take another cfg");
    if (by->momentum != 0) TRY(add_past(by, g));
    kiln_latent *x[TERMS] = {g->positive, g->negative, by->momentum != 0 ? g->memory : g->positive};
    dot(g, x, d, d, d2), dot(g, x, d, p, dp), dot(g, x, p, p, p2);
    for (size_t i = 0; i < pictures_of(g); i++)
        apg_coefficients(by, g->cfg, d, (double[]){d2[i], dp[i], p2[i]}, c + i * TERMS);
    g->latents->lincomb_each(g->latents, g->positive, TERMS, c, x);
    return KILN_OK;
}

/* ---- CFG-Zero* ---- */

kiln_status guidance_zero_star(const kiln_guesses *g)
{
    double pn[PICTURES_MAX], n2[PICTURES_MAX], c[PICTURES_MAX * 2];
    const double p[TERMS] = {1, -1, 0}, n[TERMS] = {1, 0, -1}; /* the noise of either guess */
    kiln_latent *x[TERMS] = {g->x, g->positive, g->negative};
    if (!g->negative) return KILN_OK;
    TRY(check_pictures(g));
    dot(g, x, p, n, pn), dot(g, x, n, n, n2);
    for (size_t i = 0; i < pictures_of(g); i++) {
        double nearest = pn[i] / (n2[i] + 1e-8);
        c[2 * i] = 1, c[2 * i + 1] = (nearest - 1) * (1 - g->cfg);
    }
    g->latents->lincomb_each(g->latents, g->x0, 2, c, (kiln_latent *[]){g->x0, g->negative});
    return KILN_OK;
}

/* ---- TCFG ---- */

/* The first right singular vector of the two rows u and p is (a[0] u + a[1] p) / sqrt(square), from their products. */
static double common_direction(double uu, double up, double pp, double a[2])
{
    double half = (uu - pp) / 2, square = (uu + pp) / 2 + hypot(half, up);
    a[0] = half >= 0 ? square - pp : up, a[1] = half >= 0 ? up : square - uu;
    double length = hypot(a[0], a[1]);
    if (length == 0) a[0] = 1, length = 1; /* rows of one length at a right angle: any direction will do */
    a[0] /= length, a[1] /= length;
    return square;
}

kiln_status guidance_tangential(const kiln_guesses *g)
{
    double uu[PICTURES_MAX], up[PICTURES_MAX], pp[PICTURES_MAX], c[PICTURES_MAX * TERMS];
    const double p[TERMS] = {1, -1, 0}, u[TERMS] = {1, 0, -1};
    kiln_latent *x[TERMS] = {g->x, g->positive, g->negative};
    TRY(check_pictures(g));
    dot(g, x, u, u, uu), dot(g, x, u, p, up), dot(g, x, p, p, pp);
    for (size_t i = 0; i < pictures_of(g); i++) {
        double a[2], square = common_direction(uu[i], up[i], pp[i], a);
        double share = square > 0 ? (a[0] * uu[i] + a[1] * up[i]) / square : 0;
        c[i * TERMS] = 1 - share * (a[0] + a[1]);
        c[i * TERMS + 1] = share * a[1];
        c[i * TERMS + 2] = share * a[0];
    }
    g->latents->lincomb_each(g->latents, g->negative, TERMS, c, x);
    return KILN_OK;
}

/* ---- RenormCFG ---- */

kiln_status guidance_renorm(const renorm_settings *by, const kiln_guesses *g)
{
    double p2[PICTURES_MAX], guided2[PICTURES_MAX], c[PICTURES_MAX * 2];
    const double p[TERMS] = {1, 0, 0}, guided[TERMS] = {g->cfg, 1 - g->cfg, 0};
    kiln_latent *x[TERMS] = {g->positive, g->negative, g->positive};
    int truncated = g->sigma >= by->cfg_trunc;
    TRY(check_pictures(g));
    dot(g, x, p, p, p2), dot(g, x, guided, guided, guided2);
    for (size_t i = 0; i < pictures_of(g); i++) {
        double most = by->renorm_cfg * sqrt(p2[i]), length = sqrt(guided2[i]);
        double keep = by->renorm_cfg > 0 && length > most ? most / length : 1;
        for (int k = 0; k < 2; k++) c[2 * i + k] = truncated ? p[k] : keep * guided[k];
    }
    g->latents->lincomb_each(g->latents, g->x0, 2, c, x);
    return KILN_OK;
}
