/* unfinished.c - a table without a lock, since a signal handler reads it; see unfinished.h. A slot goes free -> filling
 * -> listed -> free, or from listed to taken by unfinished_remove(), and then stays: its name is never written again
 * while it is being read. */
#include "base/unfinished.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 32, NAME_ROOM = 4096 };
enum { FREE, FILLING, LISTED, TAKEN };

static struct {
    atomic_int state;
    int folder;
    char name[NAME_ROOM];
} slot[SLOTS];

int unfinished_begin(int folder, const char *name)
{
    if (strlen(name) >= NAME_ROOM) return -1;
    for (int i = 0; i < SLOTS; i++) {
        int state = FREE;
        if (!atomic_compare_exchange_strong(&slot[i].state, &state, FILLING)) continue;
        slot[i].folder = folder;
        snprintf(slot[i].name, NAME_ROOM, "%s", name);
        atomic_store(&slot[i].state, LISTED);
        return i;
    }
    return -1;
}

void unfinished_end(int i)
{
    int state = LISTED;
    if (i >= 0) atomic_compare_exchange_strong(&slot[i].state, &state, FREE);
}

void unfinished_remove(void)
{
    for (int i = 0; i < SLOTS; i++) {
        int state = LISTED;
        if (atomic_compare_exchange_strong(&slot[i].state, &state, TAKEN)) unlinkat(slot[i].folder, slot[i].name, 0);
    }
}
