/* plain_map.h - a JSON map from texts to whole numbers, entry by entry, as vocabularies are written: no other values,
 * no text that wants two \u. It takes an eighth of a JSON library's time and judges nothing: what is not so plain,
 * valid or not, is the library's to read and to refuse.
 */
#ifndef KILN_TOKENIZER_PLAIN_MAP_H
#define KILN_TOKENIZER_PLAIN_MAP_H

#include <stddef.h>
#include <stdint.h>

enum { PLAIN_KEY_MAX = 1024, PLAIN_NUMBER_MAX = 9999999 };

typedef struct {
    const char *at, *end;
    int begun;
    char key[PLAIN_KEY_MAX + 4]; /* valid UTF-8 without NUL, not ended by one */
    size_t n;                    /* bytes of it, 1 at least */
    int32_t number;              /* 0 to PLAIN_NUMBER_MAX */
} plain_map;

static inline plain_map plain_map_of(const char *json, size_t bytes)
{
    return (plain_map){.at = json, .end = json + bytes};
}

/* 1: the next entry is in key and number. 0: the map and the text have ended. -1: it is not plain. */
int plain_map_next(plain_map *);

#endif
