/* attention_tiles.h - attention's products by AMX's tiles: what attention_pairs.h has, in whole tiles. Layer: backend.
 *
 * Words are attention_pairs.h's. q is [word][width] and k [key][word], words a multiple of TILE_WORDS; s is
 * [key][width] floats; p [key / 2][width]; sums [channel][width] floats, channels a multiple of TILE_ROWS. Values lie
 * on their side, v [channel][VALUE_KEYS] numbers of bf16. Keys are a multiple of TILE_ROWS for scores, of TILE_KEYS for
 * values; what fills them up is 0 in k's channels, in v and in p. width is a multiple of 16, to 64. Calls lie between
 * the first two, on one thread.
 */
#ifndef KILN_BACKEND_CPU_ATTENTION_TILES_H
#define KILN_BACKEND_CPU_ATTENTION_TILES_H

#include <stddef.h>
#include <stdint.h>

enum { TILE_ROWS = 16, TILE_WORDS = 16, TILE_KEYS = 2 * TILE_WORDS, VALUE_KEYS = 64 };

void tiles_begin(void);
void tiles_end(void);
/* s = q k */
void tiles_scores(float *s, const uint32_t *q, const uint32_t *k, size_t keys, size_t words, size_t width);
/* sums += p v */
void tiles_values(float *sums, const uint32_t *p, const uint16_t *v, size_t keys, size_t channels, size_t width);

#endif
