/* clip_vision_settings.h - the configuration of a vision encoder, and how pictures are prepared for it: what shapes
 * show; heads and activation of config.json, else of a single file's __metadata__, else those of the released ones.
 * Where config.json says what shapes show, both have to agree.
 */
#ifndef KILN_VISION_CLIP_VISION_SETTINGS_H
#define KILN_VISION_CLIP_VISION_SETTINGS_H

#include "clip_vision.h"
#include "kiln/weights.h"

typedef struct {
    kiln_weights *set, *view;       /* the file or folder; its tensors by transformers' names */
    const char *config, *processor; /* where these files lie in a folder; NULL: nowhere       */
} clip_vision_source;

typedef struct {
    double mean[3], std[3];
} clip_vision_colours;

kiln_status clip_vision_settings_read(const kiln_host *host, kiln_ctx *ctx, const clip_vision_source *from,
                                      clip_vision_config *out);
kiln_status clip_vision_colours_read(const kiln_host *host, kiln_ctx *ctx, const clip_vision_source *from,
                                     clip_vision_colours *out);

#endif
