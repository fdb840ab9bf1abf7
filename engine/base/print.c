/* print.c - see print.h. After formatting, the control characters of the format string have to be told from those of
 * the arguments. So the text is formatted twice, with the format's own replaced by two different characters: where the
 * results differ, the format had one. */
#include "base/print.h"

#include "base/memory_alloc.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { FORMAT_MAX = 1000, TEXT_MAX = 4000, SHOWN_MAX = 12 /* bytes one character may become, with a NUL */ };

static atomic_int lost;
static FILE *own_output; /* what stdout means here, where it is not stdout */

static int is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }

/* Writes the first character of the text to `to`, escaped if it has to be; *used: the bytes it took of the text.
 * Returns the bytes written. */
static size_t show(char to[SHOWN_MAX], const char *from, size_t n, size_t *used)
{
    static const char plain[] = "\n\r\t", letter[] = "nrt";
    uint32_t code = 0;
    size_t length = utf8_sequence((const unsigned char *)from, n, &code);
    const char *named = code ? strchr(plain, (int)(code < 0x80 ? code : 0x7f)) : NULL;
    *used = length ? length : 1;
    if (length && !text_is_control(code)) return memcpy(to, from, length), length;
    if (length && named) return (size_t)snprintf(to, SHOWN_MAX, "\\%c", letter[named - plain]);
    if (length && code >= 0x80) return (size_t)snprintf(to, SHOWN_MAX, "\\u%04x", code);
    return (size_t)snprintf(to, SHOWN_MAX, "\\x%02x", (unsigned char)from[0]);
}

size_t text_escape(char *to, size_t capacity, const char *from, size_t n)
{
    size_t at = 0, used, length;
    char shown[SHOWN_MAX];
    assert(capacity > 0);
    for (; n > 0 && at + (length = show(shown, from, n, &used)) < capacity; from += used, n -= used, at += length)
        memcpy(to + at, shown, length);
    to[at] = '\0';
    return at;
}

/* Gathers output, so that a line is one write. */
typedef struct {
    FILE *to;
    char bytes[TEXT_MAX];
    size_t n;
    int total;
} output;

static void note_lost(const FILE *to, int ok)
{
    int none = 0;
    if (!ok && (to == stdout || (own_output && to == own_output)))
        atomic_compare_exchange_strong(&lost, &none, errno ? errno : EIO);
}

static void output_flush(output *o)
{
    int ok = fwrite(o->bytes, 1, o->n, o->to) == o->n;
    note_lost(o->to, ok);
    if (!ok) o->total = -1;
    o->n = 0;
}

static void output_add(output *o, const char *bytes, size_t n)
{
    if (o->n + n > sizeof o->bytes) output_flush(o);
    memcpy(o->bytes + o->n, bytes, n);
    o->n += n;
    if (o->total >= 0) o->total += (int)n;
}

/* a and b, of n bytes, differ where fmt has a control character; those come in the order they have in fmt. */
static int write_shown(FILE *to, const char *fmt, const char *a, const char *b, size_t n)
{
    output o = {.to = to};
    char shown[SHOWN_MAX];
    flockfile(to);
    for (size_t i = 0, used; i < n; i += used) {
        while (a[i] != b[i] && *fmt && !is_control((unsigned char)*fmt)) fmt++;
        if (a[i] != b[i] && *fmt) {
            output_add(&o, fmt++, 1);
            used = 1;
        } else {
            size_t length = show(shown, a + i, n - i, &used);
            output_add(&o, shown, length);
        }
    }
    if (o.n) output_flush(&o);
    funlockfile(to);
    return o.total;
}

static void mark_controls(char to[FORMAT_MAX], const char *fmt, char mark)
{
    size_t n = strnlen(fmt, FORMAT_MAX - 1);
    for (size_t i = 0; i < n; i++) to[i] = is_control((unsigned char)fmt[i]) ? mark : fmt[i];
    to[n] = '\0';
}

static int format(char *to, size_t capacity, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(to, capacity, fmt, again);
    va_end(again);
    return n;
}

static atomic_int silent_out, silent_err;
static FILE *really(FILE *to) { return to == stdout && own_output ? own_output : to; }

int print_own_output(void)
{
    if (!own_output) {
        fflush(stdout);
        int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        own_output = fd >= 0 ? fdopen(fd, "w") : NULL;
        if (!own_output && fd >= 0) close(fd);
    }
    return own_output ? fileno(own_output) : -1;
}

int print_descriptor(void) { return own_output ? fileno(own_output) : STDOUT_FILENO; }

void print_silence(int out, int err)
{
    atomic_store(&silent_out, out);
    atomic_store(&silent_err, err);
}

static int is_silent(FILE *to)
{
    return (to == stdout && atomic_load(&silent_out)) || (to == stderr && atomic_load(&silent_err));
}

int print_textv(FILE *to, const char *fmt, va_list args)
{
    if (is_silent(to)) return 0;
    char fmt_a[FORMAT_MAX], fmt_b[FORMAT_MAX], small[2][TEXT_MAX], *a = small[0], *b = small[1], *large = NULL;
    size_t capacity = TEXT_MAX;
    assert(strlen(fmt) < FORMAT_MAX);
    mark_controls(fmt_a, fmt, '\1'), mark_controls(fmt_b, fmt, '\2');
    int n = format(a, capacity, fmt_a, args);
    if (n < 0) return -1;
    if ((size_t)n >= capacity && (large = mem_alloc(2 * ((size_t)n + 1)))) {
        capacity = (size_t)n + 1, a = large, b = large + capacity;
        format(a, capacity, fmt_a, args);
    }
    format(b, capacity, fmt_b, args);
    int printed = write_shown(really(to), fmt, a, b, (size_t)n < capacity ? (size_t)n : capacity - 1);
    mem_free(large);
    return printed;
}

int print_text(FILE *to, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = print_textv(to, fmt, args);
    va_end(args);
    return n;
}

int print_raw(FILE *to, const char *text)
{
    if (to == stderr && is_silent(to)) return 0;
    int ok = fputs(text, really(to)) != EOF;
    note_lost(to, ok);
    return ok ? 0 : -1;
}

int print_flush(FILE *to)
{
    int ok = fflush(really(to)) == 0;
    note_lost(to, ok);
    return ok ? 0 : -1;
}

int print_str(FILE *to, const str *s)
{
    if (!s->failed) return print_raw(to, str_text(s));
    errno = ENOMEM;
    note_lost(to, 0);
    return -1;
}

int print_lost(void) { return atomic_load(&lost); }
