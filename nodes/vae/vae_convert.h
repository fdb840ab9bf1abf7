/* vae_convert.h - an autoencoder at work: pictures, videos or sound of one size through its program, either way.
 *
 * Pictures and latents are dense f32 in host memory, [n, (frames, (rows,)) columns, channels] with as many of these as
 * the latent's rank says.
 */
#ifndef KILN_NODES_VAE_CONVERT_H
#define KILN_NODES_VAE_CONVERT_H

#include "kiln/model.h"

/* What is not there is 1: a picture has one frame, a sound one frame and one row. */
typedef struct {
    int64_t n, frames, rows, columns, channels;
} vae_shape;

typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    const kiln_vae *vae;
    uint32_t rank; /* of latents */
    int64_t factor, time_factor, time_first, latent_channels, image_channels;
    int encode, variance; /* variance: the encoder's log-variance is wanted too */
    uint32_t part;        /* KILN_PART_...: what runs now is one of a video; 0: it is whole */
    kiln_states *states;  /* of that video's parts */
    kiln_program *program;
    uint32_t of_part; /* the program's part               */
    vae_shape of;     /* the program's input                    */
    kiln_bind *bind;  /* the program's further inputs, with room for x */
    size_t n_bind;
    uint32_t precision;   /* of the programs; 0: the run's, or what is wide enough */
    uint64_t done, total; /* runs, for progress; total 0: not known */
    struct {
        float *part, *made, *weight, *sum;
    } tile;               /* memory of vae_tiles.c, taken for the first picture; all have one size */
    kiln_program *traced; /* vae_trace.c's: keeps alive what was noted */
    struct {
        int fd;
        size_t bytes; /* of the file; 0: none yet */
        void *in, *out;
        size_t in_bytes, out_bytes;
    } stripe; /* file and memory of vae_stripes.c, for all pictures of the call */
} vae_converter;

/* Reads the VAE; fails when it does not go that way. Ends with vae_close(), also after a failure. */
kiln_status vae_open(const kiln_call *c, const kiln_value *vae, int encode, vae_converter *out);
void vae_close(vae_converter *v);

size_t vae_count(const vae_shape *s);
vae_shape vae_pixels(const vae_converter *v, const vae_shape *cells); /* of a latent of so many cells   */
vae_shape vae_cells(const vae_converter *v, const vae_shape *pixels); /* what is over is not in it      */
int64_t vae_time_cells(const vae_converter *v, int64_t frames);
int64_t vae_time_frames(const vae_converter *v, int64_t cells);
/* Pictures of a batch that go through at once. */
int64_t vae_at_once(const vae_converter *v);
/* The shape of a tensor of the latent's rank, and back. */
vae_shape vae_shape_of(const vae_converter *v, const int64_t *dim);
void vae_dims(const vae_converter *v, const vae_shape *s, int64_t dim[5]);

/* How the autoencoder's programs are made, and what it records, in any program. */
kiln_program_options vae_program_options(const vae_converter *v);
kiln_latent_distribution vae_record(const vae_converter *v, const kiln_ops *ops, kiln_program *p, kiln_t x);

/* Records and plans the program for `in`; *fits: it can run in the memory that there is. */
kiln_status vae_fits(vae_converter *v, const vae_shape *in, int *fits);
/* What was made is not finite. 1, with a warning: it is to be made again, from here on in f32; 0: it was in f32. */
int vae_goes_wider(vae_converter *v);
/* The failure that follows. `what`: "the decoded picture". */
kiln_status vae_not_finite(const vae_converter *v, const char *what);

/* One run: `in` at x gives the other shape at y, and the log-variance at `variance` where the converter wants it. All
 * may be NULL in an estimate. */
kiln_status vae_run(vae_converter *v, const vae_shape *in, float *x, float *y, float *variance);

#endif
