/* entry_keys.h - the keys that the entries of a sampling's conditionings have, and whether anything reads them: each
 * that nothing reads is said once, whichever conditionings have it and however many models look at it.
 */
#ifndef KILN_SAMPLER_ENTRY_KEYS_H
#define KILN_SAMPLER_ENTRY_KEYS_H

#include "kiln/plugin.h"

enum { ENTRY_KEYS_MAX = 64 };

/* Where a key was met first; wanted by any of those that met it. */
typedef struct {
    const char *key, *what, *family; /* "positive"; the model's */
    int wanted, said;
} entry_key;

typedef struct {
    entry_key item[ENTRY_KEYS_MAX]; /* further ones are not looked at */
    size_t n;
} entry_keys;

/* The texts have to live as long as the call. */
void entry_keys_meet(entry_keys *keys, const entry_key *met);
/* Says what none of the models read so far wants. */
void entry_keys_say(entry_keys *keys, const kiln_host *host);

#endif
