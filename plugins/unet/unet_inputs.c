/* unet_inputs.c - see unet_inputs.h.
 *
 *   context          all; the prompt's tokens
 *   pooled, numbers  SDXL: height, width, crop_h, crop_w, target_height, target_width; the refiner has aesthetic_score
 *                    in place of the last two
 *   mask, masked_image, image, noise_level, image_embedding, guidance: see kinds of unet_config
 */
#include "unet_inputs.h"

#include "kiln/kit.h"

#include <string.h>

/* The latent of a picture without content, in model space: what inpainting models get where nothing is given. */
static const float blank[] = {0.8223f, -0.6876f, 0.6364f, 0.1380f};

/* ---- rows ---- */

typedef struct {
    kiln_input_spec *row;
    uint32_t n;
} rows;

static kiln_input_spec *add(rows *to, uint32_t kind, const char *name, const char *doc)
{
    kiln_input_spec *row = &to->row[to->n++];
    *row = (kiln_input_spec){.size = sizeof *row, .kind = kind, .name = name, .doc = doc};
    return row;
}

/* What a number is when an entry does not say. Prompts without sizes are for the picture that is drawn. */
static void add_number(rows *to, const char *name)
{
    static const struct {
        const char *name, *like, *doc;
        double fallback, unconditional;
        uint32_t flags;
    } known[] = {{"height", "latent.height", "of the pictures this shall look like, in pixels", 1024, 1024, 0},
                 {"width", "latent.width", "of the pictures this shall look like, in pixels", 1024, 1024, 0},
                 {"crop_h", NULL, "pixels that were cut off above", 0, 0, 0},
                 {"crop_w", NULL, "pixels that were cut off at the left", 0, 0, 0},
                 {"target_height", "height", "of this picture, in pixels", 1024, 1024, 0},
                 {"target_width", "width", "of this picture, in pixels", 1024, 1024, 0},
                 {"aesthetic_score", NULL, "how much people like such pictures, 1 to 10", 6, 2.5, KILN_INPUT_SIDED}};
    for (size_t i = 0; i < COUNT(known); i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        kiln_input_spec *row = add(to, KILN_INPUT_SCALAR, known[i].name, known[i].doc);
        row->flags = KILN_INPUT_OPTIONAL | known[i].flags;
        row->fallback_from = known[i].like;
        row->fallback = known[i].fallback, row->fallback_unconditional = known[i].unconditional;
    }
}

static void add_concat(const unet_config *c, int scaled_edit, rows *to)
{
    kiln_input_spec *row;
    switch (c->concat) {
    case UNET_INPAINT:
        row = add(to, KILN_INPUT_MASK, "mask", "1 where the picture is to be drawn anew");
        row->key = "concat_mask", row->width = 1, row->fallback = 1, row->flags = KILN_INPUT_OPTIONAL;
        row = add(to, KILN_INPUT_LATENT, "masked_image", "the picture without what is to be drawn");
        row->key = "concat_latent_image", row->width = c->out_channels;
        row->flags = KILN_INPUT_OPTIONAL | KILN_INPUT_OMITTED | KILN_INPUT_MODEL_SPACE;
        return;
    case UNET_EDIT:
        row = add(to, KILN_INPUT_LATENT, "image", "the picture that is to be changed");
        row->key = "concat_latent_image", row->width = c->out_channels;
        row->flags = KILN_INPUT_OPTIONAL | (scaled_edit ? (uint32_t)KILN_INPUT_MODEL_SPACE : 0);
        return;
    case UNET_UPSCALE:
        row = add(to, KILN_INPUT_LATENT, "image", "the small picture, -1 to 1, a pixel a cell");
        row->key = "concat_image", row->width = 3, row->flags = KILN_INPUT_OPTIONAL;
        return;
    default: return;
    }
}

uint32_t unet_input_rows(const unet_config *c, int scaled_edit, kiln_input_spec out[UNET_INPUTS_MAX])
{
    rows to = {.row = out};
    kiln_input_spec *row;
    if (c->context || !c->encoder) {
        row = add(&to, KILN_INPUT_TOKENS, "context", "what cross-attention attends to");
        row->key = "tokens", row->width = c->context;
        /* Attention to tokens that are there twice is attention to the tokens: softmax gives each copy half. SD1's
         * prompts of different lengths are evaluated apart: with their own bytes. */
        row->batch = c->linear ? KILN_BATCH_REPEAT : KILN_BATCH_APART;
    }
    if (c->beside == UNET_SIZES) {
        row = add(&to, KILN_INPUT_VECTOR, "pooled", "the prompt as a whole");
        row->width = c->embedded - c->n_number * c->sinusoid;
        for (uint32_t i = 0; i < c->n_number; i++) add_number(&to, c->number[i]);
    } else if (c->beside == UNET_VECTOR) {
        row = add(&to, KILN_INPUT_VECTOR, "image_embedding", "a picture's embedding and that of the noise on it");
        row->width = c->embedded, row->flags = KILN_INPUT_OPTIONAL;
    } else if (c->beside == UNET_CLASS) {
        row = add(&to, KILN_INPUT_IDS, "noise_level", "of the noise on the small picture");
        row->width = 1, row->flags = KILN_INPUT_OPTIONAL;
    }
    if (c->guidance) add(&to, KILN_INPUT_SCALAR, "guidance", "the guidance scale that the network imitates");
    add_concat(c, scaled_edit, &to);
    return to.n;
}

/* ---- while recording ---- */

/* Inpainting without a mask: it is 1 everywhere, so that it times each number is the blank picture's channel. */
static kiln_t blank_like(const unet_config *c, const kiln_ops *ops, kiln_program *p, kiln_t mask)
{
    kiln_t channel[COUNT(blank)] = {{0}};
    if (c->out_channels != (int64_t)COUNT(blank))
        return ops->fail(
            p,
            "an inpainting model of %lld channels needs a mask and a picture; put InpaintModelConditioning "
            "before the sampler",
            (long long)c->out_channels);
    for (size_t i = 0; i < COUNT(blank); i++) channel[i] = ops->affine(p, mask, blank[i], 0);
    return ops->concat(p, channel, COUNT(blank), 3);
}

kiln_t unet_beside_x(const unet_config *c, const kiln_ops *ops, kiln_program *p, const kiln_denoise_inputs *in)
{
    kiln_t part[3] = {in->x};
    if (c->concat == UNET_PLAIN) return in->x;
    if (c->concat != UNET_INPAINT) {
        part[1] = kiln_input(in->input, in->n_input, "image");
        return ops->concat(p, part, 2, 3);
    }
    part[1] = kiln_input(in->input, in->n_input, "mask");
    part[2] = kiln_input(in->input, in->n_input, "masked_image");
    if (!part[2].id) part[2] = blank_like(c, ops, p, part[1]);
    return ops->concat(p, part, 3, 3);
}
