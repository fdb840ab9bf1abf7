/* terminal_pictures.c - see terminal_pictures.h. Sixels have the 216 colours of a 6x6x6 cube. */
#include "cli/terminal_pictures.h"

#include "base/base64.h"
#include "base/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { WAIT_MS = 250, ROW_PIXELS = 20, LEVELS = 6, COLOURS = LEVELS * LEVELS * LEVELS, BAND = 6, CHUNK = 4096 };

/* Reads until the answer to a device attributes query ("ESC [ ? ... c") is whole. */
static void read_answer(int fd, char *text, size_t capacity)
{
    size_t n = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (n + 1 < capacity && poll(&p, 1, WAIT_MS) == 1) {
        ssize_t got = read(fd, text + n, 1);
        if (got != 1) break;
        text[++n] = '\0';
        if (text[n - 1] == 'c' && strstr(text, "\033[?")) break;
    }
    text[n] = '\0';
}

/* ";4;" among the attributes: sixel graphics. */
static int says_sixel(const char *answer)
{
    const char *p = strstr(answer, "\033[?");
    for (p = p ? p + 3 : ""; *p && *p != 'c'; p += *p == ';') {
        char *end;
        if (strtol(p, &end, 10) == 4 && end > p) return 1;
        if (end == p && *p != ';') return 0;
        p = end;
    }
    return 0;
}

static int ask(void)
{
    static const char query[] = "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\\033[c";
    struct termios before, raw;
    char answer[256] = "";
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return PICTURES_NONE;
    if (tcgetpgrp(fd) == getpgrp() && tcgetattr(fd, &before) == 0) { /* in the background, to set it would stop us */
        raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        if (tcsetattr(fd, TCSANOW, &raw) == 0) {
            if (write(fd, query, sizeof query - 1) == (ssize_t)sizeof query - 1) read_answer(fd, answer, sizeof answer);
            tcsetattr(fd, TCSANOW, &before);
        }
    }
    close(fd);
    return strstr(answer, "_Gi=31;OK") ? PICTURES_KITTY : says_sixel(answer) ? PICTURES_SIXEL : PICTURES_NONE;
}

int terminal_pictures(void)
{
    const char *window = getenv("KITTY_WINDOW_ID");
    if (!terminal_moves()) return PICTURES_NONE;
    return window && *window ? PICTURES_KITTY : ask();
}

int terminal_rows_of(unsigned height)
{
    struct winsize size;
    unsigned row = ROW_PIXELS;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_ypixel >= size.ws_row)
        row = size.ws_ypixel / size.ws_row;
    return (int)((height + row - 1) / row);
}

/* Picture 1 is replaced; q=2: no answers; C=1: the cursor stays. */
void picture_put_kitty(str *s, const void *png, size_t bytes, int rows)
{
    str coded = {0};
    str_base64(&coded, png, bytes);
    for (size_t at = 0; at < coded.len; at += CHUNK) {
        size_t n = coded.len - at < CHUNK ? coded.len - at : CHUNK;
        int more = at + n < coded.len;
        if (at)
            str_printf(s, "\033_Gm=%d;", more);
        else
            str_printf(s, "\033_Ga=T,f=100,i=1,p=1,q=2,C=1,r=%d,m=%d;", rows, more);
        str_append_n(s, coded.data + at, n);
        str_append(s, "\033\\");
    }
    s->failed |= coded.failed;
    str_free(&coded);
}

static unsigned colour_of(const unsigned char *rgb)
{
    unsigned n = 0;
    for (int k = 0; k < 3; k++) n = n * LEVELS + (rgb[k] * (LEVELS - 1u) + 127u) / 255u;
    return n;
}

static void put_run(str *s, char six, unsigned n)
{
    if (n > 3)
        str_printf(s, "!%u%c", n, six);
    else
        while (n--) str_char(s, six);
}

/* One colour of a band of six lines, which has some of it. */
static void put_band_colour(str *s, const unsigned char *rgb, unsigned width, unsigned lines, unsigned colour,
                            int first)
{
    unsigned run = 0;
    char last = 0;
    int begun = 0;
    for (unsigned x = 0; x < width; x++) {
        unsigned bits = 0;
        for (unsigned y = 0; y < lines; y++)
            if (colour_of(rgb + ((size_t)y * width + x) * 3) == colour) bits |= 1u << y;
        char six = (char)(63 + bits);
        if (bits && !begun) {
            str_printf(s, "%s#%u", first ? "" : "$", colour);
            begun = 1;
            if (x) put_run(s, 63, x);
            last = six, run = 0;
        }
        if (!begun) continue;
        if (six != last) put_run(s, last, run), last = six, run = 0;
        run++;
    }
    put_run(s, last, run);
}

void picture_put_sixel(str *s, const unsigned char *rgb, unsigned width, unsigned height)
{
    str_printf(s, "\033Pq\"1;1;%u;%u", width, height);
    for (unsigned c = 0; c < COLOURS; c++)
        str_printf(s, "#%u;2;%u;%u;%u", c, c / (LEVELS * LEVELS) * 20, c / LEVELS % LEVELS * 20, c % LEVELS * 20);
    for (unsigned y = 0; y < height; y += BAND) {
        const unsigned char *band = rgb + (size_t)y * width * 3;
        unsigned lines = height - y < BAND ? height - y : BAND;
        unsigned char has[COLOURS] = {0};
        int first = 1;
        for (size_t i = 0; i < (size_t)lines * width; i++) has[colour_of(band + 3 * i)] = 1;
        for (unsigned c = 0; c < COLOURS; c++)
            if (has[c]) put_band_colour(s, band, width, lines, c, first), first = 0;
        str_char(s, '-');
    }
    str_append(s, "\033\\");
}
