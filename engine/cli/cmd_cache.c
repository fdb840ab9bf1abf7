/* cmd_cache.c - `kiln cache`: lists, checks and removes the results kept between runs. */
#include "base/arena.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/print.h"
#include "base/str.h"
#include "cache/store.h"
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIST_DEFAULT = 20, PREFIX_MIN = 4 };

static const option options[] = {
    {"--cache", 0, "DIR", "the cache's folder (default: KILN_CACHE, else ~/.cache/kiln)", 0},
    {"--json", 0, NULL, "print JSON: one object; ls prints one per line", 0},
    {"--sort", 0, "use|size|time", "ls: by use (newest first), size, or time (longest to compute first)", 0},
    {"--limit", 'n', "N", "ls: at most N entries (default 20; 0: all)", 0},
    {"--type", 0, "NAME", "ls, clear: only results of nodes of this type", 0},
    {"--size", 0, "SIZE", "gc: shrink to this size, such as 500M or 2G (default: 10G)", 0},
};
const manual manual_cache = {
    .usage = "kiln cache ls|show KEY|stat|gc|verify|clear [options]",
    .about = "Shows and maintains the results that `kiln run` keeps between runs.\n\n"
             "  ls        list the results\n"
             "  show KEY  everything known about one result; the beginning of its key\n"
             "            is enough (`kiln run --explain` prints keys)\n"
             "  stat      how much there is, and where\n"
             "  gc        remove the least valuable results until the rest fits, and\n"
             "            files that crashes left behind\n"
             "  verify    read every value and compare its digest; damaged ones go\n"
             "  clear     remove everything, or only results of --type\n\n"
             "Exit status: 0 done, 1 it could not be done or damage was found, 2 the arguments are wrong.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln cache ls --sort time -n 5\n"
                "  kiln cache show KEY\n"
                "  kiln cache gc --size 2G\n"
                "  kiln cache clear --type VAEDecode\n",
    .operand = OPERAND_WORD,
    .words = "ls show stat gc verify clear",
};

typedef struct {
    const arguments *args;
    store *store;
    int json;
} request;

/* ---- one entry ---- */

static void when(double unix_time, char text[32])
{
    time_t t = (time_t)unix_time;
    struct tm local;
    if (!localtime_r(&t, &local) || strftime(text, 32, "%Y-%m-%d %H:%M:%S", &local) == 0) snprintf(text, 32, "?");
}

static void print_json_entry(const store_entry *x)
{
    str s = {0};
    char key[33];
    str_printf(&s, "{\"key\": \"%s\", \"type\": ", digest_hex(x->key, key));
    str_json(&s, x->type, strlen(x->type), 1);
    str_append(&s, ", \"what\": ");
    str_json(&s, x->what, strlen(x->what), 1);
    str_printf(&s, ", \"values\": %u, \"bytes\": %llu, \"seconds\": ", x->n_value, (unsigned long long)x->bytes);
    str_double(&s, x->seconds);
    str_append(&s, ", \"made\": ");
    str_double(&s, x->made);
    str_append(&s, ", \"used\": ");
    str_double(&s, x->used);
    print_text(stdout, "%s}\n", str_text(&s));
    str_free(&s);
}

static void print_line(const store_entry *x)
{
    char key[33], bytes[16], used[32];
    when(x->used, used);
    print_text(stdout, "%.16s  %-24.24s %10s %9.3f s  %s  %s\n", digest_hex(x->key, key), x->type,
               str_bytes(bytes, x->bytes), x->seconds, used, x->what);
}

static void print_whole(const store_entry *x)
{
    char key[33], bytes[16], made[32], used[32];
    when(x->made, made), when(x->used, used);
    print_text(
        stdout, "key       %s\ntype      %s\nholds     %s\nvalues    %u, %s\ncomputed  %s, in %.3f s\nused      %s\n",
        digest_hex(x->key, key), x->type, x->what, x->n_value, str_bytes(bytes, x->bytes), made, x->seconds, used);
}

/* ---- ls, show ---- */

typedef struct {
    const request *r;
    uint64_t left, shown;
    int endless;
} listing;

static int list_one(void *arg, const store_entry *x)
{
    listing *l = arg;
    if (!l->endless && l->left-- == 0) return 1;
    if (l->r->json)
        print_json_entry(x);
    else
        print_line(x);
    l->shown++;
    return 0;
}

static int read_limit(const request *r, listing *l)
{
    const char *text = argument(r->args, "--limit");
    l->left = LIST_DEFAULT;
    if (text && !str_to_u64(text, strlen(text), &l->left))
        return print_text(stderr, "kiln: --limit %s: it is a number; 0 for all\n", text), 0;
    l->endless = l->left == 0;
    return 1;
}

static int do_ls(const request *r, error *e)
{
    static const char *const name[] = {"use", "size", "time"};
    const char *how = argument(r->args, "--sort"), *type = argument(r->args, "--type");
    listing l = {.r = r};
    store_totals total;
    int order = 0;
    while (how && order < 3 && strcmp(how, name[order]) != 0) order++;
    if (order == 3) return print_text(stderr, "kiln: --sort %s: it is use, size or time\n", how), EXIT_BAD_INPUT;
    if (!read_limit(r, &l)) return EXIT_BAD_INPUT;
    if (!r->json)
        print_text(stdout, "%-16s  %-24s %10s %11s  %-19s  %s\n", "key", "node type", "bytes", "computed in", "used",
                   "holds");
    if (store_each(r->store, (store_order)order, type, list_one, &l, e) != KILN_OK ||
        store_total(r->store, &total, e) != KILN_OK)
        return EXIT_RUN_FAILED;
    if (!r->json && !type && total.entries > l.shown)
        print_text(stdout, "... and %llu more (-n 0 lists all)\n", (unsigned long long)(total.entries - l.shown));
    return EXIT_DONE;
}

typedef struct {
    const char *prefix;
    size_t n;
    store_entry *more; /* [8]: the first entries whose keys begin so */
} search;

static int match(void *arg, const store_entry *x)
{
    search *s = arg;
    char key[33];
    if (strncmp(digest_hex(x->key, key), s->prefix, strlen(s->prefix)) != 0) return 0;
    if (s->n < 8) s->more[s->n] = *x;
    s->n++;
    return 0;
}

static int do_show(const request *r, error *e)
{
    store_entry more[8];
    search s = {.prefix = r->args->n_operand > 1 ? r->args->operand[1] : "", .more = more};
    if (strlen(s.prefix) < PREFIX_MIN || strspn(s.prefix, "0123456789abcdef") != strlen(s.prefix))
        return print_text(
                   stderr,
                   "kiln: cache show: which key? At least %d of its digits (0-9, a-f); `kiln cache ls` lists them\n",
                   PREFIX_MIN),
               EXIT_BAD_INPUT;
    if (store_each(r->store, STORE_BY_USE, NULL, match, &s, e) != KILN_OK) return EXIT_RUN_FAILED;
    if (s.n == 0) return print_text(stderr, "kiln: nothing is kept under %s\n", s.prefix), EXIT_BAD_INPUT;
    if (s.n > 1) {
        print_text(stderr, "kiln: %zu keys begin with %s:\n", s.n, s.prefix);
        for (size_t i = 0; i < s.n && i < 8; i++) print_line(&more[i]);
        return EXIT_BAD_INPUT;
    }
    if (r->json)
        print_json_entry(&more[0]);
    else
        print_whole(&more[0]);
    return EXIT_DONE;
}

/* ---- stat, gc, verify, clear ---- */

static const char *folder_of(const request *r, char *path, size_t capacity)
{
    const char *named = argument(r->args, "--cache");
    return named ? named : store_default_folder(path, capacity);
}

static int do_stat(const request *r, error *e)
{
    store_totals t;
    char path[4096], bytes[16], limit[16], states[16], orphans[16];
    if (store_total(r->store, &t, e) != KILN_OK) return EXIT_RUN_FAILED;
    const char *folder = folder_of(r, path, sizeof path);
    if (r->json) {
        str s = {0};
        str_append(&s, "{\"folder\": ");
        str_json(&s, folder, strlen(folder), 1);
        print_text(stdout,
                   "%s, \"entries\": %llu, \"values\": %llu, \"bytes\": %llu, \"limit\": %llu, \"states\": %llu, "
                   "\"state_bytes\": %llu, \"orphans\": %llu, \"orphan_bytes\": %llu, "
                   "\"files\": %llu, \"journal\": \"%s\", \"sqlite\": \"%s\"}\n",
                   str_text(&s), (unsigned long long)t.entries, (unsigned long long)t.values,
                   (unsigned long long)t.bytes, (unsigned long long)t.limit, (unsigned long long)t.states,
                   (unsigned long long)t.state_bytes, (unsigned long long)t.orphans, (unsigned long long)t.orphan_bytes,
                   (unsigned long long)t.remembered_files, t.journal, t.sqlite);
        str_free(&s);
        return EXIT_DONE;
    }
    print_text(stdout,
               "folder    %s\nresults   %llu, of %llu different values, %s (at most %s)\nstates    %llu of unfinished "
               "calls and of speeds, %s\norphans   %llu, %s (kiln cache gc removes them)\n"
               "files     %llu whose digests are remembered\nindex     SQLite %s, journal %s\n",
               folder, (unsigned long long)t.entries, (unsigned long long)t.values, str_bytes(bytes, t.bytes),
               str_bytes(limit, t.limit), (unsigned long long)t.states, str_bytes(states, t.state_bytes),
               (unsigned long long)t.orphans, str_bytes(orphans, t.orphan_bytes),
               (unsigned long long)t.remembered_files, t.sqlite, t.journal);
    return EXIT_DONE;
}

static void print_report(const request *r, const store_report *out, const char *verb)
{
    char bytes[16], orphans[16];
    if (r->json)
        print_text(stdout,
                   "{\"removed\": %llu, \"bytes\": %llu, \"orphans\": %llu, \"orphan_bytes\": %llu, \"checked\": %llu, "
                   "\"damaged\": %llu}\n",
                   (unsigned long long)out->entries, (unsigned long long)out->bytes, (unsigned long long)out->orphans,
                   (unsigned long long)out->orphan_bytes, (unsigned long long)out->checked,
                   (unsigned long long)out->damaged);
    else
        print_text(stdout, "%s %llu results (%s) and %llu orphaned files (%s)\n", verb,
                   (unsigned long long)out->entries, str_bytes(bytes, out->bytes), (unsigned long long)out->orphans,
                   str_bytes(orphans, out->orphan_bytes));
}

static int do_gc(const request *r, error *e)
{
    const char *size = argument(r->args, "--size");
    uint64_t limit = 0;
    store_report out;
    if (size && (!str_to_bytes(size, strlen(size), &limit) || limit == 0))
        return print_text(stderr,
                          "kiln: --size %s: it is a size like 500M or 2G; `kiln cache clear` removes everything\n",
                          size),
               EXIT_BAD_INPUT;
    if (store_gc(r->store, limit, &out, e) != KILN_OK) return EXIT_RUN_FAILED;
    print_report(r, &out, "removed");
    return EXIT_DONE;
}

static void print_damaged(void *arg, const store_entry *x, const char *why)
{
    char key[33];
    (void)arg;
    print_text(stderr, "damaged: %s (%s): %s\n", digest_hex(x->key, key), x->type, why);
}

static int do_verify(const request *r, error *e)
{
    store_report out;
    if (store_verify(r->store, &out, print_damaged, NULL, e) != KILN_OK) return EXIT_RUN_FAILED;
    if (r->json)
        print_report(r, &out, "");
    else
        print_text(stdout, "%llu results read, %llu damaged%s\n", (unsigned long long)out.checked,
                   (unsigned long long)out.damaged, out.damaged ? " and removed: they will be computed again" : "");
    return out.damaged ? EXIT_RUN_FAILED : EXIT_DONE;
}

static int do_clear(const request *r, error *e)
{
    store_report out;
    if (store_clear(r->store, argument(r->args, "--type"), &out, e) != KILN_OK) return EXIT_RUN_FAILED;
    print_report(r, &out, "removed");
    return EXIT_DONE;
}

/* ---- the command ---- */

static const struct {
    const char *name, *takes; /* takes: its options besides --cache and --json */
    size_t operands;
    int (*run)(const request *, error *);
} actions[] = {
    {"ls", "--sort --limit --type", 1, do_ls},
    {"show", "", 2, do_show},
    {"stat", "", 1, do_stat},
    {"gc", "--size", 1, do_gc},
    {"verify", "", 1, do_verify},
    {"clear", "--type", 1, do_clear},
};
enum { N_ACTIONS = sizeof actions / sizeof actions[0] };

static const char *action_name(void *arg, size_t i) { return (void)arg, actions[i].name; }

static size_t find_action(const char *name)
{
    size_t i = 0;
    while (i < N_ACTIONS && strcmp(actions[i].name, name) != 0) i++;
    return i;
}

static int options_fit(const arguments *a, size_t action)
{
    for (size_t i = 0; i < a->n_given; i++) {
        const char *name = a->given[i].option->name;
        if (strcmp(name, "--cache") == 0 || strcmp(name, "--json") == 0 || strstr(actions[action].takes, name))
            continue;
        return print_text(stderr, "kiln: cache %s takes no %s\n", actions[action].name, name), 0;
    }
    if (a->n_operand <= actions[action].operands) return 1;
    return print_text(stderr, "kiln: cache %s: what is '%s'?\n", actions[action].name,
                      a->operand[actions[action].operands]),
           0;
}

int cmd_cache(int argc, char **argv)
{
    arguments a;
    error e = {0};
    if (!arguments_read(&a, &manual_cache, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_cache), EXIT_DONE;
    if (a.n_operand == 0)
        return print_text(stderr, "kiln: cache: do what?\nusage: %s\n", manual_cache.usage), EXIT_BAD_INPUT;
    size_t i = find_action(a.operand[0]);
    if (i == N_ACTIONS) {
        const char *near = nearest_name(a.operand[0], action_name, N_ACTIONS, NULL);
        print_text(stderr, "kiln: cache: no action '%s'%s%s%s\nusage: %s\n", a.operand[0],
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", manual_cache.usage);
        return EXIT_BAD_INPUT;
    }
    if (!options_fit(&a, i)) return EXIT_BAD_INPUT;
    if (store_folder_is_off(argument(&a, "--cache")))
        return print_text(stderr, "kiln: %s: nothing is kept; name a cache with --cache DIR\n",
                          argument(&a, "--cache") ? "--cache off" : "KILN_CACHE=off"),
               EXIT_BAD_INPUT;
    store *s = store_open(&(store_setting){.folder = argument(&a, "--cache"), .must_exist = 1}, &e);
    int status = s ? actions[i].run(&(request){.args = &a, .store = s, .json = argument(&a, "--json") != NULL}, &e)
                   : EXIT_BAD_INPUT;
    store_close(s);
    if (e.status != KILN_OK) print_text(stderr, "kiln: error: %s\n", e.message);
    return status;
}
