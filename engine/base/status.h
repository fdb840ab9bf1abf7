/* status.h - the status codes of plugin.h with names, the message that travels with
 * a failure, and the one macro that forwards it.
 *
 * A function that can fail takes an `error *` (may be NULL) and returns a kiln_status.
 * Whoever knows best writes the message with error_set(); the first message wins and
 * callers forward with TRY. One sentence: place, what is wrong, what would be right.
 */
#ifndef KILN_BASE_STATUS_H
#define KILN_BASE_STATUS_H

#include "kiln/plugin.h"
#include <stdarg.h>

typedef struct {
    kiln_status status;
    char message[1024];
} error;

/* Records status and message unless an earlier one is there; returns `status`. */
kiln_status error_set(error *e, kiln_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
kiln_status error_setv(error *e, kiln_status status, const char *fmt, va_list args);
/* Puts "text: " before the message recorded so far (for adding the place on the way up). */
void error_prefix(error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "KILN_ERR_INVALID" */
const char *status_name(kiln_status status);
/* "invalid input" */
const char *status_text(kiln_status status);

#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        kiln_status try_status_ = (expr);                                                                              \
        if (try_status_ != KILN_OK) return try_status_;                                                                \
    } while (0)

#endif
