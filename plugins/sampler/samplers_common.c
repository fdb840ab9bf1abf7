/* samplers_common.c - see samplers_common.h. */
#include "samplers_common.h"

enum { TERMS_MAX = 16 };

void mix(const kiln_sampling *s, kiln_latent *out, size_t n, const term *terms)
{
    double a[TERMS_MAX];
    kiln_latent *x[TERMS_MAX];
    for (size_t i = 0; i < n; i++) a[i] = terms[i].a, x[i] = terms[i].x;
    s->lincomb(s, out, n, a, x);
}

double level_at(const kiln_sampling *s, size_t i)
{
    if (i == 0 && is_flow(s) && s->sigma[0] >= 1) return s->percent_to_sigma(s, 1e-4);
    return s->sigma[i];
}

double level_alpha(const kiln_sampling *s, double sigma) { return is_flow(s) ? 1 - sigma : 1; }
double level_lambda(const kiln_sampling *s, double sigma) { return log(level_alpha(s, sigma) / sigma); }
double lambda_level(const kiln_sampling *s, double lambda) { return is_flow(s) ? 1 / (1 + exp(lambda)) : exp(-lambda); }

void euler_step(const kiln_sampling *s, kiln_latent *out, double from, double to, kiln_latent *d)
{
    double ratio = to / from;
    if (to == 0)
        COPY(s, out, d);
    else
        MIX(s, out, {ratio, s->x}, {1 - ratio, d});
}

kiln_status add_noise(const kiln_sampling *s, double from, double to, double scale)
{
    SLOT(s, noise, "noise");
    TRY(s->noise(s, from, to, noise));
    MIX(s, s->x, {1, s->x}, {scale, noise});
    return KILN_OK;
}

void ancestral_levels(double from, double to, double eta, double *down, double *up)
{
    double ratio = to / from, most = eta * to * sqrt(fmax(0, 1 - ratio * ratio));
    *up = most < to ? most : to;
    *down = sqrt(fmax(0, to * to - *up * *up));
}

/* What is left of the signal after `to` is (1 - to); x at `down` has (1 - down) of it and is scaled to fit. */
flow_ancestral flow_ancestral_levels(double from, double to, double eta)
{
    flow_ancestral f = {.down = to * (1 + (to / from - 1) * eta)};
    f.keep = (1 - to) / (1 - f.down);
    f.up = sqrt(fmax(0, to * to - f.down * f.down * f.keep * f.keep));
    return f;
}

kiln_status churn(const kiln_sampling *s, size_t i, double *hat)
{
    const churn_options *o = s->options;
    double now = s->sigma[i];
    *hat = now;
    if (o->s_churn <= 0 || now < o->s_tmin || now > o->s_tmax) return KILN_OK;
    *hat = now * (1 + fmin(o->s_churn / (double)s->n, sqrt(2) - 1));
    return add_noise(s, now, *hat, o->s_noise * sqrt(*hat * *hat - now * now));
}

const kiln_param noise_params[2] = {ETA(noise_options), S_NOISE(noise_options)};

const kiln_param churn_params[4] = {
    NUMBER(churn_options, s_churn, 0, 0, 1000,
           "Noise put back over the whole run, at most 0.41 of the level each step; 0: none."),
    NUMBER(churn_options, s_tmin, 0, 0, 1e9, "Noise is put back at this level and above."),
    NUMBER(churn_options, s_tmax, 1e9, 0, 1e9, "Noise is put back at this level and below."),
    S_NOISE(churn_options),
};
