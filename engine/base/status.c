/* status.c - see status.h. */
#include "base/status.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct {
    kiln_status status;
    const char *name, *text;
} rows[] = {
    {KILN_OK, "KILN_OK", "ok"},
    {KILN_CANCELLED, "KILN_CANCELLED", "cancelled"},
    {KILN_ERR_INVALID, "KILN_ERR_INVALID", "invalid input"},
    {KILN_ERR_UNSUPPORTED, "KILN_ERR_UNSUPPORTED", "not supported"},
    {KILN_ERR_NOMEM, "KILN_ERR_NOMEM", "out of memory"},
    {KILN_ERR_IO, "KILN_ERR_IO", "input or output failed"},
    {KILN_ERR_DEVICE, "KILN_ERR_DEVICE", "the device failed"},
    {KILN_ERR_BUG, "KILN_ERR_BUG", "internal error"},
};

const char *status_name(kiln_status status)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status) return rows[i].name;
    return "unknown status";
}

const char *status_text(kiln_status status)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status) return rows[i].text;
    return "unknown status";
}

kiln_status error_setv(error *e, kiln_status status, const char *fmt, va_list args)
{
    assert(status != KILN_OK && fmt);
    if (!e || e->status != KILN_OK) return status;
    e->status = status;
    vsnprintf(e->message, sizeof e->message, fmt, args);
    return status;
}

kiln_status error_set(error *e, kiln_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(e, status, fmt, args);
    va_end(args);
    return status;
}

void error_prefix(error *e, const char *fmt, ...)
{
    if (!e || e->status == KILN_OK) return;
    char text[sizeof e->message], old[sizeof e->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    memcpy(old, e->message, sizeof old);
    size_t n = strnlen(text, sizeof text - 3), capacity = sizeof e->message - 3 - n;
    size_t rest = strnlen(old, capacity);
    memcpy(e->message, text, n);
    memcpy(e->message + n, ": ", 2);
    memcpy(e->message + n + 2, old, rest);
    e->message[n + 2 + rest] = '\0';
}
