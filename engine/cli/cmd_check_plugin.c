/* cmd_check_plugin.c - `kiln check-plugin FILE.so ...`: checks a plugin's table, and each node in a process of its own.
 */
#include "backend/choose.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/check_elsewhere.h"
#include "cli/check_family.h"
#include "cli/check_guider.h"
#include "cli/check_node.h"
#include "cli/check_op.h"
#include "cli/check_sampler.h"
#include "cli/check_workflow.h"
#include "cli/command.h"
#include "plugin/abilities.h"
#include "plugin/crash_report.h"
#include "plugin/ctx.h"
#include "plugin/process_state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NODE_SECONDS = 120,
    CALL_SECONDS = 20,
    SETS_MAX = 10000000,
    SETS_SECONDS = 5,
    SETS_SECONDS_MAX = 3600,
    SETS_WAIT = 10
};

static const option options[] = {
    {"--device", 0, "NAME", "try its ops, samplers and guiders on this device too: cuda, cuda:1, reference", 0},
    {"--fixture", 0, "FILE", "try its model families on these weights, a small file; also one beside it, of its name",
     1},
    {"--set", 0, "NAME=VALUE", "give every parameter of this name this value: a file, say", 1},
    {"--sets", 0, "N",
     "try each node with N parameter sets drawn at random (10000 before a release); otherwise as many as 0.3 s allow. "
     "What 5 s do not allow is listed",
     0},
    {"--sets-seconds", 0, "SECONDS", "processor time that a node's sets may take (default: 5)", 0},
    {"--call-timeout", 0, "SECONDS", "end a call of a node that takes longer (default: 20)", 0},
    {"--workflow", 0, "FILE", "run this workflow with it too; otherwise one beside it, of its name and ending in .yaml",
     0},
    {"--models", 0, "DIRS", "look for models of that workflow here first", 0},
    {"--input", 0, "DIRS", "look for input files of that workflow here first", 0},
    {"--json", 0, NULL, "print one JSON object a line", 0},
};

const manual manual_check_plugin = {
    .usage = "kiln check-plugin FILE.so ... [--set NAME=VALUE] [--json]",
    .about =
        "Tries to catch a plugin breaking the contract of kiln/plugin.h: its table; then, each in a process of its "
        "own:\n"
        "  nodes      with made-up inputs, or what its other nodes make;\n"
        "             parameters at defaults, ends and choices, and at random;\n"
        "             poisoned memory, one and three threads, a stop at each\n"
        "             progress(), each allocation failing, stored objects,\n"
        "             what its process is left like; another process, then with\n"
        "             another environment, working folder and second\n"
        "  samplers   on a model whose guesses are known: steps, flags,\n"
        "             failures, going on, order of convergence, what it draws\n"
        "  guiders    on guesses that are known: what they ask for and change,\n"
        "             levels, parts, batches, failures, two at once, going on\n"
        "  schedules  levels that fall, their ends, their room\n"
        "  families   what they say of weights that are none of theirs; on a file\n"
        "             of their own (--fixture): each tensor asked for, once;\n"
        "             in bf16 what it makes in f32\n"
        "  ops        against their own reference, in each type, with 1 to 4\n"
        "             threads, on slices; with --device on that device too\n"
        "  workflow   by kiln run: one thread and --validate; three threads\n"
        "What could not be tried is listed with what it would want. A finding is one of the contract (it crashes, "
        "damages, loses), of behaviour (a row says what is not so) or of quality; the badge says which levels are free "
        "of them. Exit status 1 when something of the first two levels was found, or nothing could be tried.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln check-plugin ./image-gain.so\n"
                "  kiln check-plugin ./image-gain.so --sets 500 --json\n"
                "  kiln check-plugin ./image-gain.so --workflow workflows/txt2img.yaml\n",
    .operand = OPERAND_FILE,
};

/* What a child process tries: one of these. */
typedef struct {
    const check_context *of;
    const char *plugin; /* its id; NULL: the node's check looks at the process itself */
    const node_info *node;
    const kiln_op_kind *op;
    const check_device *on; /* of an op */
    const kiln_sampler *sampler;
    const kiln_schedule *schedule;
    const kiln_guider *guider;
    const kiln_model_family *family;
} trial;

static check_counts tried(const trial *t)
{
    if (t->node) return check_node(t->of, t->node);
    if (t->op) return check_op(t->op, t->on);
    if (t->family) return check_family(t->of, t->family);
    if (t->guider) return check_guider(t->guider, t->plugin, t->on);
    return t->sampler ? check_sampler(t->sampler, t->plugin, t->on) : check_schedule(t->schedule);
}

static void note_habit(void *counts, const char *what) { check_found(counts, 0, "process", "it %s", what); }

/* Also what its process is left like. */
static check_counts counts_of(const trial *t)
{
    process_state state = {0};
    if (t->plugin) process_state_take(&state, t->plugin, 1);
    check_counts c = tried(t);
    process_state_find(&state, t->plugin, note_habit, &c);
    return c;
}

/* In a child process: checks it and sends the counts through the pipe. */
static void child(trial t, unsigned seconds, int fd)
{
    check_context of = {0};
    if (t.of) of = *t.of, of.deadline = clock_seconds() + seconds, t.of = &of;
    struct rlimit memory = {(rlim_t)8 << 30, (rlim_t)8 << 30};
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    setrlimit(RLIMIT_AS, &memory);
#else
    (void)memory;
#endif
    static const int deaths[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) signal(deaths[i], SIG_DFL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    alarm(seconds);
    crash_report_end(); /* the parent reports how this process ended */
    process_state_keep_output();
    check_counts counts = counts_of(&t);
    process_state_last_output();
    print_flush(stdout);
    _exit(write(fd, &counts, sizeof counts) == sizeof counts ? 0 : 2);
}

/* Checks it in a child process and adds its counts to *total. */
static void try_one(const trial *t, check_counts *total)
{
    int fd[2], status = 0;
    check_counts counts = {0}, lost = {0};
    const unsigned seconds = NODE_SECONDS + (t->of && t->of->sets ? SETS_WAIT * t->of->sets_seconds : 0);
    const double began = clock_seconds();
    check_begin();
    if (pipe(fd) != 0) {
        check_found(total, 0, "process", "%s", strerror(errno));
        return;
    }
    print_flush(stdout);
    pid_t pid = fork();
    if (pid == 0) child(*t, seconds, fd[1]);
    close(fd[1]);
    int whole = pid > 0 && read(fd[0], &counts, sizeof counts) == sizeof counts;
    close(fd[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (!whole) counts = lost;
    if (pid < 0)
        check_found(&counts, 0, "process", "no process for it: %s", strerror(errno));
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM && t->node && clock_seconds() - began < seconds - 1)
        check_found(&counts, 0, "time", "a call did not come back within %u s (--call-timeout)", t->of->call_seconds);
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        check_found(&counts, 0, "time", "did not end within %u s", seconds);
    else if (WIFSIGNALED(status))
        check_found(&counts, 0, "crash", "crashed with SIG%s", sigabbrev_np(WTERMSIG(status)));
    else if (!whole && WEXITSTATUS(status) != 1)
        check_found(&counts, 0, "exit", "ended the process with status %d", WEXITSTATUS(status));
    else if (!whole)
        counts.failed[CHECK_CONTRACT]++; /* which the child has printed */
    check_add(total, &counts);
}

static const plugin_info *of_file(const catalog *c, const char *path)
{
    char *real = path_real(path);
    const plugin_info *found = NULL;
    for (size_t i = 0; real && !found && i < catalog_plugins(c); i++)
        if (strcmp(catalog_plugin(c, i)->path, real) == 0) found = catalog_plugin(c, i);
    mem_free(real);
    return found;
}

/* Reports what loading the plugin has shown: file and table, open(), the floating-point mode. */
static void check_loaded(const plugin_info *p, check_counts *c)
{
    check_holds(c, "table", "the rows of %zu nodes", p->n_node);
    check_holds(c, "open", "%s", p->table->open ? "open() succeeded" : "it has none to call");
    check_found(c, !p->changed_floats, "float-mode",
                "loading it changed the floating-point mode of the process; link it without -ffast-math");
    for (size_t i = 0; i < p->n_clash; i++) check_found(c, 0, "names", "%s", p->clash[i]);
}

/* ---- its parts ---- */

static uint64_t try_nodes(const check_context *of, check_counts *total)
{
    uint64_t tried = 0;
    for (size_t i = 0; i < of->plugin->n_node; i++) {
        const node_info *n = catalog_find(of->plugins, of->plugin->table->node[i]->type);
        char why[256];
        if (!n || n->plugin != of->plugin) continue;
        const char *needs = check_node_needs(of, n->node, why);
        check_subject("node", n->node->type);
        if (needs)
            check_untried(total, "values with --set, or a workflow with --workflow", "%s", needs);
        else
            try_one(&(trial){.of = of, .node = n}, total), tried++;
    }
    return tried;
}

static int is_own(const plugin_info *p, const char *registry, const char *name)
{
    const char *owner = registry_owner_of(registry, name);
    return owner && strcmp(owner, p->id) == 0;
}

static uint64_t try_samplers(const plugin_info *p, const check_device *on, check_counts *total)
{
    uint64_t tried = 0;
    for (size_t i = 0; i < sampler_api.sampler_count(); i++) {
        const kiln_sampler *row = sampler_api.sampler_at(i);
        if (!is_own(p, "sampler", row->name)) continue;
        check_subject("sampler", row->name);
        try_one(&(trial){.plugin = p->id, .sampler = row, .on = on}, total), tried++;
    }
    for (size_t i = 0; i < sampler_api.schedule_count(); i++) {
        const kiln_schedule *row = sampler_api.schedule_at(i);
        if (!is_own(p, "schedule", row->name)) continue;
        check_subject("schedule", row->name);
        try_one(&(trial){.plugin = p->id, .schedule = row}, total), tried++;
    }
    return tried;
}

/* A kind of GUIDER is the ability "kiln.guider.NAME/1" of the plugin that has registered it. */
static const kiln_guider *own_guider(const plugin_info *p, const kiln_sampling_api *api, size_t i)
{
    char id[160];
    const kiln_guider *row = api->guider_at(i);
    if (row) snprintf(id, sizeof id, "kiln.guider.%s/1", row->name);
    return row && is_own(p, "ability", id) ? row : NULL;
}

static uint64_t try_guiders(const plugin_info *p, const check_device *on, check_counts *total)
{
    const kiln_sampling_api *api = engine_host.ability(KILN_SAMPLING_ABILITY);
    uint64_t tried = 0;
    for (size_t i = 0; api && i < api->guider_count(); i++) {
        const kiln_guider *row = own_guider(p, api, i);
        if (!row) continue;
        check_subject("guider", row->name);
        try_one(&(trial){.plugin = p->id, .guider = row, .on = on}, total), tried++;
    }
    return tried;
}

static uint64_t try_ops(const plugin_info *p, const check_device *on, check_counts *total)
{
    uint64_t tried = 0;
    for (const kiln_op_kind *k; (k = op_kind_of(p->id, tried)) != NULL; tried++)
        check_subject("op", k->name), try_one(&(trial){.plugin = p->id, .op = k, .on = on}, total);
    return tried;
}

static uint64_t try_families(const check_context *of, check_counts *total)
{
    const plugin_info *p = of->plugin;
    uint64_t tried = 0;
    const char *owner;
    for (size_t i = 0; (owner = registry_family_owner(i)) != NULL; i++) {
        const kiln_model_family *row = model_api.family_at(NULL, i);
        if (strcmp(owner, p->id) != 0 || !row) continue;
        check_subject("family", row->name);
        const uint64_t before = total->untried;
        try_one(&(trial){.of = of, .plugin = p->id, .family = row}, total), tried++;
        if (total->untried > before) check_list_untried(CHECK_GIVE_WEIGHTS);
    }
    return tried;
}

/* What has no check of its own: abilities but for its `guiders`. */
static void list_left(const plugin_info *p, uint64_t guiders, check_counts *total)
{
    uint64_t abilities = 0;
    const char *owner;
    for (size_t i = 0; (owner = registry_provider(i)) != NULL; i++) abilities += strcmp(owner, p->id) == 0;
    abilities -= guiders < abilities ? guiders : abilities;
    check_subject("plugin", p->id);
    if (abilities)
        check_left(total, "abilities", "%llu that it provides to other plugins; only those can try them",
                   (unsigned long long)abilities);
}

typedef struct {
    const char *given, *models, *input;
} check_workflows;

/* "x.yaml" beside "x.so"; malloc()ed, NULL: none. */
static char *beside(const char *path, const char *ending)
{
    str s = {0};
    size_t n = strlen(path);
    if (n < 4 || strcmp(path + n - 3, ".so") != 0) return NULL;
    str_append_n(&s, path, n - 3), str_append(&s, ending);
    if (!s.failed && file_exists(s.data)) return s.data;
    str_free(&s);
    return NULL;
}

/* The folders with that of the plugin behind them, whose own workflow may have its models there; mem_free() it, NULL:
 * no memory. */
static char *with_own_folder(const char *folders, const char *plugin)
{
    str s = {0};
    const char *slash = strrchr(plugin, '/');
    if (folders) str_append(&s, folders), str_append(&s, ":");
    if (slash && slash > plugin)
        str_append_n(&s, plugin, (size_t)(slash - plugin));
    else
        str_append(&s, slash ? "/" : ".");
    if (!s.failed) return s.data;
    str_free(&s);
    return NULL;
}

static uint64_t try_workflow(const check_context *of, const check_workflows *w, check_counts *total)
{
    char *file = w->given ? mem_strdup(w->given) : beside(of->plugin->path, ".yaml");
    char *models = w->given ? NULL : with_own_folder(w->models, of->plugin->path);
    int took_part;
    workflow_trial t = {.workflow = file,
                        .plugin = of->plugin->path,
                        .models = models ? models : w->models,
                        .input = w->input,
                        .folder = of->folder,
                        .plugins = of->plugins,
                        .own = of->plugin};
    if (!file) return mem_free(models), 0;
    check_subject("workflow", file);
    check_begin();
    check_counts found = check_workflow(&t, &took_part);
    check_add(total, &found);
    if (!took_part) check_left(total, "workflow", "none of the plugin's nodes ran in it");
    mem_free(file), mem_free(models);
    return took_part != 0;
}

static int check_file(const char *path, check_context *of, const check_device *on, const check_workflows *w)
{
    error e = {0};
    check_counts total = {0};
    catalog *c = catalog_open(path, &e);
    const plugin_info *p = c ? of_file(c, path) : NULL;
    check_subject("file", path);
    if (!elsewhere_is_asked()) check_begin();
    if (!p || !p->table) {
        check_found(&total, 0, "table", "%s", p ? p->why : e.message);
        catalog_close(c);
        return EXIT_RUN_FAILED;
    }
    of->plugins = c, of->plugin = p;
    if (elsewhere_is_asked()) {
        elsewhere_answer(of);
        catalog_close(c);
        return EXIT_DONE;
    }
    check_loaded(p, &total);
    check_elsewhere *changed = p->n_node ? elsewhere_ask(of, ELSEWHERE_CHANGED) : NULL;
    check_elsewhere *elsewhere = p->n_node ? elsewhere_ask(of, ELSEWHERE_PROCESS) : NULL;
    of->changed = changed, of->elsewhere = elsewhere;
    uint64_t tried = try_nodes(of, &total);
    of->changed = of->elsewhere = NULL;
    free(changed), free(elsewhere);
    tried += try_samplers(p, on, &total);
    const uint64_t guiders = try_guiders(p, on, &total);
    tried += guiders;
    char *own = beside(p->path, ".safetensors");
    if (own) of->fixture[of->n_fixture++] = own;
    tried += try_families(of, &total);
    if (own) of->n_fixture--;
    mem_free(own);
    tried += try_ops(p, on, &total);
    tried += try_workflow(of, w, &total);
    list_left(p, guiders, &total);
    check_found(
        &total, tried > 0, "nothing",
        "no node, sampler, schedule, guider or op of it could be tried, so that nothing is known of it; give files "
        "with --set, and a workflow with --workflow");
    check_summary(p->id, p->version, &total, tried);
    catalog_close(c);
    return total.failed[CHECK_CONTRACT] || total.failed[CHECK_BEHAVIOUR] ? EXIT_RUN_FAILED : EXIT_DONE;
}

static int no_memory(void) { return print_text(stderr, "kiln check-plugin: out of memory\n"), 0; }

/* "name=value" of each --set; 0: one is something else, which was said. */
static int read_settings(const arguments *a, arena *memory, check_context *of)
{
    check_setting *all = arena_alloc(memory, (a->n_given + 1) * sizeof *all);
    for (size_t i = 0; all && i < a->n_given; i++) {
        if (strcmp(a->given[i].option->name, "--set") != 0) continue;
        char *text = arena_strdup(memory, a->given[i].value), *equals = text ? strchr(text, '=') : NULL;
        if (!text) return no_memory();
        if (!equals || equals == text)
            return print_text(stderr, "kiln check-plugin: --set %s: write --set NAME=VALUE\n", a->given[i].value), 0;
        *equals = 0;
        all[of->n_setting++] = (check_setting){text, equals + 1};
    }
    of->setting = all;
    return all ? 1 : no_memory();
}

/* There is room for one more. */
static int read_fixtures(const arguments *a, arena *memory, check_context *of)
{
    of->fixture = arena_alloc(memory, (a->n_given + 1) * sizeof *of->fixture);
    for (size_t i = 0; of->fixture && i < a->n_given; i++) {
        if (strcmp(a->given[i].option->name, "--fixture") != 0) continue;
        if (access(a->given[i].value, R_OK) != 0)
            return print_text(stderr, "kiln check-plugin: --fixture %s: %s\n", a->given[i].value, strerror(errno)), 0;
        of->fixture[of->n_fixture++] = a->given[i].value;
    }
    return of->fixture ? 1 : no_memory();
}

static int read_seconds(const arguments *a, const char *name, unsigned otherwise, unsigned most, unsigned *out)
{
    const char *text = argument(a, name);
    uint64_t n = otherwise;
    if (text && (!str_to_u64(text, strlen(text), &n) || n < 1 || n > most))
        return print_text(stderr, "kiln check-plugin: %s %s: a whole number of seconds from 1 to %u\n", name, text,
                          most),
               0;
    *out = (unsigned)n;
    return 1;
}

static int read_sets(const arguments *a, check_context *of)
{
    const char *text = argument(a, "--sets");
    char *end;
    if (!text) return 1;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < 1 || n > SETS_MAX)
        return print_text(stderr, "kiln check-plugin: --sets %s: a whole number from 1 to %d\n", text, SETS_MAX), 0;
    of->sets = n;
    return 1;
}

/* Each file, with a folder of its own for what they write. */
static int check_files(const arguments *a, check_context *of, const check_device *on)
{
    int status = EXIT_DONE;
    const char *tmp = getenv("TMPDIR");
    const check_workflows w = {argument(a, "--workflow"), argument(a, "--models"), argument(a, "--input")};
    for (size_t i = 0; i < a->n_operand; i++) {
        str folder = {0};
        str_printf(&folder, "%s/kiln-check-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
        if (folder.failed || !mkdtemp(folder.data)) {
            print_text(stderr, "kiln check-plugin: no temporary folder: %s\n", strerror(errno));
            str_free(&folder);
            return EXIT_RUN_FAILED;
        }
        of->folder = folder.data;
        if (check_file(a->operand[i], of, on->name ? on : NULL, &w) != EXIT_DONE) status = EXIT_RUN_FAILED;
        folder_remove(folder.data);
        str_free(&folder);
    }
    return status;
}

int cmd_check_plugin(int argc, char **argv)
{
    arguments a;
    arena memory = {0};
    check_device on = {0};
    check_context of = {0};
    error e = {0};
    (void)elsewhere_is_asked();
    if (!arguments_read(&a, &manual_check_plugin, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_check_plugin), EXIT_DONE;
    if (!a.n_operand)
        return print_text(stderr, "kiln check-plugin: which file? usage: %s\n", manual_check_plugin.usage),
               EXIT_BAD_INPUT;
    if ((on.name = argument(&a, "--device")) && backend_choose(on.name, &on.backend, &on.index, &e) != KILN_OK)
        return print_text(stderr, "kiln check-plugin: --device: %s\n", e.message), EXIT_BAD_INPUT;
    for (size_t i = 0; i < a.n_operand; i++)
        if (!file_exists(a.operand[i]))
            return print_text(stderr, "kiln check-plugin: there is no file '%s'\n", a.operand[i]), EXIT_BAD_INPUT;
    check_json(argument(&a, "--json") != NULL);
    int status = read_settings(&a, &memory, &of) && read_fixtures(&a, &memory, &of) && read_sets(&a, &of) &&
                         read_seconds(&a, "--call-timeout", CALL_SECONDS, NODE_SECONDS, &of.call_seconds) &&
                         read_seconds(&a, "--sets-seconds", SETS_SECONDS, SETS_SECONDS_MAX, &of.sets_seconds)
                     ? check_files(&a, &of, &on)
                     : EXIT_BAD_INPUT;
    arena_free(&memory);
    return status;
}
