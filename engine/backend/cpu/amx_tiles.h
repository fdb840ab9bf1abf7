/* amx_tiles.h - the instructions of AMX that kernels use: eight tiles of up to 16 rows of 64 bytes. Layer: backend.
 *
 * A tile is named by a literal, 0 to 7. Tiles belong to a thread and are nobody's between tasks: a task gives them
 * their shapes first and lets go of them at its end, since oneDNN does the same on the same threads. Compiled with
 * KILN_AMX_MODEL, each instruction is a call of a model in plain C (tests/instructions), so that the kernels' logic
 * runs on any processor. Only called where instructions.h finds them.
 */
#ifndef KILN_BACKEND_CPU_AMX_TILES_H
#define KILN_BACKEND_CPU_AMX_TILES_H

#include <stdint.h>

/* Palette 1: what tile_config() reads. Tiles of no rows are not used. */
typedef struct {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx_shapes;

#ifdef KILN_AMX_MODEL
#include "amx_model.h"
#define tile_config(shapes) amx_model_config(shapes)
#define tile_release() amx_model_release()
#define tile_zero(t) amx_model_zero(t)
#define tile_load(t, from, stride) amx_model_load(t, from, stride)
#define tile_store(t, to, stride) amx_model_store(t, to, stride)
#define tile_dpbf16ps(c, a, b) amx_model_dpbf16ps(c, a, b)
#define tile_dpbssd(c, a, b) amx_model_dpbssd(c, a, b)
#else
/* Assembly by name: no compiler has tiles in registers that it knows of. */
#define tile_config(shapes) __asm__ volatile("ldtilecfg %0" ::"m"(*(shapes)) : "memory")
#define tile_release() __asm__ volatile("tilerelease" ::: "memory")
#define tile_zero(t) __asm__ volatile("tilezero %%tmm" #t::)
/* Rows are `stride` bytes apart. */
#define tile_load(t, from, stride)                                                                                     \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(from), "r"((int64_t)(stride)) : "memory")
#define tile_store(t, to, stride)                                                                                      \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride)) : "memory")
/* c += a b, a of [row][pair of numbers], b of [pair][column][2 numbers], c f32. */
#define tile_dpbf16ps(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c::)
/* The same of signed bytes, four together, c int32. */
#define tile_dpbssd(c, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c::)
#endif

#endif
