/* supervised.c - see supervised.h. */
#include "plugin/supervised.h"

#include "base/clock.h"
#include "base/memory_alloc.h"
#include "plugin/process_state.h"

#include <assert.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

supervised_page *supervision;

static _Thread_local struct {
    uint64_t row;
    digest key;
} place;

int supervised_begin(void)
{
    assert(!supervision);
    void *page =
        mmap(NULL, sizeof *supervision, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (page == MAP_FAILED) return 0;
    supervision = page; /* zeros */
    supervision->began = clock_seconds();
    return 1;
}

/* ---- calls ---- */

void supervised_place(uint64_t row, digest key)
{
    place.row = row;
    place.key = key;
}

static void copy(char to[PLACE_MAX], const char *from) { snprintf(to, PLACE_MAX, "%s", from ? from : ""); }

int supervised_enter(const char *node, const char *type, const char *plugin, const char *function)
{
    if (!supervision) return 0;
    for (int i = 0; i < CALLS_MAX; i++) {
        supervised_call *c = &supervision->calls[i];
        int state = CALL_FREE;
        if (!atomic_compare_exchange_strong(&c->state, &state, CALL_FILLING)) continue;
        c->row = place.row, c->key = place.key;
        c->node = supervised_name(node);
        c->thread = (uint64_t)pthread_self();
        c->order = atomic_fetch_add(&supervision->order, 1);
        c->foreign = !type[0] || process_state_is_watched(plugin);
        copy(c->name, node), copy(c->type, type), copy(c->plugin, plugin);
        snprintf(c->function, sizeof c->function, "%s", function);
        atomic_store(&c->state, CALL_RUNS);
        return i + 1;
    }
    return 0;
}

void supervised_leave(int call)
{
    if (call && supervision) atomic_store(&supervision->calls[call - 1].state, CALL_FREE);
}

/* ---- notes ---- */

/* FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/). */
uint64_t supervised_name(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; name && *name; name++) h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h ? h : 1;
}

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

/* A process that ends in the middle leaves n_note as it was. */
supervised_note *supervised_note_add(supervised_note note, const char *text)
{
    if (!supervision) return NULL;
    size_t length = text ? strnlen(text, 4000) : 0, size = (sizeof note + length + 1 + 7) & ~(size_t)7;
    pthread_mutex_lock(&writing);
    size_t at = atomic_load(&supervision->n_note);
    supervised_note *n = at <= NOTES_BYTES && size <= NOTES_BYTES - at ? (void *)(supervision->notes + at) : NULL;
    if (n) {
        note.size = (uint32_t)size;
        memcpy(n, &note, sizeof note);
        memcpy(n->text, text ? text : "", length);
        n->text[length] = '\0';
        atomic_store(&supervision->n_note, at + size);
    }
    pthread_mutex_unlock(&writing);
    return n;
}

const supervised_note *supervised_next(const supervised_note *n)
{
    if (!supervision) return NULL;
    size_t end = atomic_load(&supervision->n_note),
           at = n ? (size_t)((const char *)n - supervision->notes) + n->size : 0;
    if (end > NOTES_BYTES || at + sizeof *n > end) return NULL;
    const supervised_note *next = (const void *)(supervision->notes + at);
    return next->size < sizeof *n || next->size > end - at ? NULL : next;
}

/* By kind, row, node and index: what was noted before this process began. */
static const supervised_note **table;
static size_t table_mask;

static size_t slot_of(uint32_t kind, uint64_t row, uint64_t node, uint64_t index)
{
    uint64_t h = (node ^ row * UINT64_C(0x9e3779b97f4a7c15) ^ index * UINT64_C(0xc2b2ae3d27d4eb4f)) + kind;
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (size_t)(h ^ h >> 32) & table_mask;
}

static int is_note(const supervised_note *n, uint32_t kind, uint64_t row, uint64_t node, uint64_t index)
{
    return n->kind == kind && n->row == row && n->node == node && n->index == index;
}

void supervised_attempt_begin(void)
{
    size_t n = 0, capacity = 64;
    mem_free(table);
    table = NULL;
    for (const supervised_note *i = supervised_next(NULL); i; i = supervised_next(i)) n++;
    while (capacity < 2 * n) capacity *= 2;
    if (!n || !(table = mem_calloc(capacity, sizeof(const supervised_note *)))) return;
    table_mask = capacity - 1;
    for (const supervised_note *i = supervised_next(NULL); i; i = supervised_next(i)) {
        size_t at = slot_of(i->kind, i->row, i->node, i->index);
        while (table[at] && !is_note(table[at], i->kind, i->row, i->node, i->index)) at = (at + 1) & table_mask;
        table[at] = i; /* the last of equal ones */
    }
}

const supervised_note *supervised_find(note_kind kind, uint64_t row, uint64_t node, uint64_t index)
{
    if (!table) return NULL;
    size_t at = slot_of(kind, row, node, index);
    while (table[at] && !is_note(table[at], kind, row, node, index)) at = (at + 1) & table_mask;
    return table[at];
}

void supervised_end(void)
{
    mem_free(table);
    table = NULL;
    if (supervision) munmap(supervision, sizeof *supervision);
    supervision = NULL;
}

/* The notes lie in memory that is ours to write. */
void supervised_note_said(const supervised_note *n)
{
    if (n) atomic_store((atomic_uint *)(uintptr_t)&n->said, 1);
}

static const supervised_note *refusal_of_run(const char *node)
{
    const supervised_note *n = supervised_find(NOTE_CRASHED, place.row, supervised_name(node), 0);
    if (!n && (place.key.lo | place.key.hi)) n = supervised_find(NOTE_KEY, 0, place.key.lo, place.key.hi);
    return n;
}

uint64_t supervised_function_of(uint64_t node, const char *function) { return node ^ supervised_name(function) << 1; }

const char *supervised_refusal(const char *node, const char *type, const char *plugin, const char *function)
{
    if (!table) return NULL;
    const supervised_note *n =
        strcmp(function, "run") == 0
            ? refusal_of_run(node)
            : supervised_find(NOTE_FUNCTION, 0, supervised_function_of(supervised_name(node), function), 0);
    if (!n) n = supervised_find(NOTE_TYPE, 0, supervised_name(type), 0);
    if (!n) n = supervised_find(NOTE_PLUGIN, 0, supervised_name(plugin), 0);
    if (!n) return NULL;
    if (strcmp(function, "estimate") != 0) /* which nobody sees fail */
        supervised_note_said(n);
    return n->text;
}

/* ---- plugins ---- */

enum { PLUGINS_MAX = 1024 };
static struct {
    uintptr_t base, end;
    const char *file; /* without its folder */
    char id[PLACE_MAX];
} plugins[PLUGINS_MAX];
static int n_plugin;

typedef struct {
    uintptr_t base, end;
} extent;

static int find_end(struct dl_phdr_info *info, size_t size, void *arg)
{
    extent *x = arg;
    (void)size;
    if (info->dlpi_addr != x->base) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && info->dlpi_addr + p->p_vaddr + p->p_memsz > x->end)
            x->end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
    return 1;
}

void supervised_plugin_add(void *so, const char *path, const char *id)
{
    struct link_map *map = NULL;
    if (!supervision || dlinfo(so, RTLD_DI_LINKMAP, &map) != 0 || !map) return;
    int at = 0;
    while (at < n_plugin && plugins[at].base != map->l_addr) at++;
    if (at == PLUGINS_MAX) return;
    extent x = {.base = map->l_addr};
    dl_iterate_phdr(find_end, &x);
    const char *slash = strrchr(path, '/');
    plugins[at].base = x.base, plugins[at].end = x.end;
    plugins[at].file = slash ? slash + 1 : path;
    copy(plugins[at].id, id);
    if (at == n_plugin) n_plugin++;
}

static size_t put_text(char *to, size_t at, size_t capacity, const char *text)
{
    while (*text && at + 1 < capacity) to[at++] = *text++;
    to[at] = '\0';
    return at;
}

static void put_place(char *to, size_t capacity, const char *file, uintptr_t offset)
{
    char digits[2 * sizeof offset + 1], *d = digits + sizeof digits - 1;
    *d = '\0';
    do *--d = "0123456789abcdef"[offset % 16];
    while (offset /= 16);
    size_t at = put_text(to, 0, capacity, file);
    at = put_text(to, at, capacity, "+0x");
    put_text(to, at, capacity, d);
}

int supervised_plugin_at(void *const *address, int n, char *to, size_t capacity, char *id, size_t id_capacity)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n_plugin; k++) {
            uintptr_t a = (uintptr_t)address[i];
            if (a < plugins[k].base || a >= plugins[k].end) continue;
            put_place(to, capacity, plugins[k].file, a - plugins[k].base);
            put_text(id, 0, id_capacity, plugins[k].id);
            return 1;
        }
    return 0;
}
