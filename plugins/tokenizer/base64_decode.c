/* base64_decode.c - bytes in text, as tokenizer.json and tekken.json have them. */
#include "sources.h"

static int digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

int base64_decode(token_pool *p, const char *s, size_t n, unsigned char **out, size_t *bytes)
{
    while (n > 0 && s[n - 1] == '=') n--;
    unsigned char *to = token_pool_get(p, n / 4 * 3 + 4, 1);
    uint32_t bits = 0, have = 0;
    *bytes = 0;
    *out = to;
    if (!to) return 0;
    for (size_t i = 0; i < n; i++) {
        int d = digit(s[i]);
        if (d < 0) return 0;
        bits = bits << 6 | (uint32_t)d;
        if ((have += 6) < 8) continue;
        have -= 8;
        to[(*bytes)++] = (unsigned char)(bits >> have);
    }
    return 1;
}
