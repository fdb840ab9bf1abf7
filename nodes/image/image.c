/* image.c - LoadImage, LoadImageMask, SaveImage, PreviewImage.
 *
 * SaveImage writes 8-bit PNGs, clip(255 x) truncated as ComfyUI does, with the workflow in the text chunk `prompt` and
 * the lines A1111-style readers know in `parameters`; so a picture opens in both. `kiln run picture.png` runs what is
 * in `kiln`: the same with the parameters of the workflow's head.
 */
#include "image.h"

#include "kiln/kit.h"
#include "png_io.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- LoadImage ---- */

typedef struct {
    const char *image;
} load_params;
static const kiln_param load_param[] = {
    {.name = "image",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(load_params, image),
     .from = "input",
     .doc = "A PNG file, below the workflow's folder or --input."},
};
static const kiln_port load_out[] = {
    {.name = "IMAGE", .type = "IMAGE", .doc = "The colours."},
    {.name = "MASK", .type = "MASK", .doc = "1 where the picture is transparent; zeros 64x64 without transparency."},
};

static kiln_status load_mask(const kiln_call *c, const png_picture *p)
{
    int64_t h = p->channels == 4 ? p->height : 64, w = p->channels == 4 ? p->width : 64;
    kiln_tensor t;
    TRY(kit_new_f32(c, 3, (const int64_t[]){1, h, w}, &c->out[1], &t));
    for (int64_t i = 0; !kit_estimating(c) && i < h * w; i++)
        ((float *)t.data)[i] = p->channels == 4 ? 1.0f - (float)p->rgba[i * 4 + 3] / 255.0f : 0.0f;
    return KILN_OK;
}

static kiln_status load_image_run(const kiln_call *c)
{
    png_picture p;
    kiln_tensor t;
    TRY(png_read_file(c, ((const load_params *)c->params)->image, &p));
    kiln_status status = kit_new_f32(c, 4, (const int64_t[]){1, p.height, p.width, 3}, &c->out[0], &t);
    for (int64_t i = 0; status == KILN_OK && !kit_estimating(c) && i < p.height * p.width; i++)
        for (int k = 0; k < 3; k++) ((float *)t.data)[i * 3 + k] = (float)p.rgba[i * p.channels + k] / 255.0f;
    if (status == KILN_OK) status = load_mask(c, &p);
    png_picture_free(&p);
    return status;
}

const kiln_node node_load_image = {
    KIT_NODE_AT(2, "LoadImage", "Load Image", "image", "Reads a PNG picture, turned as its EXIF orientation says."),
    KILN_ARRAY(out, load_out),
    KIT_PARAMS(load_params, load_param),
    .run = load_image_run,
};

typedef struct {
    const char *image;
    int32_t channel;
} load_mask_params;
static const kiln_choice channel_choice[] = {
    {.name = "alpha", .value = 3, .doc = "1 where it is transparent."},
    {.name = "red", .value = 0},
    {.name = "green", .value = 1},
    {.name = "blue", .value = 2},
    {0},
};
static const kiln_param load_mask_param[] = {
    {.name = "image",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(load_mask_params, image),
     .from = "input",
     .doc = "A PNG file, below the workflow's folder or --input."},
    KIT_ENUM(load_mask_params, channel, channel_choice, 3, "Which."),
};
static const kiln_port load_mask_out[] = {
    {.name = "MASK", .type = "MASK", .doc = "The channel; zeros 64x64 where the picture has none such."},
};

static kiln_status load_image_mask_run(const kiln_call *c)
{
    const load_mask_params *p = c->params;
    png_picture picture;
    kiln_tensor t;
    TRY(png_read_file(c, p->image, &picture));
    int there = p->channel < picture.channels;
    int64_t h = there ? picture.height : 64, w = there ? picture.width : 64;
    kiln_status status = kit_new_f32(c, 3, (const int64_t[]){1, h, w}, &c->out[0], &t);
    for (int64_t i = 0; status == KILN_OK && !kit_estimating(c) && i < h * w; i++) {
        float v = there ? (float)picture.rgba[i * picture.channels + p->channel] / 255.0f : 0.0f;
        ((float *)t.data)[i] = there && p->channel == 3 ? 1.0f - v : v;
    }
    png_picture_free(&picture);
    return status;
}

const kiln_node node_load_image_mask = {
    KIT_NODE_AT(2, "LoadImageMask", "Load Image as Mask", "mask", "Reads one channel of a PNG picture."),
    KILN_ARRAY(out, load_mask_out),
    KIT_PARAMS(load_mask_params, load_mask_param),
    .run = load_image_mask_run,
};

/* ---- SaveImage, PreviewImage ---- */

static const kiln_port save_in[] = {{.name = "images", .type = "IMAGE", .doc = "One file each."}};
static const kiln_port save_out[] = {{.name = "images", .type = "IMAGE", .doc = "The same pictures."}};
typedef struct {
    const char *prefix;
} save_params;
static const kiln_param save_param[] = {
    {.name = "filename_prefix",
     .type = KILN_P_STRING,
     .offset = offsetof(save_params, prefix),
     .def_str = "ComfyUI",
     .doc = "Start of the file names; may name a folder; %width% %height% %year% "
            "%month% %day% %hour% %minute% %second% %batch_num% are replaced, and so are %NODE.INPUT% and "
            "%date:yyyy-MM-dd%."},
};

typedef struct {
    const char *token;
    int value, digits;
} token;

/* Replaces %tokens% in prefix; 0 when it does not fit. */
static int expand(const char *prefix, const token *t, size_t n, char *out, size_t capacity)
{
    size_t used = 0;
    out[0] = '\0';
    while (*prefix) {
        size_t i = 0;
        while (i < n && strncmp(prefix, t[i].token, strlen(t[i].token)) != 0) i++;
        int wrote = i < n ? snprintf(out + used, capacity - used, "%0*d", t[i].digits, t[i].value)
                          : snprintf(out + used, capacity - used, "%c", *prefix);
        if (wrote < 0 || (size_t)wrote >= capacity - used) return 0;
        used += (size_t)wrote;
        prefix += i < n ? strlen(t[i].token) : 1;
    }
    return 1;
}

/* The first %word% that is none of them, or NULL. "100%" and "50%_off" have none. */
static const char *unknown_token(const char *prefix, const token *t, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    for (const char *at = strchr(prefix, '%'); at; at = strchr(at + 1, '%')) {
        size_t i = 0, word = strspn(at + 1, letters);
        while (i < n && strncmp(at, t[i].token, strlen(t[i].token)) != 0) i++;
        if (i < n)
            at += strlen(t[i].token) - 1;
        else if (word > 0 && at[1] != '_' && at[1 + word] == '%')
            return at;
    }
    return NULL;
}

enum { NAME_CAPACITY = 1100 /* longer than any that kiln_files takes */ };

static kiln_status file_prefix(const kiln_call *c, const char *prefix, int64_t width, int64_t height, int64_t index,
                               char out[NAME_CAPACITY])
{
    time_t seconds = time(NULL);
    struct tm now;
    localtime_r(&seconds, &now);
    const token tokens[] = {
        {"%width%", (int)width, 1},     {"%height%", (int)height, 1}, {"%year%", now.tm_year + 1900, 4},
        {"%month%", now.tm_mon + 1, 2}, {"%day%", now.tm_mday, 2},    {"%hour%", now.tm_hour, 2},
        {"%minute%", now.tm_min, 2},    {"%second%", now.tm_sec, 2},  {"%batch_num%", (int)index, 1}};
    const char *unknown = unknown_token(prefix, tokens, COUNT(tokens));
    if (unknown)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "filename_prefix: '%.*s' is none of %%width%% %%height%% %%year%% %%month%% %%day%% "
                             "%%hour%% %%minute%% %%second%% %%batch_num%%, %%NODE.INPUT%%, %%date:yyyy-MM-dd%%",
                             (int)strcspn(unknown + 1, "%") + 2, unknown);
    if (!expand(prefix, tokens, COUNT(tokens), out, NAME_CAPACITY))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the file name prefix is longer than 1024 characters");
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    return KILN_HAS(kiln_files_api, files, check) ? files->check(c->ctx, out) : KILN_OK;
}

/* clip(255 x, 0, 255), truncated; NaN is 0. */
static void to_bytes(const kiln_tensor *t, int64_t index, uint8_t *pixels)
{
    size_t n = (size_t)(t->dim[1] * t->dim[2] * t->dim[3]);
    const float *x = (const float *)t->data + (size_t)index * n;
    for (size_t i = 0; i < n; i++) {
        float v = 255.0f * x[i];
        pixels[i] = v >= 255.0f ? 255 : v > 0.0f ? (uint8_t)v : 0;
    }
}

static kiln_status write_one(const kiln_call *c, uint32_t where, const char *prefix, const kiln_tensor *t,
                             int64_t index, int level, uint8_t *pixels)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    static const char *const keys[] = {"parameters", "prompt", "kiln"};
    png_note note[COUNT(keys)];
    char name[NAME_CAPACITY];
    png_write w = {.pixels = pixels,
                   .width = t->dim[2],
                   .height = t->dim[1],
                   .channels = (int)t->dim[3],
                   .level = level,
                   .note = note};
    for (size_t i = 0; i < COUNT(keys); i++) {
        const char *text = files->text(c->ctx, keys[i]);
        if (text) note[w.n_note++] = (png_note){keys[i], text};
    }
    TRY(file_prefix(c, prefix, t->dim[2], t->dim[1], index, name));
    kiln_file *f = files->create(c->ctx, where, name, "png");
    if (!f) return KILN_ERR_IO;
    to_bytes(t, index, pixels);
    TRY(png_write_file(c, files, f, &w));
    return files->commit(f, NULL);
}

static kiln_status write_all(const kiln_call *c, uint32_t where, const char *prefix, int level)
{
    kiln_tensor t;
    TRY(kit_f32(c, c->in[0], 4, "images", &t));
    c->out[0] = c->host->ref(c->in[0]);
    if (kit_estimating(c)) return KILN_OK;
    uint8_t *pixels = c->host->scratch(c->ctx, (size_t)(t.dim[1] * t.dim[2] * t.dim[3]), KILN_CPU);
    if (!pixels) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < t.dim[0]; i++) TRY(write_one(c, where, prefix, &t, i, level, pixels));
    return KILN_OK;
}

/* Said before anything runs: a picture that took minutes is not lost to its name. Tokens stand for the longest they may
 * become. */
static kiln_status save_image_check(const kiln_call *c)
{
    char name[NAME_CAPACITY];
    return file_prefix(c, ((const save_params *)c->params)->prefix, PICTURE_SIDE_MAX, PICTURE_SIDE_MAX, 99999, name);
}

static kiln_status save_image_run(const kiln_call *c)
{
    return write_all(c, KILN_FILES_OUTPUT, ((const save_params *)c->params)->prefix, 4);
}
static kiln_status preview_image_run(const kiln_call *c) { return write_all(c, KILN_FILES_TEMP, "preview", 1); }

const kiln_node node_save_image = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES, 1, "SaveImage", "Save Image", "image",
                   "Writes pictures as PNG files that carry their workflow."),
    KILN_ARRAY(in, save_in),
    KILN_ARRAY(out, save_out),
    KIT_PARAMS(save_params, save_param),
    .run = save_image_run,
    .check = save_image_check,
};

const kiln_node node_preview_image = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES, 1, "PreviewImage", "Preview Image",
                   "image", "Writes pictures to the temp folder of the output folder."),
    KILN_ARRAY(in, save_in),
    KILN_ARRAY(out, save_out),
    .run = preview_image_run,
};
