/* test_terminal_pictures.c - what is written to terminals that show pictures: kitty's pieces, sixels' bands and runs.
 */
#include "harness.h"

#include "base/str.h"
#include "cli/terminal_pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

static void test_kitty_gets_pieces(void)
{
    enum { SMALL = 30, LARGE = 10000 };
    unsigned char png[LARGE];
    str s = {0};
    for (int i = 0; i < LARGE; i++) png[i] = (unsigned char)(i * 7);
    picture_put_kitty(&s, png, SMALL, 5);
    CHECK_EQ(count_of(str_text(&s), "\033_G"), 1);
    CHECK(strstr(str_text(&s), "\033_Ga=T,f=100,i=1,p=1,q=2,C=1,r=5,m=0;") == str_text(&s));
    str_free(&s);
    picture_put_kitty(&s, png, LARGE, 5); /* 13,336 letters of base64, 4096 in a piece */
    CHECK_EQ(count_of(str_text(&s), "\033_G"), 4);
    CHECK_EQ(count_of(str_text(&s), "m=1;"), 3);
    CHECK_EQ(count_of(str_text(&s), "\033_Gm=0;"), 1);
    CHECK_EQ(count_of(str_text(&s), "\033\\"), 4);
    str_free(&s);
}

static void test_sixels(void)
{
    /* Two lines: nine of one colour, a gap, two of another: "!9" for the long run, letters one by one for the short. */
    enum { WIDTH = 14, HEIGHT = 2 };
    unsigned char rgb[WIDTH * HEIGHT * 3] = {0};
    str s = {0};
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) rgb[3 * (y * WIDTH + x) + (x < 9)] = x == 11 || x < 9 ? 255 : 0;
    picture_put_sixel(&s, rgb, WIDTH, HEIGHT);
    const char *text = str_text(&s);
    CHECK(strstr(text, "!9B") != NULL); /* both lines: bits 1 and 2, 63 + 3 */
    CHECK(strstr(text, "!3B") == NULL); /* short runs are written out */
    CHECK(strncmp(text, "\033P", 2) == 0 && strcmp(text + s.len - 2, "\033\\") == 0);
    str_free(&s);
    unsigned char tall[13 * 3];
    memset(tall, 255, sizeof tall);
    picture_put_sixel(&s, tall, 1, 13); /* three bands, of which the last has one line */
    CHECK_EQ(count_of(str_text(&s), "~"), 2);
    CHECK_EQ(count_of(str_text(&s), "@"), 1);
    str_free(&s);
}

static void test_rows(void)
{
    CHECK(terminal_rows_of(0) == 0);
    CHECK(terminal_rows_of(1) == 1);
    CHECK(terminal_rows_of(1000) >= 1000 / 64);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_kitty_gets_pieces), CASE(test_sixels), CASE(test_rows)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
