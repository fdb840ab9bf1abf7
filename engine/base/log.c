/* log.c - see log.h. Level and sink belong to the process; the level is atomic, the sink is under the lock. */
#include "base/log.h"
#include "base/print.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int current_level = KILN_LOG_WARN;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*current_sink)(void *, int, const char *);
static void *sink_arg;

void log_level_set(int level) { atomic_store(&current_level, level); }
int log_level(void) { return atomic_load(&current_level); }

void log_sink_set(void (*sink)(void *arg, int level, const char *line), void *arg)
{
    pthread_mutex_lock(&lock);
    current_sink = sink;
    sink_arg = arg;
    pthread_mutex_unlock(&lock);
}

void log_at(int level, const char *fmt, ...)
{
    static const char *const word[] = {"error: ", "warning: ", "", "debug: "};
    assert(fmt);
    if (level > log_level() || level < 0) return;
    char line[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (current_sink)
        current_sink(sink_arg, level, line);
    else
        print_text(stderr, "kiln: %s%s\n", word[level > 3 ? 3 : level], line);
    pthread_mutex_unlock(&lock);
}
