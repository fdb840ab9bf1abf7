/* registry.c - the open tables: samplers, schedules, stored types, value types, model families, abilities of plugins.
 * Rows are added while plugins open, one thread, and only read afterwards.
 */
#include "base/memory_alloc.h"
#include "graph/custom_call.h"
#include "param/param_rows.h"
#include "plugin/abilities.h"
#include "plugin/call_again.h"
#include "plugin/crash_report.h"
#include "plugin/process_state.h"
#include "plugin/supervised.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 1024 };

typedef struct {
    const void *row;
    const char *name, *owner;
    uint32_t kind;
    char *copied;  /* the name, where it is the registry's own */
    void *own_row; /* the row, where it is a copy with another name */
} entry;

static struct {
    entry row[ROWS_MAX];
    size_t n;
} table;

enum { KIND_FAMILY = 1, KIND_SAMPLER, KIND_SCHEDULE, KIND_STORED, KIND_ABILITY, KIND_TYPE, KIND_OP };

static const char *owner, *owner_data;
static char fault[512];

/* Names of the current owner's that others have. */
enum { CLASHES_MAX = 16 };
static struct {
    char text[300];
    const char *name;
} clash[CLASHES_MAX];
static size_t n_clash;

void registry_owner_set(const char *plugin, const char *data)
{
    owner = plugin;
    owner_data = data;
    fault[0] = '\0';
    if (plugin) n_clash = 0;
}
const char *registry_data(void) { return owner_data; }
const char *registry_fault(void) { return fault; }
const char *registry_clash(size_t i) { return i < n_clash ? clash[i].text : NULL; }
const char *registry_clash_name(size_t i) { return i < n_clash ? clash[i].name : NULL; }

size_t registry_mark(void) { return table.n; }
void registry_rewind(size_t mark)
{
    while (table.n > mark) {
        mem_free(table.row[--table.n].copied);
        mem_free(table.row[table.n].own_row);
    }
}

kiln_status registry_fail(kiln_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!fault[0]) vsnprintf(fault, sizeof fault, fmt, args);
    va_end(args);
    return status;
}

static kiln_status add(uint32_t kind, const char *what, const void *row, const char *name)
{
    if (!owner) return registry_fail(KILN_ERR_BUG, "%s '%s' registered outside open()", what, name ? name : "?");
    if (!row || !name || !name[0] || strlen(name) > 128)
        return registry_fail(KILN_ERR_INVALID, "a%s %s without a usable name", strchr("aeiou", what[0]) ? "n" : "",
                             what);
    if (table.n == ROWS_MAX) return registry_fail(KILN_ERR_NOMEM, "more than %d registered rows", ROWS_MAX);
    for (size_t i = 0; i < table.n; i++)
        if (table.row[i].kind == kind && strcmp(table.row[i].name, name) == 0)
            return registry_fail(KILN_ERR_INVALID, "%s '%s' is already registered by %s", what, name,
                                 table.row[i].owner);
    table.row[table.n++] = (entry){.row = row, .name = name, .owner = owner, .kind = kind};
    return KILN_OK;
}

static const entry *nth(uint32_t kind, size_t i)
{
    for (size_t k = 0; k < table.n; k++)
        if (table.row[k].kind == kind && i-- == 0) return &table.row[k];
    return NULL;
}

static const void *named(uint32_t kind, const char *name)
{
    for (size_t k = 0; name && k < table.n; k++)
        if (table.row[k].kind == kind && strcmp(table.row[k].name, name) == 0) return table.row[k].row;
    return NULL;
}

/* For `kiln check-plugin`, which asks what of a plugin a run has taken. */
static const void *used(const void *row)
{
    static const char *const what[] = {
        [KIND_SAMPLER] = "sampler", [KIND_SCHEDULE] = "schedule", [KIND_OP] = "op", [KIND_FAMILY] = "family"};
    for (size_t k = 0; row && k < table.n; k++)
        if (table.row[k].row == row && table.row[k].kind < sizeof what / sizeof *what && what[table.row[k].kind])
            call_again_used(table.row[k].owner, what[table.row[k].kind], table.row[k].name);
    return row;
}

static size_t count(uint32_t kind)
{
    size_t n = 0;
    for (size_t k = 0; k < table.n; k++) n += table.row[k].kind == kind;
    return n;
}

static const void *row_at(uint32_t kind, size_t i)
{
    const entry *e = nth(kind, i);
    return e ? e->row : NULL;
}

const char *registry_name(const char *from, size_t i)
{
    uint32_t kind = strcmp(from, "sampler") == 0 ? KIND_SAMPLER : strcmp(from, "schedule") == 0 ? KIND_SCHEDULE : 0;
    const entry *e = kind ? nth(kind, i) : NULL;
    return e ? e->name : NULL;
}

static const char *names_at(void *self, const char *from, size_t i) { return (void)self, registry_name(from, i); }
const param_names registry_names = {.name_at = names_at};

const char *registry_owner_of(const char *from, const char *name)
{
    uint32_t kind = strcmp(from, "sampler") == 0    ? KIND_SAMPLER
                    : strcmp(from, "schedule") == 0 ? KIND_SCHEDULE
                    : strcmp(from, "ability") == 0  ? KIND_ABILITY
                                                    : 0;
    for (size_t k = 0; k < table.n; k++)
        if (kind && table.row[k].kind == kind && strcmp(table.row[k].name, name) == 0) return table.row[k].owner;
    return NULL;
}

int registry_has_rows_of(const char *owner_id)
{
    for (size_t k = 0; k < table.n; k++)
        if (strcmp(table.row[k].owner, owner_id) == 0) return 1;
    return 0;
}

int registry_has_others_of(const char *owner_id)
{
    for (size_t k = 0; k < table.n; k++)
        if (table.row[k].kind != KIND_SAMPLER && table.row[k].kind != KIND_SCHEDULE &&
            strcmp(table.row[k].owner, owner_id) == 0)
            return 1;
    return 0;
}

const char *registry_family_owner(size_t i)
{
    for (size_t k = 0; k < table.n; k++)
        if (table.row[k].kind == KIND_FAMILY && i-- == 0) return table.row[k].owner;
    return NULL;
}

/* ---- abilities that plugins provide ---- */

kiln_status ability_provide(const char *id, const void *provided)
{
    if (id && ability_of_engine(id)) return registry_fail(KILN_ERR_INVALID, "ability '%s' is the engine's own", id);
    if (provided && *(const uint32_t *)provided < sizeof(uint32_t))
        return registry_fail(KILN_ERR_INVALID, "ability '%s': its table does not start with its size", id ? id : "?");
    char *name = id ? mem_strndup(id, strlen(id)) : NULL;
    if (id && !name) return registry_fail(KILN_ERR_NOMEM, "out of memory");
    kiln_status status = add(KIND_ABILITY, "ability", provided, name);
    if (status == KILN_OK)
        table.row[table.n - 1].copied = name;
    else
        mem_free(name);
    return status;
}

const void *ability_provided(const char *id) { return named(KIND_ABILITY, id); }

const char *registry_provider(size_t i)
{
    const entry *e = nth(KIND_ABILITY, i);
    return e ? e->owner : NULL;
}

/* ---- "kiln.sampler/1" ---- */

kiln_param_table sampler_options(const kiln_sampler *s)
{
    return (kiln_param_table){.size = sizeof(kiln_param_table),
                              .noun = "option",
                              .param = s->param,
                              .n_param = s->n_param,
                              .param_stride = s->param_stride,
                              .params_size = s->params_size};
}

/* A struct is filled by these rows, so they have to be as sound as a node's. */
static kiln_status check_options(const kiln_sampler *s)
{
    error why = {0};
    kiln_param_table rows = sampler_options(s);
    kiln_status status = param_rows_check(&rows, &why);
    return status == KILN_OK ? KILN_OK : registry_fail(status, "sampler %.128s: %s", s->name, why.message);
}

/* 1: another plugin has a row of this kind and name. */
static int is_taken(uint32_t kind, const char *name)
{
    for (size_t i = 0; owner && i < table.n; i++)
        if (table.row[i].kind == kind && strcmp(table.row[i].name, name) == 0 && table.row[i].owner != owner) {
            if (n_clash == CLASHES_MAX) return 0;
            snprintf(clash[n_clash].text, sizeof clash[n_clash].text, "%s '%.100s' is already registered by %.100s",
                     kind == KIND_SAMPLER ? "sampler" : "schedule", name, table.row[i].owner);
            clash[n_clash++].name = name;
            return 1;
        }
    return 0;
}

/* A copy of the row, which starts with its size, is registered as "OWNER/NAME", which is written to its member at
 * `name_at`. */
static kiln_status add_as_owners(uint32_t kind, const char *what, const void *row, uint32_t known, size_t name_at,
                                 const char *name)
{
    uint32_t size;
    memcpy(&size, row, sizeof size);
    if (size > known) size = known;
    if (size < name_at + sizeof name) return registry_fail(KILN_ERR_INVALID, "a %s without a usable size", what);
    size_t n = strlen(owner) + strlen(name) + 2;
    char *own = mem_alloc(n);
    void *copy = mem_alloc(size);
    kiln_status status = own && copy ? KILN_OK : registry_fail(KILN_ERR_NOMEM, "out of memory");
    if (status == KILN_OK) {
        snprintf(own, n, "%s/%s", owner, name);
        memcpy(copy, row, size);
        memcpy(copy, &size, sizeof size);
        memcpy((char *)copy + name_at, &own, sizeof own);
        status = add(kind, what, copy, own);
    }
    if (status != KILN_OK) return mem_free(own), mem_free(copy), status;
    table.row[table.n - 1].copied = own;
    table.row[table.n - 1].own_row = copy;
    return KILN_OK;
}

static kiln_status register_sampler(const kiln_sampler *s)
{
    if (s && s->run && s->name) TRY(check_options(s));
    if (s && s->run && s->name && is_taken(KIND_SAMPLER, s->name))
        return add_as_owners(KIND_SAMPLER, "sampler", s, sizeof *s, offsetof(kiln_sampler, name), s->name);
    return add(KIND_SAMPLER, "sampler", s, s && s->run ? s->name : NULL);
}
static kiln_status register_schedule(const kiln_schedule *s)
{
    if (s && s->make && s->name && is_taken(KIND_SCHEDULE, s->name))
        return add_as_owners(KIND_SCHEDULE, "schedule", s, sizeof *s, offsetof(kiln_schedule, name), s->name);
    return add(KIND_SCHEDULE, "schedule", s, s && s->make ? s->name : NULL);
}
static size_t sampler_count(void) { return count(KIND_SAMPLER); }
static const kiln_sampler *sampler_at(size_t i) { return row_at(KIND_SAMPLER, i); }
static const kiln_sampler *sampler(const char *name) { return used(named(KIND_SAMPLER, name)); }
static size_t schedule_count(void) { return count(KIND_SCHEDULE); }
static const kiln_schedule *schedule_at(size_t i) { return row_at(KIND_SCHEDULE, i); }
static const kiln_schedule *schedule(const char *name) { return used(named(KIND_SCHEDULE, name)); }

static const char *plugin_of(const void *row)
{
    for (size_t k = 0; row && k < table.n; k++)
        if ((table.row[k].kind == KIND_SAMPLER || table.row[k].kind == KIND_SCHEDULE) && table.row[k].row == row)
            return table.row[k].owner;
    return NULL;
}

const kiln_sampler_api sampler_api = {
    .size = sizeof(kiln_sampler_api),
    .register_sampler = register_sampler,
    .register_schedule = register_schedule,
    .sampler_count = sampler_count,
    .sampler_at = sampler_at,
    .sampler = sampler,
    .schedule_count = schedule_count,
    .schedule_at = schedule_at,
    .schedule = schedule,
    .plugin_of = plugin_of,
};

/* ---- stored types of "kiln.store/1" (the states are in ability_store.c) ---- */

kiln_status stored_type_register(const kiln_stored_type *t)
{
    static const char *const handle[] = {"MODEL", "CLIP", "VAE"};
    if (!t || !t->type || !t->to_plain || !t->from_plain || t->revision == 0)
        return registry_fail(KILN_ERR_INVALID, "a stored type without name, revision, to_plain or from_plain");
    for (size_t i = 0; i < sizeof handle / sizeof handle[0]; i++)
        if (strcmp(t->type, handle[i]) == 0)
            return registry_fail(KILN_ERR_INVALID, "stored type '%s': the engine's own handles are never stored",
                                 t->type);
    return add(KIND_STORED, "stored type", t, t->type);
}
const kiln_stored_type *stored_type_find(const char *type) { return named(KIND_STORED, type); }

/* ---- ops of "kiln.ops/1" ---- */

kiln_status op_kind_register(const kiln_op_kind *k)
{
    error why = {0};
    if (custom_kind_check(k, &why) != KILN_OK) return registry_fail(why.status, "%s", why.message);
    return add(KIND_OP, "op", k, k->name);
}

void op_kind_used(const kiln_op_kind *k) { used(k); }

const kiln_op_kind *op_kind_of(const char *owner_id, size_t i)
{
    for (size_t k = 0; k < table.n; k++)
        if (table.row[k].kind == KIND_OP && strcmp(table.row[k].owner, owner_id) == 0 && i-- == 0)
            return table.row[k].row;
    return NULL;
}

/* ---- types of "kiln.types/1" (kiln's own, and the rest of the ability, are in value_types.c) ---- */

kiln_status registered_type_add(const kiln_value_type *t) { return add(KIND_TYPE, "value type", t, t->name); }
size_t registered_type_count(void) { return count(KIND_TYPE); }
const kiln_value_type *registered_type_at(size_t i) { return row_at(KIND_TYPE, i); }
const kiln_value_type *registered_type(const char *name) { return named(KIND_TYPE, name); }
const char *registered_type_owner(const char *name)
{
    for (size_t i = 0; i < table.n; i++)
        if (table.row[i].kind == KIND_TYPE && strcmp(table.row[i].name, name) == 0) return table.row[i].owner;
    return NULL;
}

/* ---- families of "kiln.model/2" (the values are in ability_model.c) ---- */

kiln_status family_register(const kiln_model_family *f);
size_t family_count(const char *kind);
const kiln_model_family *family_at(const char *kind, size_t i);
const kiln_model_family *family_detect(const char *kind, const kiln_weights *set);

static int is_family(const entry *e, const char *kind)
{
    return e->kind == KIND_FAMILY && (!kind || strcmp(((const kiln_model_family *)e->row)->kind, kind) == 0);
}

kiln_status family_register(const kiln_model_family *f)
{
    if (!f || !KILN_HAS(kiln_model_family, f, open) || !f->kind || !f->kind[0] || !f->detect || !f->open)
        return registry_fail(KILN_ERR_INVALID, "a model family without kind, detect or open");
    return add(KIND_FAMILY, "model family", f, f->name);
}

size_t family_count(const char *kind)
{
    size_t n = 0;
    for (size_t i = 0; i < table.n; i++) n += (size_t)is_family(&table.row[i], kind);
    return n;
}

const kiln_model_family *family_at(const char *kind, size_t i)
{
    for (size_t k = 0; k < table.n; k++)
        if (is_family(&table.row[k], kind) && i-- == 0) return table.row[k].row;
    return NULL;
}

/* Of a plugin that is looked at; a node that runs is blamed itself. */
int family_enter(const kiln_model_family *f, const char *function)
{
    char name[PLACE_MAX];
    size_t k = 0;
    while (k < table.n && table.row[k].row != f) k++;
    if (k == table.n || !process_state_is_watched(table.row[k].owner) || crash_report_inside()) return 0;
    snprintf(name, sizeof name, "plugin %.90s: model family '%.60s'", table.row[k].owner, f->name);
    return supervised_enter(name, "", table.row[k].owner, function);
}

static int score_of(const kiln_model_family *f, const kiln_weights *set)
{
    int call = family_enter(f, "detect"), score = f->detect(&weights_api, set);
    supervised_leave(call);
    return score;
}

const kiln_model_family *family_detect(const char *kind, const kiln_weights *set)
{
    const kiln_model_family *best = NULL;
    int most = 0;
    for (size_t i = 0; i < table.n; i++) {
        const kiln_model_family *f = table.row[i].row;
        int score = is_family(&table.row[i], kind) ? score_of(f, set) : 0;
        if (score > most) most = score, best = f;
    }
    return used(best);
}
