/* open_catalog.c - see open_catalog.h. */
#include "cli/open_catalog.h"

#include "base/print.h"
#include "plugin/loader.h"
#include "run/supervisor.h"

catalog *open_catalog(const char *name, const arguments *a, int *status)
{
    error e = {0};
    catalog *c = catalog_open(argument(a, "--plugins"), &e);
    *status = c ? EXIT_DONE : e.status == KILN_ERR_INVALID ? EXIT_BAD_INPUT : EXIT_RUN_FAILED;
    if (!c) print_text(stderr, "kiln %s: %s\n", name, e.message);
    return c;
}

int contain_plugins(const arguments *a, int *status)
{
    const supervisor_setting s = {.silent_limit = SILENT_SECONDS};
    return !loader_has_foreign(argument(a, "--plugins")) || supervisor_begin(&s, status);
}
