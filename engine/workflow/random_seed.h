/* random_seed.h - `random` for a seed: a number that is drawn once a run and stands in the workflow from then on, so
 * that pictures and manifests carry it.
 */
#ifndef KILN_WORKFLOW_RANDOM_SEED_H
#define KILN_WORKFLOW_RANDOM_SEED_H

#include "workflow/check.h"

enum { RANDOM_SEEDS_MAX = 256 };

/* The settings that put numbers in the place of every `random` that a seed has in the document: of the parameter where
 * a seed is a parameter alone, else NODE.INPUT. Below 2^48, which every reader of JSON keeps. The same `entropy` gives
 * the same numbers for the same names. Returns how many; the texts lie in `a`. */
size_t random_seeds_find(document *d, const catalog_view *catalog, uint64_t entropy, arena *a,
                         set_option out[RANDOM_SEEDS_MAX]);

#endif
