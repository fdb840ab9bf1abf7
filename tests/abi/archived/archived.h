/* archived.h - a plugin that uses as much of the contract as fits into a few pages. It is archived as built with the
 * headers of its day (archived-x86_64.so), so that every later engine can be seen to run it.
 */
#ifndef ARCHIVED_H
#define ARCHIVED_H

#include "kiln/files.h"
#include "kiln/kit.h"
#include "kiln/model.h"
#include "kiln/params.h"
#include "kiln/sampling.h"
#include "kiln/standard_sampling.h"

#include <stdio.h>
#include <stdlib.h>

extern const kiln_node archived_params, archived_write, archived_program, archived_vectors, archived_model,
    archived_conditioning, archived_guider;
extern const kiln_sampler archived_sampler;
extern const kiln_guider archived_guider_row;

/* "NAME v v v ..." as a STRING in *out. */
kiln_status archived_numbers(const kiln_call *c, const char *name, const float *x, size_t n, kiln_value **out);

#endif
