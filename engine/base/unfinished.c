/* unfinished.c - a table without a lock, since a signal handler reads it; see unfinished.h.
 *
 *     FREE -> FILLING -> LISTED -> FREE
 *                           \----> TAKEN   unfinished_remove() is reading the name; nothing writes it again
 */
#include "base/unfinished.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 32, NAME_CAPACITY = 4096 };
enum { FREE, FILLING, LISTED, TAKEN };

static struct {
    atomic_int state;
    int folder;
    char name[NAME_CAPACITY];
} slot[SLOTS];

int unfinished_begin(int folder, const char *name)
{
    if (strlen(name) >= NAME_CAPACITY) return -1;
    for (int i = 0; i < SLOTS; i++) {
        int state = FREE;
        if (!atomic_compare_exchange_strong(&slot[i].state, &state, FILLING)) continue;
        slot[i].folder = folder;
        snprintf(slot[i].name, NAME_CAPACITY, "%s", name);
        atomic_store(&slot[i].state, LISTED);
        return i;
    }
    return -1;
}

void unfinished_end(int i)
{
    int state = LISTED;
    assert(i < SLOTS);
    if (i < 0) return;
    atomic_compare_exchange_strong(&slot[i].state, &state, FREE);
    assert(state == LISTED || state == TAKEN); /* not ended twice */
}

void unfinished_remove(void)
{
    for (int i = 0; i < SLOTS; i++) {
        int state = LISTED;
        if (atomic_compare_exchange_strong(&slot[i].state, &state, TAKEN)) unlinkat(slot[i].folder, slot[i].name, 0);
    }
}
