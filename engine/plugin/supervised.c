/* supervised.c - see supervised.h. */
#include "plugin/supervised.h"

#include "base/clock.h"
#include "base/memory_alloc.h"
#include "plugin/process_state.h"
#include "plugin/supervised_line.h"

#include <assert.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

supervised_page *supervision;

static _Thread_local struct {
    uint64_t row;
    digest key;
} place;

static void *map(void *at)
{
    return mmap(at, sizeof *supervision, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
}

int supervised_begin(void)
{
    assert(!supervision);
    void *page = map(NULL);
    if (page == MAP_FAILED) return 0;
    supervision = page; /* zeros */
    supervision->began = clock_seconds();
    return 1;
}

/* What the processes before have counted. */
static void count_again(void)
{
    for (const supervised_note *n = supervised_next(NULL); n; n = supervised_next(n)) {
        uint64_t kind = n->detail & (NOTE_WROTE - 1);
        if (n->kind != NOTE_ENDED || kind >= ENDED_KINDS) continue;
        atomic_fetch_add(&supervision->ended[kind], 1);
        if (n->detail & NOTE_WROTE) atomic_fetch_add(&supervision->outputs_done, 1);
    }
}

int supervised_renew(const char *notes, size_t n_note)
{
    assert(supervision && n_note <= NOTES_BYTES);
    if (map(supervision) == MAP_FAILED) return 0; /* zeros */
    if (n_note) memcpy(supervision->notes, notes, n_note);
    atomic_store(&supervision->n_note, n_note);
    count_again();
    return 1;
}

/* ---- calls ---- */

void supervised_place(uint64_t row, digest key)
{
    place.row = row;
    place.key = key;
}

static void copy(char to[PLACE_MAX], const char *from) { snprintf(to, PLACE_MAX, "%s", from ? from : ""); }

static void tell_call(message_kind kind, int i)
{
    const supervised_call *c = &supervision->calls[i];
    message_call sent = {
        .slot = (uint32_t)i, .order = c->order, .thread = c->thread, .row = c->row, .node = c->node, .key = c->key};
    if (kind == MESSAGE_ENTER) {
        memcpy(sent.function, c->function, sizeof sent.function);
        copy(sent.name, c->name), copy(sent.type, c->type), copy(sent.plugin, c->plugin);
    }
    supervised_send(kind, &sent, kind == MESSAGE_ENTER ? sizeof sent : offsetof(message_call, function), NULL, 0);
}

static int enter(const char *node, const char *type, const char *plugin, const char *function, int foreign)
{
    if (!supervision) return 0;
    supervised_check();
    for (int i = 0; i < CALLS_MAX; i++) {
        supervised_call *c = &supervision->calls[i];
        int state = CALL_FREE;
        if (!atomic_compare_exchange_strong(&c->state, &state, CALL_FILLING)) continue;
        c->row = place.row, c->key = place.key;
        c->node = supervised_name(node);
        c->thread = (uint64_t)pthread_self();
        c->order = atomic_fetch_add(&supervision->order, 1);
        c->foreign = foreign;
        copy(c->name, node), copy(c->type, type), copy(c->plugin, plugin);
        snprintf(c->function, sizeof c->function, "%s", function);
        if (c->foreign) tell_call(MESSAGE_ENTER, i);
        atomic_store(&c->state, CALL_RUNS);
        return i + 1;
    }
    return 0;
}

int supervised_enter(const char *node, const char *type, const char *plugin, const char *function)
{
    return enter(node, type, plugin, function, !type[0] || process_state_is_watched(plugin));
}

int supervised_enter_plugin(const char *path, const char *id, const char *function, int foreign)
{
    return enter(path, "", id, function, foreign);
}

void supervised_leave(int call)
{
    if (!call || !supervision) return;
    if (supervision->calls[call - 1].foreign) tell_call(MESSAGE_LEAVE, call - 1);
    atomic_store(&supervision->calls[call - 1].state, CALL_FREE);
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
    size_t length = text ? strnlen(text, NOTE_TEXT_MAX) : 0, size = (sizeof note + length + 1 + 7) & ~(size_t)7;
    supervised_check();
    pthread_mutex_lock(&writing);
    size_t at = atomic_load(&supervision->n_note);
    supervised_note *n = at <= NOTES_BYTES && size <= NOTES_BYTES - at ? (void *)(supervision->notes + at) : NULL;
    if (n) {
        note.size = (uint32_t)size;
        memcpy(n, &note, sizeof note);
        memcpy(n->text, text ? text : "", length);
        n->text[length] = '\0';
        atomic_store(&supervision->n_note, at + size);
        note.said = (supervised_said){0};
        supervised_send(MESSAGE_NOTE, &note, sizeof note, text, length);
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

/* Who replaces a file by another of its name gives it a new inode, so a number of its own tells that apart. */
uint64_t supervised_file_of(const struct stat *s)
{
    uint64_t size = (uint64_t)s->st_size; /* times are not used: some file systems round them later */
    return (s->st_ino & UINT32_MAX) << 32 | (uint32_t)digest_of(&size, sizeof size).lo | 1;
}

uint64_t supervised_file_now(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? supervised_file_of(&s) : 0;
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
    if (n) atomic_store((atomic_uint *)(uintptr_t)&n->said.what, 1);
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
    if (!supervision) return NULL;
    const supervised_note *n =
        strcmp(function, "run") == 0
            ? refusal_of_run(node)
            : supervised_find(NOTE_FUNCTION, 0, supervised_function_of(supervised_name(node), function), 0);
    if (!n) n = supervised_find(NOTE_TYPE, 0, supervised_name(type), 0);
    if (!n) n = supervised_find(NOTE_PLUGIN, 0, supervised_name(plugin), 0);
    if (!n) return supervised_is_absent(plugin, NULL);
    if (strcmp(function, "estimate") != 0) /* which nobody sees fail */
        supervised_note_said(n);
    return n->text;
}

/* ---- plugins that are left out ---- */

enum { ABSENT_MAX = 1024 };
static struct {
    const char *id, *why;
    int held, has_others;
} absent[ABSENT_MAX];
static size_t n_absent;

const char *supervised_left_out(const char *path, int *held)
{
    if (!supervision) return NULL;
    uint64_t file = supervised_name(path);
    const supervised_note *n = supervised_find(NOTE_LEFT_OUT, 0, file, 0);
    *held = !n && supervision->holds && file != supervision->exempt;
    return n ? n->text : *held ? "is held back in this process" : NULL;
}

void supervised_absent(const char *id, const char *why, int held, int has_others)
{
    if (n_absent == ABSENT_MAX) return;
    absent[n_absent].id = id, absent[n_absent].why = why;
    absent[n_absent].held = held, absent[n_absent++].has_others = has_others;
}

const char *supervised_is_absent(const char *id, int *held)
{
    for (size_t i = 0; i < n_absent; i++) {
        if (strcmp(absent[i].id, id) != 0) continue;
        if (held) *held = absent[i].held;
        return absent[i].why;
    }
    return NULL;
}

int supervised_others_held(void)
{
    int any = 0;
    for (size_t i = 0; i < n_absent; i++) any |= absent[i].held && absent[i].has_others;
    return any;
}

void supervised_forget_absent(void) { n_absent = 0; }

void supervised_end_held(void)
{
    supervised_send(MESSAGE_HELD, NULL, 0, NULL, 0);
    _exit(0);
}

static void tell_plugin(message_kind kind, const char *path, const char *id)
{
    message_plugin sent = {.file = supervised_name(path)};
    copy(sent.id, id);
    snprintf(sent.path, sizeof sent.path, "%s", path);
    if (supervision) supervised_send(kind, &sent, sizeof sent, NULL, 0);
}

void supervised_loaded(const char *path, const char *id) { tell_plugin(MESSAGE_PLUGIN, path, id); }
void supervised_needed(const char *path, const char *id) { tell_plugin(MESSAGE_NEEDED, path, id); }
void supervised_read(void) { supervised_send(MESSAGE_READ, NULL, 0, NULL, 0); }

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
    if (dlinfo(so, RTLD_DI_LINKMAP, &map) != 0 || !map) return;
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
