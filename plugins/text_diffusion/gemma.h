/* gemma.h - DiffusionGemma (Google 2026, arXiv:2608.00146): Gemma 4's mixture of experts, read causally, written by
 * denoising a canvas that sees itself both ways.
 *
 * Names are transformers' without "model.decoder."; gemma_names.c has the views.
 */
#ifndef KILN_TEXT_DIFFUSION_GEMMA_H
#define KILN_TEXT_DIFFUSION_GEMMA_H

#include "text_diffusion.h"

enum { GEMMA_LAYERS_MAX = 512 };

typedef struct {
    int is_full;            /* sees all that was read; else the last `window` places */
    int64_t head, kv_heads; /* width of a head; heads of keys and values             */
} gemma_layer;

typedef struct {
    int64_t width, layers, heads, hidden;   /* hidden: of the dense MLP */
    int64_t experts, chosen, expert_hidden; /* chosen: of each token    */
    int64_t window;
    float eps;
    double theta[2], rotary[2]; /* of sliding and full layers: base, part of the pairs that turn        */
    float *divisor;             /* [half of a full head]: rope_freqs.weight of a GGUF file, or NULL     */
    int64_t n_divisor;
    gemma_layer layer[]; /* [layers] */
} gemma;

/* A view under the names of this plugin; NULL with a message. */
kiln_weights *gemma_view(kiln_ctx *, kiln_weights *set);

/* Reads sizes from shapes, the rest from a GGUF file's keys or a folder's config.json. `named` is gemma_view(set). */
kiln_status gemma_settings(kiln_ctx *, const kiln_weights *set, const kiln_weights *named, text_diffusion_model *m);
int gemma_is_gguf(const kiln_weights *set);

/* Router, experts and dense MLP of a layer: h f32 [1,T,width] -> what is added to it, before its norm. */
kiln_t gemma_feed_forward(const text_recording *, const gemma *, int64_t layer, kiln_t h);
/* x by the norm of that name, or by none. */
kiln_t gemma_norm(const text_recording *, kiln_t x, int64_t group, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
/* down(gelu(gate x) * up x) by the weights below that name */
kiln_t gemma_mlp(const text_recording *, kiln_t x, int64_t hidden, const char *name);

kiln_t gemma_record_prompt(const text_recording *);
kiln_t gemma_record_canvas(const text_recording *, kiln_t soft);
size_t gemma_render(const text_chat *, char *out, size_t capacity);

extern const text_diffusion_family gemma_family;

#endif
