/* call_again.c - see call_again.h. Under --validate one node runs at a time, so what is being tried is a global. */
#include "plugin/call_again.h"

#include "base/clock.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "plugin/output.h"
#include "tensor/value.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NODES_MAX = 64, CANCELLED_MAX = 8 };
#define LONGEST 20.0 /* seconds: a node that takes longer is called twice and no more */

static struct {
    const call_environment *env; /* of the run; NULL: nothing is being tried */
    _Atomic int64_t ticks;       /* looks whether to stop, by any thread */
    int64_t cancel_at;           /* < 0: never */
    uint64_t seen[NODES_MAX];
    size_t n_seen;
} again;

static int cancelled(void *arg)
{
    if (again.cancel_at >= 0 && again.ticks > again.cancel_at) return 1;
    return again.env->cancelled && again.env->cancelled(arg);
}

static void progress(void *arg, size_t node, uint64_t done, uint64_t total, const char *what)
{
    (void)arg, (void)node, (void)done, (void)total, (void)what;
}

/* Each question whether to stop counts, progress() among them. */
static int counted(void *arg)
{
    atomic_fetch_add(&again.ticks, 1);
    return cancelled(arg);
}

/* Nothing of it is shown, kept or gone on from. */
static call_environment quiet(const call_environment *env, output_folder *to)
{
    call_environment e = *env;
    e.output = to, e.cancelled = counted, e.progress = progress;
    e.draft = NULL, e.preview = NULL, e.naming = NULL, e.file = NULL, e.written = NULL, e.not_kept = NULL;
    e.state_load = NULL, e.state_due = NULL, e.state_save = NULL;
    return e;
}

static void put_line(const char *folder, const char *test, const char *node, const char *text)
{
    str path = {0};
    str_printf(&path, "%s/again", folder);
    FILE *f = path.failed ? NULL : fopen(path.data, "ae");
    if (f) {
        print_text(f, "%s\t%s\t%s\n", test, node, text);
        fclose(f);
    }
    str_free(&path);
}

__attribute__((format(printf, 4, 5))) static void report(const char *folder, const made_call *m, const char *test,
                                                         const char *fmt, ...)
{
    char text[1200], node[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(node, sizeof node, "node '%.120s' (%.150s)", m->name, m->type->type);
    for (char *at = text; (at = strpbrk(at, "\n\t")); at++) *at = ' ';
    for (char *at = node; (at = strpbrk(at, "\n\t")); at++) *at = ' ';
    put_line(folder, test, node, text);
}

static void drop(const made_call *m, kiln_value **out)
{
    for (uint32_t i = 0; i < m->type->n_out; i++) value_unref(out[i]);
}

static kiln_status once(const made_call *m, const call_environment *env, int64_t cancel_at, kiln_value **out, error *e)
{
    atomic_store(&again.ticks, 0);
    again.cancel_at = cancel_at;
    return ctx_call(env, m->node, m->name, m->plugin, m->type, m->instance, m->params, m->in, out, e);
}

/* Objects without plain data have no bytes to compare. */
static int same(const made_call *m, kiln_value *const *out)
{
    for (uint32_t i = 0; i < m->type->n_out; i++) {
        error ignored = {0};
        digest one, two;
        if (!m->out[i] || !out[i] || value_digest(m->out[i], &one, &ignored) != KILN_OK ||
            value_digest(out[i], &two, &ignored) != KILN_OK)
            continue;
        if (!digest_equal(one, two)) return 0;
    }
    return 1;
}

static void try_all(const made_call *m, const char *folder, kiln_value **out)
{
    output_folder to = {.path = folder};
    const call_environment env = quiet(m->env, &to);
    error e = {0};
    const double began = clock_seconds();
    kiln_status status = once(m, &env, -1, out, &e);
    const int64_t ticks = again.ticks;
    if (status == KILN_CANCELLED) return; /* the run is */
    if (status != KILN_OK)
        report(folder, m, "same",
               "succeeded in the workflow, and failed when it was called again with the same inputs: %s", e.message);
    else if (m->type->flags & KILN_NODE_PURE && !same(m, out))
        report(folder, m, "pure",
               "is declared PURE but made other bytes when it was called again with the inputs of the workflow");
    if (status == KILN_OK) drop(m, out);
    const double each = clock_seconds() - began;
    int64_t k = 0;
    for (; k < ticks && k < CANCELLED_MAX && each * (double)(k + 1) < LONGEST; k++) {
        error why = {0};
        status = once(m, &env, k, out, &why);
        if (status == KILN_OK) drop(m, out);
        if (status != KILN_CANCELLED)
            report(folder, m, "cancel",
                   "ended with %s instead of KILN_CANCELLED when the workflow was cancelled at its "
                   "look number %lld",
                   status_name(status), (long long)k + 1);
    }
    report(folder, m, "tried", "called again with the inputs of the workflow: once, and cancelled %lld time%s",
           (long long)k, k == 1 ? "" : "s");
}

static int is_new(const char *name)
{
    const uint64_t h = digest_of(name, strlen(name)).lo;
    for (size_t i = 0; i < again.n_seen; i++)
        if (again.seen[i] == h) return 0;
    if (again.n_seen == NODES_MAX) return 0;
    return again.seen[again.n_seen++] = h, 1;
}

/* Where findings about this plugin go; NULL: nobody asks. */
static const char *folder_of(const char *plugin)
{
    const char *asked = getenv("KILN_CHECK_AGAIN"), *folder = asked ? strchr(asked, ':') : NULL;
    if (!folder || strncmp(asked, plugin, (size_t)(folder - asked)) != 0 || plugin[folder - asked]) return NULL;
    return folder + 1;
}

void call_again_used(const char *plugin, const char *kind, const char *name)
{
    const char *folder = folder_of(plugin);
    char row[200];
    snprintf(row, sizeof row, "%s %s", kind, name);
    if (folder && is_new(row)) put_line(folder, "used", row, "was used");
}

void call_again(const made_call *m)
{
    const char *folder = folder_of(m->plugin);
    if (!folder || again.env || !is_new(m->name)) return;
    kiln_value **out = mem_calloc(m->type->n_out + 1u, sizeof *out);
    if (!out) return;
    again.env = m->env;
    try_all(m, folder, out);
    again.env = NULL;
    mem_free(out);
}
