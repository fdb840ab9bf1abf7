/* codec_form.h - magic, version, alignment and byte order of the encoded form: what codec.c writes and codec_decode.c
 * reads. */
#ifndef KILN_CACHE_CODEC_FORM_H
#define KILN_CACHE_CODEC_FORM_H

#include <stdint.h>

#define CODEC_MAGIC "KLNV"
/* HEAD: magic, u32 version, u64 bytes of structure, u64 bytes in all. */
enum { CODEC_VERSION = 1, CODEC_HEAD = 24, CODEC_ALIGN = 64, CODEC_DEPTH_MAX = 64 };

static inline uint64_t codec_align(uint64_t n) { return (n + CODEC_ALIGN - 1) / CODEC_ALIGN * CODEC_ALIGN; }

static inline void codec_store_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++) p[i] = (unsigned char)(v >> (8 * i));
}
static inline void codec_store_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (8 * i));
}
static inline uint64_t codec_load_u64(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}
static inline uint32_t codec_load_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

#endif
