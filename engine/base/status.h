/* status.h - names for the status codes of plugin.h, the message that goes with a failure, and TRY to forward it.
 *
 * A function that can fail takes an `error *` (may be NULL) and returns a kiln_status. The function that knows the
 * reason writes the message with error_set(); the first message wins, and callers forward the status with TRY. A
 * message is one sentence: the place, what is wrong, what would be right.
 */
#ifndef KILN_BASE_STATUS_H
#define KILN_BASE_STATUS_H

#include "kiln/plugin.h"
#include <stdarg.h>

typedef struct {
    kiln_status status;
    char message[1024];
    const char *param; /* the node's parameter that is wrong, as its row has it; NULL: it is not said */
} error;

/* Records status (not KILN_OK) and message, unless e has one already; returns `status`. */
kiln_status error_set(error *e, kiln_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
kiln_status error_setv(error *e, kiln_status status, const char *fmt, va_list args);
/* Puts "text: " before the recorded message, so that a caller can add the place. */
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
