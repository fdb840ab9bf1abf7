/* fuzz_quant_json.c - any bytes as the text beside a quantised weight. What is accepted is a shape whose product fits,
 * blocks that are not empty, and a number that is one. libFuzzer; `make fuzz`. */
#include "weights/quant_json.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    quant_json q;
    error e = {0};
    if (quant_json_parse(&q, "f", 7, data, size, &e) != KILN_OK) {
        MUST(e.status == KILN_ERR_INVALID && strncmp(e.message, "f: byte ", 8) == 0);
        return 0;
    }
    int64_t all = 1;
    MUST(q.rank <= KILN_MAX_RANK && memchr(q.format, 0, sizeof q.format) && isfinite(q.nested_offset));
    MUST(q.block >= 0 && q.nested_block >= 0);
    for (uint32_t i = 0; i < q.rank; i++) MUST(q.dim[i] >= 1 && !__builtin_mul_overflow(all, q.dim[i], &all));
    return 0;
}
