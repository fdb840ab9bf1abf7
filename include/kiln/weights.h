/* weights.h - "kiln.weights/1": an immutable set of named tensors, views of it, and patches.
 *
 * open() maps a .safetensors or .gguf file, a sharded model, or a whole diffusers folder; the
 * header is checked in full before anything is trusted and nothing is read until it is
 * asked for. view() gives other names to the same bytes, so that a key map is data.
 *
 *     kiln_weights *all = w->open(ctx, path);
 *     kiln_weights *unet = w->view(ctx, all, rules, n);   // "unet/" stripped, say
 *     kiln_weights *both = w->patch(ctx, unet, patches, n); // a LoRA on top; the base's bytes stay as they are
 *     kiln_t k = ops->weight(p, unet, "conv_in.weight", 4, dims);
 *
 * Names. A single file: its tensor names. A folder: each tensor is called
 * "<path of its file's folder relative to the root>/<name>" ("unet/conv_in.weight",
 * "text_encoder/text_model....weight"); tensors of files in the root carry no prefix. Of each folder one model is
 * taken: the plain variant before .fp16 before .bf16, diffusion_pytorch_model before model, a single file before
 * shards (*.safetensors.index.json, which may also be opened itself); else the only .safetensors there is, else the
 * only .gguf. The root of a folder with a model_index.json is not searched. Pickles (.ckpt, .pt, .bin) are never read.
 *
 * Quantised tensors. What a GGUF file stores by blocks stays so: its dtype says how (KILN_Q4_K), map() gives the
 * blocks, and read_f32() the numbers. What consists of codes with scales beside them is one tensor under the name of
 * the codes (X.weight, of type f32): f8 of ComfyUI and DeepSeek, int8 and nf4 or fp4 of bitsandbytes; its companions
 * are no tensors. Shapes are as torch has them, whatever the file's order.
 *
 * Ownership: open(), view(), patch() and ref() return a reference, unref() drops one; a view
 * keeps its base alive, a patched set that and the sets its patches come from. Sets are immutable; every function is
 * [any].
 */
#ifndef KILN_WEIGHTS_H
#define KILN_WEIGHTS_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_WEIGHTS_ABILITY "kiln.weights/1"

typedef struct kiln_weights kiln_weights;
typedef struct kiln_file kiln_file; /* files.h */

typedef struct {
    uint32_t size;
    uint32_t dtype; /* as stored, f32 of what is computed (patched, with scales beside it, made of several tensors); 0:
                       of a type kiln does not compute with, map() and read_f32() refuse it */
    uint32_t rank;
    const int64_t *dim; /* [rank]; lives as long as the set */
    size_t bytes;
    const char *name;            /* in this set; lives as long as the set */
    const char *file;            /* path of the file it lies in           */
    uint32_t block, block_bytes; /* elements and bytes of a block of this type; 1 where it has none; 0 of dtype 0 */
    size_t stored_bytes;         /* in the files: what is smaller than `bytes` where codes and scales make the tensor */
} kiln_weight_info;

/* How a view renames. What a rule does to the tensor it does in this order: join, rows, slice, squeeze, swap_halves,
 * unpermute_heads, reshape, permute, transpose. Rules are tried in order for every tensor of the base, the first whose
 * `from` matches decides; a tensor that no rule matches is not in the view. A pattern is literal but for "{}", which
 * matches one or more characters without a dot, and a final "*", which matches the rest; `to` takes them in order. With
 * rows > 0 the result is rows [row, row+rows) of dimension 0 (a fused QKV split). Of one base tensor several rules may
 * make several names: see `more`. What is neither renamed nor sliced by whole rows nor reshaped is computed when it is
 * read, and of type f32. A table of rules:
 *     static const kiln_weight_rule rules[] = {KILN_RULE(.from = "unet/{}.q", .to = "{}.query"), ...}; */
enum { KILN_JOIN_CAT = 1, KILN_JOIN_STACK = 2 };
typedef struct {
    uint32_t size;
    const char *from, *to;
    int64_t row, rows;  /* 0,0 = the whole tensor; else a slice of dimension 0              */
    uint32_t transpose; /* 1: a rank-2 tensor [a,b] is seen as [b,a]                        */
    uint32_t squeeze;   /* 1: trailing dimensions of size 1 are dropped ([C,C,1,1] -> [C,C]) */
    uint32_t more;      /* 1: after this match go on to the following rules as well          */
    /* KILN_JOIN_CAT: one tensor of several, one behind the other along dimension `axis`; KILN_JOIN_STACK: along a new
     * dimension there. They are `from` and those of `with`, [n_with] names that take what `from` matched as `to` does
     * (q, k and v); or those of `each`, where "#" stands for 0, 1, 2, ... as long as there is such a tensor (experts;
     * `from` is the first). */
    uint32_t join, axis;
    const char *const *with;
    uint32_t n_with;
    uint32_t slice_axis; /* with slices > 0: [slice, slice+slices) of that dimension */
    const char *each;
    int64_t slice, slices;
    uint32_t swap_halves;     /* 1: the first and the second half of dimension 0 change places (scale and shift) */
    uint32_t unpermute_heads; /* the number of heads: rows of q or k of a llama GGUF, back from pairs to halves */
    const int64_t *reshape;   /* [reshape_rank], of as many elements; one may be -1 */
    const uint32_t *permute;  /* [permute_rank], torch's permute(): dimension i of the result is permute[i] */
    uint32_t reshape_rank, permute_rank;
} kiln_weight_rule;

#define KILN_RULE(...)                                                                                                 \
    {                                                                                                                  \
        .size = sizeof(kiln_weight_rule), __VA_ARGS__                                                                  \
    }

/* A change of W that is no sum of products (a Hadamard or a Kronecker product, a rotation, a norm): a plugin's table,
 * static. The engine reads the factors as f32, hands over rows of W as f32, in which earlier patches are contained, and
 * takes what apply() leaves there, whenever the tensor is read or packed. Functions are called by any thread, apply()
 * by several at once for different rows; all are pure: the same numbers for the same arguments, however rows are cut.
 */
typedef struct {
    const float *data; /* all of it; NULL where sizes alone are asked for (rows, prepared, scratch) */
    uint32_t rank;     /* 0: the patch names no such factor */
    const int64_t *dim;
} kiln_weight_factor;

/* to[i][j] += factor * sum over k of a[i][k] * b[k][j], each step of the sum fmaf(a, b, sum), k ascending from 0: a
 * lies densely, to's and b's rows are to_ld and b_ld apart. */
typedef struct {
    float *to;
    const float *a, *b;
    size_t to_ld, b_ld, rows, columns, inner;
    float factor;
} kiln_weight_product;

typedef struct kiln_weight_call {
    uint32_t size;
    uint32_t rank;
    const int64_t *dim;         /* [rank] of W */
    size_t rows, columns;       /* of W: dim[0], and all others together */
    double strength, scale;     /* as the patch has them */
    const double *option;       /* likewise */
    kiln_weight_factor *factor; /* likewise, in that order */
    const float *prepared;      /* what prepare() made; during it NULL */
    void *self;                 /* the engine's */
    void (*add_product)(const kiln_weight_product *);
    /* fn(arg, i) for all i below n, on all cores where the caller is not one of several threads itself. */
    void (*each)(const struct kiln_weight_call *, size_t n, void (*fn)(void *arg, size_t i), void *arg);
} kiln_weight_call;

typedef struct {
    uint32_t size;
    uint32_t revision; /* of what apply() computes; it and the name are part of the tensor's identity */
    const char *name;  /* "loha" */
    /* How many rows of W apply() needs together, counted from row 0; all of them: call->rows. NULL: 1 */
    size_t (*rows)(const kiln_weight_call *);
    /* Floats that prepare() fills once for each reading, before apply(). NULL: none */
    size_t (*prepared)(const kiln_weight_call *);
    void (*prepare)(const kiln_weight_call *, float *to);
    /* Floats that one apply() of `rows` rows works in. NULL: none */
    size_t (*scratch)(const kiln_weight_call *, size_t rows);
    /* Rows [row, row + rows) of W, changed in place: a multiple of rows() from a multiple of it on. */
    void (*apply)(const kiln_weight_call *, float *w, size_t row, size_t rows, float *scratch);
} kiln_weight_change;

/* One addition to one tensor W of the base set, all of the same shape but for dimensions of size 1 at the end:
 *   W + strength * scale * (up x down), up [O,r], down [r,...] with W [O,...] (Hu et al. 2021, "LoRA", section 4.1); or
 *   W + strength * scale * difference, with up and down NULL.
 * Several of one tensor add up. It is computed in f32 whenever the tensor is read or packed, and stored nowhere: first
 * the base's number, then for each patch in the order given f32(strength * scale) times the sum, the sum in f32 over r
 * ascending, each step rounded once (fmaf), on every processor; or what the patch's change makes of it. */
typedef struct {
    uint32_t size;
    const char *name;       /* in the base set                                              */
    double strength, scale; /* finite; scale is alpha / r, 1 when a file gives no alpha     */
    kiln_weights *from;     /* the set that has up and down, or difference, or the factors  */
    const char *up, *down, *difference;
    /* Or what a plugin computes, with up, down and difference NULL: `change`, from the tensors `factor` names in `from`
     * and from numbers of its own. Both arrays are copied. */
    const kiln_weight_change *change;
    const char *const *factor; /* [n_factor]; NULL: the change does without that one */
    const double *option;      /* [n_option], finite                                 */
    uint32_t n_factor, n_option;
} kiln_weight_patch;

/* A tensor of a file that is written: what a set has, or numbers of the caller's. Arrays: n structs of the first's
 * size. */
typedef struct {
    uint32_t size;
    uint32_t dtype;   /* KILN_F32, KILN_F16 or KILN_BF16: floats are stored so, rounded to nearest even; integers stay
                         what they are. 0: as they are stored in `from`; f32 what is computed there, what is stored
                         by blocks, and the caller's */
    const char *name; /* in the file */
    /* The tensors of these names in `from`, one below the other: of one shape but for dimension 0. */
    kiln_weights *from;
    const char *const *tensor; /* [n_tensor] */
    uint32_t n_tensor;
    /* Of `from` the shape in the file, of as many elements; dim NULL: theirs. Of `data` its shape. */
    uint32_t rank;
    const int64_t *dim;
    const float *data; /* dense, with `from` NULL; NULL where a dimension is 0 */
} kiln_weight_row;

/* A line of the file's __metadata__. Arrays: n structs of the first's size. */
typedef struct {
    uint32_t size;
    const char *key, *value; /* UTF-8 */
} kiln_weight_text;

/* The bytes of a whole file that is no file of its own. With `data` they stay the giver's, unchanged, until release()
 * is called, once, when the last set that has them goes; with `read` they are read into memory while the set is opened,
 * and release() is called before that ends. The set's identity is the digest of the bytes. */
typedef struct {
    uint32_t size;
    const char *name; /* for messages: "weights of scene 3" */
    const void *data; /* [bytes] */
    uint64_t bytes;
    kiln_status (*read)(void *self, uint64_t offset, size_t n, void *dst); /* all n, or not KILN_OK */
    void *self;
    void (*release)(void *self); /* NULL: nothing to do; called also where opening fails */
} kiln_weight_source;

/* A tensor in memory, dense. Of a type that is stored by blocks: the blocks, whole ones in number. */
typedef struct {
    uint32_t size;
    uint32_t dtype, rank;
    const char *name;
    const int64_t *dim;
    const void *data; /* NULL where a dimension is 0 */
} kiln_weight_tensor;

/* A value of a file's metadata: of a GGUF file a number, a text, or an array of either; of a safetensors file a text.
 */
enum { KILN_META_INT = 1, KILN_META_UINT, KILN_META_FLOAT, KILN_META_BOOL, KILN_META_STRING };
typedef struct {
    uint32_t size;
    uint32_t kind; /* KILN_META_INT ..., of an array that of its items */
    uint32_t is_array;
    uint32_t width; /* bytes of a number as it lies in `data`; 0 of texts */
    size_t count;   /* items; 1 of a single value */
    const char *key, *file;
    const void *data; /* numbers as they lie in the file: little-endian, of any alignment, read-only */
    size_t bytes;
    uint32_t plain; /* these three are the engine's: where metadata_item() found the last text */
    size_t next, at;
} kiln_weight_value;
typedef struct {
    uint32_t size;
    int64_t integer;  /* of INT, UINT (its bits) and BOOL */
    double number;    /* of all but STRING */
    const char *text; /* of STRING: n bytes, without a NUL; of an array's texts any bytes, else UTF-8 */
    size_t n;
} kiln_weight_item;

typedef struct {
    uint32_t size;
    /* NULL: reported on ctx with file, offset and reason; return any error status, the reported one counts (fail() in
     * plugin.h). */
    kiln_weights *(*open)(kiln_ctx *, const char *path);
    /* `rule` is n structs of one size (the first's). NULL with a message: a rule that makes no sense, or two tensors
     * come to have one name. */
    kiln_weights *(*view)(kiln_ctx *, kiln_weights *base, const kiln_weight_rule *rule, size_t n);
    kiln_weights *(*ref)(kiln_weights *);
    void (*unref)(kiln_weights *);

    size_t (*count)(const kiln_weights *);
    kiln_status (*at)(const kiln_weights *, size_t i, kiln_weight_info *out); /* sorted by name */
    /* KILN_ERR_INVALID, silently, when there is none of that name. */
    kiln_status (*find)(const kiln_weights *, const char *name, kiln_weight_info *out);
    /* The stored bytes in their stored order: read-only, any alignment, valid while the set lives.
     * NULL with a message when the tensor is missing, is a transposed view or is patched. */
    const void *(*map)(kiln_ctx *, const kiln_weights *, const char *name);
    /* Copies the tensor as f32 into dst[product of dim], transposed if the view says so. */
    kiln_status (*read_f32)(kiln_ctx *, const kiln_weights *, const char *name, float *dst);
    /* A small text file of the folder ("unet/config.json"), NUL-terminated, at most 16 MiB, or of a
     * file's metadata ("__metadata__/key", "unet/__metadata__/key"; arrays of a GGUF file are not text); NULL when
     * there is none (silent; one that is too large or a link to outside the folder is logged). Valid while the set
     * lives. A view of a folder sees the folder's files by their full path. */
    const char *(*text)(const kiln_weights *, const char *path, size_t *n);
    /* 32 hex digits: digest of the names, shapes, dtypes, rules and contents' identity. Two sets
     * with equal identity hold equal tensors. Costs one read of the files the first time. */
    const char *(*identity)(kiln_ctx *, const kiln_weights *);

    /* The bind report. Programs mark what they use; `unused` calls fn for every tensor of the set
     * that no program and no map()/read_f32() has asked for, and returns how many there were. */
    size_t (*unused)(const kiln_weights *, void (*fn)(void *arg, const kiln_weight_info *), void *arg);

    /* The base set with additions to some of its tensors. `patch` is n structs of one size (the first's); base and from
     * may be files, views or patched sets, and the result may be viewed and patched again. A patched tensor is of type
     * f32 in the new set. Where strength * scale is 0 nothing is added; when nothing is at all, the result is the base
     * itself. NULL with a message: a name is missing, shapes do not fit, r is 0, a tensor is not of a floating-point
     * type, a strength or a scale is not finite. What the patches name is marked as used in `from`. */
    kiln_weights *(*patch)(kiln_ctx *, kiln_weights *base, const kiln_weight_patch *patch, size_t n);

    /* [run] Writes a .safetensors file into one that kiln.files/1 made (files.h: create() before, commit() after):
     * tensors by falling width and by name, texts by key, so that the same rows in any order give the same bytes. Goes
     * through the sets by blocks and says how far it is; KILN_CANCELLED when the run is to stop. Fails with a message
     * naming the tensor: two of one name, a shape that does not fit, a number that is not finite, or is not any more in
     * the type it is stored as. */
    kiln_status (*write)(kiln_ctx *, kiln_file *to, const kiln_weight_row *row, size_t n, const kiln_weight_text *text,
                         size_t n_text);

    /* The typed value of that path ("__metadata__/tokenizer.ggml.tokens", "unet/__metadata__/key"), and the i-th of
     * all that the set's files have. It lives as long as the set. KILN_ERR_INVALID, silently: there is none. */
    kiln_status (*metadata)(const kiln_weights *, const char *path, kiln_weight_value *out);
    kiln_status (*metadata_at)(const kiln_weights *, size_t i, kiln_weight_value *out);
    /* Item i of a value. Texts of an array are found from the last one on, so going through them in order is cheap; a
     * value is for one thread. KILN_ERR_INVALID: it has fewer. */
    kiln_status (*metadata_item)(kiln_weight_value *, size_t i, kiln_weight_item *out);

    /* The tensors of both; of two of one name that of `over`. Texts and metadata: those of `over` first. It may be
     * viewed and patched like any other. */
    kiln_weights *(*overlay)(kiln_ctx *, kiln_weights *base, kiln_weights *over);
    /* A set from the bytes of a .safetensors or .gguf file that lie in memory or that a function gives; see there. */
    kiln_weights *(*open_source)(kiln_ctx *, const kiln_weight_source *);
    /* A set of these tensors, which are copied. `name` stands for it in messages. `tensor` is n structs of the first's
     * size. */
    kiln_weights *(*make)(kiln_ctx *, const char *name, const kiln_weight_tensor *tensor, size_t n);
} kiln_weights_api;

#ifdef __cplusplus
}
#endif
#endif
