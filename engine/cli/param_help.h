/* param_help.h - a declared parameter on the terminal: what `kiln nodes NAME` and `kiln samplers NAME` share. */
#ifndef KILN_CLI_PARAM_HELP_H
#define KILN_CLI_PARAM_HELP_H

#include "kiln/plugin.h"

/* Name, what it takes, default, help, choices; on lines of their own. */
void param_print(const kiln_param *p);

#endif
