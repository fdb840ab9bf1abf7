/* text_loader.h - a text diffusion model with its tokenizer, from a file or a folder. */
#ifndef KILN_TEXT_DIFFUSION_LOADER_H
#define KILN_TEXT_DIFFUSION_LOADER_H

#include "text_diffusion.h"

/* A value of type "TEXT_DIFFUSION". Every tensor is asked for once, so that a missing one is reported now. [run] */
kiln_status text_load(const kiln_call *, const char *path, kiln_value **out);
/* Of such a value; NULL with a message. */
const text_diffusion_model *text_model(const kiln_call *, const kiln_value *);

/* The family that knows the files fills m, which is zeros but for tile_rows; without its tokenizer. [run] */
kiln_status text_open(kiln_ctx *, kiln_weights *set, text_diffusion_model *m);
/* The same with its tokenizer, which lies at `path` (NULL: where the set's files do), and its tensors looked for; the
 * caller ends it with text_model_free. It has no identity yet. [run] */
kiln_status text_open_all(kiln_ctx *, kiln_weights *set, const char *path, text_diffusion_model **out);
void text_model_free(void *model);

/* So that `kiln inspect` knows them. [open] */
kiln_status text_register_families(const kiln_host *);

/* The prompt's or the canvas' program at its smallest. */
void text_record_smallest(kiln_program *, const text_diffusion_model *, int is_canvas);
/* Records both and throws them away, so that a tensor that is missing is reported. [run] */
kiln_status text_check_tensors(kiln_ctx *, const text_diffusion_model *);

/* The tokenizer of a GGUF file, or of the folder that has a tokenizer.json or tokenizer.model. NULL with a message. */
kiln_tokenizer *text_tokenizer(kiln_ctx *, const char *path);

#endif
