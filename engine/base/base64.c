/* base64.c - see base64.h. */
#include "base/base64.h"

void str_base64(str *s, const void *from, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = from;
    for (size_t i = 0; i < n; i += 3) {
        unsigned b = (unsigned)in[i] << 16 | (i + 1 < n ? (unsigned)in[i + 1] << 8 : 0) | (i + 2 < n ? in[i + 2] : 0);
        char four[] = {digits[b >> 18 & 63], digits[b >> 12 & 63], i + 1 < n ? digits[b >> 6 & 63] : '=',
                       i + 2 < n ? digits[b & 63] : '='};
        str_append_n(s, four, 4);
    }
}

static int digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

size_t base64_bytes(const char *from, unsigned char *to)
{
    size_t n = 0;
    unsigned bits = 0, have = 0;
    for (int d; (d = digit_of(*from)) >= 0; from++) {
        bits = bits << 6 | (unsigned)d, have += 6;
        if (have >= 8) have -= 8, to[n++] = (unsigned char)(bits >> have);
    }
    return n;
}
