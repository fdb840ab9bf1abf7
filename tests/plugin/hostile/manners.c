/* manners.c - a node that leaves the process, its inputs or its memory as it should not, for test_manners.sh; a
 * sampler that never steps, and one that leaves the process changed. */
#include "kiln/kit.h"
#include "kiln/sampler.h"

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const kiln_choice habits[] = {{"none", "is well behaved", 0},
                                     {"borrowed", "gives its input as its output without a reference", 1},
                                     {"stray", "gives up a reference that is not its own", 2},
                                     {"late", "has a thread that uses the call after its end", 3},
                                     {"thread", "leaves a thread", 4},
                                     {"chdir", "goes to another folder", 5},
                                     {"mask", "blocks signals", 6},
                                     {"handler", "handles SIGINT", 7},
                                     {"locale", "sets another locale", 8},
                                     {"umask", "sets the umask", 9},
                                     {"close", "closes standard output", 10},
                                     {"printf", "prints to standard output", 11},
                                     {"write", "writes to descriptor 1", 12},
                                     {"after", "writes past the end of its output", 13},
                                     {"before", "writes before the beginning of its output", 14},
                                     {"far", "writes a page past the end of its output", 15},
                                     {"cache", "keeps its input from call to call, as it may", 16},
                                     {"untouched", "does not write all of its output", 17},
                                     {"view", "asks for a view without saying its size", 18},
                                     {"setenv", "sets an environment variable", 19},
                                     {"unsetenv", "takes two away", 20},
                                     {"putenv", "puts a text of its own there", 21},
                                     {"scribble", "writes into a variable's text", 22},
                                     {"environ", "gives the process other variables", 23},
                                     {"store", "closes the cache's index", 24},
                                     {"claims", "has another file where the cache's locks are", 25},
                                     {"same", "sets a variable to what it is", 26},
                                     {"late_value", "has a thread that makes a text after its end", 27},
                                     {"spins", "leaves a thread that computes", 28},
                                     {"joins", "begins a thread and waits for it, as it may", 29},
                                     {NULL, NULL, 0}};
typedef struct {
    int32_t habit;
} values;
static const kiln_port image[] = {{.name = "image", .type = "IMAGE", .doc = "Pictures."}};
static const kiln_param param[] = {
    {.name = "habit", .type = KILN_P_ENUM, .offset = offsetof(values, habit), KILN_CHOICES(habits), .doc = "Which."}};

static void nap(int milliseconds) { nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000L}, NULL); }

static const kiln_host *host;
static void *later(void *ctx) { return nap(150), host->progress(ctx, 1, 2, "late"), NULL; }
static void *stays(void *arg) { return nap(900), arg; }
static void *spins(void *arg)
{
    const time_t until = time(NULL) + 2;
    for (volatile unsigned n = 0; n % 1024 || time(NULL) < until;) n++;
    return arg;
}
static void *makes(void *ctx)
{
    const kiln_value_api *v = host->ability(KILN_VALUE_ABILITY);
    nap(150);
    host->unref(v->new_string(ctx, "late", 4));
    return NULL;
}

/* A copy of the input, and `way` to go wrong with it. */
static kiln_status copy(const kiln_call *c, int habit)
{
    kiln_tensor from, to;
    TRY(kit_f32(c, c->in[0], 4, "image", &from));
    TRY(kit_new_f32(c, 4, from.dim, &c->out[0], &to));
    size_t n = kit_count(&from);
    float *out = to.data;
    if (habit == 17) return KILN_OK;
    memcpy(out, from.data, n * sizeof *out);
    if (habit == 13) out[n] = 1;
    if (habit == 14) ((char *)out)[-1] = 1;
    if (habit == 15) out[n + 1024] = 1;
    return KILN_OK;
}

static char put_there[] = "MANNERS_OLD=other", *others[] = {put_there, NULL};

/* The descriptor of an open file whose path ends so. */
static int descriptor_of(const char *end)
{
    char link[64], path[1024];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        if (n < (ssize_t)strlen(end)) continue;
        path[n] = 0;
        if (strcmp(path + n - strlen(end), end) == 0) return fd;
    }
    return -1;
}

static kiln_status run(const kiln_call *c)
{
    int habit = ((const values *)c->params)->habit;
    static kiln_value *kept;
    pthread_t thread;
    sigset_t all;
    kiln_tensor none = {0};
    host = c->host;
    switch (habit) {
    case 1: return c->out[0] = c->in[0], KILN_OK;
    case 2: c->host->unref(c->in[0]); break;
    case 3: pthread_create(&thread, NULL, later, c->ctx), pthread_detach(thread); break;
    case 4: pthread_create(&thread, NULL, stays, NULL), pthread_detach(thread); break;
    case 5:
        if (chdir("/")) return KILN_ERR_IO;
        break;
    case 6: sigfillset(&all), pthread_sigmask(SIG_BLOCK, &all, NULL); break;
    case 7: signal(SIGINT, SIG_IGN); break;
    case 8:
        if (!setlocale(LC_ALL, "C.UTF-8")) return KILN_ERR_UNSUPPORTED;
        break;
    case 9: umask(0); break;
    case 10: close(1); break;
    case 11: printf("hello from the plugin\n"); break;
    case 12:
        if (write(1, "plain\n", 6) != 6) return KILN_ERR_IO;
        break;
    case 16:
        for (int i = 0; i < 2; i++) {
            if (kept) c->host->unref(kept);
            kept = c->host->ref(c->in[0]);
        }
        break;
    case 19: setenv("MANNERS_NEW", "1", 1), setenv("HOME", "/nowhere", 1); break;
    case 20: unsetenv("HOME"), unsetenv("MANNERS_OLD"); break;
    case 21: putenv(put_there); break;
    case 22:
        if (getenv("MANNERS_OLD")) getenv("MANNERS_OLD")[0] = '#';
        break;
    case 23: environ = others; break;
    case 24: close(descriptor_of("/index.sqlite")); break;
    case 25: dup2(open("/dev/null", O_RDWR), descriptor_of("/claims")); break;
    case 26: setenv("HOME", getenv("HOME"), 1); break;
    case 27: pthread_create(&thread, NULL, makes, c->ctx), pthread_detach(thread); break;
    case 28: pthread_create(&thread, NULL, spins, NULL), pthread_detach(thread); break;
    case 29: pthread_create(&thread, NULL, stays, NULL), pthread_join(thread, NULL); break;
    case 18: return c->host->view(c->ctx, c->in[0], &none);
    }
    return copy(c, habit);
}

static kiln_status nap_run(const kiln_call *c) { return nap(400), c->out[0] = c->host->ref(c->in[0]), KILN_OK; }

static int is(const char *name, const char *wanted)
{
    const char *now = getenv(name);
    return wanted ? now && strcmp(now, wanted) == 0 : !now;
}

static char home[1024];
static kiln_status environment_run(const kiln_call *c)
{
    int well = is("MANNERS_OLD", "old") && is("MANNERS_NEW", NULL) && is("HOME", home) && getenv("PATH");
    c->host->log(KILN_LOG_WARN, well ? "the environment is as it was" : "the environment is another");
    return c->out[0] = c->host->ref(c->in[0]), KILN_OK;
}

static const kiln_node manners = {.size = sizeof manners,
                                  .flags = 0,
                                  .devices = KILN_CPU,
                                  .revision = 1,
                                  .type = "Manners",
                                  .doc = "Has a bad habit.",
                                  KILN_ARRAY(in, image),
                                  KILN_ARRAY(out, image),
                                  KILN_ARRAY(param, param),
                                  .params_size = sizeof(values),
                                  .run = run},
                       waits = {.size = sizeof waits,
                                .flags = 0,
                                .devices = KILN_CPU,
                                .revision = 1,
                                .type = "Waits",
                                .doc = "Waits.",
                                KILN_ARRAY(in, image),
                                KILN_ARRAY(out, image),
                                .run = nap_run};

static const kiln_node environment = {.size = sizeof environment,
                                      .devices = KILN_CPU,
                                      .revision = 1,
                                      .type = "Environment",
                                      .doc = "Says whether variables are what they were.",
                                      KILN_ARRAY(in, image),
                                      KILN_ARRAY(out, image),
                                      .run = environment_run};

static kiln_status never(const kiln_sampling *s) { return (void)s, KILN_OK; }
static const kiln_sampler sampler = {
    .size = sizeof sampler, .name = "manners_never", .doc = "Never steps.", .run = never};

/* Euler's method, which does what MANNERS_SAMPLER says: it runs in a node of kiln's own. */
static kiln_status lent(const kiln_sampling *s)
{
    const char *way = getenv("MANNERS_SAMPLER");
    kiln_latent *d = s->slot(s, "denoised");
    if (!d) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i < s->n; i++) {
        TRY(s->denoise(s, s->x, s->sigma[i], d));
        double r = s->sigma[i + 1] / s->sigma[i];
        s->lincomb(s, s->x, 2, (double[]){r, 1 - r}, (kiln_latent *[]){s->x, d});
        TRY(s->step(s, i, d));
    }
    if (way && !strcmp(way, "umask")) umask(0);
    if (way && !strcmp(way, "chdir") && chdir("/")) return KILN_ERR_IO;
    if (way && !strcmp(way, "mask")) pthread_sigmask(SIG_BLOCK, &(sigset_t){{~0ul}}, NULL);
    if (way && !strcmp(way, "handler")) signal(SIGINT, SIG_IGN);
    if (way && !strcmp(way, "write") && write(1, "plain\n", 6) != 6) return KILN_ERR_IO;
    if (way && !strcmp(way, "setenv")) setenv("MANNERS_NEW", "1", 1);
    if (way && !strcmp(way, "close")) close(1);
    pthread_t thread;
    if (way && !strcmp(way, "thread")) pthread_create(&thread, NULL, stays, NULL), pthread_detach(thread);
    return KILN_OK;
}
static const kiln_sampler lent_sampler = {.size = sizeof lent_sampler,
                                          .name = "manners_lent",
                                          .doc = "Euler's method, and a bad habit.",
                                          .source = "none",
                                          .order = 1,
                                          .evaluations = 1,
                                          .run = lent};
static kiln_status open_plugin(const kiln_host *h)
{
    snprintf(home, sizeof home, "%s", getenv("HOME") ? getenv("HOME") : "");
    const kiln_sampler_api *api = h->ability(KILN_SAMPLER_ABILITY);
    if (!api) return KILN_ERR_UNSUPPORTED;
    TRY(api->register_sampler(&sampler));
    return api->register_sampler(&lent_sampler);
}
KILN_PLUGIN_OPEN("org.example.manners", "1.0.0", "MIT", open_plugin, &manners, &waits, &environment);
