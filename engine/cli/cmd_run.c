/* cmd_run.c - `kiln run`. */
#include "base/log.h"
#include "base/print.h"
#include "base/str.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "cache/store.h"
#include "cli/open_workflow.h"
#include "cli/run_preview.h"
#include "cli/run_watch.h"
#include "plugin/loader.h"
#include "plugin/supervised.h"
#include "run/interrupt.h"
#include "run/picture_file.h"
#include "run/sandbox_paths.h"
#include "run/supervisor.h"
#include "workflow/picture_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const option run_options[] = {
    SOURCE_OPTIONS,
    {"--out", 0, "DIR", "write results here, and nowhere else (default: out)", 0},
    {"--output", 'o', "FILE", "write the one result to this file, over what is there; its ending says the format", 0},
    {"--skip-existing", 0, NULL, "what is there by its name is done: FILE of -o, or each row's filename_prefix", 0},
    {"--device", 0, "auto|cpu|cuda|cuda:1|reference",
     "what to compute on: auto (default) is a CUDA device that works, else the processor; reference is plain C, slow",
     0},
    {"--precision", 0, "auto|f32|bf16|f16", "auto (default) is what the device does best; f16 is for CUDA devices", 0},
    {"--threads", 'j', "N", "threads to compute with (default: all processors); the result does not depend on it", 0},
    {"--memory", 0, "SIZE",
     "use at most this much of the device's memory, as 1200M or 4G (also KILN_MEMORY; default: what is free)", 0},
    {"--events", 0, "FILE", "write what happens as JSON lines ('-': standard output)", 0},
    {"--preview", 0, "FILE",
     "while it samples, what it looks like so far as a PNG, and on a terminal that shows pictures", 0},
    {"--preview-every", 0, "N", "steps between two previews (default: 1)", 0},
    {"--trace", 0, "FILE", "write a Chrome trace of nodes and ops (chrome://tracing, Perfetto)", 0},
    {"--explain", 0, NULL, "run nothing: print each node's key, memory and FLOPs", 0},
    {"--dry-run", 0, NULL,
     "run nothing: print what would run, what is in the cache, and what it would take (also of a sweep, row by row)",
     0},
    {"--json", 0, NULL, "with --explain and --dry-run: print one JSON object instead of the table", 0},
    {"--cache", 0, "DIR", "keep results here, off: nowhere (default: KILN_CACHE, else ~/.cache/kiln)", 0},
    {"--no-cache", 0, NULL, "neither look for kept results nor keep any (also KILN_CACHE=off)", 0},
    {"--cache-size", 0, "SIZE", "keep at most this much, as 500M or 20G (default: 10G)", 0},
    {"--save-state", 0, "SECONDS", "how often long sampling writes a state to go on from (default: 30; 0: never)", 0},
    {"--jobs", 0, "N", "nodes that may run at once (default: 3); those that need the device go one by one", 0},
    {"--over", 0, "NAME=VALUES",
     "run once for each value: seed=1..100, cfg=5,7,9, w=0.5..1.0..0.1, prompt=@lines.txt, image=in/*.png", 1},
    {"--over-file", 0, "FILE", "run once for each line of a CSV file whose first line names what its columns set", 0},
    {"--sheet", 0, "FILE", "draw the pictures of all rows on one, with labelled axes; FILE ends in .png, .jpg or .webp",
     0},
    {"--manifest", 0, "FILE", "what became of each row, as JSON lines (default: OUT/manifest.jsonl)", 0},
    {"--again", 0, NULL, "run also the rows that the manifest says are done", 0},
    {"--keep-going", 0, NULL, "when a node fails, finish the branches that do not need it (the default)", 0},
    {"--fail-fast", 0, NULL, "when a node fails, start nothing more", 0},
    {"--watch", 0, NULL, "run again whenever the workflow, a plugin or a file it reads has changed; Ctrl-C ends it", 0},
    {"--validate", 0, NULL,
     "look for NaN after each op, and for nodes that write to their inputs or beside their tensors (slower)", 0},
    {"--trust", 0, "NAME",
     "run this plugin in kiln's own process: its id, its file's name, or `all`; the others run in a process that may "
     "crash (docs/foreign-plugins.md)",
     1},
    {"--sandbox", 0, NULL,
     "read models, inputs and plugins alone, write to the output folder and the cache alone, and no network; the "
     "default for a picture, where the kernel can (docs/foreign-plugins.md)",
     0},
    {"--no-sandbox", 0, NULL, "run a picture without", 0},
    {"--node-timeout", 0, "SECONDS",
     "end a node of such a run that gives no sign of life for so long (default: 600; 0: never)", 0},
    {"--quiet", 'q', NULL, "print nothing but errors, warnings and the paths of what was written", 0},
    {"--verbose", 'v', NULL, "print every node and informational messages", 0},
};

const manual manual_run = {
    .usage = "kiln run FILE [options]",
    .about =
        "Runs a workflow: kiln's YAML, one of ComfyUI's (as its editor saves it, or the API format), or a picture\n"
        "that carries one; '-' reads standard input. The paths of what was written go to standard output,\n"
        "everything else to standard error.\n\n"
        "Exit status: 0 done, 1 the run failed, 2 the workflow or the arguments are wrong, 3 some branches failed\n"
        "and others were finished, 130 interrupted (Ctrl-C; a second one does not wait).",
    .options = run_options,
    .n_options = sizeof run_options / sizeof run_options[0],
    .examples = "  kiln run workflows/txt2img.yaml --set seed=7 --out pictures\n"
                "  kiln run workflows/txt2img.yaml --set 'prompt=a red circle'\n"
                "  kiln run workflows/txt2img.yaml --set sampler.steps=30 --dry-run\n"
                "  kiln run workflows/txt2img.yaml --memory 1200M   (docs/memory.md)\n"
                "  kiln run workflows/txt2img.yaml --cache /big/disk/kiln --cache-size 50G\n"
                "  kiln run workflows/txt2img.yaml --over seed=1..4 --over cfg=2,4,8 \\\n"
                "      --sheet sheet.png   (docs/sweeps.md)\n"
                "  kiln run workflows/txt2img.yaml --over-file rows.csv --out night\n"
                "  kiln run workflows/txt2img.yaml --set seed=random -o picture.png\n"
                "  kiln run workflows/img2img.yaml --over 'image=pictures/*.png' \\\n"
                "      --set filename_prefix=%LoadImage.image.stem% --skip-existing\n"
                "  kiln run exported_api.json --models ~/ComfyUI/models --out out\n"
                "  kiln run pictures/kiln_00001_.png --set seed=8\n",
    .operand = OPERAND_WORKFLOW,
};

/* Options of which one would be passed over in silence beside the other, and why. */
static const struct {
    const char *a, *b, *why;
} together[] = {
    {"--quiet", "--verbose", "which?"},
    {"--explain", "--dry-run", "which?"},
    {"--cache", "--no-cache", "which?"},
    {"--cache-size", "--no-cache", "nothing is kept"},
    {"--save-state", "--no-cache", "nothing is kept"},
    {"--explain", "--events", "nothing is run, so there are no events"},
    {"--dry-run", "--events", "nothing is run, so there are no events"},
    {"--explain", "--trace", "nothing is run, so there is no trace"},
    {"--dry-run", "--trace", "nothing is run, so there is no trace"},
    {"--explain", "--preview", "nothing is run, so there is nothing to see"},
    {"--dry-run", "--preview", "nothing is run, so there is nothing to see"},
    {"--dry-run", "--sheet", "nothing is run, so there is no sheet"},
    {"--sandbox", "--no-sandbox", "which?"},
    {"--output", "--out", "which? -o names the file and its folder"},
    {"--output", "--over", "-o is one file; name the folder with --out, and what varies in filename_prefix"},
    {"--output", "--over-file", "-o is one file; name the folder with --out, and what varies in filename_prefix"},
};

/* Of two options of which one would be passed over, the configuration file's gives way to the command line's. */
static void let_config_give_way(arguments *a)
{
    for (size_t i = 0; i < sizeof together / sizeof together[0]; i++) {
        if (argument_typed(a, together[i].a)) argument_drop(a, together[i].b);
        if (argument_typed(a, together[i].b)) argument_drop(a, together[i].a);
    }
    if (!argument(a, "--explain") && !argument(a, "--dry-run")) argument_drop(a, "--json");
    if (!argument(a, "--preview")) argument_drop(a, "--preview-every");
}

static int options_agree(const arguments *a)
{
    const char *events = argument(a, "--events"), *trace = argument(a, "--trace");
    for (size_t i = 0; i < sizeof together / sizeof together[0]; i++)
        if (argument(a, together[i].a) && argument(a, together[i].b))
            return print_text(stderr, "kiln: %s and %s: %s\n", together[i].a, together[i].b, together[i].why), 0;
    if (events && trace && strcmp(events, trace) == 0)
        return print_text(stderr, "kiln: --events and --trace write to the same file: %s\n", trace), 0;
    if (argument(a, "--preview-every") && !argument(a, "--preview"))
        return print_text(stderr, "kiln: --preview-every belongs to --preview FILE\n"), 0;
    if (argument(a, "--json") && !argument(a, "--explain") && !argument(a, "--dry-run"))
        return print_text(stderr, "kiln: --json belongs to --explain and --dry-run; of a run, --events are JSON\n"), 0;
    return 1;
}

/* A sheet is drawn at the end: what is wrong with its name is said before hours of rows. */
static int sheet_named_well(const char *path)
{
    if (!path) return 1;
    if (!picture_file_kind(path))
        return print_text(stderr, "kiln: --sheet %s: its ending decides what is written: .png, .jpg or .webp\n", path),
               0;
    const char *slash = strrchr(path, '/');
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", !slash ? 1 : slash == path ? 1 : (int)(slash - path), slash ? path : ".");
    if (access(folder, W_OK) == 0 || errno == ENOENT) return 1; /* a folder that is not there is made */
    return print_text(stderr, "kiln: --sheet %s: its folder cannot be written to\n", path), 0;
}

static int one_file(const arguments *a, const manual *m)
{
    if (a->n_operand == 1) return 1;
    for (size_t i = 0; i < a->n_operand; i++)
        if (a->operand[i][0] == '=') {
            print_text(stderr, "kiln: '%s': no blanks round the '=', as in --set seed=3\nusage: %s\n", a->operand[i],
                       m->usage);
            return 0;
        }
    if (a->n_operand > 1)
        print_text(stderr,
                   "kiln: more than one workflow file: '%s' and '%s'; a value with blanks goes in quotes\nusage: %s\n",
                   a->operand[0], a->operand[1], m->usage);
    else
        print_text(stderr, "kiln: which workflow file?\nusage: %s\n", m->usage);
    return 0;
}

static int read_count(const arguments *a, const char *name, unsigned most, unsigned *out)
{
    const char *text = argument(a, name);
    uint64_t n = 0;
    if (text && (!str_to_u64(text, strlen(text), &n) || n < 1 || n > most)) {
        print_text(stderr, "kiln: %s %s: it is a number from 1 to %u\n", name, text, most);
        return 0;
    }
    *out = (unsigned)n;
    return 1;
}

/* The last of the two that was given holds. */
static int fails_fast(const arguments *a)
{
    int fast = 0;
    for (size_t i = 0; i < a->n_given; i++) {
        const char *name = a->given[i].option->name;
        if (strcmp(name, "--fail-fast") == 0) fast = 1;
        if (strcmp(name, "--keep-going") == 0) fast = 0;
    }
    return fast;
}

static int read_cache_options(const arguments *a, kiln_run_options *s)
{
    const char *size = argument(a, "--cache-size"), *state = argument(a, "--save-state");
    double seconds = 0;
    s->cache = argument(a, "--cache");
    s->no_cache = argument(a, "--no-cache") != NULL;
    if (size && (!str_to_bytes(size, strlen(size), &s->cache_limit) || s->cache_limit == 0))
        return print_text(stderr, "kiln: --cache-size %s: it is a size like 500M, 20G or 1.5G\n", size), 0;
    if (state && (!str_to_double(state, strlen(state), &seconds) || !(seconds >= 0 && seconds <= 1e6)))
        return print_text(stderr, "kiln: --save-state %s: it is a number of seconds, 0 for never\n", state), 0;
    if (state) s->state_seconds = seconds > 0 ? seconds : -1;
    return 1;
}

static int read_memory(const arguments *a, kiln_run_options *s)
{
    const char *size = argument(a, "--memory");
    if (size && (!str_to_bytes(size, strlen(size), &s->memory) || s->memory == 0))
        return print_text(stderr, "kiln: --memory %s: it is a size like 500M, 4G or 1.5GiB\n", size), 0;
    return 1;
}

static uint64_t finished(const kiln_run_summary *s) { return s->ran + s->cached + s->shared; }

static int exit_status(kiln_status status, const kiln_run_summary *s)
{
    if (status == KILN_OK) return EXIT_DONE;
    if (s->cancelled) return EXIT_INTERRUPTED;
    if (s->nodes == 0 && status == KILN_ERR_INVALID) return EXIT_BAD_INPUT; /* nothing had begun */
    return s->failed && s->outputs ? EXIT_PARTLY : EXIT_RUN_FAILED;
}

/* The command as a shell takes it. The caller frees it with mem_free; NULL: no memory. */
static char *command_text(int argc, char **argv)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+-";
    str s = {0};
    str_append(&s, "kiln");
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        str_char(&s, ' ');
        if (*a && a[strspn(a, plain)] == '\0') {
            str_append(&s, a);
            continue;
        }
        str_char(&s, '\'');
        for (; *a; a++) str_append_n(&s, *a == '\'' ? "'\\''" : a, *a == '\'' ? 4 : 1);
        str_char(&s, '\'');
    }
    return str_take(&s);
}

/* What Ctrl-C leaves, and how to go on. */
static void say_interrupted(const char *done, int is_kept, const char *again)
{
    if (!is_kept)
        print_text(stderr, "kiln: interrupted; %s; nothing of it was kept (--no-cache)\n", done);
    else
        print_text(stderr, "kiln: interrupted; %s; that is kept, and this goes on from there%s:\n  %s\n", done,
                   again && strstr(again, "=random") ? ", with the seed above in the place of `random`" : "",
                   again ? again : "the same command");
}

static int run_once(kiln_workflow *w, const kiln_run_options *how, const char *again)
{
    char done[100];
    kiln_message why = {.size = sizeof why};
    kiln_run_summary s = {.size = sizeof s};
    kiln_status status = kiln_workflow_run(w, how, &s, &why);
    int code = exit_status(status, &s);
    if (code == EXIT_INTERRUPTED)
        snprintf(done, sizeof done, "%llu of %llu nodes were finished", (unsigned long long)finished(&s),
                 (unsigned long long)s.nodes),
            say_interrupted(done, !how->no_cache, again);
    else if (status != KILN_OK && s.failed == 0)
        print_text(stderr, "kiln: error: %s\n", why.text); /* a failing node has been reported when it failed */
    else if (status != KILN_OK)
        print_text(stderr, "kiln: %llu of %llu nodes failed, %llu skipped, %llu finished\n",
                   (unsigned long long)s.failed, (unsigned long long)s.nodes, (unsigned long long)s.skipped,
                   (unsigned long long)finished(&s));
    return code;
}

/* Who reads the events of a run that does not begin learns why from them. */
static void faults_as_events(const kiln_workflow *w, const char *path)
{
    const char *text;
    FILE *f = !path ? NULL : strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    for (size_t i = 0; f && (text = kiln_workflow_fault(w, i)); i++) {
        char *fields = fault_json(text, 0);
        if (fields) print_raw(f, "{\"event\": \"fault\", "), print_raw(f, fields), print_raw(f, "}\n");
        mem_free(fields);
    }
    if (f && f != stdout) fclose(f);
}

/* ---- sweeps ---- */

static int sweep_status(kiln_status status, const kiln_run_summary *s)
{
    if (s->cancelled || status == KILN_CANCELLED) return EXIT_INTERRUPTED;
    if (status != KILN_OK && s->rows == 0)
        return status == KILN_ERR_NOMEM ? EXIT_RUN_FAILED : EXIT_BAD_INPUT; /* there are no rows to speak of */
    if (status != KILN_OK)
        return s->rows_faulty || (status == KILN_ERR_INVALID && s->rows_done + s->rows_failed == 0) ? EXIT_BAD_INPUT
                                                                                                    : EXIT_RUN_FAILED;
    if (s->rows_failed == 0) return EXIT_DONE;
    return s->rows_done + s->rows_before ? EXIT_PARTLY : EXIT_RUN_FAILED;
}

static int run_sweep(kiln_workflow *w, const kiln_run_options *how, int by_options, const char *again)
{
    char done[100];
    kiln_message why = {.size = sizeof why};
    kiln_run_summary s = {.size = sizeof s};
    if (how->mode == KILN_RUN_EXPLAIN) {
        print_text(
            stderr,
            "kiln: --explain looks at one row; give its values with --set instead of --over%s, or take --dry-run\n",
            by_options ? "" : " (and a copy of the file without `matrix`)");
        return EXIT_BAD_INPUT;
    }
    kiln_status status = kiln_workflow_run(w, how, &s, &why);
    int code = sweep_status(status, &s);
    if (s.rows_faulty) faults_as_events(w, how->events);
    if (code == EXIT_INTERRUPTED)
        snprintf(done, sizeof done, "%llu of %llu rows are done", (unsigned long long)(s.rows_done + s.rows_before),
                 (unsigned long long)s.rows),
            say_interrupted(done, 1, again); /* by the manifest */
    else if (status != KILN_OK)
        print_text(stderr, "kiln: error: %s\n", why.text);
    return code;
}

static int read_options(arguments *a, kiln_run_options *s)
{
    let_config_give_way(a);
    if (!read_count(a, "--threads", 1024, &s->threads) || !read_count(a, "--jobs", 64, &s->jobs)) return 0;
    if (!options_agree(a) || !read_cache_options(a, s) || !read_memory(a, s) ||
        !sheet_named_well(argument(a, "--sheet")))
        return 0;
    s->console = s->signals = 1;
    s->mode = argument(a, "--explain") ? KILN_RUN_EXPLAIN : argument(a, "--dry-run") ? KILN_RUN_DRY : KILN_RUN_EXECUTE;
    s->quiet = argument(a, "--quiet") != NULL;
    s->verbose = argument(a, "--verbose") != NULL;
    s->out = argument(a, "--out"), s->device = argument(a, "--device"), s->precision = argument(a, "--precision");
    s->events = argument(a, "--events"), s->trace = argument(a, "--trace");
    s->sheet = argument(a, "--sheet"), s->manifest = argument(a, "--manifest");
    s->again = argument(a, "--again") != NULL;
    s->fail_fast = (uint32_t)fails_fast(a);
    s->validate = argument(a, "--validate") != NULL;
    return 1;
}

static int run_workflow(kiln_workflow *w, const kiln_run_options *how, int by_options, const char *again)
{
    interrupt_keep();
    if (kiln_workflow_is_sweep(w)) return run_sweep(w, how, by_options, again);
    size_t faults = kiln_workflow_fault_count(w);
    if (faults) {
        faults_as_events(w, how->events);
        print_text(stderr, "kiln: %zu fault%s; nothing was run\n", faults, faults == 1 ? "" : "s");
        return EXIT_BAD_INPUT;
    }
    if (how->sheet || how->manifest || how->again) {
        print_text(stderr, "kiln: --sheet, --manifest and --again belong to a sweep; say over what with --over, "
                           "--over-file or the workflow's `matrix`\n");
        return EXIT_BAD_INPUT;
    }
    return run_once(w, how, again);
}

/* 0: said. */
static int out_is_a_folder(const char *path)
{
    static const char *const pictures[] = {".png", ".jpg", ".jpeg", ".webp"};
    const char *dot = path ? strrchr(path, '.') : NULL;
    for (size_t i = 0; dot && i < sizeof pictures / sizeof pictures[0]; i++)
        if (strcasecmp(dot, pictures[i]) == 0 && !folder_exists(path))
            return print_text(stderr, "kiln: --out %s: it names a folder; -o %s names the picture\n", path, path), 0;
    return 1;
}

/* -o FILE: its folder, and the name in it. 0: said. */
static int split_output(const char *file, char *folder, size_t capacity, kiln_run_options *how)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file, *dot = strrchr(name, '.');
    int n = slash ? snprintf(folder, capacity, "%.*s", slash == file ? 1 : (int)(slash - file), file)
                  : snprintf(folder, capacity, ".");
    static const char *const foreign[] = {".tif", ".tiff", ".bmp", ".gif",  ".avif", ".jxl", ".heic", ".pdf",
                                          ".psd", ".exr",  ".ppm", ".jfif", ".mp4",  ".mov", ".zip",  ".gz"};
    for (size_t i = 0; dot && i < sizeof foreign / sizeof foreign[0]; i++)
        if (strcasecmp(dot, foreign[i]) == 0)
            return print_text(stderr, "kiln: -o %s: kiln writes no %s files; end the name in .png\n", file, dot), 0;
    if (n >= (int)capacity || !dot || dot == name || !dot[1] || folder_exists(file)) {
        print_text(stderr, "kiln: -o %s: %s\n", file,
                   folder_exists(file) ? "this is a folder; -o names a file, --out a folder"
                                       : "it is a file's name with its ending, as picture.png; --out names a folder");
        return 0;
    }
    how->out = folder, how->file = name;
    return 1;
}

/* What the configuration file says of sweeps does not concern a single run. */
static void config_of_sweeps(const arguments *a, kiln_run_options *how)
{
    if (!argument_typed(a, "--sheet")) how->sheet = NULL;
    if (!argument_typed(a, "--manifest")) how->manifest = NULL;
    if (!argument_typed(a, "--again")) how->again = 0;
}

/* 0: said. */
static int begin_preview(const arguments *a, preview *p, kiln_run_options *how)
{
    const char *path = argument(a, "--preview");
    unsigned every = 1;
    if (argument(a, "--preview-every") && !read_count(a, "--preview-every", 10000, &every)) return 0;
    return !path || preview_begin(p, path, every, how);
}

/* ---- plugins that are not kiln's own ---- */

/* Files that are read once: the workflow, rows and lists of values. */
static unsigned read_once(const arguments *a, const char *file[SETTINGS_MAX])
{
    unsigned n = 0;
    file[n++] = a->operand[0];
    for (size_t i = 0; i < a->n_given && n + 1 < SETTINGS_MAX; i++) {
        const char *name = a->given[i].option->name, *value = a->given[i].value;
        const char *at = strcmp(name, "--over") == 0 ? strstr(value, "=@") : NULL;
        if (strcmp(name, "--over-file") == 0) file[n++] = value;
        if (at) file[n++] = at + 2;
    }
    return n;
}

static int read_timeout(const arguments *a, double *out)
{
    const char *text = argument(a, "--node-timeout");
    *out = SILENT_SECONDS;
    if (!text || (str_to_double(text, strlen(text), out) && *out >= 0 && *out <= 1e7)) return 1;
    return print_text(stderr, "kiln: --node-timeout %s: it is a number of seconds, 0 for never\n", text), 0;
}

static const char *trusted[SETTINGS_MAX];

static void read_trust(const arguments *a)
{
    size_t n = 0, n_named = 0;
    for (int by_config = 0; by_config < 2; by_config++) {
        for (size_t i = 0; i < a->n_given && n < SETTINGS_MAX; i++)
            if (strcmp(a->given[i].option->name, "--trust") == 0 && a->given[i].by_config == by_config)
                trusted[n++] = a->given[i].value;
        if (!by_config) n_named = n;
    }
    loader_trust(trusted, n, n_named);
}

/* 0: a plugin that is not kiln's own may take part, and a child of this process has done the run; *status is its. */
static int contain(const arguments *a, const kiln_run_options *how, int *status)
{
    const char *file[SETTINGS_MAX];
    supervisor_setting s = {.executes = how->mode == KILN_RUN_EXECUTE,
                            .keeps_nothing = how->no_cache || store_folder_is_off(how->cache),
                            .read = file,
                            .n_read = read_once(a, file)};
    *status = EXIT_BAD_INPUT;
    if (!read_timeout(a, &s.silent_limit)) return 0;
    read_trust(a);
    if (!loader_has_foreign(argument(a, "--plugins"))) return 1;
    if (!supervisor_begin(&s, status)) return 0;
    if (supervised_again()) log_level_set(KILN_LOG_ERROR); /* what there is to say before the run was said */
    return 1;
}

/* A path on the command line: what it names is read. Of a pattern its folder is. */
static void add_value(sandbox_list *l, const char *value)
{
    char path[4096];
    for (size_t n; *value; value += n + (value[n] == ',')) {
        const char *at = value + (*value == '@');
        n = strcspn(value, ",");
        size_t length = n - (size_t)(at - value), plain = strcspn(at, "*?[");
        snprintf(path, sizeof path, "%.*s", (int)(plain < length ? plain : length), at);
        char *slash = strrchr(path, '/');
        if (plain < length && slash) *slash = '\0';
        if (plain < length && !slash) snprintf(path, sizeof path, ".");
        if (file_exists(path) || (plain < length && folder_exists(path))) sandbox_add(l, path, 0);
    }
}

/* A file that the run writes besides its results. `replaced`: under another name first, so its folder is written to. */
static void add_written_file(sandbox_list *l, const char *path, int replaced)
{
    char folder[4096];
    if (!path || strcmp(path, "-") == 0) return;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", !slash ? 1 : slash == path ? 1 : (int)(slash - path), slash ? path : ".");
    if (replaced) folder_make(folder, NULL); /* the sandbox lets in what is there */
    int fd = replaced ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0) close(fd);
    sandbox_add(l, replaced ? folder : path, 1);
}

static void add_arguments(sandbox_list *l, const arguments *a, const kiln_run_options *how)
{
    for (size_t i = 0; i < a->n_given; i++) {
        const char *name = a->given[i].option->name, *value = a->given[i].value, *equals = strchr(value, '=');
        if (strcmp(name, "--over") == 0 && equals) add_value(l, equals + 1);
        if (strcmp(name, "--over-file") == 0) sandbox_add(l, value, 0);
    }
    for (const char *at = getenv("KILN_ALIASES"); at && *at; at += strcspn(at, ":"), at += *at == ':') {
        const char *equals = strchr(at, '=');
        char path[4096];
        if (!equals) break;
        snprintf(path, sizeof path, "%.*s", (int)strcspn(equals + 1, ":"), equals + 1);
        sandbox_add(l, path, 0);
    }
    add_written_file(l, how->events, 0);
    add_written_file(l, how->trace, 0);
    add_written_file(l, how->manifest, 0);
    add_written_file(l, how->sheet, 1);
    add_written_file(l, argument(a, "--preview"), 1);
}

/* Lists of folders that come through pipes are read for the sandbox and by the run. */
static void keep_lists(const arguments *a)
{
    const char *models = argument(a, "--models");
    int fd = models ? file_descriptor_of(models) : -1;
    if (fd >= 0 && lseek(fd, 0, SEEK_CUR) < 0) file_keep_pipe(fd);
}

/* The sandbox, if there is to be one. 0: said. */
static int confine(const arguments *a, const kiln_run_options *how, const kiln_workflow_options *from, int *confined)
{
    int asked = argument(a, "--sandbox") != NULL, is_picture = picture_text_is_picture(a->operand[0]);
    const char *why;
    char found[SHIPPED_PATH_MAX];
    sandbox_list allowed = {.n = 0};
    error e = {0};
    if (!asked && (!is_picture || argument(a, "--no-sandbox") || !sandbox_possible(&why))) return 1;
    sandbox_run r = {.workflow = a->operand[0],
                     .plugins = argument(a, "--plugins"),
                     .models = argument(a, "--models"),
                     .input = argument(a, "--input"),
                     .out = how->out,
                     .cache = how->no_cache ? NULL : how->cache,
                     .gpu = !how->device || (strcmp(how->device, "cpu") != 0 && strcmp(how->device, "reference") != 0)};
    take_shipped(&r.workflow, found);
    for (uint32_t i = 0; i < from->n_set; i++) add_value(&allowed, from->set[i].value);
    add_arguments(&allowed, a, how);
    kiln_status status = sandbox_paths(&allowed, &r, &e);
    if (status == KILN_OK) status = sandbox_enter(&allowed, &e);
    sandbox_list_free(&allowed);
    *confined = status == KILN_OK && !asked;
    if (status == KILN_OK || (!asked && status == KILN_ERR_UNSUPPORTED)) return 1;
    return print_text(stderr, "kiln: error: %s\n", e.message), 0;
}

/* Somebody who did not ask for the sandbox may look for the reason elsewhere. */
static int say_confined(int confined, int status)
{
    if (confined && (status == EXIT_RUN_FAILED || status == EXIT_PARTLY))
        print_text(
            stderr,
            "kiln: this picture ran in a sandbox, where it reads models and inputs alone; --no-sandbox lifts it\n");
    return status;
}

static int run(arguments *a, const char *again)
{
    int confined = 0;
    preview shown;
    workflow_arguments with = {.from = {.console = 1}};
    kiln_run_options how = {.size = sizeof how};
    kiln_message why;
    char folder[4096];
    int status;
    const char *output = argument(a, "--output");
    if (!one_file(a, &manual_run) || !read_options(a, &how)) return EXIT_BAD_INPUT;
    if (!out_is_a_folder(how.out)) return EXIT_BAD_INPUT;
    if (output && !split_output(output, folder, sizeof folder, &how)) return EXIT_BAD_INPUT;
    how.json = argument(a, "--json") != NULL;
    how.skip_existing = argument(a, "--skip-existing") != NULL && !output;
    if (how.quiet) log_level_set(KILN_LOG_ERROR);
    if (how.verbose) log_level_set(KILN_LOG_INFO);
    if (output && argument(a, "--skip-existing") && file_exists(output)) {
        if (!how.quiet) print_text(stderr, "kiln: %s is there; nothing was run\n", output);
        return EXIT_DONE;
    }
    if (!read_settings(a, with.set, &with.from.n_set) || !begin_preview(a, &shown, &how)) return EXIT_BAD_INPUT;
    keep_lists(a);
    if (!contain(a, &how, &status)) return status;
    with.from.set = with.set;
    if (!confine(a, &how, &with.from, &confined)) return EXIT_BAD_INPUT;
    kiln_workflow *w = open_workflow(a, a->operand[0], &with, &why, &status);
    if (!w) return say_confined(confined, status);
    if (!kiln_workflow_is_sweep(w)) config_of_sweeps(a, &how);
    if (output && kiln_workflow_is_sweep(w)) {
        print_text(stderr, "kiln: -o %s: the workflow's `matrix` makes several results; name a folder with --out\n",
                   output);
        status = EXIT_BAD_INPUT;
    } else {
        status = run_workflow(w, &how, argument(a, "--over") || argument(a, "--over-file"), again);
    }
    kiln_workflow_close(w);
    return say_confined(confined, status);
}

int cmd_run(int argc, char **argv)
{
    arguments a;
    if (!arguments_read(&a, &manual_run, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_run), EXIT_DONE;
    char *again = command_text(argc, argv); /* settings are cut out of argv */
    int status = EXIT_DONE;
    if (!argument(&a, "--watch") || run_watch(&a, &status)) status = run(&a, again); /* with --watch in a child */
    mem_free(again);
    return status;
}
