/* weights.h - sets of named tensors: safetensors files, folders, views, patches. Layer: weights (needs base,
 * tensor). The functions behind "kiln.weights/1" (include/kiln/weights.h), with an error* where
 * the ability has a running call.
 */
#ifndef KILN_WEIGHTS_WEIGHTS_H
#define KILN_WEIGHTS_WEIGHTS_H

#include "base/page_reader.h"
#include "base/file.h"
#include "base/status.h"
#include "kiln/weights.h"

kiln_weights *weights_open(const char *path, error *e);
kiln_weights *weights_view(kiln_weights *base, const kiln_weight_rule *rule, size_t n, error *e);
kiln_weights *weights_patch(kiln_weights *base, const kiln_weight_patch *patch, size_t n, error *e);
kiln_weights *weights_overlay(kiln_weights *base, kiln_weights *over, error *e);
kiln_weights *weights_open_source(const kiln_weight_source *source, error *e);
kiln_weights *weights_make(const char *name, const kiln_weight_tensor *tensor, size_t n, error *e);
kiln_weights *weights_ref(kiln_weights *w);
void weights_unref(kiln_weights *w);
/* The i-th file behind the set, for views and patched sets their base's, those of memory left out; NULL past the last.
 */
const file_map *weights_file_at(const kiln_weights *w, size_t i);
size_t weights_count(const kiln_weights *w);
kiln_status weights_at(const kiln_weights *w, size_t i, kiln_weight_info *out);
kiln_status weights_find(const kiln_weights *w, const char *name, kiln_weight_info *out);
const void *weights_map(const kiln_weights *w, const char *name, error *e);
kiln_status weights_read_f32(const kiln_weights *w, const char *name, float *dst, error *e);
/* The same with the pool's threads, which a patched tensor's sums use. */
kiln_status weights_read_f32_by(const kiln_weights *w, const char *name, float *dst, pool *p, error *e);
const char *weights_text(const kiln_weights *w, const char *path, size_t *n);
const char *weights_identity(const kiln_weights *w, error *e);
size_t weights_unused(const kiln_weights *w, void (*fn)(void *, const kiln_weight_info *), void *arg);
/* Marks a tensor as asked for (programs do, when they record it). */
void weights_mark_used(const kiln_weights *w, const char *name);
/* "x.safetensors: no tensor 'conv_in.weigth'; the nearest is 'conv_in.weight'" into e. */
kiln_status weights_missing(const kiln_weights *w, const char *name, error *e);

/* What a tensor is, whatever set and name it is seen under: a digest of where its elements come from (its file's
 * content, or the base's and the factors' identities and strengths), and of its place, type and shape. A tensor that is
 * not patched has in a patched set the identity it has in the base. */
kiln_status weights_tensor_identity(const kiln_weights *w, const char *name, char hex[33], error *e);

/* Packing reads straight from the file: the tensor's bytes as stored, in order, whatever its dtype
 * (f32, f16, bf16); a transposed view or a patched tensor is materialised by the caller through weights_read_f32.
 * Returns NULL when the tensor is one of those or of a type kiln does not compute with (dtype 0). Scans for NaN/Inf are
 * the caller's (weights_scan_finite), and so is asking whether the file is still the same (they do). */
const void *weights_bytes(const kiln_weights *w, const char *name, kiln_weight_info *info);
/* KILN_OK, or the sentence that says why this tensor cannot be computed with: its type, or fp8 that has a scale beside
 * it. Looks at the header alone. */
kiln_status weights_supported(const kiln_weights *w, const char *name, error *e);
/* For people: "f16", "f8_e4m3"; of types kiln does not compute with the file's word ("I8"), of fp8 that needs a scale
 * "f8 scaled". "?": no such tensor. */
const char *weights_type_name(const kiln_weights *w, const char *name);
/* The i-th note of the files' __metadata__; 0: past the last. They live as long as the set. */
int weights_note_at(const kiln_weights *w, size_t i, const char **key, const char **value);
kiln_status weights_metadata(const kiln_weights *w, const char *path, kiln_weight_value *out);
kiln_status weights_metadata_at(const kiln_weights *w, size_t i, kiln_weight_value *out);
kiln_status weights_metadata_item(kiln_weight_value *v, size_t i, kiln_weight_item *out);
/* The most that weights_read_f32_by takes from the heap for this tensor with so many threads, beside its result; 0
 * where it converts only. */
size_t weights_scratch_bytes(const kiln_weights *w, const char *name, size_t threads);
/* A tensor's rows as f32 when they are wanted, and not all of them at once: the factors of a patch are read by open(),
 * with the pool's threads; read() may be called by several at a time. It takes no more from the heap than
 * weights_scratch_bytes says for as many threads. Asking whether the file is still the same is the caller's. */
typedef struct weights_f32_rows weights_f32_rows;
/* 1: rows of `width` elements can be had so; not those of a transposed view, of a patch on a patch, or of a change that
 * needs several rows together. */
int weights_f32_rows_apart(const kiln_weights *w, const char *name, size_t width);
kiln_status weights_f32_rows_open(const kiln_weights *w, const char *name, pool *p, weights_f32_rows **out, error *e);
/* Elements [first, first + n), whole rows. */
kiln_status weights_f32_rows_read(const weights_f32_rows *rows, size_t first, size_t n, float *dst, error *e);
void weights_f32_rows_close(weights_f32_rows *rows); /* or NULL */
/* Of a patched tensor: its base and its factors. KILN_ERR_INVALID naming file, byte and tensor at the first NaN or
 * infinity; other types have none. */
kiln_status weights_scan_finite(const kiln_weights *w, const char *name, error *e);
kiln_status weights_scan_finite_by(const kiln_weights *w, const char *name, pool *p, error *e); /* by its threads */
/* The same without the map, for devices that weights are copied to: the tensor's bytes as they are stored (a transposed
 * view's too; a patched tensor's as f32, as its set shows it, its base and factors read the same way), read from the
 * file into dst (weights_stored_bytes of them) by the pool's threads (base/file.h, file_map_read). KILN_ERR_IO with
 * file and tensor when they cannot be read or the file has changed; KILN_ERR_UNSUPPORTED: of a type kiln does not
 * compute with. [any] */
size_t weights_stored_bytes(const kiln_weights *w, const char *name); /* 0: no such tensor */
kiln_status weights_read_stored(const kiln_weights *w, const char *name, void *dst, pool *p, error *e);
/* KILN_ERR_IO when a file that the tensor comes from (a patch's factors too) is no longer the one that was opened, or
 * was not all there. Asked after its bytes were read through the map, before they are believed. */
kiln_status weights_unchanged(const kiln_weights *w, const char *name, error *e);
/* weights_scan_finite and weights_read_f32 of bytes that were read so. */
kiln_status weights_scan_stored(const kiln_weights *w, const char *name, const void *stored, error *e);
kiln_status weights_stored_as_f32(const kiln_weights *w, const char *name, const void *stored, float *dst, error *e);
/* Hints to the system, without a failure: the tensor's pages are wanted soon; or are not needed any more (it is packed)
 * and leave this process' memory. They stay readable: a later access reads the file again. */
void weights_will_need(const kiln_weights *w, const char *name, page_reader *);
void weights_release_pages(const kiln_weights *w, const char *name);

#endif
