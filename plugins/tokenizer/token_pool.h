/* token_pool.h - memory of one tokenizer, or of one call: given out piece by piece, freed all at once.
 *
 * A pool that could not get memory once gives no more (`failed` stays set), so code that fills tables asks at its end.
 * One with a limit gives no more beyond it: sixty steps of a hostile file that each double a text would take all there
 * is.
 */
#ifndef KILN_TOKENIZER_POOL_H
#define KILN_TOKENIZER_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct token_pool_block token_pool_block;
enum { POOL_NO_MEMORY = 1, POOL_FULL };

typedef struct {
    token_pool_block *block; /* the newest */
    size_t bytes, limit;     /* of all blocks; limit 0: none */
    int failed;              /* POOL_NO_MEMORY, POOL_FULL */
} token_pool;

/* 16-byte aligned and zeroed, count * size bytes; NULL: no memory, or an overflow. */
void *token_pool_get(token_pool *, size_t count, size_t size);
/* Makes *array (count items, NULL: none) as large as `wanted` items at least; the capacity at least doubles. 0: no
 * memory, and the array stays. */
int token_pool_reserve(token_pool *, void *array, size_t *capacity, size_t wanted, size_t size);
char *token_pool_copy(token_pool *, const char *s, size_t n); /* with a NUL behind it */
void token_pool_free(token_pool *);

/* For tests: the k-th block that any pool asks for from now on (0: the next) is not to be had; k < 0: all are. Not for
 * several threads. */
void token_pool_fail_at(int64_t k);
int64_t token_pool_asked(void); /* blocks since then */

#endif
