/* fuzz_picture.c - any bytes as a picture file: PNG, JPEG, WebP or AVIF. It is read whole, within the limits, or
 * refused with a sentence that names the file; and the texts of its EXIF block are UTF-8. Some hundred bytes of WebP
 * may ask for a picture of the largest size, whose pixels are made room for before they are decoded. libFuzzer; `make
 * fuzz`. */
/* with: plugins/image */
/* longest input: 16384 */
/* memory limit: 2048 MB */
#include "../../plugins/image/picture_io.h"

#include "base/memory_alloc.h"
#include "base/str.h"
#include "rig.h"
#include "workflow/picture_text.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

/* A JPEG says once what libjpeg mended; here nobody reads it. */
static void quiet(int level, const char *text) { (void)level, (void)text; }

/* Reads every sample, so that a sanitizer sees what was not written. */
static float sum_of(const picture *p)
{
    float sum = 0;
    for (int64_t i = 0; i < p->frames * p->width * p->height * p->channels; i++) sum += picture_value(p, i);
    return sum;
}

static void check_pixels(const char *path)
{
    static kiln_host host;
    kiln_call c = {.size = sizeof c, .host = &host, .ctx = rig_ctx()};
    picture p;
    host = *rig_host();
    host.log = quiet;
    if (picture_read(&c, path, &p) != KILN_OK) {
        MUST(!p.pixels && *rig_message());
        return;
    }
    MUST(p.width >= 1 && p.height >= 1 && p.width <= PICTURE_SIDE_MAX && p.height <= PICTURE_SIDE_MAX);
    MUST((p.channels == 3 || p.channels == 4) && (p.depth == 8 || p.depth == 16) && p.frames >= 1 && p.pixels);
    if (p.width * p.height * p.frames <= 1 << 20) MUST(sum_of(&p) >= 0);
    picture_free(&p);
}

static void check_text(const char *path)
{
    char *text;
    error e = {0};
    kiln_status status = picture_text_find(path, "prompt", &text, &e);
    MUST(status == KILN_OK || (status == KILN_ERR_INVALID && e.message[0] && !text));
    if (text) MUST(utf8_valid(text, strlen(text)));
    mem_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[100];
    snprintf(path, sizeof path, "/dev/shm/fuzz-picture-%d", (int)getpid());
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    int whole = fwrite(data, 1, size, f) == size;
    fclose(f);
    if (whole) check_pixels(path), check_text(path);
    unlink(path);
    return 0;
}
