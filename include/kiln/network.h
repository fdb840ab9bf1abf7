/* network.h - a network of any kind: named tensors in, named tensors out.
 *
 * Denoisers, text encoders and autoencoders have tables of their own (denoiser.h, text.h, autoencoder.h), because the
 * sampling and the nodes drive them in ways of their own. Everything else is a kiln_network: a control, a vision
 * encoder, an upscaler, a kind nobody has thought of yet. It is a value of a type that its kind's nodes agree on
 * (CONTROL_NET, CLIP_VISION, UPSCALE_MODEL, ...), made by a family (model.h) that is detected like any other.
 *
 *     const kiln_net *vision = models->net(c->ctx, c->in[0], "CLIP_VISION");
 *     const kiln_network *n = vision->network;
 *     n->record(n, ops, program, vision->weights, inputs, 1, &outputs);
 *
 * A CONTROL_NET's inputs are x and timestep, which are those of the denoiser's evaluation (x already scaled), and the
 * rows it declares: they are looked for in the control's own map (hint, ...), then in the CONDITIONING's entry. Its
 * outputs are named by the denoiser's places they are added at ("input.3", "middle.2", "output.0.skip").
 *
 * An UPSCALE_MODEL's input and output are both called image, [1,H,W,channels] and [1,H*scale,W*scale,out_channels], 0
 * to 1, not clamped. Its facts: scale; channels and out_channels (3); multiple (1), which the sizes of a picture are
 * brought to; minimum (0; 1.1), the fewest pixels of a side, to which a smaller picture is padded. Where it has stages,
 * a list, a picture that does not fit into memory goes through them one after the other, in stripes of rows: each is a
 * map {takes, halo, rows, channels} and makes one tensor [1,H*rows/multiple, W*rows/multiple,channels] of those that it
 * takes, a list of numbers: an earlier stage's, or -1 for the picture. halo is how many times `multiple` rows of the
 * picture it reads above and below what it makes; there it may make anything. The last makes the image. record() is
 * asked for stage N alone by an entry "stage.N" of `in` without a tensor, beside what it takes ("image", "made.0",
 * ...), and gives what it makes as image.
 */
#ifndef KILN_NETWORK_H
#define KILN_NETWORK_H

#include "inputs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KILN_NETWORK_APART =
        1 /* a control: a program of its own, whose results are bound to the denoiser's. Without it, it
             is recorded into the denoiser's program, and only what changes is computed each step. Apart, both
             programs take turns, and neither keeps from step to step what its prompt alone decides */
};

typedef struct kiln_network {
    uint32_t size, flags;
    const char *family; /* all that decides what record() records but shapes and weights: part of programs' keys */
    void *self;
    const kiln_input_spec *input;
    uint32_t n_input, input_stride;
    /* Writes the network and adds its results to `out`. Every tensor of `weights` is asked for. */
    void (*record)(const struct kiln_network *, const kiln_ops *, kiln_program *, kiln_weights *weights,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out);
    /* Facts that nodes of this kind read ("image_size", "mean", "scale", ...), a map of plain values; NULL: none. It
     * lives as long as the value. A control's: latent_channels, of the x that it sees, with which loaders try whether
     * its tensors are all there; difference, true when its weights are to be added to a denoiser's of the same names
     * first; control_type, which kind of hint it gets, set by a node. */
    const kiln_value *facts;
    const char *architecture; /* what people call it: "CLIP vision H"; NULL: the family's name */
    uint32_t precisions;      /* as kiln_denoiser.precisions */
    /* Optional [run], of a control whose weights are a change of its denoiser's (a Control-LoRA): what it is over these
     * ones, which is then recorded in its place. Lives as long as the value; NULL with a message on ctx. */
    const struct kiln_net *(*over)(const struct kiln_network *, kiln_ctx *, kiln_weights *own, kiln_weights *denoiser);
} kiln_network;

/* What such a value holds. */
typedef struct kiln_net {
    uint32_t size;
    const kiln_network *network;
    kiln_weights *weights;
    void *owned; /* what release() frees when the last value goes */
    void (*release)(void *owned);
    kiln_value *base; /* or the value this one was made from, kept alive */
} kiln_net;

#ifdef __cplusplus
}
#endif
#endif
