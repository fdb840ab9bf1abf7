/* hash_avx2.c - XXH3's update compiled for AVX2: the packaged library is built for any x86-64 and hashes at half the
 * speed.
 *
 * The state and the digest are the library's own, whatever the instructions (xxhash.h promises it); only called when
 * the processor has them.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

int xxh_update_avx2(void *state, const void *bytes, size_t n);
int xxh_update_avx2(void *state, const void *bytes, size_t n) { return XXH3_128bits_update(state, bytes, n) == XXH_OK; }
