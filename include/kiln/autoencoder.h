/* autoencoder.h - "kiln.vae/1": what a VAE is, pictures, videos or sound <-> latents, and how a node uses one.
 *
 * A constant table that records both ways, and the VAE value that has it with its weights. VAEDecode and VAEEncode
 * take whole pictures or videos, one after the other or as many at once as `pictures` says, videos part by part in time
 * where the table can; where that does not fit, pictures in stripes of rows (made of what is recorded, nothing else is
 * asked for), else tiles; VAEDecodeTiled and VAEEncodeTiled take tiles of the size their user asks for. Tiles want
 * `tile`. A node of a plugin that is given a VAE has the same ways:
 *
 *     const kiln_vae_api *vae = c->host->ability(KILN_VAE_ABILITY);          // in run(); plugin org.kiln.vae
 *     return vae->encode(c, c->in[VAE], c->in[IMAGE], &c->out[0]);           // a LATENT
 */
#ifndef KILN_AUTOENCODER_H
#define KILN_AUTOENCODER_H

#include "denoiser.h"

#ifdef __cplusplus
extern "C" {
#endif

/* That a picture may be cut, and how it would best be, in latent cells. Where neither a whole picture nor stripes fit,
 * VAEDecode and VAEEncode take tiles of 4, 2, 1 or 1/2 times this size; the tiled nodes' sizes are their parameters. */
typedef struct {
    uint32_t size;
    int32_t height, width, frames; /* of a tile that fits comfortably             */
    int32_t overlap;               /* cells on each side that a tile shares with its neighbour */
    int32_t frame_overlap;
} kiln_tile_advice;

#define KILN_VAE_ABILITY "kiln.vae/1"

/* Which of a video's parts, in time, is recorded. */
enum { KILN_PART_FIRST = 1, KILN_PART_LATER = 2 };

/* What an encoder gives. */
typedef struct {
    uint32_t size;
    kiln_t mean;         /* of the latent's shape, unscaled */
    kiln_t log_variance; /* the same, clamped as the family does; {0}: it has none and the mean is the latent */
} kiln_latent_distribution;

typedef struct kiln_autoencoder {
    uint32_t size;
    const char *family; /* all that decides what is recorded but shapes and weights: part of programs' keys */
    void *self;
    const kiln_latent_format *latent;
    int32_t image_channels;       /* 0: 3; 4: with alpha; of sound its channels */
    const kiln_tile_advice *tile; /* NULL: it is not to be cut into tiles */
    /* image [N,H,W,channels] in -1..1 (a video [N,T,H,W,channels], sound [N,L,channels]), of sizes that the format
     * divides. Unscaled. NULL: it only decodes. */
    void (*record_encode)(const struct kiln_autoencoder *, const kiln_ops *, kiln_program *, kiln_weights *weights,
                          kiln_t image, kiln_latent_distribution *out);
    /* latent [N,...,C], unscaled -> image about -1..1, not clamped. NULL: it only encodes. */
    kiln_t (*record_decode)(const struct kiln_autoencoder *, const kiln_ops *, kiln_program *, kiln_weights *weights,
                            kiln_t latent);
    /* Further inputs of the decoder (a timestep): recorded by its record_decode as ops->input of these names; filled
     * with their fallback. */
    const kiln_input_spec *input;
    uint32_t n_input, input_stride;
    int32_t pictures;         /* of a batch that go through at once; 0: 1 */
    const char *architecture; /* what people call it: "TAESD"; NULL: the family's name */
    uint32_t precisions;      /* as kiln_denoiser.precisions */
    /* Optional [run]: how its tensors are called in a file (saving.h). */
    kiln_status (*save)(const struct kiln_autoencoder *, kiln_weights *weights, const kiln_saving *);
    /* 1: pictures that go through at once see one another, as frames do: no batch is taken apart, or cut, for want of
     * memory; the run says how much it would take. */
    uint32_t together;
    /* Optional: videos go through in parts, one after the other in time, so that memory does not grow with their
     * length. The first part is one cell (part_cells where the format has no time_first), each later one part_cells or
     * fewer, of time_factor frames each. What a part has to know of those before it, it records as states (ops.h),
     * which the programs of one video share. Together the parts give what record_encode and record_decode give, which
     * a video of one part goes through. */
    void (*record_encode_part)(const struct kiln_autoencoder *, const kiln_ops *, kiln_program *, kiln_weights *weights,
                               kiln_t image, uint32_t part, kiln_latent_distribution *out);
    kiln_t (*record_decode_part)(const struct kiln_autoencoder *, const kiln_ops *, kiln_program *,
                                 kiln_weights *weights, kiln_t latent, uint32_t part);
    int64_t part_cells; /* as many as are quick; fewer are taken where these do not fit. 0: not in parts */
} kiln_autoencoder;

typedef struct {
    uint32_t size;
    const kiln_autoencoder *autoencoder;
    kiln_weights *weights;
    void *owned;
    void (*release)(void *owned);
    kiln_value *base;
} kiln_vae;

/* What VAEDecode and VAEEncode do, for another node: the same numbers in the same memory. Call it on the call's thread,
 * in a node with KILN_NODE_DEVICE; it reports progress. [run] */
typedef struct {
    uint32_t size;
    /* LATENT -> a new IMAGE; of videos the frames of all. */
    kiln_status (*decode)(const kiln_call *, const kiln_value *vae, const kiln_value *latent, kiln_value **image);
    /* IMAGE -> a new LATENT of means, cut to whole cells from the middle; of a video's VAE all pictures are frames. */
    kiln_status (*encode)(const kiln_call *, const kiln_value *vae, const kiln_value *image, kiln_value **latent);
} kiln_vae_api;

#ifdef __cplusplus
}
#endif
#endif
