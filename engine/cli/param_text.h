/* param_text.h - a declared parameter for people and as JSON, and the writing of JSON objects. What `kiln nodes` and
 * `kiln samplers` share.
 */
#ifndef KILN_CLI_PARAM_TEXT_H
#define KILN_CLI_PARAM_TEXT_H

#include "base/str.h"
#include "kiln/plugin.h"

/* Name, what it takes, default, help, choices; on lines of their own. */
void param_print(const kiln_param *p);
/* The default as it would be written in a workflow. */
void param_default_text(const kiln_param *p, str *s);
void param_json(str *s, const kiln_param *p); /* with the comma before it where one is needed */

/* Each appends a member, after a comma where one is needed. */
void member_key(str *s, const char *name);
void member_field(str *s, const char *name, const char *text); /* NULL is null */
void member_bool(str *s, const char *name, uint32_t value);
void member_number(str *s, const char *name, double value);
void member_next(str *s); /* between objects of a list */

#endif
