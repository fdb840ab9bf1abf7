/* model.h - "kiln.model/2": model families, and the values they make.
 *
 * A family is a row (kind, name, detect, open): which family a checkpoint belongs to is decided by what is in the file.
 * Kinds are names: "denoiser" makes a MODEL (denoiser.h), "text_encoder" a CLIP (text.h), "autoencoder" a VAE
 * (autoencoder.h); any other kind ("control", "vision", "upscaler", one of your own) makes values of the type that its
 * nodes agree on (network.h). Another plugin's family is found the same way as kiln's own.
 *
 * Ownership: tables, and what hangs on them, live as long as the value that was made from them; the values are
 * reference counted. Rows given to register_family() must be static.
 */
#ifndef KILN_MODEL_H
#define KILN_MODEL_H

#include "autoencoder.h"
#include "denoiser.h"
#include "network.h"
#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_MODEL_ABILITY "kiln.model/2"

#define KILN_FAMILY_DENOISER "denoiser"
#define KILN_FAMILY_TEXT_ENCODER "text_encoder"
#define KILN_FAMILY_AUTOENCODER "autoencoder"
#define KILN_FAMILY_CONTROL "control"   /* CONTROL_NET    */
#define KILN_FAMILY_VISION "vision"     /* CLIP_VISION    */
#define KILN_FAMILY_UPSCALER "upscaler" /* UPSCALE_MODEL  */
#define KILN_FAMILY_PATCH "patch"       /* PATCHES: what `kiln inspect` says of a LoRA; its network records nothing */

typedef struct {
    uint32_t size;
    const char *kind;
    const char *name, *doc; /* "sd-unet" */
    /* 0 = not mine; the highest score wins, 100 = certain. Looks at names, shapes and texts only. */
    int (*detect)(const kiln_weights_api *, const kiln_weights *set);
    /* Returns a value of the kind over `set` (it takes references of its own), or NULL with a message. Reads
     * configuration and headers, no weights. [run] */
    kiln_value *(*open)(const kiln_host *, kiln_ctx *, kiln_weights *set);
    /* Of a text encoder: the choices of CLIPLoader's `type` that ask for it ("qwen_image"); ends with NULL. NULL: none
     * but the first, which leaves it to the file. */
    const char *const *type;
} kiln_model_family;

typedef struct {
    uint32_t size;
    kiln_status (*register_family)(const kiln_model_family *); /* [open] */
    size_t (*family_count)(const char *kind);                  /* [any] kind NULL: of all kinds */
    const kiln_model_family *(*family_at)(const char *kind, size_t i);
    /* The family with the highest score, or NULL. */
    const kiln_model_family *(*detect)(const char *kind, const kiln_weights *set);

    /* Values. The struct is copied; weights and base get a reference of the value's own; release is called
     * with owned when the value dies. On failure (NULL, with a message) nothing was taken. */
    kiln_value *(*model_new)(kiln_ctx *, const kiln_model *);
    kiln_value *(*clip_new)(kiln_ctx *, const kiln_clip *);
    kiln_value *(*vae_new)(kiln_ctx *, const kiln_vae *);
    kiln_value *(*net_new)(kiln_ctx *, const char *type, const kiln_net *);
    /* NULL with a message when the value is something else. Lives as long as the value. */
    const kiln_model *(*model)(kiln_ctx *, const kiln_value *);
    const kiln_clip *(*clip)(kiln_ctx *, const kiln_value *);
    const kiln_vae *(*vae)(kiln_ctx *, const kiln_value *);
    const kiln_net *(*net)(kiln_ctx *, const kiln_value *, const char *type);
} kiln_model_api;

#ifdef __cplusplus
}
#endif
#endif
