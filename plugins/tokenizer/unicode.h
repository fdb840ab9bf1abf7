/* unicode.h - UTF-8, and what the tokenizers of the field take for a letter, a number, a blank (unicode_tables.c).
 *
 * The classes are tables of our own and not the system's library, so that ids are the same on every machine.
 */
#ifndef KILN_TOKENIZER_UNICODE_H
#define KILN_TOKENIZER_UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    CATEGORY_CN, /* not assigned */
    CATEGORY_LU,
    CATEGORY_LL,
    CATEGORY_LT,
    CATEGORY_LM,
    CATEGORY_LO,
    CATEGORY_MN,
    CATEGORY_MC,
    CATEGORY_ME,
    CATEGORY_ND,
    CATEGORY_NL,
    CATEGORY_NO,
    CATEGORY_PC,
    CATEGORY_PD,
    CATEGORY_PS,
    CATEGORY_PE,
    CATEGORY_PI,
    CATEGORY_PF,
    CATEGORY_PO,
    CATEGORY_SM,
    CATEGORY_SC,
    CATEGORY_SK,
    CATEGORY_SO,
    CATEGORY_ZS,
    CATEGORY_ZL,
    CATEGORY_ZP,
    CATEGORY_CC,
    CATEGORY_CF,
    CATEGORY_CO,
    CATEGORY_COUNT
} unicode_category;

unicode_category unicode_category_of(int32_t code);
/* The categories of a name: "L", "Lu", ...; 0: no such name. A bit is 1 << category. */
uint32_t unicode_category_bits(const char *name, size_t n);

int unicode_is_blank(int32_t code); /* White_Space */
int unicode_is_numeric(int32_t code);
int unicode_is_word(int32_t code);
int unicode_is_pattern_word(int32_t code); /* \w of a pattern */
int unicode_is_combining(int32_t code);
int unicode_is_bert_control(int32_t code);
int unicode_is_bert_accent(int32_t code);
int unicode_is_bert_punctuation(int32_t code);
int unicode_is_chinese(int32_t code);

/* Lower case of one character; writes 1 or 2 code points, returns how many. */
int unicode_lower(int32_t code, int32_t out[2]);

/* The character at s[0..n), n > 0; *code is -1 and 1 is returned for a byte that begins no valid character. */
size_t utf8_next(const char *s, size_t n, int32_t *code);
/* Bytes written to out[4]. */
size_t utf8_put(int32_t code, char out[4]);
size_t utf8_length(int32_t code);
/* Where the character that ends before s[at] begins; valid UTF-8, at > 0. */
size_t utf8_before(const char *s, size_t at);

int hex_digit(char c); /* 0 to 15; -1: it is none */

/* GPT-2's table: a printable character for each byte, and back (-1: no byte's). */
int32_t byte_to_code(uint8_t byte);
int code_to_byte(int32_t code);

#endif
