/* image.c - LoadImage, SaveImage, PreviewImage.
 *
 * SaveImage writes 8-bit PNGs, clip(255 x) truncated as ComfyUI does, with the workflow in the text chunk `prompt` and the
 * lines A1111-style readers know in `parameters`; so a picture opens in both, and `kiln run picture.png` runs it again.
 */
#include "image.h"

#include "kit.h"
#include "png_io.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- LoadImage ------------------------------------------------------------------------------------------------ */

typedef struct { const char *image; } load_params;
static const kiln_param load_param[] = {{.name = "image", .type = KILN_P_FILE, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(load_params, image), .from = "input",
    .doc = "A PNG file, below the workflow's folder or --input."}};
static const kiln_port load_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "The colours."},
                                     {.name = "MASK", .type = "MASK", .doc = "1 where the picture is transparent; zeros 64x64 without transparency."}};

static kiln_status load_mask(const kiln_call *c, const png_picture *p)
{
    int64_t h = p->channels == 4 ? p->height : 64, w = p->channels == 4 ? p->width : 64;
    kiln_tensor t;
    TRY(kit_new_f32(c, 3, (const int64_t[]){1, h, w}, &c->out[1], &t));
    for (int64_t i = 0; i < h * w; i++) ((float *)t.data)[i] = p->channels == 4 ? 1.0f - (float)p->rgba[i * 4 + 3] / 255.0f : 0.0f;
    return KILN_OK;
}

static kiln_status load_image_run(const kiln_call *c)
{
    png_picture p;
    kiln_tensor t;
    TRY(png_read_file(c, ((const load_params *)c->params)->image, &p));
    kiln_status status = kit_new_f32(c, 4, (const int64_t[]){1, p.height, p.width, 3}, &c->out[0], &t);
    for (int64_t i = 0; status == KILN_OK && i < p.height * p.width; i++)
        for (int k = 0; k < 3; k++) ((float *)t.data)[i * 3 + k] = (float)p.rgba[i * p.channels + k] / 255.0f;
    if (status == KILN_OK) status = load_mask(c, &p);
    png_picture_free(&p);
    return status;
}

const kiln_node node_load_image = {.size = sizeof(kiln_node), .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT, .devices = KILN_CPU, .revision = 1,
    .type = "LoadImage", .title = "Load Image", .category = "image", .doc = "Reads a PNG picture.", KILN_ARRAY(out, load_out),
    KILN_ARRAY(param, load_param), .params_size = sizeof(load_params), .run = load_image_run};

/* ---- SaveImage, PreviewImage ---------------------------------------------------------------------------------------- */

static const kiln_port save_in[] = {{.name = "images", .type = "IMAGE", .doc = "One file each."}};
static const kiln_port save_out[] = {{.name = "images", .type = "IMAGE", .doc = "The same pictures."}};
typedef struct { const char *prefix; } save_params;
static const kiln_param save_param[] = {{.name = "filename_prefix", .type = KILN_P_STRING, .offset = offsetof(save_params, prefix), .def_str = "ComfyUI",
    .doc = "Start of the file names; may name a folder; %width% %height% %year% %month% %day% %hour% %minute% %second% %batch_num% are replaced."}};

typedef struct { const char *token; int value, digits; } token;

/* Replaces %tokens% in prefix; 0 when it does not fit. */
static int expand(const char *prefix, const token *t, size_t n, char *out, size_t room)
{
    size_t used = 0;
    while (*prefix) {
        size_t i = 0;
        while (i < n && strncmp(prefix, t[i].token, strlen(t[i].token)) != 0) i++;
        int wrote = i < n ? snprintf(out + used, room - used, "%0*d", t[i].digits, t[i].value) : snprintf(out + used, room - used, "%c", *prefix);
        if (wrote < 0 || (size_t)wrote >= room - used) return 0;
        used += (size_t)wrote;
        prefix += i < n ? strlen(t[i].token) : 1;
    }
    return 1;
}

static kiln_status file_prefix(const kiln_call *c, const char *prefix, const kiln_tensor *t, int64_t index, char out[256])
{
    time_t seconds = time(NULL);
    struct tm now;
    localtime_r(&seconds, &now);
    const token tokens[] = {{"%width%", (int)t->dim[2], 1}, {"%height%", (int)t->dim[1], 1}, {"%year%", now.tm_year + 1900, 4}, {"%month%", now.tm_mon + 1, 2},
        {"%day%", now.tm_mday, 2}, {"%hour%", now.tm_hour, 2}, {"%minute%", now.tm_min, 2}, {"%second%", now.tm_sec, 2}, {"%batch_num%", (int)index, 1}};
    if (expand(prefix, tokens, COUNT(tokens), out, 256)) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "the file name prefix is longer than 255 characters");
}

/* clip(255 x, 0, 255), truncated; NaN is 0. */
static void to_bytes(const kiln_tensor *t, int64_t index, uint8_t *rgb)
{
    int64_t C = t->dim[3], pixels = t->dim[1] * t->dim[2];
    const float *x = (const float *)t->data + index * pixels * C;
    for (int64_t i = 0; i < pixels; i++)
        for (int k = 0; k < 3; k++) {
            float v = 255.0f * x[i * C + k];
            rgb[i * 3 + k] = v >= 255.0f ? 255 : v > 0.0f ? (uint8_t)v : 0;
        }
}

static kiln_status write_one(const kiln_call *c, uint32_t where, const char *prefix, const kiln_tensor *t, int64_t index, int level, uint8_t *rgb)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    const char *prompt = files->text(c->ctx, "prompt"), *parameters = files->text(c->ctx, "parameters");
    png_note note[2];
    int n = 0;
    char name[256];
    if (parameters) note[n++] = (png_note){"parameters", parameters};
    if (prompt) note[n++] = (png_note){"prompt", prompt};
    TRY(file_prefix(c, prefix, t, index, name));
    kiln_file *f = files->create(c->ctx, where, name, "png");
    if (!f) return KILN_ERR_IO;
    to_bytes(t, index, rgb);
    TRY(png_write_file(c, files, f, rgb, t->dim[2], t->dim[1], level, note, n));
    return files->commit(f, NULL);
}

static kiln_status write_all(const kiln_call *c, uint32_t where, const char *prefix, int level)
{
    kiln_tensor t;
    TRY(kit_f32(c, c->in[0], 4, "images", &t));
    uint8_t *rgb = c->host->scratch(c->ctx, (size_t)(t.dim[1] * t.dim[2]) * 3, KILN_CPU);
    if (!rgb) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < t.dim[0]; i++) {
        TRY(c->host->progress(c->ctx, (uint64_t)i, (uint64_t)t.dim[0], "picture"));
        TRY(write_one(c, where, prefix, &t, i, level, rgb));
    }
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}

static kiln_status save_image_run(const kiln_call *c) { return write_all(c, KILN_FILES_OUTPUT, ((const save_params *)c->params)->prefix, 4); }
static kiln_status preview_image_run(const kiln_call *c) { return write_all(c, KILN_FILES_TEMP, "preview", 1); }

const kiln_node node_save_image = {.size = sizeof(kiln_node), .flags = KILN_NODE_OUTPUT | KILN_NODE_REENTRANT, .devices = KILN_CPU, .revision = 1,
    .type = "SaveImage", .title = "Save Image", .category = "image", .doc = "Writes pictures as PNG files that carry their workflow.",
    KILN_ARRAY(in, save_in), KILN_ARRAY(out, save_out), KILN_ARRAY(param, save_param), .params_size = sizeof(save_params), .run = save_image_run};

const kiln_node node_preview_image = {.size = sizeof(kiln_node), .flags = KILN_NODE_OUTPUT | KILN_NODE_REENTRANT, .devices = KILN_CPU, .revision = 1,
    .type = "PreviewImage", .title = "Preview Image", .category = "image", .doc = "Writes pictures to the temp folder of the output folder.",
    KILN_ARRAY(in, save_in), KILN_ARRAY(out, save_out), .run = preview_image_run};
