/* block_notes.c - see block_notes.h. */
#include "weights/block_notes.h"

#include "base/checked.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

static const char prefix[] = "kiln.block.";
enum { PREFIX = sizeof prefix - 1 };

void block_note(str *key, str *value, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    str_printf(key, "%s%s", prefix, name);
    str_printf(value, "%s [", dtype_name(dtype));
    for (uint32_t i = 0; i < rank; i++) str_printf(value, "%s%lld", i ? "," : "", (long long)dim[i]);
    str_char(value, ']');
}

/* "q4_k [320,320,3,3]" */
static int read_note(const char *text, safetensors_entry *out)
{
    char type[16] = "";
    size_t n = strcspn(text, " ");
    if (n >= sizeof type) return 0;
    memcpy(type, text, n);
    out->dtype = dtype_from_name(type);
    out->type_name = dtype_name(out->dtype);
    out->rank = 0;
    if (!dtype_is_block(out->dtype) || strncmp(text + n, " [", 2) != 0) return 0;
    for (text += n + 2; out->rank < SAFETENSORS_RANK_MAX; text++) {
        n = strcspn(text, ",]");
        if (!str_to_i64(text, n, &out->dim[out->rank]) || out->dim[out->rank] < 1) return 0;
        out->rank++;
        text += n;
        if (*text != ',') break;
    }
    return strcmp(text, "]") == 0;
}

static int fits(const safetensors_entry *x, const safetensors_entry *said)
{
    size_t all, bytes;
    return x->dtype == KILN_U8 && checked_bytes(said->rank, said->dim, 1, &all) &&
           dtype_bytes(said->dtype, all, &bytes) && bytes == x->end - x->begin;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(safetensors_entry *const *)a)->name, (*(safetensors_entry *const *)b)->name);
}

/* The tensors by name. NULL: no memory. */
static safetensors_entry **index_of(const safetensors_header *h)
{
    safetensors_entry **at = mem_alloc((h->count + 1) * sizeof *at);
    for (size_t i = 0; at && i < h->count; i++) at[i] = &h->entry[i];
    if (at && h->count) qsort(at, h->count, sizeof *at, by_name);
    return at;
}

static kiln_status apply_note(safetensors_entry *const *index, size_t n, const safetensors_note *note, const char *path,
                              error *e)
{
    safetensors_entry said = {.name = note->key + PREFIX}, *want = &said;
    safetensors_entry *const *found = n ? bsearch(&want, index, n, sizeof *index, by_name) : NULL;
    if (!found || !read_note(note->value, &said) || !fits(*found, &said))
        return error_set(
            e, KILN_ERR_INVALID,
            "%s: byte 8: the line '%.200s': '%.64s' of __metadata__ is no type and shape of blocks, or does "
            "not fit its tensor; fetch the file again",
            path, note->key, note->value);
    (*found)->dtype = said.dtype;
    (*found)->type_name = said.type_name;
    (*found)->rank = said.rank;
    memcpy((*found)->dim, said.dim, sizeof said.dim);
    return KILN_OK;
}

kiln_status block_notes_apply(safetensors_header *h, const char *path, error *e)
{
    safetensors_entry **index = NULL;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < h->n_note && status == KILN_OK; i++) {
        if (strncmp(h->note[i].key, prefix, PREFIX) != 0) continue;
        if (!index && !(index = index_of(h))) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
        status = apply_note(index, h->count, &h->note[i], path, e);
    }
    mem_free(index);
    return status;
}
