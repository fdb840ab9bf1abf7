/* files.h - where the files a workflow names are looked for.
 *
 * Models (checkpoints, vae, loras, ...): below --models, KILN_MODELS, the workflow file's folder's models/, the
 * installed share/kiln/workflows/models and a build's own workflows/models; in each first in the folder of the kind or
 * of the kind's other name (unet for diffusion_models, clip for text_encoders, vae_approx for vae), then in the root
 * itself; NAME of a vae may stand for NAME_decoder.safetensors, and NAME of an embedding for NAME.safetensors. Input
 * files: --input, KILN_INPUT, the workflow file's folder and its input/. A relative name never leaves its root (no
 * ".."); an absolute path is taken as it is. For a picture that carries its workflow the folder above the picture's is
 * a workflow's folder as well: pictures lie in out/ beside what drew them. In --models and KILN_MODELS a name that ends
 * in .yaml is a list of folders as ComfyUI's extra_model_paths.yaml (extra_paths.c).
 */
#ifndef KILN_RUN_FILES_H
#define KILN_RUN_FILES_H

#include "base/arena.h"
#include "base/status.h"

enum { FILE_ROOTS_MAX = 128 };

typedef struct {
    const char *path;
    const char *kind; /* the files of this kind lie in it; NULL: it has a folder for each kind */
} file_root;

typedef struct {
    file_root model[FILE_ROOTS_MAX], input[FILE_ROOTS_MAX];
    size_t n_model, n_input;
    size_t n_shipped; /* the last so many of `model` are kiln's own */
} file_roots;

/* Strings live in a. */
kiln_status file_roots_find(file_roots *r, arena *a, const char *workflow, const char *models, const char *input,
                            error *e);
/* The path of `name`, in a; NULL with a message that says where it looked and what is there. */
/* Every model below the roots: `name` is what a workflow calls it, kind NULL where it lies in no folder of a kind. */
typedef void (*file_seen_fn)(void *arg, const char *kind, const char *name, const char *path);
void file_roots_list(const file_roots *r, arena *a, file_seen_fn fn, void *arg);
/* The names that files of one kind have, as a workflow calls them: at most 500, each once. */
void file_roots_names(const file_roots *r, arena *a, const char *kind, void (*fn)(void *arg, const char *name),
                      void *arg);
/* Adds the folders that extra_model_paths.yaml lists. */
kiln_status extra_paths_add(const char *path, arena *a, file_root *list, size_t *n, error *e);
const char *file_roots_resolve(const file_roots *r, arena *a, const char *kind, const char *name, error *e);

#endif
