/* attention_units.h - softmax(q k^T scale) v of one head by AMX's tiles, keys and values packed into whole tiles.
 * Layer: backend.
 *
 * A unit is 32 queries by up to 512 keys (256 where heads are wide). A tile holds 1,024 bytes without gaps: of queries
 * and exponentials [16 rows][32 numbers], of keys [16 pairs of channels][16 keys][2], of values [16 pairs of
 * keys][16 channels][2], of sums [16 rows][16 floats]. A group is 32 keys: for each 32 channels two tiles of keys, and
 * for each 16 channels one of values, in which keys have the order that exponentials get. What fills them up is 0,
 * but for a column of ones behind the values, which sums the exponentials. Columns of values and sums are in the order
 * of the channels, except where 32 fill two tiles: these have them by fours, in turns.
 *
 * Only called where AMX_BF16 (instructions.h) and AVX512_VBMI are. Attending lies between tiles_begin() and tiles_end()
 * (attention_tiles.h).
 */
#ifndef KILN_BACKEND_CPU_ATTENTION_UNITS_H
#define KILN_BACKEND_CPU_ATTENTION_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum { UNIT_ROWS = 32, GROUP_KEYS = 32, TILE_NUMBERS = 512, TILE_FLOATS = 256 };

typedef struct {
    size_t channels, value_channels; /* of a head */
    size_t depth, width;             /* tiles of 32 channels of a query, and of 16 columns of its sums: 2 or more */
    size_t groups;                   /* of a unit */
} unit_shape;

typedef struct {       /* 32 queries of a head */
    uint16_t *queries; /* [2][depth] tiles */
    float *sums;       /* [2][width] tiles */
    float *start;      /* [32]: near, 256 (127 - what is taken from a query's scores), for rounding; far, their base */
    int far;           /* scores may lie so far apart that their greatest has to be known */
} unit_rows;

typedef struct {       /* what is shared by the units of a thread */
    float *scores;     /* [groups][2][2] tiles */
    uint16_t *weights; /* [groups][2] tiles */
} unit_scratch;

unit_shape unit_shape_of(int64_t channels, int64_t value_channels);
static inline size_t unit_key_numbers(const unit_shape *s) { return s->depth * 2 * TILE_NUMBERS; }
static inline size_t unit_value_numbers(const unit_shape *s) { return s->width * TILE_NUMBERS; }
/* One group from rows `ld` numbers apart, of which there are n, 1 to 32. keys: the greatest square of a length; NaN if
 * any is. */
float units_pack_keys(const unit_shape *s, uint16_t *to, const uint16_t *k, size_t ld, size_t n);
void units_pack_values(const unit_shape *s, uint16_t *to, const uint16_t *v, size_t ld, size_t n);
/* n rows of queries, the others 0. square: the greatest of all keys; scale: of scores, in base 2. */
void units_begin(const unit_shape *s, unit_rows *u, const uint16_t *q, size_t ld, size_t n, float square, float scale);
/* n keys of a unit, the first of all or not. */
void units_attend(const unit_shape *s, const unit_rows *u, const unit_scratch *w, const uint16_t *keys,
                  const uint16_t *values, size_t n, int first, float scale);
/* n rows of results. */
void units_end(const unit_shape *s, const unit_rows *u, uint16_t *out, size_t ld, size_t n);

#endif
