/* unicode.c - see unicode.h. Tables are sorted ranges, searched by halves. */
#include "unicode.h"

#include "unicode_tables.h"

#include <string.h>

/* ---- ranges ---- */

static int in_ranges(const uint32_t *range, size_t n, int32_t code)
{
    size_t low = 0, high = n / 2;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if ((uint32_t)code < range[2 * mid])
            high = mid;
        else if ((uint32_t)code > range[2 * mid + 1])
            low = mid + 1;
        else
            return 1;
    }
    return 0;
}

unicode_category unicode_category_of(int32_t code)
{
    size_t low = 0, high = unicode_category_starts_n; /* the last start that is not above code */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (unicode_category_starts[mid] >> 5 <= (uint32_t)code)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? (unicode_category)(unicode_category_starts[low - 1] & 31) : CATEGORY_CN;
}

uint32_t unicode_category_bits(const char *name, size_t n)
{
    static const char names[] = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCo";
    uint32_t bits = 0;
    for (uint32_t i = 0; i < CATEGORY_COUNT && n >= 1 && n <= 2; i++)
        if (memcmp(names + (size_t)2 * i, name, n) == 0) bits |= 1u << i;
    return bits;
}

int unicode_is_blank(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

int unicode_is_numeric(int32_t c) { return in_ranges(unicode_numeric_ranges, unicode_numeric_ranges_n, c); }
int unicode_is_word(int32_t c) { return in_ranges(unicode_word_ranges, unicode_word_ranges_n, c); }

int unicode_is_pattern_word(int32_t c)
{
    return in_ranges(unicode_pattern_word_ranges, unicode_pattern_word_ranges_n, c);
}

int unicode_is_combining(int32_t c) { return in_ranges(unicode_combining_ranges, unicode_combining_ranges_n, c); }

int unicode_is_bert_control(int32_t c)
{
    return in_ranges(unicode_bert_control_ranges, unicode_bert_control_ranges_n, c);
}

int unicode_is_bert_accent(int32_t c) { return in_ranges(unicode_bert_accent_ranges, unicode_bert_accent_ranges_n, c); }

int unicode_is_bert_punctuation(int32_t c)
{
    return in_ranges(unicode_bert_punctuation_ranges, unicode_bert_punctuation_ranges_n, c);
}

int unicode_is_chinese(int32_t c)
{
    static const uint32_t blocks[] = {0x3400,  0x4dbf,  0x4e00,  0x9fff,  0xf900,  0xfaff,  0x20000, 0x2a6df,
                                      0x2a700, 0x2b73f, 0x2b740, 0x2b81f, 0x2b920, 0x2ceaf, 0x2f800, 0x2fa1f};
    return in_ranges(blocks, sizeof blocks / sizeof blocks[0], c);
}

int unicode_lower(int32_t code, int32_t out[2])
{
    size_t low = 0, high = unicode_lower_ranges_n / 4;
    out[0] = code;
    if (code == 0x130) { /* the one character that becomes two */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    while (low < high) {
        size_t mid = (low + high) / 2;
        const uint32_t *r = unicode_lower_ranges + 4 * mid;
        if ((uint32_t)code < r[0]) {
            high = mid;
        } else if ((uint32_t)code > r[1]) {
            low = mid + 1;
        } else {
            if (((uint32_t)code - r[0]) % r[2] == 0) out[0] = (int32_t)((uint32_t)code + r[3]);
            return 1;
        }
    }
    return 1;
}

/* ---- UTF-8 ---- */

size_t utf8_next(const char *text, size_t n, int32_t *code)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    int32_t c = length == 1 ? s[0] : length == 2 ? s[0] & 0x1f : length == 3 ? s[0] & 0xf : s[0] & 7;
    *code = -1;
    if (length == 0 || length > n) return 1;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return 1;
        c = c << 6 | (s[i] & 0x3f);
    }
    if ((length == 3 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) || (length == 4 && (c < 0x10000 || c > 0x10ffff)))
        return 1;
    *code = c;
    return length;
}

int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

size_t utf8_length(int32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

size_t utf8_put(int32_t code, char out[4])
{
    uint32_t c = (uint32_t)code;
    size_t n = utf8_length(code);
    static const unsigned char head[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(head[n] | c);
    return n;
}

size_t utf8_before(const char *s, size_t at)
{
    do at--;
    while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80);
    return at;
}

/* ---- bytes ---- */

/* Printable Latin-1 bytes are themselves; the other 68 are U+0100 and following, in order. */
static int is_printable(int32_t byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

int32_t byte_to_code(uint8_t byte)
{
    if (is_printable(byte)) return byte;
    return 256 + (byte <= 32 ? byte : byte <= 160 ? byte - 127 + 33 : 67);
}

int code_to_byte(int32_t code)
{
    if (code < 0 || code > 256 + 67) return -1;
    if (code < 256) return is_printable(code) ? code : -1;
    code -= 256;
    return code <= 32 ? code : code < 67 ? code - 33 + 127 : 173;
}
