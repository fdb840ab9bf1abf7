/* own_programs.h - programs that somebody keeps for as long as he wants them, and no longer: those over weights that
 * are seen once. The engine's own table (kiln_ops.program_keep) keeps what will be seen again. */
#ifndef KILN_SAMPLER_OWN_PROGRAMS_H
#define KILN_SAMPLER_OWN_PROGRAMS_H

#include "kiln/ops.h"

typedef struct own_program own_program;

typedef struct {
    own_program *first;
} own_programs;

/* The program of that key, planned or (*fresh 1) new and empty. It is lent until own_programs_free(). NULL: no memory.
 */
kiln_program *own_program_of(own_programs *, const kiln_call *c, const char *key, const kiln_program_options *,
                             int *fresh);
void own_programs_free(own_programs *, const kiln_ops *ops);

#endif
