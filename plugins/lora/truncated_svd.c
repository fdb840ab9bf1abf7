/* truncated_svd.c - see truncated_svd.h.
 *
 * Lanczos with full reorthogonalisation on A^T A, A being turned so that it has at least as many rows as columns: after
 * k steps the k x k tridiagonal T has approximations of the largest eigenvalues, and |last component of T's
 * eigenvector| x beta says how good each is. Steps are added until the wanted ones are good, or until the basis is
 * whole and T is all there is (Golub and Van Loan 2013, section 10.1). A step that finds nothing new goes on with a
 * fresh vector: a matrix of a low rank ends early, and equal singular values are found one after the other.
 */
#include "truncated_svd.h"

#include "kiln/kit.h"

#include <math.h>
#include <stdlib.h>

/* Steps between two looks at T; parts of A's rows that threads take; rows of A^T A that one makes at a time. */
enum { ROUND = 32, PARTS = 32, BLOCK = 4 };
static const double good_enough = 1e-9, nothing_new = 1e-12;

typedef struct {
    const kiln_call *call;
    const float *a; /* [rows][n] */
    size_t rows, n;
    double *basis;             /* [n][n]: vectors of the Krylov space, one a row; `steps` are there */
    size_t steps, done;        /* rows of T that there are: one less than vectors, until the basis is whole */
    double *diagonal, *beside; /* T; beside[i] is between i and i + 1 */
    double *next;              /* [n]: A^T A v */
    double *part;              /* [PARTS][n]: each part's share of that */
    double *square;            /* [n][n]: A^T A itself; NULL: it is not worth it */
    double largest;            /* the largest |T| so far */
    uint64_t random;
} lanczos;

/* ---- products ---- */

static double dot(const double *a, const double *b, size_t n)
{
    double sum[4] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) sum[k] += a[i + (size_t)k] * b[i + (size_t)k];
    for (; i < n; i++) sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static double dot_float(const float *a, const double *b, size_t n)
{
    double sum[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++) sum[k] += (double)a[i + k] * b[i + k];
    for (; i < n; i++) sum[0] += (double)a[i] * b[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

typedef struct {
    const lanczos *l;
    const double *v;
} product;

/* A part's share of A^T A v: each of its rows is read once. */
static void multiply_part(void *arg, size_t i)
{
    const product *p = arg;
    const lanczos *l = p->l;
    double *share = l->part + i * l->n;
    memset(share, 0, l->n * sizeof *share);
    for (size_t r = i * l->rows / PARTS; r < (i + 1) * l->rows / PARTS; r++) {
        const float *row = l->a + r * l->n;
        double along = dot_float(row, p->v, l->n);
        for (size_t k = 0; k < l->n; k++) share[k] += along * (double)row[k];
    }
}

/* Rows [i * BLOCK, ...) of A^T A, from its diagonal on. */
static void square_block(void *arg, size_t i)
{
    const lanczos *l = arg;
    size_t first = i * BLOCK, end = first + BLOCK < l->n ? first + BLOCK : l->n;
    memset(l->square + first * l->n, 0, (end - first) * l->n * sizeof *l->square);
    for (size_t r = 0; r < l->rows; r++) {
        const float *row = l->a + r * l->n;
        for (size_t k = first; k < end; k++) {
            double by = (double)row[k], *to = l->square + k * l->n;
            for (size_t j = first; j < l->n; j++) to[j] += by * (double)row[j];
        }
    }
}

/* Many steps over a high A: its square costs as much as so many of them, and each is cheaper then. 0: no memory. */
static int make_square(lanczos *l, size_t wanted)
{
    double steps = fmin((double)l->n, 4 * (double)wanted + 160), rows = (double)l->rows, n = (double)l->n;
    if (2 * steps * rows * n < rows * n * n / 2 + steps * n * n) return 1;
    if (!(l->square = malloc(l->n * l->n * sizeof *l->square))) return 0;
    l->call->host->parallel_for(l->call->ctx, (l->n + BLOCK - 1) / BLOCK, square_block, l);
    for (size_t i = 0; i < l->n; i++)
        for (size_t j = i + 1; j < l->n; j++) l->square[j * l->n + i] = l->square[i * l->n + j];
    return 1;
}

static void multiply_square(void *arg, size_t i)
{
    const product *p = arg;
    const lanczos *l = p->l;
    for (size_t k = i * l->n / PARTS; k < (i + 1) * l->n / PARTS; k++)
        l->next[k] = dot(l->square + k * l->n, p->v, l->n);
}

/* next = A^T A v, the parts summed in order. */
static void apply(const lanczos *l, const double *v)
{
    if (l->square) {
        l->call->host->parallel_for(l->call->ctx, PARTS, multiply_square, &(product){l, v});
        return;
    }
    product p = {l, v};
    l->call->host->parallel_for(l->call->ctx, PARTS, multiply_part, &p);
    memset(l->next, 0, l->n * sizeof *l->next);
    for (size_t i = 0; i < PARTS; i++)
        for (size_t k = 0; k < l->n; k++) l->next[k] += l->part[i * l->n + k];
}

/* ---- the basis ---- */

static double random_number(lanczos *l) /* -1 to 1: xorshift */
{
    l->random ^= l->random << 13, l->random ^= l->random >> 7, l->random ^= l->random << 17;
    return (double)(int64_t)l->random / 9.3e18;
}

/* Takes from x what of it lies along the basis, twice: the second time takes what rounding left. */
static void make_orthogonal(const lanczos *l, double *x)
{
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < l->steps; i++) {
            const double *v = l->basis + i * l->n;
            double along = dot(v, x, l->n);
            for (size_t k = 0; k < l->n; k++) x[k] -= along * v[k];
        }
}

/* The next vector of the basis is x at length 1; 0: x is too short to say where it points. */
static int append(lanczos *l, const double *x, double length, double least)
{
    if (!(length > least)) return 0;
    double *v = l->basis + l->steps * l->n;
    for (size_t k = 0; k < l->n; k++) v[k] = x[k] / length;
    l->steps++;
    return 1;
}

/* A vector from anywhere else. */
static void append_fresh(lanczos *l)
{
    double length = 0;
    do {
        for (size_t k = 0; k < l->n; k++) l->next[k] = random_number(l);
        make_orthogonal(l, l->next);
        length = sqrt(dot(l->next, l->next, l->n));
    } while (!append(l, l->next, length, 1e-8));
}

/* One row more of T, and the vector after it if the basis is not whole. */
static void step(lanczos *l)
{
    size_t i = l->steps - 1;
    const double *v = l->basis + i * l->n;
    apply(l, v);
    l->diagonal[i] = dot(v, l->next, l->n);
    make_orthogonal(l, l->next);
    double length = sqrt(dot(l->next, l->next, l->n));
    l->largest = fmax(l->largest, fmax(fabs(l->diagonal[i]), length));
    l->beside[i] = 0;
    if (l->steps == l->n) return;
    if (append(l, l->next, length, nothing_new * l->largest))
        l->beside[i] = length;
    else
        append_fresh(l);
}

/* ---- T's eigenvalues and vectors: QL with implicit shifts (Bowdler et al. 1968, "tql2") ---- */

/* A rotation of columns i and i + 1 of z [rows][n]. */
static void rotate_columns(double *z, size_t rows, size_t n, size_t i, double c, double s)
{
    for (size_t k = 0; k < rows; k++) {
        double *row = z + k * n, f = row[i + 1];
        row[i + 1] = s * row[i] + c * f;
        row[i] = c * row[i] - s * f;
    }
}

typedef struct {
    double *d, *e; /* [n]: the diagonal, which becomes the eigenvalues; what is beside it, which becomes 0 */
    double *z;     /* [rows][n]: the first or last rows of the identity; they become those of the eigenvectors */
    size_t n, rows;
} tridiagonal;

/* One sweep over [first, last]. */
static void sweep(const tridiagonal *t, size_t first, size_t last)
{
    double *d = t->d, *e = t->e, g = (d[first + 1] - d[first]) / (2 * e[first]), r = hypot(g, 1), s = 1, c = 1, p = 0;
    g = d[last] - d[first] + e[first] / (g + copysign(r, g));
    for (size_t i = last; i-- > first;) {
        double f = s * e[i], b = c * e[i];
        r = hypot(f, g);
        e[i + 1] = r;
        if (r == 0) { /* it has come apart */
            d[i + 1] -= p;
            e[last] = 0;
            return;
        }
        s = f / r, c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        rotate_columns(t->z, t->rows, t->n, i, c, s);
    }
    d[first] -= p;
    e[first] = g;
    e[last] = 0;
}

static void diagonalise(const tridiagonal *t)
{
    for (size_t first = 0; first < t->n; first++)
        for (int tries = 0; tries < 60; tries++) {
            size_t last = first;
            while (last + 1 < t->n && fabs(t->e[last]) > 2.3e-16 * (fabs(t->d[last]) + fabs(t->d[last + 1]))) last++;
            if (last == first) break;
            sweep(t, first, last);
        }
}

typedef struct {
    double value;
    size_t at;
} eigenvalue;

static int by_falling_value(const void *a, const void *b)
{
    double x = ((const eigenvalue *)a)->value, y = ((const eigenvalue *)b)->value;
    return x > y ? -1 : x < y;
}

/* T's eigenvalues, the largest first. NULL: no memory. */
static eigenvalue *sorted(const tridiagonal *t)
{
    eigenvalue *all = malloc(t->n * sizeof *all);
    for (size_t i = 0; all && i < t->n; i++) all[i] = (eigenvalue){t->d[i], i};
    if (all) qsort(all, t->n, sizeof *all, by_falling_value);
    return all;
}

/* T as it is after `n` steps; z: `rows` of the identity from row `from` on. 0: no memory. */
static int copy_tridiagonal(const lanczos *l, size_t n, size_t from, size_t rows, tridiagonal *t)
{
    *t = (tridiagonal){.n = n, .rows = rows};
    t->d = malloc(n * sizeof *t->d), t->e = malloc(n * sizeof *t->e), t->z = calloc(rows * n, sizeof *t->z);
    if (!t->d || !t->e || !t->z) return 0;
    memcpy(t->d, l->diagonal, n * sizeof *t->d);
    memcpy(t->e, l->beside, n * sizeof *t->e);
    t->e[n - 1] = 0;
    for (size_t i = 0; i < rows; i++) t->z[i * n + from + i] = 1;
    return 1;
}

static void free_tridiagonal(const tridiagonal *t)
{
    free(t->d);
    free(t->e);
    free(t->z);
}

/* ---- when to stop ---- */

/* *good 1: the wanted eigenvalues are there. The last row of the vectors is all it takes. */
static kiln_status look(const lanczos *l, size_t wanted, int *good)
{
    size_t n = l->steps - 1; /* rows of T; the last vector has none yet */
    tridiagonal t;
    eigenvalue *all = NULL;
    *good = 0;
    if (copy_tridiagonal(l, n, n - 1, 1, &t)) {
        diagonalise(&t);
        all = sorted(&t);
        *good = all != NULL;
        for (size_t i = 0; i < wanted && *good; i++)
            *good = fabs(t.z[all[i].at] * l->beside[n - 1]) <= good_enough * all[0].value;
    }
    free_tridiagonal(&t);
    kiln_status status = all ? KILN_OK : KILN_ERR_NOMEM;
    free(all);
    return status;
}

/* Goes on until the wanted ones are good; with wanted 0 until the basis is whole. */
static kiln_status iterate(lanczos *l, size_t wanted)
{
    int good = 0;
    while (l->done < l->n && !good) {
        l->steps = l->done + 1;
        step(l);
        l->done++;
        if (l->done % ROUND) continue;
        TRY(l->call->host->progress(l->call->ctx, 0, 0, "extracting"));
        if (wanted && l->done > wanted && l->done < l->n) TRY(look(l, wanted, &good));
    }
    return KILN_OK;
}

/* ---- the result ---- */

/* Rows of `out` [wanted][n]: eigenvectors, the largest's first; *least: the last one's eigenvalue. */
static kiln_status vectors(const lanczos *l, size_t wanted, double *out, double *least)
{
    size_t n = l->done;
    tridiagonal t;
    eigenvalue *all = NULL;
    if (copy_tridiagonal(l, n, 0, n, &t)) {
        diagonalise(&t);
        all = sorted(&t);
    }
    memset(out, 0, wanted * l->n * sizeof *out);
    for (size_t i = 0; all && i < wanted; i++)
        for (size_t k = 0; k < n; k++) {
            double share = t.z[k * n + all[i].at];
            for (size_t j = 0; j < l->n; j++) out[i * l->n + j] += share * l->basis[k * l->n + j];
        }
    if (all) *least = all[wanted - 1].value;
    free_tridiagonal(&t);
    kiln_status status = all ? KILN_OK : KILN_ERR_NOMEM;
    free(all);
    return status;
}

/* 1: something larger than the least lies where the basis does not look: a further one of several equal values. */
static int is_hidden(lanczos *l, const double *found, size_t wanted, double least)
{
    double quotient = 0;
    double *x = l->basis + l->done * l->n; /* where the next vector is to come */
    for (size_t k = 0; k < l->n; k++) x[k] = random_number(l);
    for (int turn = 0; turn < 12; turn++) {
        for (size_t i = 0; i < wanted; i++) {
            double along = dot(found + i * l->n, x, l->n);
            for (size_t k = 0; k < l->n; k++) x[k] -= along * found[i * l->n + k];
        }
        double length = sqrt(dot(x, x, l->n));
        if (!(length > 0)) return 0;
        for (size_t k = 0; k < l->n; k++) x[k] /= length;
        apply(l, x);
        quotient = dot(x, l->next, l->n);
        memcpy(x, l->next, l->n * sizeof *x);
    }
    return quotient > least * (1 + 1e-6) + good_enough * l->largest;
}

static kiln_status find(lanczos *l, size_t wanted, double *found)
{
    double least = 0;
    append_fresh(l);
    TRY(iterate(l, wanted));
    TRY(vectors(l, wanted, found, &least));
    if (l->done == l->n || !is_hidden(l, found, wanted, least)) return KILN_OK;
    l->steps = l->done;
    l->beside[l->done - 1] = 0; /* that vector was written over: what follows begins anew beside what there is */
    append_fresh(l);
    TRY(iterate(l, 0));
    return vectors(l, wanted, found, &least);
}

/* A v_i for all i, [rows][rank]. */
typedef struct {
    const lanczos *l;
    const double *v; /* [rank][n] */
    size_t rank;
    float *out;
} images;

static void make_images(void *arg, size_t i)
{
    const images *m = arg;
    const lanczos *l = m->l;
    for (size_t r = i * l->rows / PARTS; r < (i + 1) * l->rows / PARTS; r++)
        for (size_t k = 0; k < m->rank; k++)
            m->out[r * m->rank + k] = (float)dot_float(l->a + r * l->n, m->v + k * l->n, l->n);
}

/* A as it was given has at least as many rows as columns: up = A v, down's rows are v. */
static void put_tall(const truncated_svd *s, const double *v, const float *image)
{
    memcpy(s->up, image, s->rows * s->rank * sizeof *image);
    for (size_t i = 0; i < s->rank * s->columns; i++) s->down[i] = (float)v[i];
}

/* A was turned: v are up's columns at length 1, and their images are down's rows times the singular value. */
static void put_wide(const truncated_svd *s, const double *v, const float *image)
{
    for (size_t i = 0; i < s->rank; i++) {
        double value = 0;
        for (size_t k = 0; k < s->columns; k++)
            value += (double)image[k * s->rank + i] * (double)image[k * s->rank + i];
        value = sqrt(value);
        for (size_t r = 0; r < s->rows; r++) s->up[r * s->rank + i] = (float)(value * v[i * s->rows + r]);
        for (size_t k = 0; k < s->columns; k++)
            s->down[i * s->columns + k] = value > 0 ? (float)((double)image[k * s->rank + i] / value) : 0;
    }
}

static float *turned(const truncated_svd *s)
{
    float *t = malloc(s->rows * s->columns * sizeof *t);
    for (size_t r = 0; t && r < s->rows; r++)
        for (size_t k = 0; k < s->columns; k++) t[k * s->rows + r] = s->a[r * s->columns + k];
    return t;
}

static kiln_status compute(lanczos *l, const truncated_svd *s, int tall)
{
    double *v = malloc(s->rank * l->n * sizeof *v);
    float *image = malloc(s->rank * l->rows * sizeof *image);
    kiln_status status = v && image && make_square(l, s->rank) ? find(l, s->rank, v) : KILN_ERR_NOMEM;
    if (status == KILN_OK) {
        images m = {l, v, s->rank, image};
        l->call->host->parallel_for(l->call->ctx, PARTS, make_images, &m);
        (tall ? put_tall : put_wide)(s, v, image);
    }
    free(v);
    free(image);
    return status;
}

kiln_status truncated_svd_compute(const kiln_call *c, const truncated_svd *s)
{
    int tall = s->rows >= s->columns;
    float *t = tall ? NULL : turned(s);
    lanczos l = {.call = c, .a = tall ? s->a : t, .random = 0x9e3779b97f4a7c15u};
    l.rows = tall ? s->rows : s->columns, l.n = tall ? s->columns : s->rows;
    l.basis = malloc(l.n * l.n * sizeof *l.basis), l.part = malloc(PARTS * l.n * sizeof *l.part);
    l.diagonal = malloc(l.n * sizeof *l.diagonal), l.beside = malloc(l.n * sizeof *l.beside);
    l.next = malloc(l.n * sizeof *l.next);
    kiln_status status =
        l.a && l.basis && l.part && l.diagonal && l.beside && l.next ? compute(&l, s, tall) : KILN_ERR_NOMEM;
    free(t);
    free(l.basis);
    free(l.part);
    free(l.square);
    free(l.diagonal);
    free(l.beside);
    free(l.next);
    return status;
}
