/* qwen.h - Qwen-Image and Qwen-Image-Edit (Alibaba 2025) from outside the tree: what the files of this plugin share.
 *
 *   qwen_transformer.c   the denoiser: joint blocks of picture and text, pictures to be edited behind the one that is
 * drawn qwen_vae.c           the autoencoder, Wan's on one frame qwen_text.c          the text encoder, Qwen2.5's
 * decoder, with places on three axes qwen_vision.c        its vision tower, and the node that shows it a picture
 *   qwen_clip.c          the CLIP value of both: chat templates, tokens, opening
 *   qwen_edit.c          ExampleTextEncodeQwenImageEdit and what it stands for
 *   qwen_true_cfg.c      the guidance of diffusers' pipeline
 */
#ifndef EXAMPLE_QWEN_H
#define EXAMPLE_QWEN_H

#include "kiln/config.h"
#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdio.h>
#include <stdlib.h>

extern const kiln_node qwen_see_node, qwen_encode_node, qwen_scale_node, qwen_reference_node, qwen_edit_node,
    qwen_tokens_node, qwen_true_cfg_node;
extern const kiln_model_family qwen_denoiser_family, qwen_vae_family, qwen_clip_family;

/* "blocks.3.proj" made of a pattern: text is an array. */
#define NAME(text, ...) (snprintf((text), sizeof(text), __VA_ARGS__), (text))

/* ---- what is recorded ---- */

typedef struct {
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *weights;
} recorder;

kiln_t qwen_weight(const recorder *, const char *name, uint32_t rank, const int64_t *dim);
/* x [..,I] -> [..,out], with a bias where the file has one. */
kiln_t qwen_linear(const recorder *, kiln_t x, int64_t out, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
/* The root mean square of each row, or of each `group` columns of it, becomes 1; times the gain of that name. */
kiln_t qwen_rms(const recorder *, kiln_t x, float eps, int64_t group, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
/* down(silu(gate x) * up x) by the matrices below that name */
kiln_t qwen_mlp(const recorder *, kiln_t x, int64_t hidden, const char *name);
/* f32 [1,places,1,half] of function(angle(of, place, column)) */
typedef double qwen_angle(const void *of, int64_t place, int64_t column);
kiln_t qwen_table(const recorder *, const void *of, qwen_angle *angle, int64_t places, int64_t half,
                  double (*function)(double));

/* ---- the text encoder and its vision tower ---- */

enum { QWEN_SECTIONS = 3, QWEN_FULL_MAX = 8, QWEN_MERGE = 2, QWEN_PATCH = 14, QWEN_TIME = 2 };

typedef struct {
    int64_t width, head, heads, kv_heads, hidden, layers, vocabulary, section[QWEN_SECTIONS];
    double theta;
    float eps;
} qwen_text;

typedef struct {
    int64_t width, heads, hidden, layers, out, window, full[QWEN_FULL_MAX]; /* full: the blocks that see all */
    size_t n_full;
} qwen_vision;

/* A picture as the text sees it: merged patches, row by row, from token `at` on. rows 0: there is none. */
typedef struct {
    int64_t rows, columns, at;
    const float *vectors; /* [rows*columns][width] */
} qwen_picture;

/* ids i32 [1,T] -> the last hidden state, or an earlier layer's [1,T,D] */
kiln_t qwen_text_record(const recorder *, const qwen_text *, const qwen_picture *, const kiln_text_inputs *);

/* Of a picture of h x w pixels the size in which the tower looks at it, by Qwen's rule: multiples of 28, at most
 * 1280 x 28 x 28 pixels and at least 56 x 56. 0: its proportions are beyond 1:200. */
int qwen_smart_resize(int64_t h, int64_t w, int64_t *to_h, int64_t *to_w);
/* image f32 [1,H,W,3], 0 to 1, of any size -> [1,merged patches,width of the text] */
kiln_t qwen_vision_record(const recorder *, const qwen_vision *, kiln_t image);

/* ---- the CLIP ---- */

typedef struct qwen_clip qwen_clip;
struct qwen_clip {
    kiln_text_encoder encoder;
    kiln_clip_encoder row;
    qwen_text text;
    qwen_vision vision;
    qwen_picture picture;
    const kiln_tokenizer_api *tokens;
    kiln_tokenizer *tokenizer;
    int32_t image_token;
    int64_t dropped[2]; /* tokens of the template before the user's turn: without a picture, with one */
    char family[160], identity[40];
};

/* The one behind a CLIP value; NULL with a message that names the family it is of. */
const qwen_clip *qwen_clip_of(const kiln_call *c, const kiln_value *clip);
/* Encodes a prompt; with a picture whose rows are not 0 by the template that has a place for one. */
kiln_status qwen_encode(const kiln_call *c, const kiln_value *clip, const char *prompt, const qwen_picture *,
                        kiln_value **out);

#endif
