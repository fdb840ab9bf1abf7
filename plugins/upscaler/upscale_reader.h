/* upscale_reader.h - what families ask of a file's tensors when they open it. */
#ifndef KILN_PLUGINS_UPSCALER_UPSCALE_READER_H
#define KILN_PLUGINS_UPSCALER_UPSCALE_READER_H

#include "kiln/checkpoint.h"
#include "upscale_network.h"

enum { UPSCALE_WIDTH_MAX = 4096, UPSCALE_COLOURS_MAX = 4, UPSCALE_FACTOR_MAX = 16 };

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    kiln_weights *view;
} upscale_reader;

/* A family's files: where its tensors may lie, under which names it sees them (NULL: their own), and what it makes of
 * them. make(): NULL with a message; the view stays the caller's. */
typedef struct {
    const checkpoint_layout *layout;
    size_t n_layout;
    kiln_weights *(*view)(const kiln_host *, kiln_ctx *, kiln_weights *set, const checkpoint_layout *at);
    kiln_value *(*make)(const upscale_reader *);
} upscale_files;

#define UPSCALE_REFUSE(r, ...) return (r)->host->fail((r)->ctx, KILN_ERR_UNSUPPORTED, "this upscaler: " __VA_ARGS__)

/* What a family's open() does. */
kiln_value *upscale_open(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const upscale_files *files);
/* Dimension i of a tensor; 0: there is none. */
int64_t upscale_dim_of(const upscale_reader *r, const char *tensor, uint32_t i);
/* A file tells a pixel shuffle's channels alone: factor * factor * colours. They are the picture's, else 3, 4 or 1. */
kiln_status upscale_read_shuffle(const upscale_reader *r, int64_t channels, int64_t in, int64_t *factor, int64_t *out);
/* Channels of the pictures it takes, and of its features. */
kiln_status upscale_check_widths(const upscale_reader *r, int64_t in, int64_t width);
/* A network of so many stages, with a copy of its config; NULL with a message. */
upscale_network *upscale_made(const upscale_reader *r, uint32_t n_stage, const void *config, size_t config_bytes);

#endif
