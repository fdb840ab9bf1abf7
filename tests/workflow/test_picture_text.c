/* test_picture_text.c - texts in the EXIF blocks of WebP and JPEG files put together by hand: both byte orders, other
 * chunks, segments and entries before the one that is wanted, and every length that reaches past its end. */
#include "harness.h"

#include "base/memory_alloc.h"
#include "workflow/picture_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char file[4096], tiff[1024];
static size_t used, tiff_used;

static void put(const void *data, size_t n) { memcpy(file + used, data, n), used += n; }

static void number(unsigned char *p, size_t bytes, uint32_t v, int is_little)
{
    for (size_t i = 0; i < bytes; i++) p[is_little ? i : bytes - 1 - i] = (unsigned char)(v >> (8 * i));
}

typedef struct {
    uint32_t tag, type;
    const char *text;
} entry;

/* A TIFF whose first directory has these entries, their texts behind it. */
static void make_tiff(int is_little, const entry *e, uint32_t n)
{
    memset(tiff, 0, sizeof tiff);
    memcpy(tiff, is_little ? "II" : "MM", 2);
    number(tiff + 2, 2, 42, is_little), number(tiff + 4, 4, 8, is_little), number(tiff + 8, 2, n, is_little);
    tiff_used = 10 + 12 * (size_t)n + 4;
    for (uint32_t i = 0; i < n; i++) {
        unsigned char *at = tiff + 10 + 12 * (size_t)i;
        size_t bytes = strlen(e[i].text) + 1;
        number(at, 2, e[i].tag, is_little), number(at + 2, 2, e[i].type, is_little);
        number(at + 4, 4, (uint32_t)bytes, is_little), number(at + 8, 4, (uint32_t)tiff_used, is_little);
        memcpy(tiff + tiff_used, e[i].text, bytes);
        tiff_used += bytes;
    }
}

static void chunk(const char *name, const void *data, size_t n)
{
    unsigned char length[4];
    number(length, 4, (uint32_t)n, 1);
    put(name, 4), put(length, 4), put(data, n);
    if (n % 2) put("", 1);
}

static void make_webp(const char *name)
{
    unsigned char block[1100];
    size_t begin = strlen(name) ? 6 : 0;
    memcpy(block, name, begin);
    memcpy(block + begin, tiff, tiff_used);
    used = 0;
    put("RIFF\0\0\0\0WEBP", 12);
    chunk("VP8X", "0123456789", 10), chunk("ICCP", "odd", 3); /* a chunk of odd length has a byte behind it */
    chunk("EXIF", block, begin + tiff_used), chunk("XMP ", "<x/>", 4);
    number(file + 4, 4, (uint32_t)(used - 8), 1);
}

static void segment(int marker, const void *data, size_t n)
{
    unsigned char head[4] = {0xff, (unsigned char)marker};
    number(head + 2, 2, (uint32_t)n + 2, 0);
    put(head, 4), put(data, n);
}

static void make_jpeg(void)
{
    unsigned char block[1100] = "Exif\0";
    memcpy(block + 6, tiff, tiff_used);
    used = 0;
    put("\xff\xd8", 2);
    segment(0xe0, "JFIF\0\1\1\0\0\1\0\1\0\0", 14), segment(0xe1, "http://ns.adobe.com/xap/1.0/", 29);
    put("\xff\xff", 2); /* a marker may have any number of 0xff before it (ITU T.81, B.1.1.2) */
    segment(0xe1, block, 6 + tiff_used);
    segment(0xda, "\1\1\0\0\77\0", 6), put("\xff\xd9", 2);
}

static const char *write_file(size_t n)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/picture", test_folder());
    FILE *f = fopen(path, "wb");
    if (!CHECK(f && fwrite(file, 1, n, f) == n)) exit(1);
    fclose(f);
    return path;
}

static void gives(const char *key, const char *wanted)
{
    char *text = NULL;
    error e = {0};
    CHECK_MSG(picture_text_find(write_file(used), key, &text, &e) == KILN_OK, "%s", e.message);
    CHECK_STR(text ? text : "(none)", wanted);
    mem_free(text);
}

/* As ComfyUI writes them: "workflow:..." in Make, "prompt:..." in Model. */
static const entry as_comfyui[] = {{0x10e, 2, "a camera's words"},
                                   {0x10f, 2, "workflow:{\"nodes\": []}"},
                                   {0x110, 2, "prompt:{\"1\": {\"class_type\": \"Caf\xc3\xa9\"}}"}};

static void check_texts(void)
{
    CHECK(picture_text_is_picture(write_file(used)));
    CHECK(picture_text_begins((const char *)file, used));
    gives("prompt", "{\"1\": {\"class_type\": \"Caf\xc3\xa9\"}}");
    gives("workflow", "{\"nodes\": []}");
    gives("work", "(none)"); /* a key ends at its colon */
    gives("flow", "(none)");
}

static void test_both_kinds_in_both_byte_orders(void)
{
    for (int is_little = 0; is_little < 2; is_little++) {
        make_tiff(is_little, as_comfyui, 3);
        make_webp(""), check_texts();
        make_webp("Exif\0\0"), check_texts(); /* some writers put JPEG's name before it */
        make_jpeg(), check_texts();
    }
}

/* Only ASCII entries are texts, and the first of a key counts. */
static void test_which_entry_counts(void)
{
    static const entry e[] = {{1, 7, "prompt:no text"}, {2, 2, "prompt"}, {3, 2, "prompt:"}, {4, 2, "prompt:second"}};
    make_tiff(1, e, 2), make_jpeg(), gives("prompt", "(none)");
    make_tiff(1, e, 3), make_jpeg(), gives("prompt", "");
    make_tiff(1, e, 4), make_jpeg(), gives("prompt", "");
}

static void test_what_begins_a_picture(void)
{
    static const struct {
        const char *head;
        size_t n;
        int is_picture;
    } row[] = {{"\x89PNG\r\n\x1a\n", 8, 1}, {"\x89PNG\r\n\x1a", 7, 0},  {"\x89PNG\r\n\x1b\n", 8, 0},
               {"RIFF\4\0\0\0WEBP", 12, 1}, {"RIFF\4\0\0\0WEB", 11, 0}, {"RIFF\4\0\0\0WAVE", 12, 0},
               {"RIFX\4\0\0\0WEBP", 12, 0}, {"\xff\xd8\xff", 3, 1},     {"\xff\xd8", 2, 0},
               {"\xff\xd8\xfe\xff", 4, 0},  {"kiln: 1\nnodes:", 14, 0}, {"", 0, 0}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        CHECK_MSG(picture_text_begins(row[i].head, row[i].n) == row[i].is_picture, "row %zu", i);
        memcpy(file, row[i].head, row[i].n);
        CHECK_MSG(picture_text_is_picture(write_file(row[i].n)) == row[i].is_picture, "file %zu", i);
    }
    CHECK(!picture_text_is_picture(test_folder()));
    CHECK(!picture_text_is_picture("/nowhere/at all"));
}

static void test_what_has_no_text(void)
{
    char *text = NULL;
    error e = {0};
    make_tiff(1, as_comfyui, 1), make_webp("");
    CHECK(picture_text_read(write_file(used), "prompt", &text, &e) == KILN_ERR_INVALID && !text);
    CHECK_MSG(strstr(e.message, "carries no workflow (no text 'prompt')") != NULL, "%s", e.message);
    e = (error){0};
    memcpy(file, "nodes: {}...", 12);
    CHECK(picture_text_find(write_file(12), "prompt", &text, &e) == KILN_ERR_INVALID && !text);
    CHECK_MSG(strstr(e.message, "not a PNG, WebP or JPEG") != NULL, "%s", e.message);
    e = (error){0};
    static const entry latin[] = {{0x110, 2, "prompt:Caf\xe9"}};
    make_tiff(1, latin, 1), make_webp("");
    CHECK(picture_text_find(write_file(used), "prompt", &text, &e) == KILN_ERR_INVALID && !text);
    CHECK_MSG(strstr(e.message, "not UTF-8") != NULL, "%s", e.message);
}

/* Wherever a file ends, there is no text or the whole of it, and never one of what lies behind. */
static void test_a_file_that_ends_early(void)
{
    for (int kind = 0; kind < 2; kind++) {
        make_tiff(1, as_comfyui + 2, 1);
        kind ? make_jpeg() : make_webp("");
        for (size_t n = 12; n < used; n++) {
            char *text = NULL;
            error e = {0};
            CHECK_EQ(picture_text_find(write_file(n), "prompt", &text, &e), KILN_OK);
            CHECK_MSG(!text || strcmp(text, as_comfyui[2].text + 7) == 0, "%zu bytes: '%s'", n, text ? text : "");
            CHECK_EQ(text != NULL, n >= used - (kind ? 12 : 12)); /* what follows the block */
            mem_free(text);
        }
    }
}

/* Each number of the directory may be wrong; what it says is never believed past the block. */
static void test_numbers_that_lie(void)
{
    static const struct {
        size_t at, bytes;
        uint32_t v;
    } row[] = {{0, 2, 0x4949 + 1},  {2, 2, 43},    {4, 4, 0xffffffff}, {4, 4, 5000},        {8, 2, 0},
               {14, 4, 0xffffffff}, {14, 4, 5000}, {14, 4, 6},         {18, 4, 0xffffffff}, {18, 4, 5000}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        make_tiff(1, as_comfyui + 2, 1);
        number(tiff + row[i].at, row[i].bytes, row[i].v, 1);
        make_webp(""), gives("prompt", "(none)");
    }
    make_tiff(1, as_comfyui + 2, 1);
    number(tiff + 8, 2, 500, 1); /* more entries than there is room for: the first is there */
    make_webp(""), gives("prompt", as_comfyui[2].text + 7);
    number(tiff + 4, 4, (uint32_t)tiff_used - 1, 1);
    make_webp(""), gives("prompt", "(none)");
    tiff_used = 7;
    make_webp(""), gives("prompt", "(none)");
}

/* A segment shorter than its length, or a picture that begins, ends the search. */
static void test_segments_that_end_the_search(void)
{
    make_tiff(1, as_comfyui + 2, 1);
    make_jpeg();
    file[4] = 0, file[5] = 1;
    gives("prompt", "(none)");
    make_jpeg(), file[3] = 0xda;
    gives("prompt", "(none)");
    make_jpeg(), file[2] = 0xfe; /* no marker */
    CHECK(!picture_text_is_picture(write_file(used)));
    make_webp(""), number(file + 16, 4, 0xffffffff, 1);
    gives("prompt", "(none)");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_both_kinds_in_both_byte_orders), CASE(test_which_entry_counts),
                                      CASE(test_what_begins_a_picture),          CASE(test_what_has_no_text),
                                      CASE(test_a_file_that_ends_early),         CASE(test_numbers_that_lie),
                                      CASE(test_segments_that_end_the_search)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
