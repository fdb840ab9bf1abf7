/* sampling_rig.h - a sampling without a network: kiln_sampling over plain arrays of double, with a denoiser given as a
 * C function. What it counts and records is for the tests to judge.
 */
#ifndef TESTS_SAMPLING_RIG_H
#define TESTS_SAMPLING_RIG_H

#include "kiln/model.h"
#include "kiln/sampler.h"

struct kiln_latent {
    double *v;
};

typedef struct rig rig;
struct rig {
    kiln_sampling api;
    size_t count; /* elements of a latent */
    int single;   /* keep float32 precision, as a session does */
    kiln_latent x;
    struct {
        char name[32];
        kiln_latent latent;
    } slot[64];
    struct {
        char name[32];
        double v[32];
    } number[8];
    size_t n_slot, n_number;
    /* The guess of x0 for x at sigma, and (u not NULL) the unconditional one. */
    void (*guess)(const rig *, const double *x, double sigma, double *d, double *u);
    void (*draw)(rig *, double from, double to, double *out);
    void (*seen)(rig *, const double *x, double sigma); /* at each evaluation; may be NULL                   */
    void (*stepped)(rig *, size_t i);                   /* after each step, x may be changed; may be NULL */
    const void *with;                                   /* the test's own                                 */
    double *unconditional;
    size_t evaluations, draws, steps, stop_at; /* stop_at: cancelled after that many steps; 0: never */
    char failure[256];
    char options[512]; /* the row's struct */
};

/* x gets a copy of `start` (zeros when NULL). Options are the row's defaults. */
void rig_open(rig *r, const kiln_sampler *row, const double *sigma, size_t n, const double *start, size_t count);
void rig_close(rig *r);
/* "eta=0.5,order=2,solver_type=phi_2"; 0 when the row has no such option or the value is out of range. */
int rig_options(rig *r, const kiln_sampler *row, const char *text);
/* The latent in a slot, or NULL. */
double *rig_slot(rig *r, const char *name);
/* The plugin's row of that name; n characters of it. */
const kiln_sampler *rig_sampler(const char *name, size_t n);

/* ---- Gaussian noise, the same for the same seed everywhere ---- */

typedef struct {
    uint64_t state;
    double spare;
    int have;
} gauss;
double gauss_next(gauss *g); /* SplitMix64 and Box-Muller */

#endif
