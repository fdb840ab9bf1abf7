/* image_save.c - SaveImage, SaveImageAdvanced, PreviewImage, SaveAnimatedWEBP, SaveAnimatedPNG.
 *
 * SaveImage writes 8-bit PNGs, clip(255 x) truncated as ComfyUI does, with the workflow in the text chunk `prompt` and
 * the lines A1111-style readers know in `parameters`; so a picture opens in both. `kiln run picture.png` runs what is
 * in `kiln`: the same with the parameters of the workflow's head. Where the run names its one result x.jpg or x.webp,
 * that is written, with the same texts in an EXIF block as ComfyUI has them in a WebP.
 */
#include "exif_block.h"
#include "image.h"
#include "jpeg_io.h"
#include "kiln/kit.h"
#include "picture_io.h"
#include "png_io.h"
#include "webp_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const kiln_port save_in[] = {{.name = "images", .type = "IMAGE", .doc = "One file each."}};
static const kiln_port save_out[] = {{.name = "images", .type = "IMAGE", .doc = "The same pictures."}};
typedef struct {
    const char *prefix;
    int64_t quality;
    int32_t lossless;
} save_params;
static const kiln_param save_param[] = {
    {.name = "filename_prefix",
     .type = KILN_P_STRING,
     .offset = offsetof(save_params, prefix),
     .def_str = "ComfyUI",
     .doc = "Start of the file names; may name a folder; %width% %height% %year% "
            "%month% %day% %hour% %minute% %second% %batch_num% are replaced, and so are %NODE.INPUT% and "
            "%date:yyyy-MM-dd%."},
    {.name = "quality",
     .type = KILN_P_INT,
     .flags = KILN_PARAM_OWN,
     .offset = offsetof(save_params, quality),
     .def = 95,
     .min = 0,
     .max = 100,
     .step = 1,
     .doc = "Of a JPEG or WebP; of a lossless WebP how hard to try."},
    {.name = "lossless",
     .type = KILN_P_BOOL,
     .flags = KILN_PARAM_OWN,
     .offset = offsetof(save_params, lossless),
     .doc = "A WebP with every pixel as it is."},
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

static kiln_status expand_prefix(const kiln_call *c, const char *prefix, int64_t width, int64_t height, int64_t index,
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

static kiln_status file_prefix(const kiln_call *c, const char *prefix, int64_t width, int64_t height, int64_t index,
                               char out[NAME_CAPACITY])
{
    return kit_at_param(c, expand_prefix(c, prefix, width, height, index, out), "filename_prefix");
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

/* The same in 16 bits, the high byte first. */
static void to_words(const kiln_tensor *t, int64_t index, uint8_t *pixels)
{
    size_t n = (size_t)(t->dim[1] * t->dim[2] * t->dim[3]);
    const float *x = (const float *)t->data + (size_t)index * n;
    for (size_t i = 0; i < n; i++) {
        float v = 65535.0f * x[i];
        uint32_t word = v >= 65535.0f ? 65535 : v > 0.0f ? (uint32_t)v : 0;
        pixels[2 * i] = (uint8_t)(word >> 8), pixels[2 * i + 1] = (uint8_t)word;
    }
}

/* ---- the texts of a file ---- */

static const char *const keys[] = {"prompt", "kiln", "parameters"};
enum { TEXTS = COUNT(keys) };

/* An EXIF block with the texts of this run; *n 0 and NULL where there are none. */
static kiln_status exif_of(const kiln_call *c, uint8_t **block, size_t *n)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    exif_text text[TEXTS];
    size_t count = 0;
    *block = NULL, *n = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        const char *value = files->text(c->ctx, keys[i]);
        if (value) text[count++] = (exif_text){keys[i], value};
    }
    if (count && !(*block = exif_block_make(text, count, n))) return KILN_ERR_NOMEM;
    return KILN_OK;
}

static int notes_of(const kiln_call *c, png_note note[TEXTS])
{
    static const char *const order[TEXTS] = {"parameters", "prompt", "kiln"};
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    int n = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        const char *text = files->text(c->ctx, order[i]);
        if (text) note[n++] = (png_note){order[i], text};
    }
    return n;
}

/* ---- one picture a file ---- */

typedef struct {
    const kiln_call *c;
    kiln_tensor t;
    const char *prefix;
    const save_params *how; /* NULL: a preview */
    uint8_t *pixels;        /* of one picture */
    int depth;              /* of a PNG: 16, or else 8 */
} saving;

static kiln_status write_png(const saving *s, kiln_file *f, int level)
{
    png_note note[TEXTS];
    png_write w = {.pixels = s->pixels,
                   .width = s->t.dim[2],
                   .height = s->t.dim[1],
                   .channels = (int)s->t.dim[3],
                   .level = level,
                   .depth = s->depth,
                   .note = note,
                   .n_note = notes_of(s->c, note)};
    return png_write_file(s->c, s->c->host->ability(KILN_FILES_ABILITY), f, &w);
}

/* A JPEG has no transparency: the colours alone. */
static void drop_alpha(const saving *s)
{
    size_t n = s->t.dim[3] == 4 ? (size_t)(s->t.dim[1] * s->t.dim[2]) : 0;
    for (size_t i = 0; i < n; i++) memmove(s->pixels + i * 3, s->pixels + i * 4, 3);
}

static kiln_status write_jpeg(const saving *s, kiln_file *f, const uint8_t *exif, size_t n_exif)
{
    int left_out = 0;
    jpeg_write w = {.pixels = s->pixels,
                    .width = s->t.dim[2],
                    .height = s->t.dim[1],
                    .quality = s->how->quality > 0 ? (int)s->how->quality : 1,
                    .exif = exif,
                    .n_exif = n_exif};
    drop_alpha(s);
    TRY(jpeg_write_file(s->c, s->c->host->ability(KILN_FILES_ABILITY), f, &w, &left_out));
    if (left_out)
        s->c->host->log(KILN_LOG_WARN, "the workflow does not fit into the 64 KiB of a JPEG's segment and was left "
                                       "out; a PNG or WebP carries it");
    return KILN_OK;
}

static const uint8_t *the_picture(void *self, int64_t index) { return (void)index, ((const saving *)self)->pixels; }

static kiln_status write_webp(saving *s, kiln_file *f, const uint8_t *exif, size_t n_exif)
{
    const webp_write w = {.frame = the_picture,
                          .self = s,
                          .width = s->t.dim[2],
                          .height = s->t.dim[1],
                          .channels = (int)s->t.dim[3],
                          .frames = 1,
                          .lossless = s->how->lossless,
                          .quality = (double)s->how->quality,
                          .method = 4,
                          .exif = exif,
                          .n_exif = n_exif};
    return webp_write_file(s->c, s->c->host->ability(KILN_FILES_ABILITY), f, &w);
}

/* What the one result is called decides what it is; numbered ones are PNGs. */
static const char *format_of(const saving *s)
{
    const kiln_files_api *files = s->c->host->ability(KILN_FILES_ABILITY);
    const char *wanted = s->how ? files->text(s->c->ctx, "extension") : NULL;
    static const char *const known[] = {"jpg", "jpeg", "webp"};
    for (size_t i = 0; wanted && i < COUNT(known); i++)
        if (strcasecmp(wanted, known[i]) == 0) return known[i];
    return "png";
}

static kiln_status write_one(saving *s, uint32_t where, int64_t index, int level)
{
    const kiln_call *c = s->c;
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    const char *format = format_of(s);
    char name[NAME_CAPACITY];
    uint8_t *exif = NULL;
    size_t n_exif = 0;
    TRY(file_prefix(c, s->prefix, s->t.dim[2], s->t.dim[1], index, name));
    kiln_file *f = files->create(c->ctx, where, name, format);
    if (!f) return KILN_ERR_IO;
    if (s->depth == 16)
        to_words(&s->t, index, s->pixels);
    else
        to_bytes(&s->t, index, s->pixels);
    kiln_status status = strcmp(format, "png") == 0 ? write_png(s, f, level) : exif_of(c, &exif, &n_exif);
    if (status == KILN_OK && format[0] == 'j') status = write_jpeg(s, f, exif, n_exif);
    if (status == KILN_OK && format[0] == 'w') status = write_webp(s, f, exif, n_exif);
    free(exif);
    TRY(status);
    return files->commit(f, NULL);
}

/* Reads the pictures; *pixels: room for one of them in bytes, NULL in an estimate. */
static kiln_status begin(const kiln_call *c, kiln_tensor *t, uint8_t **pixels)
{
    *pixels = NULL;
    TRY(kit_f32(c, c->in[0], 4, "images", t));
    c->out[0] = c->host->ref(c->in[0]);
    if (kit_estimating(c)) return KILN_OK;
    *pixels = c->host->scratch(c->ctx, (size_t)(t->dim[1] * t->dim[2] * t->dim[3]), KILN_CPU);
    return *pixels ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status write_all(const kiln_call *c, uint32_t where, const char *prefix, const save_params *how, int level)
{
    saving s = {.c = c, .prefix = prefix, .how = how};
    TRY(begin(c, &s.t, &s.pixels));
    for (int64_t i = 0; s.pixels && i < s.t.dim[0]; i++) TRY(write_one(&s, where, i, level));
    return KILN_OK;
}

/* Where -o FILE names the result: what this node writes has to end so. `own` ends with NULL. */
static kiln_status check_ending(const kiln_call *c, const char *const *own)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    const char *wanted = files->text(c->ctx, "extension");
    size_t n = 0;
    for (; wanted && own[n]; n++)
        if (strcasecmp(wanted, own[n]) == 0) return KILN_OK;
    if (!wanted) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "-o: its name ends in .%.20s, and this node writes .%s%s files",
                         wanted, own[0], n > 1 ? ", .jpg and .webp" : "");
}

/* Said before anything runs: a picture that took minutes is not lost to its name. Tokens stand for the longest they may
 * become. */
static kiln_status save_image_check(const kiln_call *c)
{
    static const char *const endings[] = {"png", "jpg", "jpeg", "webp", NULL};
    char name[NAME_CAPACITY];
    TRY(check_ending(c, endings));
    return file_prefix(c, ((const save_params *)c->params)->prefix, PICTURE_SIDE_MAX, PICTURE_SIDE_MAX, 99999, name);
}

static kiln_status save_image_run(const kiln_call *c)
{
    const save_params *p = c->params;
    return write_all(c, KILN_FILES_OUTPUT, p->prefix, p, 4);
}
static kiln_status preview_image_run(const kiln_call *c) { return write_all(c, KILN_FILES_TEMP, "preview", NULL, 1); }

#define SAVES(type_, title_, doc_)                                                                                     \
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES, 1, type_, title_, "image", doc_)

const kiln_node node_save_image = {
    SAVES("SaveImage", "Save Image",
          "Writes pictures as PNG files that carry their workflow; with -o x.webp or x.jpg the one picture as that."),
    KILN_ARRAY(in, save_in),
    KILN_ARRAY(out, save_out),
    KIT_PARAMS(save_params, save_param),
    .run = save_image_run,
    .check = save_image_check,
};

/* ---- SaveImageAdvanced ---- */

enum { AS_PNG, S_RGB };
typedef struct {
    const char *prefix;
    int32_t format, bit_depth, color_space;
} advanced_params;
static const kiln_choice format_choice[] = {{.name = "png", .value = AS_PNG}, {0}};
static const kiln_choice depth_choice[] = {{.name = "8-bit", .value = 8}, {.name = "16-bit", .value = 16}, {0}};
static const kiln_choice space_choice[] = {{.name = "sRGB", .value = S_RGB}, {0}};
#define OF_PNG(name_, field_, choice_, default_, doc_)                                                                 \
    {                                                                                                                  \
        .name = "format." name_, .type = KILN_P_ENUM, .offset = offsetof(advanced_params, field_), .def = (default_),  \
        .from = "png", KILN_CHOICES(choice_), .doc = doc_                                                              \
    }
static const kiln_param advanced_param[] = {
    {.name = "filename_prefix",
     .type = KILN_P_STRING,
     .offset = offsetof(advanced_params, prefix),
     .def_str = "ComfyUI",
     .doc = "Start of the file name, as SaveImage has it."},
    KIT_ENUM(advanced_params, format, format_choice, AS_PNG, "What is written."),
    OF_PNG("bit_depth", bit_depth, depth_choice, 8, "Bits of a sample."),
    OF_PNG("input_color_space", color_space, space_choice, S_RGB, "Of the pictures that come in."),
};

static kiln_status save_advanced_run(const kiln_call *c)
{
    const advanced_params *p = c->params;
    saving s = {.c = c, .prefix = p->prefix, .depth = p->bit_depth};
    TRY(begin(c, &s.t, &s.pixels));
    if (!s.pixels) return KILN_OK;
    if (s.depth == 16) {
        s.pixels = c->host->scratch(c->ctx, (size_t)(s.t.dim[1] * s.t.dim[2] * s.t.dim[3]) * 2, KILN_CPU);
        if (!s.pixels) return KILN_ERR_NOMEM;
    }
    for (int64_t i = 0; i < s.t.dim[0]; i++) TRY(write_one(&s, KILN_FILES_OUTPUT, i, 4));
    return KILN_OK;
}

static kiln_status save_advanced_check(const kiln_call *c)
{
    char name[NAME_CAPACITY];
    const advanced_params *p = c->params;
    TRY(check_ending(c, (const char *const[]){"png", NULL}));
    return file_prefix(c, p->prefix, PICTURE_SIDE_MAX, PICTURE_SIDE_MAX, 99999, name);
}

const kiln_node node_save_image_advanced = {
    SAVES("SaveImageAdvanced", "Save Image (Advanced)", "Writes pictures as PNG files of 8 or 16 bits."),
    KILN_ARRAY(in, save_in),
    KILN_ARRAY(out, save_out),
    KIT_PARAMS(advanced_params, advanced_param),
    .run = save_advanced_run,
    .check = save_advanced_check,
};

const kiln_node node_preview_image = {
    SAVES("PreviewImage", "Preview Image", "Writes pictures to the temp folder of the output folder."),
    KILN_ARRAY(in, save_in),
    KILN_ARRAY(out, save_out),
    .run = preview_image_run,
};

/* A mask as a grey picture in scratch memory. */
static kiln_status mask_preview_run(const kiln_call *c)
{
    kiln_tensor m;
    TRY(kit_f32(c, c->in[0], 3, "mask", &m));
    c->out[0] = c->host->ref(c->in[0]);
    if (kit_estimating(c)) return KILN_OK;
    size_t n = kit_count(&m);
    int64_t dim[4] = {m.dim[0], m.dim[1], m.dim[2], 3};
    float *grey = c->host->scratch(c->ctx, n * 3 * sizeof *grey, KILN_CPU);
    saving s = {.c = c, .prefix = "preview", .t = kit_window(KILN_F32, KILN_CPU, grey, 4, dim)};
    s.pixels = c->host->scratch(c->ctx, (size_t)(m.dim[1] * m.dim[2] * 3), KILN_CPU);
    if (!grey || !s.pixels) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n * 3; i++) grey[i] = ((const float *)m.data)[i / 3];
    for (int64_t i = 0; i < m.dim[0]; i++) TRY(write_one(&s, KILN_FILES_TEMP, i, 1));
    return KILN_OK;
}
static const kiln_port mask_in[] = {{.name = "mask", .type = "MASK", .doc = "One file each."}};
static const kiln_port mask_out[] = {{.name = "mask", .type = "MASK", .doc = "The same masks."}};
const kiln_node node_mask_preview = {
    SAVES("MaskPreview", "Preview Mask", "Writes masks as grey pictures to the temp folder of the output folder."),
    KILN_ARRAY(in, mask_in),
    KILN_ARRAY(out, mask_out),
    .run = mask_preview_run,
};

static const kiln_port compare_in[] = {
    {.name = "image_a", .type = "IMAGE", .flags = KILN_PORT_OPTIONAL, .doc = "One."},
    {.name = "image_b", .type = "IMAGE", .flags = KILN_PORT_OPTIONAL, .doc = "The other."},
};
static kiln_status image_compare_run(const kiln_call *c)
{
    for (int i = 0; i < 2; i++) {
        saving s = {.c = c, .prefix = i ? "compare_b" : "compare_a"};
        if (!c->in[i]) continue;
        TRY(kit_f32(c, c->in[i], 4, compare_in[i].name, &s.t));
        if (kit_estimating(c)) continue;
        s.pixels = c->host->scratch(c->ctx, (size_t)(s.t.dim[1] * s.t.dim[2] * s.t.dim[3]), KILN_CPU);
        if (!s.pixels) return KILN_ERR_NOMEM;
        for (int64_t k = 0; k < s.t.dim[0]; k++) TRY(write_one(&s, KILN_FILES_TEMP, k, 1));
    }
    return KILN_OK;
}
const kiln_node node_image_compare = {
    SAVES("ImageCompare", "Image Compare", "Writes two pictures to the temp folder of the output folder."),
    KILN_ARRAY(in, compare_in),
    .run = image_compare_run,
};

/* ---- animations ---- */

typedef struct {
    const char *prefix;
    double fps;
    int32_t lossless, method;
    int64_t quality;
} webp_params;
static const kiln_choice method_choice[] = {{.name = "default", .value = 4},
                                            {.name = "fastest", .value = 0, .doc = "Larger files."},
                                            {.name = "slowest", .value = 6, .doc = "Smaller files."},
                                            {0}};
#define PREFIX(struct_)                                                                                                \
    {                                                                                                                  \
        .name = "filename_prefix", .type = KILN_P_STRING, .offset = offsetof(struct_, prefix), .def_str = "ComfyUI",   \
        .doc = "Start of the file name, as SaveImage has it."                                                          \
    }
static const kiln_param webp_param[] = {
    PREFIX(webp_params),
    KIT_FLOAT(webp_params, fps, 6, 0.01, 1000, 0.01, "Pictures a second."),
    KIT_BOOL(webp_params, lossless, 1, "Every pixel as it is."),
    KIT_INT(webp_params, quality, 80, 0, 100, "Of lossy pictures; lossless ones: how hard to try."),
    KIT_ENUM(webp_params, method, method_choice, 4, "How hard libwebp tries."),
};

typedef struct {
    const kiln_tensor *t;
    uint8_t *pixels;
} film;

static const uint8_t *film_frame(void *self, int64_t index)
{
    const film *f = self;
    to_bytes(f->t, index, f->pixels);
    return f->pixels;
}

static kiln_status animation_check(const kiln_call *c, const char *ending)
{
    char name[NAME_CAPACITY];
    TRY(check_ending(c, (const char *const[]){ending, NULL}));
    return file_prefix(c, *(const char *const *)c->params, PICTURE_SIDE_MAX, PICTURE_SIDE_MAX, 0, name);
}

static kiln_status webp_check(const kiln_call *c) { return animation_check(c, "webp"); }
static kiln_status apng_check(const kiln_call *c) { return animation_check(c, "png"); }

static kiln_status save_webp_run(const kiln_call *c)
{
    const webp_params *p = c->params;
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    char name[NAME_CAPACITY];
    kiln_tensor t;
    film reel = {.t = &t};
    uint8_t *exif = NULL;
    TRY(begin(c, &t, &reel.pixels));
    if (!reel.pixels || t.dim[0] == 0) return KILN_OK;
    webp_write w = {.frame = film_frame,
                    .self = &reel,
                    .width = t.dim[2],
                    .height = t.dim[1],
                    .frames = t.dim[0],
                    .channels = (int)t.dim[3],
                    .milliseconds = (int)(1000.0 / p->fps),
                    .lossless = p->lossless,
                    .quality = (double)p->quality,
                    .method = p->method};
    TRY(file_prefix(c, p->prefix, t.dim[2], t.dim[1], 0, name));
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, name, "webp");
    if (!f) return KILN_ERR_IO;
    kiln_status status = exif_of(c, &exif, &w.n_exif);
    w.exif = exif;
    if (status == KILN_OK) status = webp_write_file(c, files, f, &w);
    free(exif);
    TRY(status);
    return files->commit(f, NULL);
}
const kiln_node node_save_animated_webp = {
    SAVES("SaveAnimatedWEBP", "Save Animated WEBP", "Writes a batch of pictures as the frames of one WebP."),
    KILN_ARRAY(in, save_in),
    KILN_ARRAY(out, save_out),
    KIT_PARAMS(webp_params, webp_param),
    .run = save_webp_run,
    .check = webp_check,
};

typedef struct {
    const char *prefix;
    double fps;
    int64_t compress_level;
} apng_params;
static const kiln_param apng_param[] = {
    PREFIX(apng_params),
    KIT_FLOAT(apng_params, fps, 6, 0.01, 1000, 0.01, "Pictures a second."),
    KIT_INT(apng_params, compress_level, 4, 0, 9, "How hard zlib tries."),
};

static kiln_status save_apng_run(const kiln_call *c)
{
    const apng_params *p = c->params;
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    char name[NAME_CAPACITY];
    png_note note[TEXTS];
    kiln_tensor t;
    film reel = {.t = &t};
    TRY(begin(c, &t, &reel.pixels));
    if (!reel.pixels || t.dim[0] == 0) return KILN_OK;
    png_write w = {.frame = film_frame,
                   .self = &reel,
                   .frames = t.dim[0],
                   .milliseconds = (int)(1000.0 / p->fps),
                   .width = t.dim[2],
                   .height = t.dim[1],
                   .channels = (int)t.dim[3],
                   .level = (int)p->compress_level,
                   .note = note,
                   .n_note = notes_of(c, note)};
    TRY(file_prefix(c, p->prefix, t.dim[2], t.dim[1], 0, name));
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, name, "png");
    if (!f) return KILN_ERR_IO;
    w.pixels = film_frame(&reel, 0);
    TRY(png_write_file(c, files, f, &w));
    return files->commit(f, NULL);
}
const kiln_node node_save_animated_png = {
    SAVES("SaveAnimatedPNG", "Save Animated PNG", "Writes a batch of pictures as the frames of one animated PNG."),
    KILN_ARRAY(in, save_in),
    KILN_ARRAY(out, save_out),
    KIT_PARAMS(apng_params, apng_param),
    .run = save_apng_run,
    .check = apng_check,
};
