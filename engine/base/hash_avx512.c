/* hash_avx512.c - XXH3's update compiled for AVX512: the distribution's library is built for any x86-64 and runs at
 * half the speed.
 *
 * State and digest are the same as the library's (xxhash.h promises it). Called only on processors with AVX512F.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

int xxh_update_avx512(void *state, const void *bytes, size_t n);
int xxh_update_avx512(void *state, const void *bytes, size_t n)
{
    return XXH3_128bits_update(state, bytes, n) == XXH_OK;
}
