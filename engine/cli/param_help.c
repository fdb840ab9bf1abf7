/* param_help.c - see param_help.h. */
#include "cli/param_help.h"

#include "base/print.h"
#include "param/param_text.h"
#include "plugin/abilities.h"

#include <stdio.h>

void param_print(const kiln_param *p)
{
    str takes = {0}, def = {0};
    param_describe(p, &registry_names, 0, &takes);
    if (p->type == KILN_P_NAME)
        str_append(&def, p->def_str ? p->def_str : "");
    else
        param_default_text(p, &def);
    print_text(stdout, "  %-20s %s%s%s%s\n  %-20s   %s\n", p->name, str_text(&takes),
               p->flags & KILN_PARAM_REQUIRED ? "; has to be given" : "; default ",
               p->flags & KILN_PARAM_REQUIRED ? "" : str_text(&def),
               p->flags & KILN_PARAM_NEUTRAL ? "; does not change the result" : "", "", p->doc);
    for (size_t i = 0; i < param_choice_count(p); i++) {
        kiln_choice c = kiln_choice_at(p, i);
        if (c.doc && c.doc[0]) print_text(stdout, "  %-20s     %s: %s\n", "", c.name, c.doc);
    }
    str_free(&takes);
    str_free(&def);
}
