/* test_png_text.c - the text chunks of PNG files put together by hand: the three kinds, and everything that can be
 * wrong. */
#include "harness.h"

#include "base/memory_alloc.h"
#include "workflow/png_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { ROOM = 20 << 20 };
static unsigned char file[ROOM];
static size_t used;

static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (24 - 8 * i));
}

static void begin(void)
{
    memcpy(file, "\x89PNG\r\n\x1a\n", 8);
    used = 8;
}

static void put(const char *type, const void *data, size_t n)
{
    unsigned char *at = file + used;
    put32(at, (uint32_t)n);
    memcpy(at + 4, type, 4);
    if (n) memcpy(at + 8, data, n);
    put32(at + 8 + n, (uint32_t)crc32(crc32(0, (const unsigned char *)type, 4), at + 8, (uInt)n));
    used += n + 12;
}

/* A picture's other chunks, which are not looked into. */
static void put_head(void) { put("IHDR", "\0\0\0\1\0\0\0\1\10\2\0\0\0", 13); }
static void put_end(void) { put("IDAT", "not a picture", 13), put("IEND", "", 0); }

static const char *write_file(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/texts.png", test_folder());
    FILE *f = fopen(path, "wb");
    if (!CHECK(f && fwrite(file, 1, used, f) == used)) exit(1);
    fclose(f);
    return path;
}

static void gives(const char *wanted)
{
    char *text = NULL;
    error e = {0};
    CHECK_MSG(png_text_read(write_file(), "prompt", &text, &e) == KILN_OK, "%s", e.message);
    CHECK_STR(text ? text : "(none)", wanted);
    mem_free(text);
}

static void fails(const char *part)
{
    char *text = NULL;
    error e = {0};
    CHECK_MSG(png_text_read(write_file(), "prompt", &text, &e) == KILN_ERR_INVALID,
              "a damaged file was read (wanted: %s)", part);
    CHECK_MSG(strstr(e.message, part) && strstr(e.message, "texts.png"), "'%s' does not say '%s' and the file's name",
              e.message, part);
    CHECK(text == NULL);
    mem_free(text);
}

/* HEAD (with its NULs) followed by TEXT, compressed. */
static size_t pack(unsigned char *out, const char *head, size_t n_head, const char *text, size_t n)
{
    uLongf size = 1 << 19;
    memcpy(out, head, n_head);
    if (!CHECK(compress(out + n_head, &size, (const unsigned char *)text, (uLong)n) == Z_OK)) exit(1);
    return n_head + size;
}

static void test_three_kinds_of_chunk(void)
{
    static unsigned char packed[1 << 20];
    begin(), put_head(), put("tEXt", "Software\0x", 10), put("tEXt", "prompt\0{\"a\": 1}", 15), put_end();
    gives("{\"a\": 1}");
    begin(), put_head(), put("zTXt", packed, pack(packed, "prompt\0\0", 8, "{\"b\": 2}", 8)), put_end();
    gives("{\"b\": 2}");
    begin(), put_head(), put("iTXt", "prompt\0\0\0en\0Aufforderung\0{\"c\": 3}", 33), put_end();
    gives("{\"c\": 3}");
    begin(), put_head(), put("iTXt", packed, pack(packed, "prompt\0\1\0\0\0", 11, "{\"d\": 4}", 8)), put_end();
    gives("{\"d\": 4}");
}

static void test_text_after_the_picture_is_found(void)
{
    begin(), put_head(), put("IDAT", "x", 1), put("tEXt", "prompt\0late", 11), put("IEND", "", 0);
    gives("late");
    begin(), put_head(), put("IEND", "", 0), put("tEXt", "prompt\0too late", 15);
    fails("carries no workflow");
}

static void test_letters(void)
{
    begin(), put_head(), put("tEXt", "prompt\0caf\xe9", 11), put_end(); /* Latin-1 */
    gives("caf\xc3\xa9");
    begin(), put_head(), put("iTXt", "prompt\0\0\0\0\0caf\xc3\xa9", 16), put_end();
    gives("caf\xc3\xa9");
    begin(), put_head(), put("tEXt", "prompt\0", 7), put_end();
    gives("");
}

static void test_other_keys_are_not_it(void)
{
    begin(), put_head(), put("tEXt", "prompts\0x", 9), put("tEXt", "Prompt\0x", 8), put("tEXt", "promp\0x", 7),
        put("tEXt", "prompt", 6), put_end();
    fails("carries no workflow");
}

static void test_faults(void)
{
    static unsigned char packed[1 << 20];
    begin(), put_head(), put("tEXt", "prompt\0abc", 10), put_end();
    file[used - 12 - 25 - 4] ^= 1; /* the last byte of the text's checksum is before IDAT (25) and IEND (12) */
    fails("checksum");
    begin(), put_head(), put("tEXt", "prompt\0a\0b", 10), put_end();
    fails("NUL");
    begin(), put_head(), put("zTXt", "prompt\0\1abc", 11), put_end();
    fails("unknown compression");
    begin(), put_head(), put("zTXt", "prompt\0", 7), put_end();
    fails("unknown compression");
    begin(), put_head(), put("zTXt", "prompt\0\0not zlib", 16), put_end();
    fails("compressed text");
    begin(), put_head(), put("zTXt", packed, pack(packed, "prompt\0\0", 8, "{\"b\": 2}", 8) - 4), put_end();
    fails("compressed text");
    begin(), put_head(), put("iTXt", "prompt\0", 7), put_end();
    fails("cut off");
    begin(), put_head(), put("iTXt", "prompt\0\0\0en", 11), put_end();
    fails("cut off");
    begin(), put_head(), put("iTXt", "prompt\0\0\0en\0word", 16), put_end();
    fails("cut off");
    begin(), put_head(), put("tEXt", "prompt\0abc", 10);
    put32(file + 8 + 25, 0x7fffffff);
    fails("past the end");
    put32(file + 8 + 25, 0xffffffff);
    fails("past the end");
    memcpy(file, "GIF89a.....", 8);
    fails("not a PNG");
    used = 5;
    fails("not a PNG");
    used = 0;
    fails("not a PNG");
}

/* 64 MiB of text in 64 kB: refused at 16. */
static void test_a_text_bomb_is_refused(void)
{
    static unsigned char packed[1 << 20];
    size_t n = 64 << 20;
    char *text = malloc(n);
    REQUIRE(text);
    memset(text, ' ', n);
    begin(), put_head(), put("zTXt", packed, pack(packed, "prompt\0\0", 8, text, n)), put_end();
    fails("16 MiB");
    begin(), put_head(), put("iTXt", packed, pack(packed, "prompt\0\1\0\0\0", 11, text, n)), put_end();
    fails("16 MiB");
    memcpy(text, "prompt", 7);
    begin(), put_head(), put("tEXt", text, 17 << 20), put_end();
    fails("16 MiB");
    free(text);
}

/* Cut anywhere before the text's end, or with any bit of the file flipped: a text or a sentence, never a crash. */
static void test_cut_and_flipped(void)
{
    begin(), put_head(), put("iTXt", "prompt\0\0\0en\0word\0{\"c\": 3}", 25), put_end();
    size_t whole = used, last = 8 + 25 + 12 + 25;
    for (used = 0; used < last; used++) fails("");
    used = whole;
    for (size_t bit = 0; bit < whole * 8; bit++) {
        char *text = NULL;
        error e = {0};
        file[bit / 8] ^= (unsigned char)(1u << bit % 8);
        kiln_status status = png_text_read(write_file(), "prompt", &text, &e);
        CHECK_MSG((status == KILN_OK) == (text != NULL) && (status == KILN_OK || e.message[0]), "bit %zu", bit);
        CHECK_MSG(!text || strcmp(text, "{\"c\": 3}") == 0, "bit %zu gives '%s'", bit, text);
        mem_free(text);
        file[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

static void test_no_file(void)
{
    char *text = NULL;
    error e = {0};
    CHECK_EQ(png_text_read("/nowhere/x.png", "prompt", &text, &e), KILN_ERR_IO);
    CHECK(strstr(e.message, "/nowhere/x.png") != NULL);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_three_kinds_of_chunk),
                                      CASE(test_text_after_the_picture_is_found),
                                      CASE(test_letters),
                                      CASE(test_other_keys_are_not_it),
                                      CASE(test_faults),
                                      CASE(test_a_text_bomb_is_refused),
                                      CASE(test_cut_and_flipped),
                                      CASE(test_no_file)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
