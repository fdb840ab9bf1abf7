/* vae_stages.h - an autoencoder's ops in stages that can run row by row.
 *
 * What needs all of a picture is kept whole: what a group norm takes (its statistics are the whole picture's), what
 * attention and its like take and give, the results. A stage computes one kept tensor from kept tensors that came
 * before it. Between those all ops work on rows and their neighbours, so that a stage can run in stripes of its rows
 * and gives the numbers of the whole. What a group norm reads is kept, and beside it the statistics of its rows
 * (kiln_ops.group_norm_stats); a stage takes both where it uses the norm's result, and makes that of its rows.
 */
#ifndef KILN_NODES_VAE_STAGES_H
#define KILN_NODES_VAE_STAGES_H

#include "vae_trace.h"

/* What an op's result is: without the picture in it, rows of a picture [1,H,W,C] made of rows, or anything else. */
typedef enum { VAE_FREE = 1, VAE_ROWS, VAE_WHOLE } vae_extent;

typedef struct {
    uint32_t op;      /* that it computes: a kept one                                   */
    int whole;        /* it runs on all rows at once                                    */
    uint32_t *member; /* [n_member] ascending: what it takes, and all ops down to its own */
    uint32_t n_member;
} vae_stage;

typedef struct {
    const vae_trace *trace;
    uint8_t *extent; /* [trace->n + 1] vae_extent; 0: nothing needs it */
    uint8_t *kept;   /* [trace->n + 1]                                 */
    uint32_t *dtype; /* [trace->n + 1] in which stages take it; f32 unless somebody says more */
    vae_stage *stage;
    uint32_t n_stage; /* in the order they run; 0: it does not go in stages */
} vae_stages;

kiln_status vae_stages_make(const vae_trace *t, vae_stages *out);
/* Stages take it: it is kept, or a group norm of what is kept. */
int vae_is_taken(const vae_stages *s, uint32_t op);
int vae_is_norm(const vae_stages *s, uint32_t op);
/* A group norm of what is kept of `kept`, the first behind op number `after`; 0: there is none. */
uint32_t vae_norm_of(const vae_stages *s, uint32_t kept, uint32_t after);

/* ---- stripes ---- */

typedef struct {
    int64_t from, to;
} vae_rows;

enum { VAE_BAND = 4 };       /* rows of a result that are made together */
enum { VAE_NORM_STATS = 3 }; /* numbers of kiln_ops.group_norm_stats for a row and group */

/* A stripe of a stage. need: the rows of each op, [trace->n + 1]. form: what decides what is recorded, [n_form];
 * stripes with equal forms have one program. */
typedef struct {
    vae_rows *need;
    int64_t *form;
    size_t n_form, capacity;
} vae_stripe;

kiln_status vae_stripe_new(const vae_stages *s, vae_stripe *out); /* with room for every stage */
/* The stripe that computes these rows of the stage's result; they begin and end at multiples of VAE_BAND, or where the
 * result does. */
void vae_stripe_find(const vae_stages *s, const vae_stage *g, vae_rows rows, vae_stripe *out);
/* Records it. Its inputs are called "taken NUMBER", where that is a norm's also "stats NUMBER"; its outputs are "y"
 * and, for each norm of that, "stats NUMBER". */
void vae_stripe_record(const vae_stages *s, const vae_stage *g, const vae_stripe *stripe, kiln_program *p,
                       kiln_t *handle);

#endif
