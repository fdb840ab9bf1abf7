/* entry_keys.c - see entry_keys.h. */
#include "entry_keys.h"

#include <stdio.h>
#include <string.h>

void entry_keys_meet(entry_keys *keys, const entry_key *met)
{
    size_t i = 0;
    while (i < keys->n && strcmp(keys->item[i].key, met->key) != 0) i++;
    if (i == ENTRY_KEYS_MAX) return;
    if (i == keys->n) keys->item[keys->n++] = *met;
    keys->item[i].wanted |= met->wanted;
}

void entry_keys_say(entry_keys *keys, const kiln_host *host)
{
    char text[300];
    for (size_t i = 0; i < keys->n; i++) {
        entry_key *k = &keys->item[i];
        if (k->wanted || k->said) continue;
        k->said = 1;
        snprintf(text, sizeof text,
                 "%.40s: the conditioning's '%.60s' is used by nothing: the model (%.60s) has no such input", k->what,
                 k->key, k->family);
        host->log(KILN_LOG_WARN, text);
    }
}
