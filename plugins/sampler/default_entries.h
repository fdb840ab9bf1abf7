/* default_entries.h - entries of a CONDITIONING that are for what no other entry of it speaks for: each cell counts by
 * what the others leave of 1. The meaning is ComfyUI's. */
#ifndef KILN_SAMPLER_DEFAULT_ENTRIES_H
#define KILN_SAMPLER_DEFAULT_ENTRIES_H

#include "conditions.h"

/* What is left where these entries of a set act. */
typedef struct default_rest {
    struct default_rest *next;
    int set;
    const uint8_t *acts; /* [the set's entries] */
    conditions entries;  /* the set's default entries with what is left as their weight; n 0: nothing is */
} default_rest;

/* A part of the picture that is evaluated: `given` speaks for it, its weights also on the host. */
typedef struct {
    const conditions *given;
    int64_t height, width, pictures;
} default_part;

/* 1: the set has default entries, and they act at this level. */
int default_entries_act(const conditions *given, double sigma);
/* The entries beside which `acts` act, weights on the host; there is one of them at least. */
kiln_status default_entries_make(const kiln_call *c, const default_part *part, const uint8_t *acts, default_rest *out);

#endif
