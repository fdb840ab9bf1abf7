/* machine.c - see machine.h. */
#include "run/machine.h"

#include "backend/choose.h"
#include "base/descriptors.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_guard.h"
#include "plugin/abilities.h"
#include "plugin/supervised.h"
#include "run/index_files.h"
#include "run/interrupt.h"
#include "run/memory_budget.h"
#include "run/stored_types.h"
#include "run/unreadable.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTORS_OF_A_RUN = 12, UNTOUCHED = 0xff /* a NaN of every type */ };

residency *machine_residency(const machine *m) { return runtime_residency(m->runtime); }
budget *machine_budget(const machine *m) { return residency_budget(machine_residency(m)); }

int machine_asynchronous(const machine *m) { return residency_device(machine_residency(m))->table->asynchronous != 0; }

device_traffic machine_traffic(const machine *m)
{
    const memory_device *d = residency_device(machine_residency(m));
    return d->table->asynchronous ? d->table->traffic(d) : (device_traffic){0};
}

/* ---- keys ---- */

static const plugin_info *plugin_of(const catalog *c, const char *id)
{
    for (size_t i = 0; id && i < catalog_plugins(c); i++) {
        const plugin_info *p = catalog_plugin(c, i);
        if (p->table && p->id && strcmp(p->id, id) == 0) return p;
    }
    return NULL;
}

static int origin(void *arg, const char *from, const char *name, digest *out)
{
    const plugin_info *p = plugin_of(((machine *)arg)->catalog, registry_owner_of(from, name));
    if (p) *out = p->identity;
    return p != NULL;
}

/* Sums of both halves, so that neither the order on the search path nor the order of rows decides. */
static digest families_digest(const catalog *c)
{
    digest sum = {0};
    for (size_t i = 0; registry_family_owner(i); i++) {
        const plugin_info *p = plugin_of(c, registry_family_owner(i));
        if (p) sum.lo += p->identity.lo, sum.hi += p->identity.hi;
    }
    return sum;
}

key_setting machine_keys(machine *m)
{
    return (key_setting){.origin = origin,
                         .unreadable = file_is_unreadable,
                         .beside = index_files,
                         .arg = m,
                         .families = families_digest(m->catalog),
                         .device = runtime_backend(m->runtime)->name,
                         .precision = dtype_name(runtime_precision(m->runtime)),
                         .numerics = runtime_backend(m->runtime)->numerics(),
                         .engine = KILN_VERSION " " KILN_ARITHMETIC};
}

/* ---- opening ---- */

static void warn_of_few_descriptors(const catalog *c)
{
    if (descriptors_left(DESCRIPTORS_OF_A_RUN)) return;
    log_warn("fewer than %d more files can be opened (the limit is %lu at once); if that is too few, allow more with: "
             "ulimit -n %zu",
             DESCRIPTORS_OF_A_RUN, descriptors_limit(), catalog_plugins(c) + DESCRIPTORS_ENOUGH);
}

static kiln_status check_writable(const char *path, error *e)
{
    TRY(folder_make(path, e));
    if (access(path, W_OK | X_OK) == 0) return KILN_OK;
    return error_set(e, KILN_ERR_IO, "%s: cannot be written to; give another folder with --out", path);
}

static kiln_status choose_precision(const char *text, const backend *b, uint32_t *out, error *e)
{
    *out = !text || strcmp(text, "auto") == 0 ? 0 : dtype_from_name(text);
    if (!text || strcmp(text, "auto") == 0) return KILN_OK;
    if (*out != KILN_F32 && *out != KILN_BF16 && *out != KILN_F16)
        return error_set(e, KILN_ERR_INVALID, "--precision %s: it is f32, bf16, f16 or auto", text);
    if (b->precisions >> *out & 1) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID,
                     "--precision %s: this run is on '%s', which computes in f32 or bf16; take --precision bf16 or "
                     "f32, or a CUDA device (--device cuda)",
                     text, b->name);
}

static kiln_status open_runtime(machine *m, const job_setting *s, error *e)
{
    runtime_setting rs = {.threads = s->threads,
                          .list_ops = s->mode != JOB_RUN,
                          .check_finite = s->validate,
                          .trace = s->trace ? report_op : NULL,
                          .trace_arg = m->report};
    TRY(backend_choose(s->device, &rs.backend, &rs.device_index, e));
    TRY(choose_precision(s->precision, rs.backend, &rs.precision, e));
    TRY(memory_budget_choose(s, &rs, e));
    m->runtime = runtime_new(&rs, e);
    if (!m->runtime) return e->status;
    if (!machine_asynchronous(m)) memory_count_values(machine_budget(m));
    return KILN_OK;
}

static void note_waiting(void *arg, size_t i)
{
    report_note(((machine *)arg)->report, i, "waits for another process that is computing it");
}

static kiln_status open_result_cache(machine *m, const job_setting *s, error *e)
{
    result_cache_setting k = {.folder = s->cache,
                              .limit = s->cache_limit,
                              .state_seconds = s->state_seconds,
                              .off = s->no_cache || s->mode == JOB_EXPLAIN,
                              .types = stored_types(),
                              .cancelled = interrupt_asked,
                              .waiting = note_waiting,
                              .arg = m};
    if (s->mode == JOB_RUN && supervision && supervision->store[0] && atomic_load(&supervision->takes_part))
        k.folder = supervision->store, k.off = 0, k.short_lived = 1;
    TRY(result_cache_open(&k, &m->result_cache, e));
    key_setting keys = machine_keys(m);
    char rates[256];
    snprintf(rates, sizeof rates, "%s %s %s", keys.device, keys.precision, keys.numerics);
    result_cache_rates_for(m->result_cache, rates);
    return KILN_OK;
}

kiln_status machine_open(machine *m, const job *j, const job_setting *s, error *e)
{
    int runs = s->mode == JOB_RUN;
    *m = (machine){.catalog = j->catalog, .roots = &j->roots};
    warn_of_few_descriptors(m->catalog);
    if (runs) TRY(check_writable(s->out ? s->out : "out", e));
    m->report = report_open(&(report_setting){.workflow = &j->first.w,
                                              .events = runs ? s->events : NULL,
                                              .trace = runs ? s->trace : NULL,
                                              .quiet = s->quiet || !runs,
                                              .verbose = s->verbose,
                                              .on_event = runs ? s->on_event : NULL,
                                              .arg = s->arg},
                            e);
    if (!m->report) return e->status;
    if (runs && s->validate) mem_guard(1, UNTOUCHED);
    TRY(open_runtime(m, s, e));
    return open_result_cache(m, s, e);
}

void machine_close(machine *m)
{
    mem_guard(0, 0);
    result_cache_close(m->result_cache);
    memory_count_values(NULL);
    runtime_free(m->runtime);
    *m = (machine){0};
}
