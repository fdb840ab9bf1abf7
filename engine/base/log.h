/* log.h - the log: one line per message, to stderr or to the sink that is set.
 *
 * Levels (plugin.h): ERROR the run cannot do what was asked; WARN it can, but the user should know; INFO what is being
 * done; DEBUG for people who work on kiln. Default WARN. Any thread.
 */
#ifndef KILN_BASE_LOG_H
#define KILN_BASE_LOG_H

#include "kiln/plugin.h"

void log_at(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_level_set(int level);
int log_level(void);
/* The sink is called under the log's lock and must not log itself. NULL: stderr again. */
void log_sink_set(void (*sink)(void *arg, int level, const char *line), void *arg);

#define log_error(...) log_at(KILN_LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(KILN_LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(KILN_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(KILN_LOG_DEBUG, __VA_ARGS__)

#endif
